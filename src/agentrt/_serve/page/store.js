// The one place where the page keeps anything: `model` is what the server said, `ui` what this
// person has opened, chosen and typed here. Both are replaced, never changed.

import { EMPTY as NOTHING } from "./client.js";
import { EMPTY } from "./model.js";

/** @type {{ model: Model, ui: Ui }} */
const store = {
  model: { ...NOTHING, ...EMPTY },
  ui: {
    link: { status: "connecting", heard: Date.now() / 1000, reason: "" },
    session: null,
    left: null,
    open: new Map(),
    drafts: new Map(),
    attached: new Map(),
    editing: null,
    panel: null,
    creating: false,
    refused: "",
    renaming: null,
    dismissed: new Set(),
    faded: 0,
    asked: null,
    answering: null,
    sending: [],
    stopping: null,
    looking: new Set(),
    found: null,
    searched: null,
    older: null,
    folder: "",
    completing: null,
    atEnd: true,
    now: Date.now() / 1000,
  },
};

/** @type {(() => void)[]} */
const listeners = [];
let frame = 0;
let timer = 0;

export const model = () => store.model;
export const ui = () => store.ui;

/** The session that is shown, as far as it is known. */
export const seat = () => store.model.attached.get(store.ui.session ?? "");

/** @param {Model} next */
export function setModel(next) {
  if (next === store.model) return;
  store.model = next;
  changed();
}

/** @param {Partial<Ui>} fields */
export function setUi(fields) {
  store.ui = { ...store.ui, ...fields };
  changed();
}

/** The time up to which it is known how things stand, in seconds since the epoch. */
export const clock = () => (store.ui.link.status === "open" ? store.ui.now : store.ui.link.heard);

/** Where one writes, if it is there. */
export const field = () => /** @type {HTMLTextAreaElement | null} */ (document.getElementById("prompt"));

/** @type {(id: string) => string} sessions count their items and questions each for itself */
export const here = (id) => `${store.ui.session} ${id}`;

/** @type {(id: string) => boolean | undefined} whether something was folded or unfolded by hand */
export const isOpen = (id) => store.ui.open.get(here(id));

/**
 * The attributes of a `details` element that is folded here, and not by itself.
 * @param {string} id
 * @param {boolean} open
 */
export const fold = (id, open) => ({
  open,
  /** @param {any} event */
  onToggle({ target, currentTarget }) {
    if (target !== currentTarget || target.open === open) return;
    setUi({ open: new Map(store.ui.open).set(here(id), target.open) });
  },
});

/** @param {() => void} listener is called once a frame in which anything has changed */
export function listen(listener) {
  listeners.push(listener);
}

/** However much changes, it is shown once a frame; in a hidden tab there are no frames. */
function changed() {
  if (!frame) frame = requestAnimationFrame(show);
  if (!timer) timer = setTimeout(show, 300);
}

function show() {
  cancelAnimationFrame(frame);
  clearTimeout(timer);
  frame = timer = 0;
  for (const listener of listeners) listener();
}
