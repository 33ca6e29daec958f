// The line below the message field: the folder and its branch, the mode, the model, how full the
// context is, the limits of the account, and the cost.

import { ask, setMode, setModelOf } from "./actions.js";
import { openFile } from "./files.js";
import { baseName, count, limitWords, money } from "./format.js";
import { icon, valued } from "./html.js";
import { oneLine } from "./safe.js";
import { model, seat, setUi, ui } from "./store.js";

/** Modes that ask for nothing, of agents that the server does not know. */
const UNASKED = /bypass|yolo|full-?access|dont-?ask|auto-?approve/i;

export function StatusBar({ seat, offline }: { seat: Seat | undefined; offline: boolean }) {
  const summary = model().sessions.find(({ session }) => session === ui().session);
  const modes = seat?.view.modes;
  const branch = ui().branches.get(ui().session ?? "");
  const silence = silenceOf(modes?.mode, summary);
  return (
    <div class="status-bar">
      {summary && (
        <button
          type="button"
          class="quiet where"
          disabled={offline}
          title={`Files of ${oneLine(summary.cwd, 500)}`}
          aria-label={`Files of ${oneLine(baseName(summary.cwd) || "/", 40)}${branch ? `, branch ${oneLine(branch, 40)}` : ""}`}
          onClick={() => openFile()}>
          {icon("folder")}
          <span>{oneLine(baseName(summary.cwd) || "/", 40)}</span>
          {branch && <span class="branch">{oneLine(branch, 40)}</span>}
        </button>
      )}
      {modes?.mode && Choice("Mode", modes.modes, modes.mode, silence, offline, setMode)}
      {modes?.model && Choice("Model", modes.models, modes.model, "", offline, setModelOf)}
      <span class="space"></span>
      {seat?.view.usage?.limits && <Limits windows={seat.view.usage.limits} />}
      {seat?.view.usage && <Meter usage={seat.view.usage} />}
    </div>
  );
}

/** What a mode that does not ask for everything is called; empty for others. */
function silenceOf(mode: string | null | undefined, summary: w.SessionInfo | undefined): string {
  if (!mode) return "";
  if (UNASKED.test(mode)) return " · never asks";
  const unasked = model().agents.find((agent) => agent.name === summary?.agent)?.unasked_modes ?? [];
  return unasked.includes("*") || unasked.includes(mode) ? " · does not always ask" : "";
}

/** @param more is added to the name of the chosen one, which then stands out */
function Choice(
  name: string,
  choices: readonly w.Choice[] | undefined,
  value: string,
  more: string,
  off: boolean,
  choose: (value: string) => void,
): Shown {
  const known = choices?.some(({ id }) => id === value) ? choices : [{ id: value, name: value }, ...(choices ?? [])];
  return (
    <select
      class={more ? "unasked" : undefined}
      aria-label={name}
      title={name}
      value={value}
      disabled={off}
      onChange={valued(choose)}>
      {known.map((choice) => (
        <option key={choice.id} value={choice.id}>
          {oneLine(choice.name || choice.id, 40)}
          {choice.id === value ? more : ""}
        </option>
      ))}
    </select>
  );
}

/** @param props the limits of the user's account */
function Limits({ windows }: { windows: readonly w.LimitWindow[] }) {
  return (
    <span class="usage limits">
      {windows.map((each) => (
        <span key={each.name} class={each.reached ? "reached" : undefined}>
          {oneLine(limitWords(each), 80)}
        </span>
      ))}
    </span>
  );
}

/** @param props how full the context is, and what it has cost */
function Meter({ usage }: { usage: w.Usage }) {
  const { used, size, cost } = usage;
  const words = [
    used != null && (size ? `${count(used)} of ${count(size)}` : `${count(used)} tokens`),
    cost != null && cost > 0 && money(cost, usage.currency),
  ].filter(Boolean);
  if (!words.length) return null;
  return (
    <span class="usage" title="Tokens in the agent's context">
      {used != null && size && (
        <meter max={size} high={size * 0.8} value={Math.min(used, size)} aria-label="Context used"></meter>
      )}
      <span>{words.join(" · ")}</span>
    </span>
  );
}

/** The session and the turn after which the branch was asked for. */
let asked = "";

/** To be called after every change: ask for the branch of the session that is shown, once after each turn. */
export async function refreshBranch() {
  const { session, link } = ui();
  const known = seat();
  if (!session || !known || link.status !== "open" || known.view.state.turn || known.gone) return;
  if (model().server?.role === "viewer") return;
  const key = `${session} ${known.view.turns.size}`;
  if (key === asked) return;
  asked = key;
  const ack = (await ask("folder", { session })) as Answer & { branch?: string | null };
  if (ack.ok) setUi({ branches: new Map(ui().branches).set(session, ack.branch ?? "") });
}
