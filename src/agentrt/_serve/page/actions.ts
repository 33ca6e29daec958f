// What a person can do here: each is a command to the server, whose refusal is told.

import { AgentClient } from "./client.js";
import { fetched, filled } from "./cuts.js";
import { address, credentials } from "./entrance.js";
import { listed, note, observer, seen, undoable } from "./model.js";
import { here, model, seat, setModel, setUi, show, tabKey, ui } from "./store.js";
import { TOOL } from "./tools.js";
import { recordFrame } from "./frames.js";

/** The sessions that were shown here before the page was loaded again. */
const visited = JSON.parse(sessionStorage.getItem(tabKey("visited")) ?? "[]");

export const client = new AgentClient({
  url: address,
  credentials,
  name: "page",
  client: sessionStorage.getItem(tabKey("client")) ?? undefined,
  onClient: (name) => sessionStorage.setItem(tabKey("client"), name),
  tools: [TOOL],
  sessions: () => [ui().session ?? hashed(), ...visited].slice(0, 16),
  observer: observer({
    now: () => Date.now() / 1000,
    tell: (level, text) => setModel((model) => note(model, level, text)),
    listed: (before, after) => setModel((model) => ({ ...model, ...listed(model, before, after) })),
  }),
  onRaw: recordFrame,
  gatherMs: 30,
});

export const { connection } = client;

client.subscribe(() => {
  const { link, ...known } = client.getSnapshot();
  setModel((model) => ({ ...model, ...known }));
  if (link !== ui().link) setUi({ link });
  else reconcile();
});

/** Items of a session above which the oldest are forgotten, and how many are kept: they are loaded again
 *  when somebody scrolls up to them. */
const MOST_ITEMS = 3_000;
const KEPT_ITEMS = 1_500;

/** Bound the memory of long conversations, unless somebody reads further up. */
function shorten() {
  for (const [session, { view, extra }] of model().attached) {
    if (view.items.size <= MOST_ITEMS || (session === ui().session && !ui().atEnd)) continue;
    client.shorten(session, KEPT_ITEMS);
    const { items, permissions } = client.getSnapshot().attached.get(session)?.view ?? view;
    const times = new Map([...extra.times].filter(([id]) => items.has(id) || permissions.has(id)));
    client.setExtra(session, { ...extra, times });
  }
}

addEventListener("pagehide", () => {
  sessionStorage.setItem(tabKey("visited"), JSON.stringify([...model().attached.keys()]));
});

/** The session of the page's address. */
export const hashed = () => decodeURIComponent(location.hash.match(/^#\/s\/(.+)$/)?.[1] ?? "");

/** After news of the server: which session is shown, and whether its questions are. */
function reconcile() {
  const { session, left } = ui();
  client.forget([...model().attached].filter(([id, known]) => known.gone && id !== session).map(([id]) => id));
  setModel((model) => seen(model, session ?? ""));
  setTimeout(shorten); // not while the client tells of a change
  const others = model().sessions.filter((summary) => summary.session !== left);
  void askUndo();
  if (session && (seat() || others.some((summary) => summary.session === session))) return;
  // A link may name a session that is not in the list: the server is asked for it.
  const linked = missing.has(hashed()) ? "" : hashed();
  const next = linked || others.findLast(({ phase }) => phase !== "stored")?.session;
  if (next) choose(next);
  else if (session) setUi({ session: null });
}

/** Sessions that the server does not know. */
const missing: Set<string> = new Set();

async function attach(session: string) {
  const ack = await client.attach(session);
  if (ack?.error?.code !== "unknown_session") return;
  missing.add(session);
  if (session === hashed()) say("The session in this link doesn't exist.", "error");
  reconcile();
}

/** Sessions whose checkpoints are known or asked for, with their epochs. */
const asked: Set<string> = new Set();

/** Ask once which turns of the session that is shown can be undone. */
async function askUndo() {
  const session = ui().session ?? "";
  const epoch = model().attached.get(session)?.epoch;
  const key = `${session} ${epoch}`;
  if (!epoch || asked.has(key) || model().server?.role === "viewer") return;
  if (!model().sessions.find((each) => each.session === session)?.checkpoints) return;
  asked.add(key);
  const { checkpoints } = await ask("checkpoints", { op: "list", session });
  const known = model().attached.get(session);
  if (checkpoints && known) client.setExtra(session, undoable(known.extra, session, checkpoints));
}

/** Restore the files of a checkpoint; those that are there now are saved first. */
export async function restore(session: string, checkpoint: number) {
  await send("checkpoints", { op: "restore", session, checkpoint });
}

/** Show a session. Those that were shown before are followed on: they may need this page, too. */
export function choose(session: string) {
  if (ui().session === session) return;
  const left = ui().left === session ? null : ui().left;
  setUi({ session, left, panel: null, completing: null, atEnd: true });
  setModel((model) => seen(model, session));
  show(); // the next key belongs to this session
  if (!seat()) attach(session);
  void askUndo();
  if (hashed() === session) return;
  const address = `#/s/${encodeURIComponent(session)}`;
  if (hashed())
    history.pushState(null, "", address); // "back" leads to the one before
  else history.replaceState(null, "", address);
}

/** Show a session that was just made, to write in it. */
export function write(session: string) {
  setUi({ writing: session });
  choose(session);
}

export function say(text: string, level: "info" | "warning" | "error" = "info") {
  setModel((model) => note(model, level, text));
}

/** Send a command. */
export const ask = (type: string, fields?: object): Promise<Answer> =>
  connection.send({ type, ...fields } as any) as Promise<any>;

/** Send a command, and tell its refusal. */
export async function send(type: string, fields: object) {
  const ack = await ask(type, fields);
  if (!ack.ok && ack.error && ack.error.code !== "not_sent" && ack.error.code !== "already_resolved") {
    say(ack.error.message, "error");
  }
  return ack;
}

const ofSession = (fields: object) => ({ session: ui().session, ...fields });

let sent = 0;

/** Its bubble is there at once. */
export async function prompt(content: w.Block[], text: string, when: When) {
  const before = new Set(seat()?.view.items.keys());
  const mine: Sending = { ...unheard(), key: ++sent, text, content, before };
  setUi({ sending: [...ui().sending, mine] });
  const ack = await send("prompt", ofSession({ content, when }));
  const left = ack.ok ? [{ ...mine, seq: ack.seq ?? 0 }] : [];
  setUi({ sending: ui().sending.flatMap((each) => (each === mine ? left : each)) });
  return ack;
}

/** @returns where the session that is shown stands */
const unheard = (): Place => ({ session: ui().session ?? "", epoch: seat()?.epoch ?? "", seq: null });

export async function stop() {
  const turn = seat()?.view.state.turn?.id ?? null;
  const mine = { ...unheard(), turn };
  setUi({ stopping: mine });
  const ack = await send("cancel", ofSession(turn ? { turn } : {}));
  if (ui().stopping === mine)
    setUi({ stopping: ack.ok ? { ...mine, turn: ack.turn ?? turn, seq: ack.seq ?? 0 } : null });
}

/** Ask for what was shown before the oldest turn that is here. */
export async function lookBack() {
  const { session, looking } = ui();
  const before = seat()?.view.earlier;
  if (!session || !before || seat()?.gone || looking.has(session)) return;
  setUi({ looking: new Set(looking).add(session) });
  await send("history", { session, before });
  setUi({ looking: new Set([...ui().looking].filter((each) => each !== session)) });
}

/** Fetch what was left out of a part of the session that is shown. */
export async function fetchAll<T>(part: T): Promise<T> {
  const { session } = ui();
  const got = await fetched(part, (fields) => send("content", { session, ...fields }));
  return filled(part, got);
}

/** Show an item of which there is only a preview completely. */
export async function showAll(item: w.Item) {
  const { session } = ui();
  if (!session) return;
  const got = await fetched(item, (fields) => send("content", { session, ...fields }));
  const now = model().attached.get(session)?.view.items.get(item.id); // it may have changed in the meantime
  if (now) client.setItem(session, filled(now, got));
}

/** Tell an agent what was said, which does not remember it. */
export async function retell() {
  const { session } = ui();
  const ack = await send("retell", { session });
  const known = seat();
  if (ack.ok && session && known) client.setExtra(session, { ...known.extra, forgot: false });
}

export const stopAll = () => send("stop_all", {});

export const stopTask = (task: string) => send("task", ofSession({ op: "stop", task }));

export async function answer(request: string, answer: Decision) {
  const answering = here(request);
  setUi({ answering });
  const ack = await send("permission", ofSession({ request, ...answer }));
  if (!ack.ok && ui().answering === answering) setUi({ answering: null });
}

export const queue = (op: "remove" | "promote" | "resume", entry?: string) =>
  send("queue", ofSession(entry ? { op, entry } : { op }));

export const editQueued = (entry: string, content: w.Block[]) =>
  send("queue", ofSession({ op: "edit", entry, content }));

/**
 * A session with a new conversation, or with one that the agent has kept.
 * @returns why there is no such session, or nothing
 */
export async function newSession(wanted: {
  agent: string;
  cwd?: string;
  title?: string;
  agent_session?: string;
}): Promise<string> {
  const ack = await ask("session", { op: wanted.agent_session ? "load" : "new", ...wanted });
  if (ack.ok && ack.session) {
    setUi({ creating: false }); // a dialog would keep the focus
    write(ack.session);
  }
  return ack.ok ? "" : (ack.error?.message ?? "The server did not answer.");
}

/**
 * Go on with a copy of a session, of which the first one stays as it is.
 * @param at the turn, or an item of it, with which the copy ends
 */
export async function fork(session: string, at?: string) {
  const ack = await send("session", { op: "fork", session, ...(at && { at }) });
  if (ack.ok && ack.session) write(ack.session);
}

export const closeSession = (session: string): Promise<void> => leave("close", session);

export const deleteSession = (session: string): Promise<void> => leave("delete", session);

/** @param words which stored conversations have them */
export async function search(words: string) {
  setUi({ searched: words ? { words, found: ui().searched?.found ?? [] } : null });
  if (!words) return;
  const ack = await ask("session", { op: "list", query: words, limit: 50 });
  if (ui().searched?.words === words) setUi({ searched: { words, found: ack.found ?? [] } });
}

/** The newest stored conversations that the list of the server has. */
export const LISTED = 200;

/** Ask for the stored conversations behind those that are shown. */
export async function goBack() {
  const { older } = ui();
  const stored = model().sessions.filter(({ phase }) => phase === "stored");
  const before = older?.sessions[0] ?? stored.at(-LISTED); // ahead of these are only some that are read
  const ack = await send("session", { op: "list", before: before?.session });
  const found = (ack.sessions ?? []) as w.SessionInfo[];
  if (ui().older === older)
    setUi({ older: ack.ok ? { sessions: [...found, ...(older?.sessions ?? [])], more: !!ack.more } : null });
}

async function leave(op: "close" | "delete", session: string) {
  const ack = await send("session", { op, session });
  const { older } = ui();
  if (ack.ok && older)
    setUi({ older: { ...older, sessions: older.sessions.filter((each) => each.session !== session) } });
  if (!ack.ok || ui().session !== session) return;
  setUi({ session: null, left: session }); // who closes it is done with it
  history.replaceState(null, "", "#");
  reconcile();
}

export const rename = (session: string, title: string) => send("session", { op: "rename", session, title });

export const setMode = (mode: string) => send("session", ofSession({ op: "set_mode", mode }));

export const setModelOf = (model: string) => send("session", ofSession({ op: "set_model", model }));

export const setOption = (option: string, value: string | boolean) =>
  send("session", ofSession({ op: "set_option", option, value }));

/** Revoke a permission of the session's sandbox: a host, a path or a program. */
export const revokeAccess = (target: string) => send("session", ofSession({ op: "revoke", target }));
