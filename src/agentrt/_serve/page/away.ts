// What happened in a session while nobody looked: from its log, since the last item that was in sight.

import { money } from "./format.js";
import { model, setUi, ui } from "./store.js";

/** In `localStorage`: the last item of each session that was in sight, the time, and the cost. */
const KEY = "seen";

/** Sessions that are remembered. */
const MOST = 200;

/** Seconds of an absence that is worth a summary. */
const AWAY_S = 20;

interface Mark {
  item: string;
  at: number;
  cost: number;
}

/** The session that somebody looks at; empty while nobody does. */
let shown = "";

function marks(): [string, Mark][] {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}

/** Remember how far the session that was shown has been seen. */
export function leave() {
  const view = model().attached.get(shown)?.view;
  if (!view) return;
  const mark: Mark = { item: [...view.items.keys()].at(-1) ?? "", at: Date.now() / 1000, cost: view.usage?.cost ?? 0 };
  const others = marks().filter(([session]) => session !== shown);
  const kept = [...others, [shown, mark]].slice(-MOST);
  shown = "";
  try {
    localStorage.setItem(KEY, JSON.stringify(kept));
  } catch {
    // without storage there are no summaries
  }
}

/** To be called after every change: compare a session that comes into sight with what was seen of it. */
export function arrive() {
  const session = ui().session ?? "";
  const view = model().attached.get(session)?.view;
  if (session === shown || !view || document.hidden) return;
  leave();
  shown = session;
  const mark = marks().find(([id]) => id === session)?.[1];
  if (!mark || Date.now() / 1000 - mark.at < AWAY_S) return;
  const text = summary(view, mark);
  if (text) setUi({ away: new Map(ui().away).set(session, text) });
}

const counted = (count: number, one: string, many: string) => count > 0 && `${count} ${count === 1 ? one : many}`;

/** What has come since a mark; empty if it is nothing. */
export function summary(view: View, mark: Mark): string {
  const ids = [...view.items.keys()];
  const since = new Set(ids.slice(ids.indexOf(mark.item) + 1));
  let [edits, commands, answers] = [0, 0, 0];
  for (const id of since) {
    const item = view.items.get(id);
    if (item?.tool) {
      if (["edit", "delete", "move"].includes(item.tool.kind ?? "") && item.status === "completed") edits += 1;
      else if (item.tool.kind === "execute") commands += 1;
    } else if (item?.type === "text") answers += 1;
  }
  const cost = (view.usage?.cost ?? 0) - mark.cost;
  return [
    counted(edits, "edit", "edits"),
    counted(commands, "command", "commands"),
    counted(answers, "answer", "answers"),
    counted(view.permissions.size, "open question", "open questions"),
    cost > 0 && money(cost, view.usage?.currency),
  ]
    .filter(Boolean)
    .join(", ");
}
