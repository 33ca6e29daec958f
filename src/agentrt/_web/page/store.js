// The one place where the page keeps anything: `model` is what the server said, `ui` what this
// person has opened, chosen and typed here. Both are replaced, never changed.

import { EMPTY } from "./model.js";

/** @import { Model } from "./model.js" */
/** @import { Link } from "./connection.js" */
/** @import * as w from "./wire.js" */

/**
 * A file that will go with the next prompt.
 * @typedef {{ name: string, size: number, block: w.Block }} Attachment
 */

/**
 * @typedef {object} Ui
 * @property {Link} link
 * @property {string | null} session the one that is shown
 * @property {string | null} left the one that was closed here, and takes a moment to end
 * @property {ReadonlyMap<string, boolean>} open what was folded or unfolded, by hand
 * @property {ReadonlyMap<string, string>} drafts what is typed, by session
 * @property {ReadonlyMap<string, readonly Attachment[]>} attached by session
 * @property {string | null} editing the waiting prompt that is being edited
 * @property {"sessions" | "settings" | "frames" | null} panel
 * @property {boolean} creating whether the form for a new session is open
 * @property {string | null} renaming
 * @property {number} shown how many items of a long conversation are shown
 * @property {number} told the number of the newest note that was dismissed
 * @property {{ request: string, since: number } | null} asked since when a question is in sight
 * @property {string | null} answering the question that was answered here, until it is closed
 * @property {{ at: number, words: string } | null} completing where a completion is chosen
 * @property {boolean} atEnd whether the newest is in sight
 * @property {number} now seconds since the epoch; moves only while something is being timed
 * @property {"system" | "light" | "dark"} theme
 */

/** @type {{ model: Model, ui: Ui }} */
const store = {
  model: EMPTY,
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
    renaming: null,
    shown: 150,
    told: 0,
    asked: null,
    answering: null,
    completing: null,
    atEnd: true,
    now: Date.now() / 1000,
    theme: "system",
  },
};

/** @type {(() => void)[]} */
const listeners = [];
let frame = 0;
let timer = 0;

export const model = () => store.model;
export const ui = () => store.ui;

/** The session that is shown, as far as it is known. */
export const seat = () => store.model.seats.get(store.ui.session ?? "");

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

/**
 * Fold or unfold something.
 * @param {string} key
 * @param {boolean} open
 */
export function setOpen(key, open) {
  setUi({ open: new Map(store.ui.open).set(key, open) });
}

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
