// The state of a session as the fold of its events. Tests compare it with the server's own fold, event
// by event.
//
// A view is immutable: compare parts with `===` to see if they have changed. Pass all events of a
// message to `reduce` in one call, because each call copies once: the newest content, and not the pages
// that `withHistory` has added.

import { copied, GrownMap, type MapCopy } from "./grown.js";
import type {
  Event, HistoryResult, Item, ItemUpdated, Modes, PermissionOpened, PlanEntry, QueueEntry, Command, Cut, Snapshot, State,
  Task, TurnRecord, Usage,
} from "./wire.js";

/** Everything there is to show of a session. */
export interface View {
  readonly state: State;
  /** By id, in the order in which they started. */
  readonly turns: ReadonlyMap<string, TurnRecord>;
  /** By id, in the order in which they were opened. */
  readonly items: ReadonlyMap<string, Item>;
  /** The open requests by id, the oldest first. */
  readonly permissions: ReadonlyMap<string, PermissionOpened>;
  readonly queue: readonly QueueEntry[];
  /** True if the queue waits until it is resumed. */
  readonly paused: boolean;
  readonly plan: readonly PlanEntry[];
  /** By id. */
  readonly tasks: ReadonlyMap<string, Task>;
  readonly usage: Usage | null;
  readonly modes: Modes | null;
  readonly commands: readonly Command[];
  readonly title: string | null;
  /** The first item after which nothing is missing, if there are older ones. Before it are only items that
   * were open in the snapshot. */
  readonly earlier: string | null;
}

type Changing<T> = { -readonly [K in keyof T]: T[K] };

/** A view under construction: the maps that were copied for it may be changed. */
interface Draft {
  view: Changing<View>;
  turns?: MapCopy<TurnRecord>;
  items?: MapCopy<Item>;
  permissions?: Map<string, PermissionOpened>;
  tasks?: Map<string, Task>;
}

/** Return the view of a snapshot. */
export function fromSnapshot(snapshot: Snapshot): View {
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
 * Return the view with the content before `view.earlier`, from an answer to `history` at the same event.
 * Items that the view has already stay unchanged.
 */
export function withHistory(view: View, { turns, items, earlier }: Pick<HistoryResult, "turns" | "items" | "earlier">): View {
  return { ...view, turns: withTurns(view.turns, turns), items: withItems(view, items), earlier };
}

/** Return the items of a view with older ones before `view.earlier`. */
function withItems(view: View, older: readonly Item[]): View["items"] {
  if (view.earlier === null) return view.items;
  const page = older.map((item) => [item.id, item] as const);
  const grown = GrownMap.before(view.items, view.earlier)?.with(page);
  if (grown) return grown;
  const all = new Map<string, Item>();
  const known = new Map(page.map(([id, item]) => [id, view.items.get(id) ?? item]));
  for (const [id, item] of view.items) {
    if (id === view.earlier) for (const [each, old] of known) all.set(each, old);
    if (!known.has(id)) all.set(id, item);
  }
  return all;
}

/** Return turns with older ones before them. The newest ones of these may be known already. */
function withTurns(known: View["turns"], older: readonly TurnRecord[]): View["turns"] {
  const page = older.map((turn) => [turn.id, turn] as const);
  const fresh = page.filter(([id]) => !known.has(id));
  const first = known.keys();
  const inOrder = page.every(([id], place) => (place < fresh.length ? !known.has(id) : first.next().value === id));
  const [oldest] = known.keys();
  const grown = inOrder && oldest !== undefined && GrownMap.before(known, oldest)?.with(fresh);
  return grown || new Map([...page, ...known]);
}

/** Return the view without its oldest items: the newest `count` are kept, and those that are open. */
export function shortened(view: View, count: number): View {
  const all = [...view.items];
  let cut = Math.max(0, all.length - count);
  while (cut < all.length && all[cut]?.[1].parent) cut++; // a sub-agent's items stay with their call
  const first = all[cut];
  if (!cut || !first || all.findIndex(([id]) => id === view.earlier) >= cut) return view;
  const items = new Map(all.filter(([, item], index) => index >= cut || !isOver(item)));
  const used = new Set([...items.values()].map(({ turn }) => turn));
  const turns = new Map([...view.turns].filter(([id, { outcome }]) => !outcome || used.has(id)));
  return { ...view, turns, items, earlier: first[0] };
}

/** Return the view with an item replaced. */
export function withItem(view: View, item: Item): View {
  const items = copied(view.items);
  items.set(item.id, item);
  return { ...view, items };
}

/**
 * Return the view of a later snapshot of the same epoch, with the older content that is known already.
 * Content cannot have changed if it was over and its turn had ended.
 */
export function resumed(view: View, snapshot: Snapshot): View {
  const next = fromSnapshot(snapshot);
  if (!next.earlier || !view.items.has(next.earlier)) return next;
  const items = new Map<string, Item>();
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
 * Return the view after some events. An event of an unknown kind changes nothing, and neither does one
 * about an unknown item or turn.
 */
export function reduce(view: View, events: readonly Event[]): View {
  if (events.length === 0) return view;
  const draft: Draft = { view: { ...view } };
  for (const event of events) apply(draft, event);
  return draft.view;
}

const turns = (draft: Draft) => (draft.view.turns = draft.turns ??= copied(draft.view.turns));
const items = (draft: Draft) => (draft.view.items = draft.items ??= copied(draft.view.items));
const permissions = (draft: Draft) => (draft.view.permissions = draft.permissions ??= new Map(draft.view.permissions));
const tasks = (draft: Draft) => (draft.view.tasks = draft.tasks ??= new Map(draft.view.tasks));

function apply(draft: Draft, event: Event): void {
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
    case "notice": // not part of the state
      break;
    default:
      event satisfies never; // a new kind of event is an error here
  }
}

/** The item with the fields of a patch; the fields of `tool` are replaced one by one. */
function patched(item: Item, patch: ItemUpdated["patch"]): Item {
  const { tool: change, ...fields } = patch;
  const tool = change ? replaced(item.tool ?? {}, change) : item.tool;
  return { ...replaced(item, fields), ...(tool ? { tool } : {}) };
}

/** The object with some members replaced: these are previews no more, unless the patch has previews. */
function replaced<T extends { _cut?: Record<string, Cut> | null }>(known: T, patch: Partial<T>): T {
  const both = { ...known, ...patch };
  if (!known._cut && !patch._cut) return both;
  const left = Object.entries(known._cut ?? {}).filter(([name]) => !(name in patch));
  const cuts = { ...Object.fromEntries(left), ...patch._cut };
  delete both._cut;
  return Object.keys(cuts).length ? { ...both, _cut: cuts } : both;
}

const OVER = new Set(["completed", "failed", "denied", "cancelled", "orphaned"]);

/** Return true if an item or a task has a terminal status. */
export const isOver = ({ status }: { status?: string }): boolean => OVER.has(status ?? "running");

/**
 * Return the events that close everything that is open in a view, if its end will never be reported.
 * The server reports the same events when it continues a session after its own end. The queue stays.
 */
export function leftOpen(view: View): Event[] {
  const events: Event[] = [];
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

/** The code of `state.error` if the end of a session was not reported but concluded. */
export const UNSEEN = "session_gone";

/** Return the view of a session that the server no longer has, as if its end had been reported. */
export function gone(view: View): View {
  const { phase, turn, agent } = view.state;
  const events = leftOpen(view);
  if (phase === "closed" && !turn && !events.length) return view;
  const error = { code: UNSEEN, message: "the end of the session was not seen here" };
  const state: State = { phase: "closed", turn: null, agent: { ...agent, alive: false }, error };
  return reduce(view, [...events, { kind: "state", state }]);
}
