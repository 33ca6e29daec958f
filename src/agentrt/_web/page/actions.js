// What a person can do here: each is a command to the server, whose refusal is told.

import { Connection } from "./connection.js";
import { note, seen, take } from "./model.js";
import { here, model, seat, setModel, setUi, ui } from "./store.js";
import { answerCalls, TOOLS } from "./tools.js";
import { recordFrame } from "./frames.js";

export const connection = new Connection({
  hello(looking) {
    const session = ui().session;
    const known = seat();
    const place = known && !known.behind ? { epoch: known.epoch, seq: known.seq } : {};
    return { tools: looking ? [] : TOOLS, sessions: session ? [{ session, ...place }] : [] };
  },
  onFrames(frames) {
    setModel(take(model(), frames, Date.now() / 1000));
    settle();
    answerCalls(frames, model(), send);
  },
  onLink: (link) => setUi({ link }),
  onRaw: recordFrame,
});

/** After news of the server: which session is shown, and whether we know all of it. */
function settle() {
  const { session } = ui();
  const listed = model().sessions.filter((summary) => summary.session !== ui().left);
  if (session) {
    if (seat()?.behind) attach(session);
    setModel(seen(model(), session));
    if (seat() || listed.some((summary) => summary.session === session)) return;
  }
  const asked = decodeURIComponent(location.hash.match(/^#\/s\/(.+)$/)?.[1] ?? "");
  const next = listed.find((summary) => summary.session === asked) ?? listed.at(-1);
  if (next) choose(next.session);
}

/** @param {string} session */
function attach(session) {
  const known = model().seats.get(session);
  if (known?.gone) return;
  const place = known && !known.behind ? { epoch: known.epoch, seq: known.seq } : {};
  if (known) {
    const seats = new Map(model().seats).set(session, { ...known, behind: false });
    setModel({ ...model(), seats });
  }
  connection.send("attach", { session, ...place });
}

/**
 * Show a session.
 * @param {string} session
 */
export function choose(session) {
  const before = ui().session;
  if (before === session) return;
  if (before) connection.send("detach", { session: before });
  setUi({ session, panel: null, shown: 150, editing: null, completing: null, atEnd: true });
  setModel(seen(model(), session));
  attach(session);
  if (location.hash !== `#/s/${session}`) history.replaceState(null, "", `#/s/${encodeURIComponent(session)}`);
}

/** @param {string} text @param {"info" | "warning" | "error"} [level] */
export function say(text, level = "info") {
  setModel(note(model(), level, text));
}

/**
 * Send a command, and tell its refusal.
 * @param {string} type
 * @param {object} fields
 */
export async function send(type, fields) {
  const ack = await connection.send(type, fields);
  if (!ack.ok && ack.error && ack.error.code !== "not_sent" && ack.error.code !== "already_resolved") {
    say(ack.error.message, "error");
  }
  return ack;
}

/** @param {object} fields */
const ofSession = (fields) => ({ session: ui().session, ...fields });

/** @param {w.Block[]} content @param {"queue" | "interrupt" | "steer"} when */
export const prompt = (content, when) => send("prompt", ofSession({ content, when }));

export function stop() {
  const turn = seat()?.view.state.turn;
  return send("cancel", ofSession(turn ? { turn: turn.id } : {}));
}

export const stopAll = () => send("stop_all", {});

/** @param {string} task */
export const stopTask = (task) => send("task", ofSession({ op: "stop", task }));

/** @param {string} request @param {Decision} answer */
export async function answer(request, answer) {
  const answering = here(request);
  setUi({ answering });
  const ack = await send("permission", ofSession({ request, ...answer }));
  if (!ack.ok && ui().answering === answering) setUi({ answering: null });
}

/** @param {"remove" | "promote" | "resume"} op @param {string} [entry] */
export const queue = (op, entry) => send("queue", ofSession(entry ? { op, entry } : { op }));

/** @param {string} entry @param {w.Block[]} content */
export const editQueued = (entry, content) => send("queue", ofSession({ op: "edit", entry, content }));

/**
 * @param {{ agent: string, cwd?: string, title?: string }} wanted
 * @returns {Promise<boolean>} whether there is such a session now
 */
export async function newSession(wanted) {
  const ack = await send("session", { op: "new", ...wanted });
  if (ack.ok && ack.session) choose(ack.session);
  return ack.ok;
}

/** @param {string} session */
export async function closeSession(session) {
  const ack = await send("session", { op: "close", session });
  if (!ack.ok || ui().session !== session) return;
  setUi({ session: null, left: session }); // who closes it is done with it
  history.replaceState(null, "", "#");
  settle();
}

/** @param {string} session @param {string} title */
export const rename = (session, title) => send("session", { op: "rename", session, title });

/** @param {string} mode */
export const setMode = (mode) => send("session", ofSession({ op: "set_mode", mode }));

/** @param {string} model */
export const setModelOf = (model) => send("session", ofSession({ op: "set_model", model }));

/** @param {string} option @param {string | boolean} value */
export const setOption = (option, value) => send("session", ofSession({ op: "set_option", option, value }));
