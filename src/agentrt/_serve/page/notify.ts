// How somebody is told who looks elsewhere: by the tab's title and picture, the badge of an installed
// page, and notifications, for which the browser asks when somebody wants them (see the settings).

import { choose } from "./actions.js";
import { nameOf } from "./header.js";
import { oneLine } from "./safe.js";
import { framed, model, setUi, ui } from "./store.js";

/** Phases in which an agent is at work on its own. */
const WORKING = new Set(["running", "cancelling"]);

/** The list of sessions that was compared last. */
let before: readonly w.SessionInfo[] = [];

/** The phase of each session in it. */
let phases: Map<string, w.SessionInfo["phase"]> = new Map();

/** What was finished while nobody looked at this tab. */
const missed: Set<string> = new Set();

/** Whoever comes back has seen it. */
export function back() {
  if (document.hidden || !missed.size) return;
  missed.clear();
  setUi({});
}

/** To be called whenever anything has changed. */
export function attract() {
  const { sessions, unread } = model();
  if (sessions !== before) {
    let open = false;
    const compared: typeof phases = new Map();
    for (const summary of sessions) {
      const was = phases.get(summary.session);
      // The list can be ahead of the events, and only these say how the turn ended.
      const early = was && isDone(was, summary.phase) && hasTurn(summary.session);
      open ||= Boolean(early);
      compared.set(summary.session, early ? was : summary.phase);
      if (!early) compare(was, summary);
    }
    phases = compared;
    if (!open) before = sessions;
  }
  const online = ui().link.status === "open";
  const count = sessions.filter(
    ({ session, phase }) => (online && phase === "waiting") || unread.has(session) || missed.has(session),
  ).length;
  const summary = sessions.find(({ session }) => session === ui().session);
  const title = summary ? `${nameOf(summary)} – agentrt` : "agentrt";
  setTitle(count ? `(${count}) ${title}` : title);
  badge(count);
}

let titled = "";

function setTitle(title: string) {
  if (title === titled) return;
  titled = title;
  document.title = title;
}

const isDone = (was: w.SessionInfo["phase"], phase: w.SessionInfo["phase"]): boolean =>
  WORKING.has(was) && (phase === "idle" || phase === "dead");

const hasTurn = (session: string): boolean => Boolean(model().attached.get(session)?.view?.state?.turn);

function compare(was: w.SessionInfo["phase"] | undefined, summary: w.SessionInfo) {
  const { session, phase } = summary;
  if (!was || was === phase) return;
  const asks = phase === "waiting";
  const done = isDone(was, phase);
  if (!asks && !done) return;
  if (!document.hidden && session === ui().session) return; // it is in sight
  if (document.hidden) missed.add(session);
  const view = model().attached.get(session)?.view;
  const last = [...(view?.turns.values() ?? [])].at(-1);
  // Somebody has stopped it, and knows. A short stop is in no list of the sessions.
  if (was === "cancelling" || (done && last?.outcome === "cancelled")) return;
  const ask = view?.permissions.values().next().value;
  if (asks) show(summary, "needs your answer", ask?.title);
  else show(summary, phase === "dead" ? "stopped" : "is done");
}

function show(summary: w.SessionInfo, what: string, more?: string) {
  if (framed || !("Notification" in window) || Notification.permission !== "granted") return;
  try {
    const shown = new Notification(`${nameOf(summary)} ${what}`, { body: oneLine(more), tag: summary.session });
    shown.onclick = () => (window.focus(), choose(summary.session), shown.close());
  } catch (error) {
    console.info(error); // phones have them for service workers only
  }
}

let badged = 0;

function badge(count: number) {
  if (count === badged) return;
  badged = count;
  const icon = document.querySelector("link[rel=icon]");
  icon?.setAttribute("href", count ? "page/icon-new.svg" : "page/icon.svg");
  const set = count ? navigator.setAppBadge?.(count) : navigator.clearAppBadge?.();
  set?.catch(() => {}); // only an installed page has one
}
