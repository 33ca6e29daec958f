// The newest frames, as they went over the wire, for whoever wants to see them.

const COUNT = 400;
const SIZE = 4_000;

/** @type {Raw[]} */
let kept = [];
let counted = 0;

/** @type {() => readonly Raw[]} */
export const frames = () => kept;

/** @type {(text: string) => string} a part of a text that does not keep the whole of it in memory */
const copied = (text) => new TextDecoder().decode(new TextEncoder().encode(text));

/** @param {"in" | "out"} direction @param {string} text */
export function recordFrame(direction, text) {
  const cut = text.length > SIZE ? `${copied(text.slice(0, SIZE))} … (${text.length} characters)` : text;
  kept.push({ id: ++counted, at: Date.now() / 1000, direction, text: cut });
  if (kept.length > 2 * COUNT) kept = kept.slice(-COUNT);
}
