// All that the server has said, as one value. `take` is pure: the same frames give the same model.

import { filled } from "./cuts.js";
import { fromSnapshot, gone, reduce, resumed, withHistory } from "./reduce.js";

/** How many notes are kept to be read again. */
const NOTES = 20;

/** How the prompt begins that tells an agent what was said. */
const RETOLD = "[agentrt] You do not remember this conversation";

/** What comes behind these is nothing that was finished unseen. */
const QUIET = new Set(["starting", "stored"]);

/** @type {Model} */
export const EMPTY = {
  server: null,
  agents: [],
  sessions: [],
  seats: new Map(),
  store: null,
  unread: new Set(),
  notes: [],
  noted: 0,
};

/**
 * The model after some frames.
 * @param {Model} model
 * @param {readonly w.Frame[]} frames in the order in which they came
 * @param {number} now
 * @returns {Model}
 */
export function take(model, frames, now) {
  /** @type {Map<string, { seq: number, events: w.Event[] }>} */
  const events = new Map();
  for (const frame of frames) {
    if (frame.type === "event") {
      const seat = model.seats.get(frame.session);
      if (!seat || seat.behind) continue;
      const waiting = events.get(frame.session) ?? { seq: seat.seq, events: [] };
      const since = frame.since ?? frame.seq - 1; // one frame may stand for several events
      if (frame.epoch === seat.epoch && frame.seq <= waiting.seq) continue;
      if (frame.epoch !== seat.epoch || since !== waiting.seq) {
        model = withSeat(model, frame.session, { ...seat, behind: true });
      } else {
        waiting.events.push(frame.event);
        waiting.seq = frame.seq;
        events.set(frame.session, waiting);
      }
    } else {
      model = flush(model, events, now);
      model = takeOther(model, frame);
    }
  }
  return flush(model, events, now);
}

/**
 * @param {Model} model
 * @param {Exclude<w.Frame, { type: "event" }>} frame
 * @returns {Model}
 */
function takeOther(model, frame) {
  switch (frame.type) {
    case "ready":
      return listed({ ...model, server: frame, agents: frame.agents, store: null }, frame.sessions, true);
    case "store":
      return { ...model, store: frame.state === "ok" ? null : frame };
    case "sessions":
      return listed(model, frame.sessions);
    case "snapshot": {
      const { epoch, seq } = frame;
      const kept = model.seats.get(frame.session);
      const same = kept?.epoch === epoch;
      const times = same ? kept.times : new Map();
      const view = same ? resumed(kept.view, frame) : fromSnapshot(frame);
      const left = !model.sessions.some(({ session }) => session === frame.session);
      const forgot = same && kept.forgot;
      const seat = { epoch, seq, view, times, answered: null, behind: false, gone: left, forgot, undo: kept?.undo ?? new Map() };
      return withSeat(model, frame.session, left ? ended(seat) : seat);
    }
    case "ack": {
      if (!("items" in frame)) return model;
      const { session, epoch, seq, before } = frame;
      const seat = model.seats.get(session);
      if (seat?.epoch !== epoch || seat.seq !== seq || seat.view.earlier !== before) return model;
      return withSeat(model, session, { ...seat, view: withHistory(seat.view, frame) });
    }
    case "beat":
      for (const [session, seat] of model.seats) {
        const there = frame.sessions[session];
        if (seat.gone || (there && seat.epoch === there.epoch && seat.seq >= there.seq)) continue;
        model = withSeat(model, session, { ...seat, behind: true });
      }
      return model;
    default:
      return model;
  }
}

/** @type {(model: Model, session: string, seat: Seat) => Model} */
function withSeat(model, session, seat) {
  return { ...model, seats: new Map(model.seats).set(session, seat) };
}

/**
 * A new list of sessions: who has finished, and who is gone.
 * @param {Model} model
 * @param {readonly w.Summary[]} sessions
 * @param {boolean} [attached] whether the server goes on with what is attached by itself
 * @returns {Model}
 */
function listed(model, sessions, attached = false) {
  const before = new Map(model.sessions.map((summary) => [summary.session, summary.phase]));
  const unread = new Set(model.unread);
  const seats = new Map(model.seats);
  const ids = new Set();
  for (const { session, phase } of sessions) {
    ids.add(session);
    const was = before.get(session);
    const seat = seats.get(session);
    // Closed elsewhere, and kept: what is kept is another thing to look at.
    if (phase === "stored" && was && was !== phase && seat && !attached) seats.set(session, { ...seat, behind: true });
    if (was && was !== phase && !QUIET.has(was) && phase !== "running" && phase !== "stored") unread.add(session);
  }
  for (const session of unread) if (!ids.has(session)) unread.delete(session);
  for (const [session, seat] of seats) {
    // One that comes back may have done anything meanwhile.
    if (seat.gone && ids.has(session)) seats.set(session, { ...seat, gone: false, behind: true });
    else if (!seat.gone && !ids.has(session)) seats.set(session, ended(seat));
  }
  return { ...model, sessions, unread, seats };
}

/** @type {(seat: Seat) => Seat} as it is when the server has the session no more */
const ended = (seat) => ({ ...seat, gone: true, behind: false, view: gone(seat.view) });

/** @type {(model: Model, session: string) => Model} the server does not know that session */
export const without = (model, session) =>
  listed(model, model.sessions.filter((summary) => summary.session !== session));

/**
 * Apply the events that have been gathered.
 * @param {Model} model
 * @param {Map<string, { seq: number, events: w.Event[] }>} gathered
 * @param {number} now
 */
function flush(model, gathered, now) {
  for (const [session, { seq, events }] of gathered) {
    const seat = model.seats.get(session);
    if (!seat) continue;
    let { answered, forgot, undo } = seat;
    for (const event of events) {
      if (event.kind === "permission.closed") answered = closing(seat, events, event);
      else if (event.kind === "notice") {
        if (event.code === "files_changed") {
          const { turn, before } = /** @type {{ turn: string, before: number }} */ (event.data);
          undo = new Map(undo).set(turn, before);
        }
        else model = note(model, event.level, event.message);
        if (event.code === "agent_restarted") forgot = event.level === "warning";
      } else if (event.kind === "turn.started" && event.prompt?.some(retells)) forgot = false;
    }
    const view = reduce(seat.view, events);
    const times = timed(seat.times, events, now);
    const next = { ...seat, seq, view, times, answered, forgot, undo };
    model = withSeat(model, session, seat.gone ? ended(next) : next); // the end may come behind the list
  }
  gathered.clear();
  return model;
}

/** @type {(block: w.Block) => boolean} */
const retells = (block) => block.type === "text" && block.text.startsWith(RETOLD);

/**
 * The model with an item of which more was fetched.
 * @param {Model} model
 * @param {string} session
 * @param {string} id
 * @param {ReadonlyMap<string, string>} got
 * @returns {Model}
 */
export function completed(model, session, id, got) {
  const seat = model.seats.get(session);
  const item = seat?.view.items.get(id);
  if (!seat || !item) return model;
  const items = new Map(seat.view.items).set(id, filled(item, got));
  return withSeat(model, session, { ...seat, view: { ...seat.view, items } });
}

/** @type {(model: Model, session: string) => Model} what was said is about to be repeated to the agent */
export function retold(model, session) {
  const seat = model.seats.get(session);
  return seat ? withSeat(model, session, { ...seat, forgot: false }) : model;
}

/**
 * The checkpoints of a session are known.
 * @param {Model} model
 * @param {string} session
 * @param {readonly w.Checkpoint[]} checkpoints
 */
export function undoable(model, session, checkpoints) {
  const seat = model.seats.get(session);
  const changed = new Set(checkpoints.filter(({ when }) => when === "after").map(({ turn }) => turn));
  const before = checkpoints.filter((each) => each.when === "before" && each.session === session && changed.has(each.turn));
  const undo = new Map(before.map(({ turn, number }) => [turn, number]));
  return seat ? withSeat(model, session, { ...seat, undo: new Map([...undo, ...seat.undo]) }) : model;
}

/**
 * @param {Seat} seat
 * @param {readonly w.Event[]} events
 * @param {Extract<w.Event, { kind: "permission.closed" }>} closed
 * @returns {Answered | null}
 */
function closing(seat, events, closed) {
  const asked =
    seat.view.permissions.get(closed.request) ??
    events.find((event) => event.kind === "permission.opened" && event.request === closed.request);
  if (!asked) return null;
  const ask = /** @type {w.Permission} */ (asked);
  const option = ask.options?.find(({ id }) => id === closed.option);
  const words = closed.outcome === "expired" ? "nobody answered in time" : option?.name ?? closed.outcome;
  const from = [closed.who, closed.via].filter(Boolean).join(", ");
  return { request: closed.request, title: ask.title, words, by: closed.by ?? "agent", ...(from ? { from } : {}) };
}

/**
 * When the items and questions of some events were heard of.
 * @param {ReadonlyMap<string, Times>} times
 * @param {readonly w.Event[]} events
 * @param {number} now
 */
function timed(times, events, now) {
  /** @type {Map<string, Times> | undefined} */
  let copy;
  for (const event of events) {
    if (event.kind === "permission.opened") {
      (copy ??= new Map(times)).set(event.request, { opened: now, heard: now });
    } else if (event.kind === "item.opened") {
      if (event.item.type !== "tool" && event.item.type !== "thought") continue;
      (copy ??= new Map(times)).set(event.item.id, { opened: now, heard: now });
    } else if (event.kind === "item.delta" || event.kind === "item.updated" || event.kind === "item.closed") {
      const known = (copy ?? times).get(event.item);
      if (!known || (known.heard === now && event.kind !== "item.closed")) continue;
      const closed = event.kind === "item.closed" ? now : known.closed;
      (copy ??= new Map(times)).set(event.item, { ...known, heard: now, ...(closed ? { closed } : {}) });
    }
  }
  return copy ?? times;
}

/**
 * The model with something more to be reported.
 * @param {Model} model
 * @param {Note["level"]} level
 * @param {string} text
 * @returns {Model}
 */
export function note(model, level, text) {
  const noted = model.noted + 1;
  return { ...model, noted, notes: [...model.notes.slice(1 - NOTES), { id: noted, level, text }] };
}

/** @type {(model: Model, session: string) => Model} what was finished there has been seen */
export function seen(model, session) {
  if (!model.unread.has(session)) return model;
  const unread = new Set(model.unread);
  unread.delete(session);
  return { ...model, unread };
}
