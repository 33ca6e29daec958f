// What stands between the conversation and where one writes: the plan, background work, and the
// prompts that wait.

import { fetchAll, queue, say, stopTask } from "./actions.js";
import { editedHere, setDraft, setEditing } from "./composer.js";
import { wordsOf } from "./content.js";
import { cutsOf } from "./cuts.js";
import { factsOf } from "./format.js";
import { icon, iconButton } from "./html.js";
import { sendingHere } from "./pending.js";
import { isOver } from "./client.js";
import { oneLine, running } from "./safe.js";
import { field, fold, isOpen, ui } from "./store.js";

export function Aside({ seat, offline, reading }: { seat: Seat; offline: boolean; reading: boolean }) {
  const off = offline || reading || seat.gone;
  const { plan, tasks, queue: waiting, paused } = seat.view;
  const sending = seat.view.state.turn ? sendingHere() : [];
  return (
    <div class="aside">
      {(seat.view.state.turn ? plan.length > 0 : plan.some(({ status }) => status !== "completed")) && (
        <Plan plan={plan} />
      )}
      {tasks.size > 0 && <Tasks tasks={[...tasks.values()]} offline={offline} off={off} />}
      {(waiting.length + sending.length > 0 || (paused && !seat.gone)) && (
        <Queue waiting={waiting} sending={sending} paused={paused} gone={seat.gone} off={off} />
      )}
    </div>
  );
}

const MARKS = { pending: "○", in_progress: "◐", completed: "●" };
const SPOKEN: Record<string, string> = { pending: "to do", in_progress: "under way", completed: "done" };

function Plan({ plan }: { plan: readonly w.PlanEntry[] }) {
  const done = plan.filter(({ status }) => status === "completed").length;
  const current = plan.find(({ status }) => status === "in_progress");
  const open = isOpen("plan") ?? false;
  return (
    <details class="plan tray" {...fold("plan", open)}>
      <summary>
        <strong>Plan</strong>{" "}
        <span>
          {done} of {plan.length}
        </span>
        {!open && current && <span class="peek">{oneLine(current.content, 100)}</span>}
      </summary>
      <ol>
        {plan.map((entry, index) => {
          const status = (entry.status ?? "pending") as keyof typeof MARKS;
          return (
            <li key={index} class={status}>
              <span class="mark" role="img" aria-label={SPOKEN[status] ?? status}>
                {MARKS[status] ?? "○"}
              </span>
              <span dir="auto">{running(entry.content)}</span>
              {entry.priority === "high" && <small>high priority</small>}
            </li>
          );
        })}
      </ol>
    </details>
  );
}

function Tasks({ tasks, offline, off }: { tasks: readonly w.Task[]; offline: boolean; off: boolean }) {
  const live = tasks.filter((task) => !isOver(task));
  if (!live.length && !(isOpen("tasks") ?? false)) return null;
  const open = isOpen("tasks") ?? true;
  return (
    <details class="tasks tray" {...fold("tasks", open)}>
      <summary>
        <strong>Background work</strong>{" "}
        <span>
          {live.length} running{offline && " when last seen"}
        </span>
      </summary>
      <ul>
        {[...tasks]
          .reverse()
          .slice(0, 30)
          .map((task) => {
            const ended = isOver(task);
            return (
              <li key={task.id} class={ended ? "ended" : ""}>
                <span class="name" dir="auto">
                  {oneLine(task.title || task.kind || task.id)}
                </span>
                <small>
                  {[oneLine(task.status ?? "running"), ...factsOf(task)].map((each) => oneLine(each, 120)).join(" · ")}
                </small>
                {!ended && !off && <button onClick={() => stopTask(task.id)}>{icon("stop")}Stop</button>}
              </li>
            );
          })}
      </ul>
    </details>
  );
}

function Queue({
  waiting,
  sending,
  paused,
  gone,
  off,
}: {
  waiting: readonly w.QueueEntry[];
  sending: readonly Sending[];
  paused: boolean;
  gone: boolean;
  off: boolean;
}) {
  const number = waiting.length + sending.length;
  const count = number === 1 ? "1 prompt" : `${number} prompts`;
  const ready = waiting.filter((entry) => !entry.paused);
  const held = waiting.filter((entry) => entry.paused);
  const edit = async (entry: w.QueueEntry) => {
    const { session } = ui();
    const isFree = () => !field()?.value.trim() || editedHere() !== undefined;
    if (!isFree()) return say("Send or clear your draft first.");
    const texts = await fetchAll(entry.content.filter(({ type }) => type === "text"));
    if (ui().session !== session) return;
    if (!isFree()) return say("Send or clear your draft first."); // it was written in the meantime
    if (cutsOf(texts).length) return say("This prompt could not be loaded completely.", "error");
    if (texts.length < entry.content.length) say("Its files will be removed when you save it.");
    setDraft(wordsOf(texts));
    setEditing(entry.id);
    field()?.focus();
  };
  return (
    <section class="queue tray" aria-label="Queued prompts">
      <header>
        <strong>{gone ? `Not sent: ${count}` : `${count} queued`}</strong>
        {paused && !gone && (
          <>
            <span>{ready.length > 0 ? `${held.length} paused` : "paused"}</span>
            <button disabled={off} onClick={() => queue("resume")}>
              Resume
            </button>
          </>
        )}
      </header>
      <ol>
        {waiting.map((entry) => (
          <li key={entry.id} class={editedHere() === entry.id ? "editing" : ""}>
            <span class="words" dir="auto">
              {oneLine(wordsOf(entry.content), 160) || "files"}
            </span>
            {entry.paused && !gone && (
              <>
                {" "}
                <span class="hint">Paused</span>
              </>
            )}
            {!gone && (
              <span class="tools">
                {entry !== ready[0] && entry !== held[0] && (
                  <button disabled={off} onClick={() => queue("promote", entry.id)}>
                    Send next
                  </button>
                )}
                <button disabled={off} onClick={() => edit(entry)}>
                  Edit
                </button>
                {iconButton("close", "Remove", () => queue("remove", entry.id), off)}
              </span>
            )}
          </li>
        ))}
        {sending.map(({ key, content }) => (
          <li key={`sent-${key}`} class="sent">
            <span class="words" dir="auto">
              {oneLine(wordsOf(content), 160) || "files"}
            </span>{" "}
            <span class="hint">Sending…</span>
          </li>
        ))}
      </ol>
    </section>
  );
}
