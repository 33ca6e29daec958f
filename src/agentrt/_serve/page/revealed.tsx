// Text that a person decides on, as elements.

import { pieces } from "./reveal.js";

/** Letters that are written from right to left, with the marks and joiners between them. */
const RIGHT_TO_LEFT = /([\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]+)/u;

/** A text with every character visible. What we have put in stands out, and words that are written from
 *  right to left do not move what is around them. */
export const revealed = (text: string): Shown[] =>
  pieces(text).flatMap((piece, index) => (index % 2 ? [<span class="spelled">{piece}</span>] : isolated(piece)));

/** A text that is revealed already: words from right to left stay in their places */
export const isolated = (text: string): Shown[] =>
  text.split(RIGHT_TO_LEFT).map((part, at) => (at % 2 ? <bdi>{part}</bdi> : part));
