// The page's own values of each session, derived from its events, and the notes for the user. All else
// that the server has sent is kept by the client (client.js).

import { TOOL } from "./tools.js";

/** Notes that are kept to be read again. */
const NOTES = 20;

/** The beginning of a prompt that repeats the conversation to the agent. */
const RETOLD = "[agentrt] You do not remember this conversation";

/** Phases after which nothing has been finished unseen. */
const QUIET = new Set(["starting", "stored"]);

const NEW: Extra = { times: new Map(), answered: null, forgot: false, undo: new Map(), restored: null };

export const EMPTY: PageModel = { unread: new Set(), notes: [], noted: 0 };

/** Derive the page's values from events. */
export const observer = ({
  now,
  tell,
  listed,
}: {
  now: () => number;
  tell: (level: Note["level"], text: string) => void;
  listed: (before: readonly w.SessionInfo[], after: readonly w.SessionInfo[]) => void;
}): import("./client.js").Observer<Extra> => ({
  start(before, continued) {
    if (continued && before) return { ...before, answered: null };
    return before ? { ...NEW, undo: before.undo } : NEW;
  },
  events({ times, answered, forgot, undo, restored }, view, events) {
    for (const event of events) {
      if (event.kind === "permission.closed") answered = closing(view, events, event);
      else if (event.kind === "notice") {
        if (event.code === "files_changed") {
          const { turn, before } = event.data as { turn: string; before: number };
          undo = new Map(undo).set(turn, before);
          restored = null;
        } else if (!isAboutOwnTool(event)) tell(event.level, event.message);
        if (event.code === "files_restored") restored = event.data as NonNullable<Extra["restored"]>;
        if (event.code === "agent_restarted") forgot = event.level === "warning";
      } else if (event.kind === "turn.started" && event.prompt?.some(retells)) forgot = false;
    }
    return { times: timed(times, events, now()), answered, forgot, undo, restored };
  },
  listed,
});

/** True for a notice that concerns only the tool of this page: for the user, nothing is missing. */
const isAboutOwnTool = ({ code, data }: { code: string; data?: unknown }): boolean =>
  code === "tools_not_fetched" && (data as { tools: string[] }).tools.every((name) => name === TOOL.name);

const retells = (block: w.Block): boolean => block.type === "text" && block.text.startsWith(RETOLD);

/** The checkpoint that is restored for a turn: of the files before it or, if that was done last, before the restore. */
export function undoOf({ undo, restored }: Extra, turn: string): Undo | undefined {
  const before = undo.get(turn);
  if (before === undefined) return undefined;
  return restored?.checkpoint === before
    ? { checkpoint: restored.undo, isUndone: true }
    : { checkpoint: before, isUndone: false };
}

/** The values of a session whose checkpoints are known. */
export function undoable(extra: Extra, session: string, checkpoints: readonly w.Checkpoint[]): Extra {
  const changed = new Set(checkpoints.filter(({ when }) => when === "after").map(({ turn }) => turn));
  const before = checkpoints.filter(
    (each) => each.when === "before" && each.session === session && changed.has(each.turn),
  );
  const undo = new Map(before.map(({ turn, number }) => [turn, number]));
  return { ...extra, undo: new Map([...undo, ...extra.undo]) };
}

/** The model with the sessions that have finished something unseen, after a new list. */
export function listed(model: PageModel, before: readonly w.SessionInfo[], after: readonly w.SessionInfo[]): PageModel {
  const phases = new Map(before.map(({ session, phase }) => [session, phase]));
  const unread = new Set<string>();
  for (const { session, phase } of after) {
    const was = phases.get(session);
    const finished = was && was !== phase && !QUIET.has(was) && phase !== "running" && phase !== "stored";
    if (finished || model.unread.has(session)) unread.add(session);
  }
  return { ...model, unread };
}

function closing(
  view: import("./client.js").View,
  events: readonly w.Event[],
  closed: Extract<w.Event, { kind: "permission.closed" }>,
): Answered | null {
  const asked =
    view.permissions.get(closed.request) ??
    events.find((event) => event.kind === "permission.opened" && event.request === closed.request);
  if (!asked) return null;
  const ask = asked as w.PermissionOpened;
  const option = ask.options?.find(({ id }) => id === closed.option);
  const words = closed.outcome === "expired" ? "nobody answered in time" : (option?.name ?? closed.outcome);
  const from = [closed.who, closed.via].filter(Boolean).join(", ");
  return { request: closed.request, title: ask.title, words, by: closed.by ?? "agent", ...(from ? { from } : {}) };
}

/** When the items and questions of some events were heard of. */
function timed(times: ReadonlyMap<string, Times>, events: readonly w.Event[], now: number) {
  let copy: Map<string, Times> | undefined;
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

/** The model with another note. */
export function note<M extends PageModel>(model: M, level: Note["level"], text: string): M {
  const noted = model.noted + 1;
  return { ...model, noted, notes: [...model.notes.slice(1 - NOTES), { id: noted, level, text }] };
}

/** The model after the user has seen what was finished in a session. */
export function seen<M extends PageModel>(model: M, session: string): M {
  if (!model.unread.has(session)) return model;
  const unread = new Set(model.unread);
  unread.delete(session);
  return { ...model, unread };
}
