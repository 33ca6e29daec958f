// The one place where the page keeps anything: `model` is what the server said, `ui` what this
// person has opened, chosen and typed here. Both are replaced, never changed.

import { EMPTY as NOTHING } from "./client.js";
import { EMPTY } from "./model.js";

/** A list that this browser keeps. */
function stored(name: string): string[] {
  try {
    const found = JSON.parse(localStorage.getItem(name) ?? "[]");
    return Array.isArray(found) ? found.filter((each) => typeof each === "string") : [];
  } catch {
    return []; // not ours, or there is no storage
  }
}

/** Change a list that this browser keeps. */
export function keep(name: "archived" | "templates", list: readonly string[]) {
  try {
    localStorage.setItem(name, JSON.stringify(list));
  } catch {
    // without storage, it lasts as long as the page
  }
  setUi(name === "archived" ? { archived: new Set(list) } : { templates: list });
}

const store: { model: Model; ui: Ui } = {
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
    viewing: null,
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
    branches: new Map(),
    away: new Map(),
    goal: null,
    archived: new Set(stored("archived")),
    templates: stored("templates"),
    atEnd: true,
    now: Date.now() / 1000,
  },
};

const listeners: (() => void)[] = [];
let frame = 0;
let timer = 0;

export const model = () => store.model;
export const ui = () => store.ui;

/** The session that is shown, as far as it is known. */
export const seat = () => store.model.attached.get(store.ui.session ?? "");

export function setModel(next: Model) {
  if (next === store.model) return;
  store.model = next;
  changed();
}

export function setUi(fields: Partial<Ui>) {
  store.ui = { ...store.ui, ...fields };
  changed();
}

/** The time up to which it is known how things stand, in seconds since the epoch. */
export const clock = () => (store.ui.link.status === "open" ? store.ui.now : store.ui.link.heard);

/** Where one writes, if it is there. */
export const field = () => document.getElementById("prompt") as HTMLTextAreaElement | null;

/** Sessions count their items and questions each for itself */
export const here = (id: string): string => `${store.ui.session} ${id}`;

/** Whether something was folded or unfolded by hand */
export const isOpen = (id: string): boolean | undefined => store.ui.open.get(here(id));

/** The attributes of a `details` element that is folded here, and not by itself. */
export const fold = (id: string, open: boolean) => ({
  open,
  onToggle({ target, currentTarget }: any) {
    if (target !== currentTarget || target.open === open) return;
    setUi({ open: new Map(store.ui.open).set(here(id), target.open) });
  },
});

/** @param listener is called once a frame in which anything has changed */
export function listen(listener: () => void) {
  listeners.push(listener);
}

/** However much changes, it is shown once a frame; in a hidden tab there are no frames. */
function changed() {
  if (!frame) frame = requestAnimationFrame(show);
  if (!timer) timer = setTimeout(show, 300);
}

/** Show what has changed, also before the next frame. */
export function show() {
  cancelAnimationFrame(frame);
  clearTimeout(timer);
  frame = timer = 0;
  for (const listener of listeners) listener();
}
