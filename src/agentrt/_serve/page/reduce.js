// What a session looks like, as the fold of its events: the same fold as the Python one, held to it
// by the same traces. It imports nothing, for any client of `agentrt.v1` to use (docs/guides/page.md).
//
// A view is never changed: `===` says whether there is anything new to be shown. Many events at once
// cost one copy, not one each.

/** @import * as w from "./wire.js" */

/**
 * What there is to show of one session.
 * @typedef {object} View
 * @property {w.State} state
 * @property {ReadonlyMap<string, w.Turn>} turns in the order in which they began
 * @property {ReadonlyMap<string, w.Item>} items in the order in which they were opened
 * @property {ReadonlyMap<string, w.Permission>} permissions the open ones, the oldest first
 * @property {readonly w.QueueEntry[]} queue
 * @property {boolean} paused whether the queue waits for somebody to resume it
 * @property {readonly w.PlanEntry[]} plan
 * @property {ReadonlyMap<string, w.Task>} tasks
 * @property {w.Usage | null} usage
 * @property {w.Modes | null} modes
 * @property {readonly w.Command[]} commands
 * @property {string | null} title
 * @property {string | null} earlier the oldest item behind which nothing is missing, if there are
 *   older ones: what is ahead of it was still open in the snapshot
 */

/**
 * A view under construction: the maps that were copied for it may be changed.
 * @typedef {{
 *   view: View,
 *   turns?: Map<string, w.Turn>,
 *   items?: Map<string, w.Item>,
 *   permissions?: Map<string, w.Permission>,
 *   tasks?: Map<string, w.Task>,
 * }} Draft
 */

/**
 * The view that a snapshot is.
 * @param {Omit<w.Snapshot, "session" | "epoch" | "seq">} snapshot
 * @returns {View}
 */
export function fromSnapshot(snapshot) {
  return {
    state: snapshot.state,
    turns: new Map(snapshot.turns.map((turn) => [turn.id, turn])),
    items: new Map(snapshot.items.map((item) => [item.id, item])),
    permissions: new Map(snapshot.permissions.map((ask) => [ask.request, ask])),
    queue: snapshot.queue,
    paused: snapshot.paused ?? false,
    plan: snapshot.plan,
    tasks: new Map(snapshot.tasks.map((task) => [task.id, task])),
    usage: snapshot.usage,
    modes: snapshot.modes,
    commands: snapshot.commands,
    title: snapshot.title ?? null,
    earlier: snapshot.earlier ?? null,
  };
}

/**
 * The view with what was shown before `view.earlier`, as the answer to `history` says it at the same
 * event. What the view has already stays as it is.
 * @param {View} view
 * @param {Pick<w.History, "turns" | "items" | "earlier">} history
 * @returns {View}
 */
export function withHistory(view, { turns, items, earlier }) {
  const older = new Map(items.map((item) => [item.id, view.items.get(item.id) ?? item]));
  /** @type {Map<string, w.Item>} */
  const all = new Map();
  for (const [id, item] of view.items) {
    if (id === view.earlier) for (const [each, old] of older) all.set(each, old);
    if (!older.has(id)) all.set(id, item);
  }
  const known = turns.map((turn) => /** @type {const} */ ([turn.id, turn]));
  return { ...view, turns: new Map([...known, ...view.turns]), items: all, earlier };
}

/**
 * The view that a later snapshot of the same epoch is, with what was shown before it and is known
 * already: that cannot have changed if it was over, and its turn as well.
 * @param {View} view
 * @param {Omit<w.Snapshot, "session" | "epoch" | "seq">} snapshot
 * @returns {View}
 */
export function resumed(view, snapshot) {
  const next = fromSnapshot(snapshot);
  if (!next.earlier || !view.items.has(next.earlier)) return next;
  /** @type {Map<string, w.Item>} */
  const items = new Map();
  let whole = view.earlier === null;
  for (const [id, item] of view.items) {
    whole ||= id === view.earlier;
    if (id === next.earlier) break;
    const now = next.items.get(id);
    if (now) items.set(id, now);
    else if (!whole) continue; // it has ended since
    else if (isOver(item) && (!item.turn || view.turns.get(item.turn)?.outcome)) items.set(id, item);
    else return next;
  }
  if (!whole) return next;
  for (const [id, item] of next.items) items.set(id, item);
  const ended = [...view.turns].filter(([, turn]) => turn.outcome);
  return { ...next, turns: new Map([...ended, ...next.turns]), items, earlier: view.earlier };
}

/**
 * The view after some events. An event of a kind that is not known here changes nothing, and
 * neither does one about an item or a turn that is not known.
 * @param {View} view
 * @param {readonly w.Event[]} events
 * @returns {View}
 */
export function reduce(view, events) {
  if (events.length === 0) return view;
  /** @type {Draft} */
  const draft = { view: { ...view } };
  for (const event of events) apply(draft, event);
  return draft.view;
}

/** @type {(draft: Draft) => Map<string, w.Turn>} */
const turns = (draft) => (draft.view.turns = draft.turns ??= new Map(draft.view.turns));
/** @type {(draft: Draft) => Map<string, w.Item>} */
const items = (draft) => (draft.view.items = draft.items ??= new Map(draft.view.items));
/** @type {(draft: Draft) => Map<string, w.Permission>} */
const permissions = (draft) =>
  (draft.view.permissions = draft.permissions ??= new Map(draft.view.permissions));
/** @type {(draft: Draft) => Map<string, w.Task>} */
const tasks = (draft) => (draft.view.tasks = draft.tasks ??= new Map(draft.view.tasks));

/** @param {Draft} draft @param {w.Event} event */
function apply(draft, event) {
  const view = draft.view;
  switch (event.kind) {
    case "state":
      view.state = event.state;
      break;
    case "turn.started":
      turns(draft).set(event.turn, { id: event.turn, origin: event.origin });
      break;
    case "turn.ended": {
      const turn = view.turns.get(event.turn);
      const { kind: _kind, turn: id, ...ending } = event;
      if (turn) turns(draft).set(id, { id, origin: turn.origin, ...ending });
      break;
    }
    case "item.opened":
      items(draft).set(event.item.id, event.item);
      break;
    case "item.delta": {
      const item = view.items.get(event.item);
      if (item) items(draft).set(item.id, { ...item, text: (item.text ?? "") + event.text });
      break;
    }
    case "item.updated": {
      const item = view.items.get(event.item);
      if (item) items(draft).set(item.id, patched(item, event.patch));
      break;
    }
    case "item.closed": {
      const item = view.items.get(event.item);
      if (item) items(draft).set(item.id, { ...item, status: event.status });
      break;
    }
    case "permission.opened":
      permissions(draft).set(event.request, event);
      break;
    case "permission.closed":
      if (view.permissions.has(event.request)) permissions(draft).delete(event.request);
      break;
    case "queue":
      view.queue = event.queue;
      view.paused = event.paused ?? false;
      break;
    case "plan":
      view.plan = event.plan;
      break;
    case "usage":
      view.usage = event.usage;
      break;
    case "modes":
      view.modes = event.modes;
      break;
    case "commands":
      view.commands = event.commands;
      break;
    case "title":
      view.title = event.title;
      break;
    case "task":
      tasks(draft).set(event.task.id, event.task);
      break;
    case "notice": // told once, and no part of the state
      break;
  }
}

const OVER = new Set(["completed", "failed", "denied", "cancelled", "orphaned"]);

/** @type {(thing: { status?: string }) => boolean} whether an item or a task is over for good */
export const isOver = ({ status }) => OVER.has(status ?? "running");

/**
 * The events that close what a view leaves open, where nobody will ever report how it went on. The
 * server reports the same of a session that it takes up again after its own end. What waited in the
 * queue stays, for whoever wrote it.
 * @param {View} view
 * @returns {w.Event[]}
 */
export function leftOpen(view) {
  /** @type {w.Event[]} */
  const events = [];
  for (const request of view.permissions.keys()) {
    events.push({ kind: "permission.closed", request, outcome: "cancelled", by: "turn" });
  }
  for (const item of view.items.values()) {
    if (!isOver(item)) events.push({ kind: "item.closed", item: item.id, status: "orphaned" });
  }
  for (const turn of view.turns.values()) {
    if (!turn.outcome) events.push({ kind: "turn.ended", turn: turn.id, outcome: "agent_died" });
  }
  for (const task of view.tasks.values()) {
    if (!isOver(task)) events.push({ kind: "task", task: { ...task, status: "orphaned" } });
  }
  return events;
}

/** The code of the state's error where the end of a session was not reported but concluded. */
export const UNSEEN = "session_gone";

/**
 * The view of a session that the server has no more, as if its end had been reported.
 * @param {View} view
 * @returns {View}
 */
export function gone(view) {
  const { phase, turn, agent } = view.state;
  const events = leftOpen(view);
  if (phase === "closed" && !turn && !events.length) return view;
  const error = { code: UNSEEN, message: "the end of the session was not seen here" };
  /** @type {w.State} */
  const state = { phase: "closed", turn: null, agent: { ...agent, alive: false }, error };
  return reduce(view, [...events, { kind: "state", state }]);
}

/**
 * @param {w.Item} item
 * @param {Partial<w.Item>} patch its fields are replaced, but those of `tool` one by one
 * @returns {w.Item}
 */
function patched(item, patch) {
  const tool = patch.tool ? replaced(item.tool ?? {}, patch.tool) : item.tool;
  return { ...replaced(item, patch), ...(tool ? { tool } : {}) };
}

/**
 * An object with some members replaced: these are previews no more, unless the patch has previews.
 * @template {{ _cut?: w.Cuts }} T
 * @param {T} known
 * @param {Partial<T>} patch
 * @returns {T}
 */
function replaced(known, patch) {
  const both = { ...known, ...patch };
  if (!known._cut && !patch._cut) return both;
  const left = Object.entries(known._cut ?? {}).filter(([name]) => !(name in patch));
  const cuts = { ...Object.fromEntries(left), ...patch._cut };
  delete both._cut;
  return Object.keys(cuts).length ? { ...both, _cut: cuts } : both;
}
