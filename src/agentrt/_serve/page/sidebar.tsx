// The sessions: which there are, which wants something, and a new one.

import {
  choose,
  closeSession,
  deleteSession,
  fork,
  goBack,
  LISTED,
  newSession,
  rename,
  search,
  stopAll,
} from "./actions.js";
import { baseName, day, moment } from "./format.js";
import { nameOf, OFFLINE, PHASES } from "./header.js";
import { composing, icon, iconButton, instead, valued } from "./html.js";
import { oneLine } from "./safe.js";
import { field, model, setUi, ui } from "./store.js";

const WORKING = new Set(["running", "waiting", "cancelling"]);

export function Sidebar({ offline, reading }: { offline: boolean; reading: boolean }) {
  const { sessions } = model();
  const open = sessions
    .filter(({ phase }) => phase !== "stored")
    .reverse()
    .sort((a, b) => lastAt(b) - lastAt(a));
  const stored = sessions.filter(({ phase }) => phase === "stored");
  const { searched, older } = ui();
  const listed = new Set(sessions.map(({ session }) => session));
  const all = [...(older?.sessions ?? []).filter(({ session }) => !listed.has(session)), ...stored].sort(
    (a, b) => lastAt(a) - lastAt(b),
  );
  const folders = [...new Set(all.map(({ cwd }) => cwd))].sort();
  const folder = folders.includes(ui().folder) ? ui().folder : "";
  const kept = folder ? all.filter(({ cwd }) => cwd === folder) : all;
  const working = sessions.filter(({ phase }) => WORKING.has(phase)).length;
  const shown = ui().panel === "sessions";
  return (
    <nav class={`sidebar ${shown ? "shown" : ""}`} aria-label="sessions">
      <div class="top">
        <span class="brand">agentrt</span>
        {shown && (
          <button class="quiet round" aria-label="Close the list" ref={focused} onClick={() => setUi({ panel: null })}>
            {icon("close")}
          </button>
        )}
      </div>
      {!reading && (
        <button class="new" disabled={offline} onClick={() => setUi({ creating: true, refused: "", panel: null })}>
          {icon("plus")}New session
        </button>
      )}
      {stored.length > 0 && (
        <input
          type="search"
          aria-label="Search the conversations"
          placeholder="Search"
          maxLength={200}
          disabled={offline}
          value={searched?.words ?? ""}
          onInput={valued(search)}
        />
      )}
      <div class="lists">
        {searched ? (
          <ul aria-label="found">
            {searched.found.map(({ session, snippet }) => {
              const here = open.find((each) => each.session === session.session);
              return here ? Entry(here, offline, reading, snippet) : Kept(session, reading, offline, snippet);
            })}
            {searched.found.length === 0 && <li class="hint">No results</li>}
          </ul>
        ) : (
          <>
            <ul>{open.map((summary) => Entry(summary, offline, reading))}</ul>
            {folders.length > 1 && (
              <select aria-label="Folder" value={folder} onChange={valued((folder) => setUi({ folder }))}>
                <option value="">All folders</option>
                {folders.map((each) => (
                  <option key={each} value={each}>
                    {oneLine(each, 100)}
                  </option>
                ))}
              </select>
            )}
            {byDay(kept).map(([name, kept]) => (
              <section key={name}>
                <h2>{name}</h2>
                <ul>{kept.map((summary) => Kept(summary, reading, offline))}</ul>
              </section>
            ))}
            {(older?.more ?? stored.length >= LISTED) && (
              <button class="quiet earlier" disabled={offline} onClick={goBack}>
                Earlier conversations
              </button>
            )}
          </>
        )}
      </div>
      {!reading && !offline && working > 0 && (
        <button class="stop-all" onClick={stopAll}>
          {icon("stop")}Stop all ({working})
        </button>
      )}
    </nav>
  );
}

function Entry(summary: w.SessionInfo, offline: boolean, reading: boolean, snippet?: string) {
  const { session, phase } = summary;
  const here = ui().session === session;
  const unread = model().unread.has(session);
  if (ui().renaming === session)
    return (
      <li key={session}>
        <Renaming summary={summary} />
      </li>
    );
  return (
    <li key={session} class={`${here ? "here" : ""} ${unread ? "unread" : ""}`}>
      <button class="entry" aria-current={here ? "page" : undefined} onClick={() => choose(session)}>
        <span class={`dot ${offline ? "offline" : phase}`} aria-hidden="true"></span>
        <span class="name" dir="auto">
          {nameOf(summary)}
        </span>
        <small>
          {offline ? OFFLINE : phase === "waiting" ? <b>Needs your answer</b> : PHASES[phase]}
          {unread && (
            <>
              {" "}
              · <b>new</b>
            </>
          )}
          {snippet
            ? ` · ${oneLine(snippet, 120)}`
            : ` · ${oneLine(baseName(summary.cwd), 40)} · ${moment(lastAt(summary))}`}
        </small>
      </button>
      {!offline && !reading && (
        <span class="tools">
          {summary.forks !== "no" && iconButton("fork", `Fork ${nameOf(summary)}`, () => fork(session))}
          {iconButton("edit", `Rename ${nameOf(summary)}`, () => setUi({ renaming: session }))}
          {iconButton("close", `Close ${nameOf(summary)}`, () => close(summary))}
        </span>
      )}
    </li>
  );
}

/** When something happened there */
const lastAt = ({ updated, created }: w.SessionInfo): number => updated ?? created;

/** The newest first */
function byDay(stored: readonly w.SessionInfo[]): [string, w.SessionInfo[]][] {
  const days: Map<string, w.SessionInfo[]> = new Map();
  for (const summary of [...stored].reverse()) {
    const name = day(lastAt(summary));
    days.set(name, [...(days.get(name) ?? []), summary]);
  }
  return [...days];
}

/** One that is not open */
function Kept(summary: w.SessionInfo, reading: boolean, offline: boolean, snippet?: string): Shown {
  const { session } = summary;
  const here = ui().session === session;
  const forget = () => confirm(`Delete ${nameOf(summary)}? This cannot be undone.`) && deleteSession(session);
  return (
    <li key={session} class={here ? "here" : ""}>
      <button class="entry" aria-current={here ? "page" : undefined} onClick={() => choose(session)}>
        <span class="dot stored" aria-hidden="true"></span>
        <span class="name" dir="auto">
          {nameOf(summary)}
        </span>
        <small>
          {snippet
            ? oneLine(snippet, 120)
            : `${oneLine(summary.agent, 30)} · ${oneLine(baseName(summary.cwd), 40)} · ${moment(lastAt(summary))}`}
        </small>
      </button>
      {!offline && !reading && (
        <span class="tools">
          {iconButton("fork", `Fork ${nameOf(summary)}`, () => fork(session))}
          {iconButton("delete", `Delete ${nameOf(summary)}`, forget)}
        </span>
      )}
    </li>
  );
}

function close(summary: w.SessionInfo) {
  const busy = WORKING.has(summary.phase);
  if (!busy || confirm(`${nameOf(summary)} is still working. Stop and close it?`)) closeSession(summary.session);
}

const focused = (element: HTMLElement | null): void => element?.focus();

function Renaming({ summary }: { summary: w.SessionInfo }) {
  const done = instead((event) => {
    const title = new FormData(event.target).get("title");
    rename(summary.session, String(title ?? ""));
    setUi({ renaming: null });
  });
  return (
    <form
      class="renaming"
      onSubmit={done}
      onKeyDown={(event: KeyboardEvent) => {
        if (event.key === "Escape" && !composing(event)) (event.stopPropagation(), setUi({ renaming: null }));
      }}>
      <input name="title" aria-label="New name" maxLength={200} defaultValue={summary.title ?? ""} ref={focused} />
      <button>Rename</button>
    </form>
  );
}

/** @param props the form for a new session, also as the first thing to see */
export function NewSession({ first }: { first: boolean }) {
  const agents = model().agents;
  const available = agents.filter((agent) => agent.available);
  const missing = agents.filter((agent) => !agent.available).map((agent) => oneLine(agent.title || agent.name));
  const { refused } = ui();
  const last = model().sessions.find(({ session }) => session === ui().session);
  const create = instead(async (event) => {
    const form = new FormData(event.target);
    const text = (name: string) => String(form.get(name) ?? "").trim();
    const [agent, cwd, title, agent_session] = ["agent", "cwd", "title", "agent_session"].map(text);
    const button = event.target.querySelector("[type=submit]");
    button.disabled = true;
    button.textContent = "Starting…";
    setUi({ refused: "" });
    const refused = await newSession({
      agent,
      ...(cwd && { cwd }),
      ...(agent_session ? { agent_session } : title && { title }),
    });
    button.disabled = false;
    button.textContent = "Start";
    if (refused) return setUi({ refused });
    setUi({ creating: false });
    setTimeout(() => field()?.focus(), 50);
  });
  return (
    <form class="new-session" onSubmit={create}>
      <h2>{"New session"}</h2>
      <fieldset class="agents">
        <legend>Agent</legend>
        {available.map((agent, index) => (
          <label key={agent.name}>
            <input
              type="radio"
              name="agent"
              value={agent.name}
              required
              defaultChecked={last ? last.agent === agent.name : index === 0}
            />
            <span>
              <strong>{oneLine(agent.title || agent.name)}</strong>
              <small>{oneLine(agent.name)}</small>
            </span>
          </label>
        ))}
        {available.length === 0 && (
          <p class="hint">No agent is installed. Run “agentrt agents” to see how to install one.</p>
        )}
      </fieldset>
      {Field("cwd", "Folder", "the server's folder", last?.cwd)}
      {Field("title", "Name", "optional")}
      <details class="fold">
        <summary>Resume by agent session ID</summary>
        {Field("agent_session", "Agent session ID")}
      </details>
      <div role="alert">
        {refused && (
          <p class="refused">
            <strong>Couldn't start:</strong> {oneLine(refused, 1000)}
          </p>
        )}
      </div>
      <div class="buttons">
        {!first && (
          <button type="button" onClick={() => setUi({ creating: false })}>
            Cancel
          </button>
        )}
        <button type="submit" class="send" disabled={!available.length}>
          Start
        </button>
      </div>
      {missing.length > 0 && (
        <details class="fold">
          <summary>{missing.length} more agents available</summary>
          <p class="hint">{missing.join(", ")}. Run “agentrt agents” to see how to install them.</p>
        </details>
      )}
    </form>
  );
}

const Field = (name: string, label: string, hint?: string, value: string = ""): Shown => (
  <div class="field">
    <label for={`new-${name}`}>{label}</label>
    <input
      id={`new-${name}`}
      name={name}
      autocomplete="off"
      spellcheck={false}
      maxLength={1000}
      placeholder={hint}
      defaultValue={value}
    />
  </div>
);
