// The page's own values of each session, derived from its events, and the notes for the user. All else
// that the server has sent is kept by the client (client.js).

/** Notes that are kept to be read again. */
const NOTES = 20;

/** The beginning of a prompt that repeats the conversation to the agent. */
const RETOLD = "[agentrt] You do not remember this conversation";

/** Phases after which nothing has been finished unseen. */
const QUIET = new Set(["starting", "stored"]);

/** @type {Extra} */
const NEW = { times: new Map(), answered: null, forgot: false, undo: new Map() };

/** @type {PageModel} */
export const EMPTY = { unread: new Set(), notes: [], noted: 0 };

/**
 * Derive the page's values from events.
 * @param {{
 *   now: () => number,
 *   tell: (level: Note["level"], text: string) => void,
 *   listed: (before: readonly w.SessionInfo[], after: readonly w.SessionInfo[]) => void,
 * }} page
 * @returns {import("./client.js").Observer<Extra>}
 */
export const observer = ({ now, tell, listed }) => ({
  start(before, continued) {
    if (continued && before) return { ...before, answered: null };
    return before ? { ...NEW, undo: before.undo } : NEW;
  },
  events({ times, answered, forgot, undo }, view, events) {
    for (const event of events) {
      if (event.kind === "permission.closed") answered = closing(view, events, event);
      else if (event.kind === "notice") {
        if (event.code === "files_changed") {
          const { turn, before } = /** @type {{ turn: string, before: number }} */ (event.data);
          undo = new Map(undo).set(turn, before);
        } else tell(event.level, event.message);
        if (event.code === "agent_restarted") forgot = event.level === "warning";
      } else if (event.kind === "turn.started" && event.prompt?.some(retells)) forgot = false;
    }
    return { times: timed(times, events, now()), answered, forgot, undo };
  },
  listed,
});

/** @type {(block: w.Block) => boolean} */
const retells = (block) => block.type === "text" && block.text.startsWith(RETOLD);

/**
 * The values of a session whose checkpoints are known.
 * @param {Extra} extra
 * @param {string} session
 * @param {readonly w.Checkpoint[]} checkpoints
 * @returns {Extra}
 */
export function undoable(extra, session, checkpoints) {
  const changed = new Set(checkpoints.filter(({ when }) => when === "after").map(({ turn }) => turn));
  const before = checkpoints.filter((each) => each.when === "before" && each.session === session && changed.has(each.turn));
  const undo = new Map(before.map(({ turn, number }) => [turn, number]));
  return { ...extra, undo: new Map([...undo, ...extra.undo]) };
}

/**
 * The model with the sessions that have finished something unseen, after a new list.
 * @param {PageModel} model
 * @param {readonly w.SessionInfo[]} before
 * @param {readonly w.SessionInfo[]} after
 * @returns {PageModel}
 */
export function listed(model, before, after) {
  const phases = new Map(before.map(({ session, phase }) => [session, phase]));
  const unread = new Set();
  for (const { session, phase } of after) {
    const was = phases.get(session);
    const finished = was && was !== phase && !QUIET.has(was) && phase !== "running" && phase !== "stored";
    if (finished || model.unread.has(session)) unread.add(session);
  }
  return { ...model, unread };
}

/**
 * @param {import("./client.js").View} view
 * @param {readonly w.Event[]} events
 * @param {Extract<w.Event, { kind: "permission.closed" }>} closed
 * @returns {Answered | null}
 */
function closing(view, events, closed) {
  const asked =
    view.permissions.get(closed.request) ??
    events.find((event) => event.kind === "permission.opened" && event.request === closed.request);
  if (!asked) return null;
  const ask = /** @type {w.PermissionOpened} */ (asked);
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
 * The model with another note.
 * @template {PageModel} M
 * @param {M} model
 * @param {Note["level"]} level
 * @param {string} text
 * @returns {M}
 */
export function note(model, level, text) {
  const noted = model.noted + 1;
  return { ...model, noted, notes: [...model.notes.slice(1 - NOTES), { id: noted, level, text }] };
}

/**
 * The model after the user has seen what was finished in a session.
 * @template {PageModel} M
 * @param {M} model
 * @param {string} session
 * @returns {M}
 */
export function seen(model, session) {
  if (!model.unread.has(session)) return model;
  const unread = new Set(model.unread);
  unread.delete(session);
  return { ...model, unread };
}
