// The newest frames, as they went over the wire, for whoever wants to see them.

import { signal } from "@preact/signals";
import { listen } from "./store.js";

const COUNT = 400;
const SIZE = 4_000;

let kept: Raw[] = [];
let counted = 0;

/** Is drawn again when there are others. */
export const frames = (): readonly Raw[] => (shown.value, kept);

/** How many there were when they were drawn last. */
const shown = signal(0);
listen(() => (shown.value = counted));

/** A part of a text that does not keep the whole of it in memory */
const copied = (text: string): string => new TextDecoder().decode(new TextEncoder().encode(text));

export function recordFrame(direction: "in" | "out", text: string) {
  const cut = text.length > SIZE ? `${copied(text.slice(0, SIZE))} … (${text.length} characters)` : text;
  kept.push({ id: ++counted, at: Date.now() / 1000, direction, text: cut });
  if (kept.length > 2 * COUNT) kept = kept.slice(-COUNT);
}
