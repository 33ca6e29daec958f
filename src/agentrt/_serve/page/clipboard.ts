// Copying, also where the connection is not secure and the browser has no clipboard for the page.

import { note } from "./model.js";
import { setModel } from "./store.js";

/** Whether it was copied */
export async function copyText(text: string): Promise<boolean> {
  if ((await byClipboard(text)) || bySelection(text)) return true;
  setModel((model) =>
    note(
      model,
      "error",
      "Your browser blocks copying from this page. Select the text and copy it with the keyboard.",
    ),
  );
  return false;
}

async function byClipboard(text: string) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // there is none without HTTPS, or it was refused
  }
}

function bySelection(text: string) {
  const before = document.activeElement;
  const area = document.createElement("textarea");
  area.className = "unseen";
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (before instanceof HTMLElement) before.focus({ preventScroll: true });
  return done;
}

/** Download a text as a file. */
export const saveText = (name: string, text: string) =>
  save(name, new Blob([text], { type: "text/plain;charset=utf-8" }));

/** Download bytes in base64 as a file. */
export function saveData(name: string, data: string) {
  const bytes = Uint8Array.from(atob(data), (each) => each.charCodeAt(0));
  save(name, new Blob([bytes], { type: "application/octet-stream" }));
}

function save(name: string, blob: Blob) {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // some browsers read it only after the click
}
