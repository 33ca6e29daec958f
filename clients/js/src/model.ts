// All that the server has sent, as one value. `take` is pure: the same frames give the same model.

import { fromSnapshot, gone, reduce, resumed, withHistory, type View } from "./reduce.js";
import type { AckFrame, AgentInfo, Event, HistoryResult, ReadyFrame, ServerFrame, SessionInfo, StoreFrame } from "./wire.js";

/** A session that is, or was, attached. `Extra` is what an observer derives from its events. */
export interface AttachedSession<Extra = undefined> {
  readonly epoch: string;
  /** The number of the last event that is part of `view`. */
  readonly seq: number;
  readonly view: View;
  /** Events are missing: attach again. */
  readonly behind: boolean;
  /** The server no longer has the session. */
  readonly gone: boolean;
  readonly extra: Extra;
}

export interface Model<Extra = undefined> {
  /** The server's answer to `hello`; null before it. */
  readonly server: ReadyFrame | null;
  readonly agents: readonly AgentInfo[];
  /** The sessions that the server lists. */
  readonly sessions: readonly SessionInfo[];
  /** The attached sessions by id. */
  readonly attached: ReadonlyMap<string, AttachedSession<Extra>>;
  /** The state of the server's store, if it is slow or fails. */
  readonly store: StoreFrame | null;
}

/** Derives further values from events. */
export interface Observer<Extra> {
  /** Return the values at a snapshot. `before`: those up to it. `continued`: the epoch is the same. */
  start(before: Extra | undefined, continued: boolean): Extra;
  /** Return the values after some events. `view` is the session before them. */
  events?(extra: Extra, view: View, events: readonly Event[]): Extra;
  /** Called with the lists of sessions before and after a new one. */
  listed?(before: readonly SessionInfo[], after: readonly SessionInfo[]): void;
}

export const NO_OBSERVER: Observer<undefined> = { start: () => undefined };

export const EMPTY: Model<never> = { server: null, agents: [], sessions: [], attached: new Map(), store: null };

/** Return the model after some frames, in the order in which they came. */
export function take<E, M extends Model<E>>(model: M, frames: readonly ServerFrame[], observer: Observer<E>): M {
  const events = new Map<string, Gathered>();
  for (const frame of frames) {
    if (frame.type !== "event") {
      model = takeOther(flush(model, events, observer), frame, observer);
      continue;
    }
    const known = model.attached.get(frame.session);
    if (!known || known.behind) continue;
    const waiting = events.get(frame.session) ?? { seq: known.seq, events: [] };
    const since = frame.since ?? frame.seq - 1; // a frame may stand for several events
    if (frame.epoch === known.epoch && frame.seq <= waiting.seq) continue;
    if (frame.epoch !== known.epoch || since !== waiting.seq) {
      model = withSession(model, frame.session, { ...known, behind: true });
    } else {
      waiting.events.push(frame.event);
      waiting.seq = frame.seq;
      events.set(frame.session, waiting);
    }
  }
  return flush(model, events, observer);
}

/** Events of a session that are still to be applied, and the number of the last one. */
interface Gathered {
  seq: number;
  events: Event[];
}

/** Apply the gathered events. */
function flush<E, M extends Model<E>>(model: M, gathered: Map<string, Gathered>, observer: Observer<E>): M {
  for (const [session, { seq, events }] of gathered) {
    const known = model.attached.get(session);
    if (!known) continue;
    const extra = observer.events?.(known.extra, known.view, events) ?? known.extra;
    const next = { ...known, seq, view: reduce(known.view, events), extra };
    // The events of a session's end may come after the list without it.
    model = withSession(model, session, known.gone ? ended(next) : next);
  }
  gathered.clear();
  return model;
}

type OtherFrame = Exclude<ServerFrame, { type: "event" }>;

function takeOther<E, M extends Model<E>>(model: M, frame: OtherFrame, observer: Observer<E>): M {
  switch (frame.type) {
    case "ready":
      return listed({ ...model, server: frame, agents: frame.agents, store: null }, frame.sessions, observer, true);
    case "store":
      return { ...model, store: frame.state === "ok" ? null : frame };
    case "sessions":
      return listed(model, frame.sessions, observer);
    case "snapshot": {
      const { session, epoch, seq } = frame;
      const before = model.attached.get(session);
      const same = before?.epoch === epoch ? before : undefined;
      const view = same ? resumed(same.view, frame) : fromSnapshot(frame);
      const left = !model.sessions.some((info) => info.session === session);
      const known = { epoch, seq, view, behind: false, gone: left, extra: observer.start(before?.extra, Boolean(same)) };
      return withSession(model, session, left ? ended(known) : known);
    }
    case "ack": {
      if (!isHistory(frame)) return model;
      const { session, epoch, seq, before } = frame;
      const known = model.attached.get(session);
      if (known?.epoch !== epoch || known.seq !== seq || known.view.earlier !== before) return model;
      return withSession(model, session, { ...known, view: withHistory(known.view, frame) });
    }
    case "beat":
      for (const [session, known] of model.attached) {
        const there = frame.sessions[session];
        if (known.gone || (there && known.epoch === there.epoch && known.seq >= there.seq)) continue;
        model = withSession(model, session, { ...known, behind: true });
      }
      return model;
    default:
      return model;
  }
}

const isHistory = (ack: AckFrame): ack is AckFrame & HistoryResult => "items" in ack;

function withSession<E, M extends Model<E>>(model: M, session: string, known: AttachedSession<E>): M {
  return { ...model, attached: new Map(model.attached).set(session, known) };
}

/** Take a new list of sessions. `greeted`: the server continues the attached sessions by itself. */
function listed<E, M extends Model<E>>(
  model: M, sessions: readonly SessionInfo[], observer: Observer<E>, greeted = false,
): M {
  observer.listed?.(model.sessions, sessions);
  const before = new Map(model.sessions.map(({ session, phase }) => [session, phase]));
  const attached = new Map(model.attached);
  const ids = new Set(sessions.map(({ session }) => session));
  for (const { session, phase } of sessions) {
    const known = attached.get(session);
    const was = before.get(session);
    // Closed by another client and stored: what is stored is attached to anew.
    const stored = phase === "stored" && was && was !== phase && !greeted;
    // One that comes back may have changed in the meantime.
    if (known && (stored || known.gone)) attached.set(session, { ...known, gone: false, behind: true });
  }
  for (const [session, known] of attached) {
    if (!known.gone && !ids.has(session)) attached.set(session, ended(known));
  }
  return { ...model, sessions, attached };
}

/** The session as it is when the server no longer has it. */
const ended = <E>(known: AttachedSession<E>): AttachedSession<E> =>
  ({ ...known, gone: true, behind: false, view: gone(known.view) });

/** Return the model without a session that the server does not know. */
export function without<E, M extends Model<E>>(model: M, session: string, observer: Observer<E>): M {
  return listed(model, model.sessions.filter((info) => info.session !== session), observer);
}
