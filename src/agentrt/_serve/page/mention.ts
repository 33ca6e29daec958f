// Naming a file in the message that is being written.

import { copyText } from "./clipboard.js";
import { field, setUi, ui } from "./store.js";

/** Put a path into the message, or, where nothing can be written, onto the clipboard. */
export function mentionPath(path: string) {
  const area = field();
  if (!area) return void copyText(path);
  const before = area.value.slice(0, area.selectionStart);
  const words = /\s/.test(path) ? path : `@${path}`;
  area.setRangeText(
    `${before && !/\s$/.test(before) ? " " : ""}${words} `,
    area.selectionStart,
    area.selectionEnd,
    "end",
  );
  setUi({ drafts: new Map(ui().drafts).set(ui().session ?? "", area.value), completing: { at: -1, words } });
  area.focus();
}
