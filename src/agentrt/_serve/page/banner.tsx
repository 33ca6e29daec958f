// What is wrong, where it cannot be missed: the connection, the agent; and small notes.

import { connection, retell } from "./actions.js";
import { duration } from "./format.js";
import { icon } from "./html.js";
import { UNSEEN } from "./client.js";
import { oneLine, plain } from "./safe.js";
import { here, model, setUi, ui } from "./store.js";

export function Banner({ seat }: { seat: Seat | undefined }) {
  const { link } = ui();
  if (link.status === "refused") {
    return (
      <div class="banner bad">
        <p>
          <strong>This browser is not signed in to this server.</strong> Open the newest link printed by “agentrt serve”
          in any tab (each link works once), and this page continues. <small>{plain(link.reason)}</small>
        </p>
      </div>
    );
  }
  if (link.status === "lost") {
    return (
      <div class="banner">
        <p>
          <strong>Reconnecting…</strong> <span aria-hidden="true">Last update {duration(ui().now - link.heard)} ago.</span>{" "}
          <small>{plain(link.reason)}</small>
        </p>
        <button onClick={() => connection.probe()}>Try now</button>
      </div>
    );
  }
  const { store } = model();
  return [store && <Behind {...store} />, Session(seat)];
}

/** The server cannot store at once what happens, and shows nothing before. */
const Behind = ({ state, message }: w.StoreFrame) =>
  state === "slow" ? (
    <div class="banner">
      <p>
        <strong>The server's disk is slow.</strong> The page may lag, and new messages are delayed. Stop still works.
      </p>
    </div>
  ) : (
    <div class="banner bad">
      <p>
        <strong>The server cannot store new events.</strong> The page may lag, and new messages are refused until it
        can. Stop still works. <small>{oneLine(message, 600)}</small>
      </p>
    </div>
  );

/** How the session stands, where that is not the usual */
function Session(seat: Seat | undefined): Shown {
  const state = seat?.view.state;
  if (state?.error?.code === UNSEEN) {
    return (
      <div class="banner">
        <p>
          <strong>This session no longer exists.</strong> The transcript stays until you close the tab.
        </p>
      </div>
    );
  }
  if (state?.phase === "dead" && !state.error) {
    return (
      <div class="banner">
        <p>
          <strong>The agent is not running.</strong> Your next message starts it and continues this conversation.
        </p>
      </div>
    );
  }
  if (state?.phase === "dead") {
    return (
      <div class="banner bad">
        <p>
          <strong>The agent stopped.</strong> Your next message restarts it and continues this conversation.{" "}
          <small>{oneLine(state.error?.message, 600)}</small>
        </p>
      </div>
    );
  }
  if (state?.phase === "closed") {
    return (
      <div class="banner">
        <p>
          <strong>This session was closed.</strong> The transcript stays until you close the tab.
        </p>
      </div>
    );
  }
  if (seat?.extra.forgot) {
    return (
      <div class="banner">
        <p>
          <strong>The agent lost its memory of this conversation.</strong> It was restarted and only knows what came
          after.
        </p>
        {model().server?.role !== "viewer" && <button onClick={retell}>Replay it to the agent</button>}
      </div>
    );
  }
  return null;
}

/** Notes that are shown at once, the newest. */
const SHOWN = 3;

/** Recent notes, above the conversation. Errors stay until they are dismissed; the others fade. */
export function Notes() {
  const { dismissed, faded } = ui();
  const notes = model().notes.filter(({ id, level }) => !dismissed.has(id) && (level === "error" || id > faded));
  const hidden = notes.length - SHOWN;
  const dismiss = (gone: readonly Note[]) => setUi({ dismissed: new Set([...dismissed, ...gone.map(({ id }) => id)]) });
  return (
    <div class="notes">
      {notes.slice(-SHOWN).map((note) => (
        <div key={note.id} class={`note ${note.level}`} role={note.level === "error" ? "alert" : "status"}>
          <p>{oneLine(note.text, 400)}</p>
          <button class="quiet round" aria-label="Dismiss" onClick={() => dismiss([note])}>
            {icon("close")}
          </button>
        </div>
      ))}
      {hidden > 0 && (
        <div class="note" key="hidden">
          <p>{hidden} more</p>
          <button class="quiet" onClick={() => dismiss(notes)}>
            Dismiss all
          </button>
        </div>
      )}
    </div>
  );
}

/** What somebody else, or nobody, answered to the question that stood here. */
export function Elsewhere({ seat }: { seat: Seat }) {
  const { answered } = seat.extra;
  if (!answered || here(answered.request) === ui().answering || seat.view.permissions.size) return null;
  if (answered.by === "policy" || answered.by === "unattended" || answered.by === "turn") return null;
  const by =
    answered.by === "user"
      ? answered.from
        ? `Answered by ${oneLine(answered.from, 80)}`
        : "Answered by another client"
      : answered.by === "timeout"
        ? "Expired"
        : "Withdrawn by the agent";
  return (
    <p class="elsewhere" role="status">
      <strong>{by}:</strong> “{oneLine(answered.title, 80)}” {oneLine(answered.words, 60)}
    </p>
  );
}
