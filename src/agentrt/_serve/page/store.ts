// The one place where the page keeps anything: `model` is what the server said, `ui` what this
// person has opened, chosen and typed here. Both are replaced, never changed. A component is drawn
// again when something that it has read of them is another.

import { batch, signal, type Signal } from "@preact/signals";
import { options } from "preact";
import { EMPTY as NOTHING } from "./client.js";
import { EMPTY } from "./model.js";

/** True if this page is the second session of another one (see beside.tsx). */
export const framed = globalThis.top !== globalThis.self;

/** The name of a value in `sessionStorage`, which a frame shares with the page around it. */
export const tabKey = (name: string): string => (framed ? `${name} beside` : name);

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
    beside: null,
    left: null,
    open: new Map(),
    drafts: new Map(),
    attached: new Map(),
    editing: new Map(),
    writing: null,
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
    caret: 0,
    atEnd: true,
    now: Date.now() / 1000,
  },
};

const listeners: (() => void)[] = [];
let frame = 0;
let timer = 0;

/** Tell components which members of an object have changed: of the server's messages, and of `ui`. */
const served: (() => void)[] = [];
const local: (() => void)[] = [];

/** The model with the last messages of the server that were drawn. A frame that draws the user's changes
 *  alone shows it, too: else what was sent would be gone before the server's message of it is there. */
let drawn = store.model;
export const drawnModel = () => drawn;

/** True while components are drawn. */
let drawing = false;

/** The members of an object that is replaced when anything changes: a component that reads one while it
 *  is drawn is drawn again in the next frame in which that member is another. Elsewhere, they are the newest. */
function tracked<T extends object>(of: (model: Model) => T, shows = served): T {
  const known = new Map<PropertyKey, Signal<unknown>>();
  shows.push(() => known.forEach((each, key) => (each.value = Reflect.get(of(drawn), key))));
  const read = (_: object, key: PropertyKey) => {
    const each = known.get(key) ?? signal(Reflect.get(of(drawn), key));
    known.set(key, each);
    void each.value;
    return Reflect.get(of(current()), key);
  };
  return new Proxy(
    {},
    {
      get: read,
      has: (_, key) => key in of(current()),
      ownKeys: () => Reflect.ownKeys(of(current())),
      getOwnPropertyDescriptor: (_, key) => ({ value: read(_, key), enumerable: true, configurable: true }),
    },
  ) as T;
}

/** Read the model as it was drawn last: to draw, and to find what the user sees and chooses. */
export function asDrawn<T>(act: () => T): T {
  const before = drawing;
  drawing = true;
  try {
    return act();
  } finally {
    drawing = before;
  }
}

const current = () => (drawing ? drawn : store.model);

const models = tracked((model) => model);
const uis = tracked(() => store.ui, local);

export const model = () => models;
export const ui = () => uis;

const seatOf = (model: Model) => model.attached.get(store.ui.session ?? "");

/** The session that is shown, as it was drawn last; of it, nothing is drawn again. */
export const seatDrawn = () => seatOf(drawn);

/** The one that was shown last: components read it until they are taken away. Handlers read the first one
 *  before it is drawn. */
let last = seatOf(store.model);
const latest = (model: Model) => (last = seatOf(model) ?? last ?? seatOf(store.model)) as Seat;
const seats = tracked(latest);
const view = tracked((model) => latest(model).view);
const extra = tracked((model) => latest(model).extra);
const shown: Seat = {
  get epoch() {
    return seats.epoch;
  },
  get seq() {
    return seats.seq;
  },
  get behind() {
    return seats.behind;
  },
  get gone() {
    return seats.gone;
  },
  view,
  extra,
};
const isKnown = signal(false);
served.push(() => (isKnown.value = seatOf(drawn) !== undefined));

/** The session that is shown, as far as it is known. */
export const seat = (): Seat | undefined => (isKnown.value, seatOf(current()) && shown);

/** Change what the server has said; `change` returns the same model if nothing changes. */
export function setModel(change: (model: Model) => Model) {
  const next = change(store.model);
  if (next === store.model) return;
  store.model = next;
  stale = true;
  soon();
}

export function setUi(fields: Partial<Ui>) {
  store.ui = { ...store.ui, ...fields };
  changed();
}

/** The time up to which it is known how things stand, in seconds since the epoch. */
export const clock = () => (uis.link.status === "open" ? uis.now : uis.link.heard);

/** Where one writes, if it is there. */
export const field = () => document.getElementById("prompt") as HTMLTextAreaElement | null;

/** Without a keyboard of its own, as on a phone, Enter is how one comes to a second line. */
export const touched = () => matchMedia("(pointer: coarse) and (hover: none)").matches;

/** Sessions count their items and questions each for itself */
export const here = (id: string): string => `${uis.session} ${id}`;

/** Whether something was folded or unfolded by hand */
export const isOpen = (id: string): boolean | undefined => uis.open.get(here(id));

/** The attributes of a `details` element that is folded here, and not by itself. */
export const fold = (id: string, open: boolean) => ({
  open,
  onToggle({ target, currentTarget }: any) {
    if (target !== currentTarget || target.open === open) return;
    setUi({ open: new Map(store.ui.open).set(here(id), target.open) });
  },
});

/**
 * @param listener is called once a frame in which anything has changed
 * @returns what ends that
 */
export function listen(listener: () => void) {
  listeners.push(listener);
  return () => void listeners.splice(listeners.indexOf(listener), 1);
}

/** Draws the components that are to be drawn again. */
let draw: (() => void) | null = null;
let showing = false;

options.debounceRendering = (process) => {
  draw = process;
  if (!showing) changed();
};

/** However much changes, it is shown once a frame; in a hidden tab there are no frames. */
function changed() {
  if (!frame) frame = requestAnimationFrame(() => redraw(true, false));
  if (!timer) timer = setTimeout(show, HIDDEN_MS);
}

/** After this time without a frame, the tab is taken to be hidden. */
const HIDDEN_MS = 300;

/** The pause after a frame before messages of the server are drawn again, as a multiple of the time
 *  that drawing them took: in general, and while the user types, so that keys seldom wait for it. */
const REST = 2;
const REST_TYPING = 10;

/** The longest pause. */
const LONGEST_REST_MS = 1_000;

/** The user counts as typing for this time after a key press, in milliseconds. */
const TYPING_MS = 500;

/** True if messages of the server are not drawn yet; the end of the pause; a timer for it. */
let stale = false;
let due = 0;
let later = 0;
let pressed = -Infinity;

/** Note a key press. */
export const onPress = () => void (pressed = performance.now());
export const isTyping = () => performance.now() - pressed < TYPING_MS;

/** The last function passed to `afterTyping`, until it is called. */
let typed: (() => void) | null = null;

/** Call a function when the user has stopped typing. */
export function afterTyping(act: () => void) {
  if (!typed) setTimeout(endTyping, TYPING_MS);
  typed = act;
}

function endTyping() {
  if (isTyping()) return void setTimeout(endTyping, TYPING_MS - (performance.now() - pressed));
  const act = typed;
  typed = null;
  act?.();
}

/** How long it took to draw the last messages of the server, with layout and painting. */
let cost_ms = 1;
export const frameCost_ms = () => cost_ms;

/** Start the pause once the browser has laid out and painted the page: in a later task, or in this frame. */
function rest(drawn_ms: number, inFrame: boolean) {
  const end = (begun: number) => {
    const now = performance.now();
    const each = isTyping() ? REST_TYPING : REST;
    cost_ms = Math.max(1, drawn_ms + now - begun);
    due = now + Math.min(cost_ms * each, LONGEST_REST_MS);
    if (stale) soon();
  };
  const painting = () => {
    cancelAnimationFrame(next);
    clearTimeout(hidden);
    setTimeout(end, 0, performance.now());
  };
  const next = inFrame ? 0 : requestAnimationFrame(painting);
  const hidden = inFrame ? 0 : setTimeout(painting, HIDDEN_MS);
  if (inFrame) painting();
}

/** Draw messages of the server after the pause, in a task of their own: keys wait for no more than that. */
function soon() {
  if (due < Infinity) later ||= setTimeout(redraw, Math.max(0, due - performance.now()), false, true);
}

/** What computes the layout, once everything is drawn. While the user types, the frame that paints it does so. */
export const beforePainting = (act: () => void) =>
  void (framing || document.hidden || !isTyping() ? queueMicrotask(act) : requestAnimationFrame(act));
let framing = false;

/** The session whose messages were drawn. */
let drawnOf: string | null = null;

/** Draw the user's changes; the server's messages too, if asked for or if another session is shown. */
function redraw(inFrame: boolean, asked: boolean) {
  cancelAnimationFrame(frame);
  clearTimeout(timer);
  frame = timer = 0;
  const begun = performance.now();
  const focused = document.activeElement;
  const all = asked || drawnOf !== store.ui.session;
  if (all) {
    clearTimeout(later);
    later = 0;
    stale = false;
    due = Infinity; // until it was laid out and painted: see rest()
    drawnOf = store.ui.session;
    drawn = store.model;
  }
  showing = true;
  framing = inFrame;
  try {
    asDrawn(() => batch(() => [...local, ...(all ? served : [])].forEach((each) => each())));
    for (const listener of [...listeners]) listener();
  } finally {
    showing = false;
    const now = draw;
    draw = null;
    if (now) asDrawn(now);
    framing = false;
    // A button that has taken itself away leaves the keys to the message field.
    const isLost = focused?.isConnected === false && document.activeElement === document.body;
    if (isLost && !touched()) field()?.focus();
    if (all) queueMicrotask(() => rest(performance.now() - begun, inFrame)); // with what beforePainting() does
  }
}

/** Draw the user's changes now, before the next frame. */
export const show = () => (showing ? changed() : redraw(false, false));

/** Redraw a component. While the user types, this happens in a separate task: the frame then only does layout and
 *  painting, and keys are handled in between. */
export function drawApart(change: () => void) {
  if (!isTyping()) return change();
  setTimeout(() => (change(), show()));
}
