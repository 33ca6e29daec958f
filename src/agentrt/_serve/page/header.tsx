// The line above the conversation: which session it is, what it is doing, and its settings.

import { signal } from "@preact/signals";
import { revokeAccess, setMode, setModelOf, setOption } from "./actions.js";
import { ChangesButton } from "./changes.js";
import { duration } from "./format.js";
import { icon, iconButton, valued } from "./html.js";
import { isStopping, sendingHere } from "./pending.js";
import { oneLine } from "./safe.js";
import { setUi, ui } from "./store.js";

export const PHASES: Record<w.SessionInfo["phase"], string> = {
  starting: "Starting",
  idle: "Idle",
  running: "Working",
  waiting: "Needs your answer",
  cancelling: "Stopping",
  closed: "Closed",
  dead: "Agent stopped",
  stored: "Saved",
};

/** Instead of them while nobody can know. */
export const OFFLINE = "Offline";

/** What a session is called */
export const nameOf = (summary: w.SessionInfo): string =>
  oneLine(summary.title, 120) ||
  (summary.phase === "stored" && oneLine(summary.prompt, 120)) ||
  oneLine(summary.agent, 60);

export function Header({
  summary,
  seat,
  offline,
  reading,
}: {
  summary: w.SessionInfo | undefined;
  seat: Seat | undefined;
  offline: boolean;
  reading: boolean;
}) {
  const state = seat?.view.state;
  // Of the session that is shown: the list may be here before it.
  const reported = state?.phase;
  const phase = isStopping() ? "cancelling" : reported;
  const sending = reported === "idle" && sendingHere().length > 0;
  const turn = offline ? null : state?.turn;
  const asked = [...(seat?.view.permissions.keys() ?? [])].map((request) => seat?.extra.times.get(request)?.opened);
  const since = phase === "waiting" ? asked[0] : turn?.since;
  const time = turn && since ? ` · ${duration(ui().now - since)}` : "";
  const limit = phase === "cancelling" && turn?.cancel_deadline;
  const rest = limit ? ` (max ${duration(limit - ui().now)})` : "";
  return (
    <header class="bar">
      <button
        class="quiet round menu"
        aria-label="Sessions"
        aria-expanded={ui().panel === "sessions"}
        onClick={() => setUi({ panel: ui().panel === "sessions" ? null : "sessions" })}>
        {icon("menu")}
      </button>
      <div class="what">
        <h1 dir="auto">
          {summary ? nameOf(summary) : oneLine(seat?.view.title || state?.agent.name, 120) || "agentrt"}
        </h1>
        {state && (
          <p class="agent">
            <span>{oneLine(`${state.agent.name} ${state.agent.version ?? ""}`)}</span>
            {summary && (
              <span class="cwd" title={oneLine(summary.cwd, 1000)}>
                {oneLine(summary.cwd, 60)}
              </span>
            )}
          </p>
        )}
      </div>
      {summary && Shield(summary.sandbox, summary.granted ?? [], !reading, offline)}
      {summary?.budget && (
        <span class="usage" title="Budget">
          {oneLine(summary.budget, 120)}
        </span>
      )}
      {phase && (
        <span class={`phase ${offline ? "offline" : phase}`}>
          <span class="dot" aria-hidden="true"></span>
          <span>
            {offline
              ? OFFLINE
              : phase !== reported
                ? "Stopping…"
                : sending
                  ? "Sending…"
                  : turn?.waits_until
                    ? LIMITED(turn.waits_until)
                    : PHASES[phase]}
            <span class="time" aria-hidden="true">
              {time}
              {rest}
            </span>
          </span>
        </span>
      )}
      {seat && iconButton("search", "Search and outline", () => setUi({ panel: "outline" }))}
      {seat && <ChangesButton off={offline} />}
      {iconButton("gear", "Settings", () => setUi({ panel: "settings" }))}
    </header>
  );
}

/** A shield for a session in a sandbox, which lists its permissions, and a crossed-out one for a session without. */
function Shield(sandbox: string | undefined, granted: readonly string[], owner: boolean, off: boolean): Shown {
  const text = sandbox ? `Sandbox: ${oneLine(sandbox, 120)}` : "No sandbox: commands run with the server's privileges";
  if (!sandbox)
    return (
      <span class="shield off" role="img" aria-label={text} title={text}>
        {icon("unshielded")}
      </span>
    );
  return (
    <details class="shield">
      <summary aria-label={text} title={text}>
        {icon("shield")}
      </summary>
      <div class="granted">
        {granted.length ? <p>Allowed for this session</p> : <p>Nothing outside the sandbox is allowed.</p>}
        <ul>
          {granted.map((each) => (
            <li key={each}>
              <span dir="auto">{oneLine(each, 300)}</span>
              {owner && Revoke(each.slice(each.indexOf(" ") + 1), off)}
            </li>
          ))}
        </ul>
      </div>
    </details>
  );
}

/** A button that takes the permissions for a target back. The focus goes to the shield, which stays. */
const Revoke = (target: string, off: boolean): Shown => (
  <button
    type="button"
    class="quiet"
    aria-label={`Revoke ${oneLine(target, 300)}`}
    disabled={off}
    onClick={(event: any) => {
      event.currentTarget.closest("details").querySelector("summary").focus();
      revokeAccess(target);
    }}>
    Revoke
  </button>
);

/** A turn that waits for the end of a rate limit */
const LIMITED = (until: number): string =>
  `Rate limit until ${new Date(until * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}`;

export function Settings({ seat, offline, reading }: { seat: Seat | undefined; offline: boolean; reading: boolean }) {
  const modes = seat?.view.modes;
  const off = offline || reading;
  return (
    <div class="settings">
      {modes && Choice("mode", "Mode", modes.modes, modes.mode, off, setMode)}
      {modes && Choice("model", "Model", modes.models, modes.model, off, setModelOf)}
      {(modes?.options ?? []).map((option) =>
        option.choices?.length
          ? Choice(
              option.id,
              option.name,
              option.choices,
              String(option.value),
              off,
              (value) => setOption(option.id, value),
              option.description,
            )
          : typeof option.value === "boolean" && (
              <label class="switch" key={option.id}>
                <input
                  type="checkbox"
                  checked={option.value}
                  disabled={off}
                  onChange={() => setOption(option.id, !option.value)}
                />
                <span>{oneLine(option.name)}</span>
              </label>
            ),
      )}
      {(modes?.unconfirmed ?? []).length > 0 && (
        <p class="hint">Not confirmed by the agent: {oneLine((modes?.unconfirmed ?? []).join(", "))}</p>
      )}
      {!modes && <p class="hint">This agent has no settings.</p>}
      <hr />
      {Notified()}
      <button onClick={() => setUi({ panel: "palette" })}>Commands</button>
      <button onClick={() => setUi({ panel: "shortcuts" })}>Keyboard shortcuts</button>
      <button onClick={() => setUi({ panel: "frames" })}>{icon("wire")}Protocol log</button>
    </div>
  );
}

/** How often the browser has been asked for permission. */
const permissions = signal(0);

/** Whether the browser tells when somebody looks elsewhere. */
function Notified() {
  void permissions.value;
  const allowed = "Notification" in window && window.isSecureContext ? Notification.permission : "none";
  if (allowed === "default") {
    return (
      <button onClick={() => Notification.requestPermission().then(() => permissions.value++)}>
        Notify me when an agent waits or is done
      </button>
    );
  }
  const said: Record<string, string> = {
    granted: "Notifications are on: when an agent needs an answer or is done.",
    denied: "Your browser blocks notifications from this page.",
    none: "Notifications need HTTPS, or a browser on the server's own machine.",
  };
  return <p class="hint">{said[allowed]}</p>;
}

function Choice(
  id: string,
  name: string,
  choices: readonly w.Choice[] | undefined,
  value: string | null | undefined,
  off: boolean,
  choose: (value: string) => void,
  about?: string | null,
) {
  if (!choices?.length) return null;
  const description = about ?? choices.find((choice) => choice.id === value)?.description;
  return (
    <div class="field" key={id}>
      <label for={`set-${id}`}>{oneLine(name)}</label>
      <select
        id={`set-${id}`}
        value={value ?? ""}
        disabled={off}
        aria-describedby={description ? `set-${id}-about` : undefined}
        onChange={valued(choose)}>
        {value == null && <option value="">–</option>}
        {choices.map((choice) => (
          <option key={choice.id} value={choice.id}>
            {oneLine(choice.name)}
          </option>
        ))}
      </select>
      {description && <small id={`set-${id}-about`}>{oneLine(description, 300)}</small>}
    </div>
  );
}
