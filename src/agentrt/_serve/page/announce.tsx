// What a screen reader is told: finished things, and never single words of an answer.

import { signal } from "@preact/signals";
import { isOver } from "./client.js";
import { oneLine } from "./safe.js";
import { STATUS, titleOf } from "./toolcard.js";
import { seatDrawn, ui } from "./store.js";
import { OUTCOMES } from "./ending.js";

/** Characters of an answer that are read by themselves; the rest is there to be read. */
const LONGEST = 1_500;

/** Items that are announced together, the newest: of more of them, only their number is. */
const MOST = 5;

/** What is new between two views of the same session, in words. */
export function changes(before: Seat, after: Seat): string[] {
  if (before.view === after.view || before.epoch !== after.epoch) return [];
  const words: string[] = [];
  const ended: w.Item[] = [];
  if (before.view.items !== after.view.items) {
    const { earlier } = before.view;
    let old = earlier !== null && earlier !== after.view.earlier; // what came in before it is no news
    for (const item of after.view.items.values()) {
      old &&= item.id !== earlier;
      if (old) continue;
      const known = before.view.items.get(item.id);
      if (known === item || item.replay) continue;
      if (isOver(item) && !(known && isOver(known)) && isSaid(item)) ended.push(item);
    }
  }
  if (ended.length > MOST) words.push(`${ended.length - MOST} earlier updates.`);
  words.push(...ended.slice(-MOST).map(finished));
  for (const [request, ask] of after.view.permissions) {
    // Who writes keeps the focus, and would not hear of it.
    if (isWriting() && !before.view.permissions.has(request)) words.push(`Needs your answer: ${oneLine(ask.title, 200)}`);
  }
  if (before.view.turns !== after.view.turns) {
    for (const turn of after.view.turns.values()) {
      if (turn.outcome && !before.view.turns.get(turn.id)?.outcome)
        words.push(`${OUTCOMES[turn.outcome] ?? turn.outcome}.`);
    }
  }
  return words.filter(Boolean);
}

const isWriting = (): boolean => {
  const at = document.activeElement;
  return at instanceof HTMLTextAreaElement && at.value !== "";
};

const isSaid = ({ type, text }: w.Item): boolean => type === "tool" || (type === "text" && Boolean(text));

const finished = (item: w.Item): string =>
  item.type === "text"
    ? oneLine(item.text, LONGEST)
    : `${titleOf(item)}: ${STATUS[item.status ?? "completed"] ?? item.status}.`;

let last: { seat: Seat | undefined; session: string | null } = { seat: undefined, session: null };

/** What is said just now. */
const said = signal<string[]>([]);

let isSoon = false;

/** Announce the latest drawing, in a separate task. Call this after each change. */
export function announce() {
  if (isSoon || seatDrawn() === last.seat) return;
  isSoon = true;
  setTimeout(announceNow);
}

function announceNow() {
  isSoon = false;
  const [seat, { session }] = [seatDrawn(), ui()];
  if (seat === last.seat) return;
  const fresh = seat && last.seat && last.session === session ? changes(last.seat, seat) : [];
  if (seat && last.session !== session) fresh.push(`Session ${oneLine(seat.view.title || seat.view.state.agent.name, 120)}.`);
  if (fresh.length || last.session !== session) said.value = fresh;
  last = { seat, session };
}

export const Announcer = () => (
  <div class="unseen" role="status" aria-live="polite">
    {said.value.map((words) => (
      <p>{words}</p>
    ))}
  </div>
);
