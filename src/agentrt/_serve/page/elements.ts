// How many elements are made of one text.

import type { Token } from "markdown-it";

/** The most: laying out more would stop the page. */
export const ELEMENTS = 4_000;

/** Elements of a block of code: a frame with a caption and buttons, lines and words in colours. */
const CODE = 10;

const count = (tokens: readonly Token[]): number =>
  tokens.reduce((sum, { type, children }) => sum + (type === "fence" || type === "code_block" ? CODE : 1) + (children?.length ?? 0), 0);

export const fewEnough = (tokens: Token[]): Token[] | null => (count(tokens) > ELEMENTS ? null : tokens);
