// What stands at the end of a turn: how it ended, and what can be done from there.

import { fork, restore } from "./actions.js";
import { showChanges } from "./changes.js";
import { count, duration, moment, money } from "./format.js";
import { iconButton, memo } from "./html.js";
import { oneLine } from "./safe.js";
import { ui } from "./store.js";

const RESTORE = "Restore the files from before this turn";
export const BRING_BACK = "Undo the restore: bring back the files from before it";

export const Forks = memo(
  /**
   * @param props the turn, or an item of it, after which the buttons are shown, and the checkpoint
   * that its button restores
   */
  ({ at, checkpoint, isUndone, changed }: { at: string; checkpoint?: number; isUndone?: boolean; changed: string }) => (
    <p class="forks">
      {changed && iconButton("changes", "Changes of this turn", () => showChanges(changed))}
      {at && iconButton("fork", "Fork from here", () => fork(ui().session ?? "", at))}
      {checkpoint &&
        iconButton(isUndone ? "redo" : "undo", isUndone ? BRING_BACK : RESTORE, () =>
          restore(ui().session ?? "", checkpoint),
        )}
    </p>
  ),
);

export const OUTCOMES: Record<string, string> = {
  completed: "Done",
  cancelled: "Stopped",
  refused: "The agent refused",
  limit: "Limit reached",
  failed: "The agent failed",
  timed_out: "Timed out",
  agent_died: "The agent crashed",
};

const STOPPED = {
  user: "You stopped this",
  caller: "Stopped by the app",
  agent: "Stopped by the agent",
  budget: "Budget used up",
};

export const Ending = memo(({ turn }: { turn: w.TurnRecord }) => {
  const outcome = turn.outcome ?? "completed";
  const { usage } = turn;
  const facts = [
    usage?.total_tokens != null && `${count(usage.total_tokens)} tokens`,
    usage?.cost != null && money(usage.cost, usage.currency),
    usage?.api_s != null && usage.api_s >= 1 && `API ${duration(usage.api_s)}`,
    usage?.first_token_s != null && usage.first_token_s >= 1 && `first token ${duration(usage.first_token_s)}`,
  ].filter(Boolean);
  if (outcome === "completed") {
    return facts.length ? <p class="ending">{facts.join(" · ")}</p> : null;
  }
  const how = (outcome === "cancelled" && turn.by && STOPPED[turn.by]) || (OUTCOMES[outcome] ?? outcome);
  const why = turn.error?.message ?? (outcome === "limit" ? turn.stop_reason : null);
  return (
    <p class={`ending ${outcome}`} role="note">
      <strong>{how}</strong>
      {why ? (
        <>
          : <span>{oneLine(why, 600)}</span>
        </>
      ) : (
        "."
      )}
      {turn.error?.retry_at != null && <span class="retry"> · possible again {moment(turn.error.retry_at)}</span>}
    </p>
  );
});
