// How many elements are made of one text.

import type { Token } from "markdown-it";

/** The most: laying out more would stop the page. */
export const ELEMENTS = 4_000;

const count = (tokens: readonly Token[]): number =>
  tokens.reduce((sum, { children }) => sum + 1 + (children?.length ?? 0), 0);

export const fewEnough = (tokens: Token[]): Token[] | null => (count(tokens) > ELEMENTS ? null : tokens);
