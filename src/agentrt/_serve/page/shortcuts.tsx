// Keyboard shortcuts, and the dialog that lists them.

import { connection } from "./actions.js";
import { Dialog } from "./dialog.js";
import { openFile } from "./files.js";
import { actionOf } from "./keys.js";
import { field, model, seat, setUi, show, ui } from "./store.js";

const LISTED: readonly (readonly [keys: string, effect: string])[] = [
  ["Enter", "Send the message, or queue it while the agent works"],
  ["Shift+Enter", "New line"],
  ["Ctrl+Enter", "Interrupt the agent with the message"],
  ["↑", "Previous message, in an empty field"],
  ["Esc", "Stop the agent"],
  ["Ctrl+K", "Commands, sessions, modes and models"],
  ["/", "Search all conversations"],
  ["o", "Search and outline of this conversation"],
  ["f", "Files"],
  ["i", "Message field"],
  ["n", "New session"],
  ["?", "Keyboard shortcuts"],
];

/** Elements that take letters. */
const FIELDS = "input, textarea, select, [contenteditable]";

/** Run the shortcut for a key. Letters are shortcuts only where no field has the focus. */
export function onShortcut(event: KeyboardEvent) {
  const action = actionOf(event, document.activeElement?.matches(FIELDS) ?? false);
  if (!action || document.querySelector("dialog[open]")) return;
  if (!ACTIONS[action]()) return;
  event.preventDefault();
  show(); // what is typed next belongs to the dialog
}

/** Each returns whether it could be done. */
const ACTIONS: Record<import("./keys.js").Action, () => boolean> = {
  search() {
    const field = document.querySelector(".sidebar input[type=search]:enabled") as HTMLInputElement | null;
    if (!field) return false;
    // On a narrow screen the list is a panel. While it slides out, it can still be seen.
    const list = field.closest(".sidebar") as HTMLElement;
    if (getComputedStyle(list).position === "fixed") setUi({ panel: "sessions" });
    requestAnimationFrame(() => (field.focus(), field.select())); // after the list is drawn
    return true;
  },
  new() {
    if (model().server?.role === "viewer" || ui().link.status !== "open" || connection.silent()) return false;
    setUi({ creating: true, refused: "", panel: null });
    return true;
  },
  palette() {
    setUi({ panel: "palette" });
    return true;
  },
  outline() {
    if (!seat()) return false;
    setUi({ panel: "outline" });
    return true;
  },
  files() {
    if (!seat() || model().server?.role === "viewer") return false;
    openFile();
    return true;
  },
  field() {
    field()?.focus();
    return field() !== null;
  },
  shortcuts() {
    setUi({ panel: "shortcuts" });
    return true;
  },
};

export const Shortcuts = () => (
  <Dialog label="Keyboard shortcuts" kind="small" onClose={() => setUi({ panel: null })}>
    <h2>Keyboard shortcuts</h2>
    <dl class="shortcuts">
      {LISTED.map(([keys, effect]) => (
        <>
          <dt key={keys}>
            <kbd>{keys}</kbd>
          </dt>
          <dd>{effect}</dd>
        </>
      ))}
    </dl>
  </Dialog>
);
