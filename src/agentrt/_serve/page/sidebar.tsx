// The sessions: which there are, which wants something, and a new one.

import type { TargetedKeyboardEvent } from "preact";
import {
  choose,
  closeSession,
  deleteSession,
  fork,
  goBack,
  LISTED,
  rename,
  search,
  stopAll,
} from "./actions.js";
import { baseName, day, moment } from "./format.js";
import { nameOf, OFFLINE, PHASES } from "./header.js";
import { composing, icon, iconButton, instead, valued } from "./html.js";
import { oneLine } from "./safe.js";
import { keep, model, setUi, show, ui } from "./store.js";

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
  const inFolder = folder ? all.filter(({ cwd }) => cwd === folder) : all;
  const { archived } = ui();
  const kept = inFolder.filter(({ session }) => !archived.has(session));
  const away = inFolder.filter(({ session }) => archived.has(session));
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
            {byFolder(open).map(([folder, sessions], _, all) => (
              <div key={folder}>
                {all.length > 1 && <h2 title={oneLine(folder, 500)}>{oneLine(baseName(folder) || "/", 40)}</h2>}
                <ul>{sessions.map((summary) => Entry(summary, offline, reading))}</ul>
              </div>
            ))}
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
            {away.length > 0 && (
              <details class="fold archived">
                <summary>Archived ({away.length})</summary>
                <ul>{[...away].reverse().map((summary) => Kept(summary, reading, offline))}</ul>
              </details>
            )}
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
          {offline ? OFFLINE : phase === "waiting" ? <b>Needs your answer{questionOf(session)}</b> : PHASES[phase]}
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

/** Sessions by folder; the folder with the newest first */
function byFolder(open: readonly w.SessionInfo[]): [string, w.SessionInfo[]][] {
  const folders: Map<string, w.SessionInfo[]> = new Map();
  for (const summary of open) folders.set(summary.cwd, [...(folders.get(summary.cwd) ?? []), summary]);
  return [...folders];
}

/** The question that a session asks, as far as it is known here */
function questionOf(session: string): string {
  const ask = model().attached.get(session)?.view.permissions.values().next().value;
  return ask?.title ? `: ${oneLine(ask.title, 60)}` : "";
}

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
  const archived = ui().archived.has(session);
  const archive = () => {
    const others = [...ui().archived].filter((each) => each !== session);
    keep("archived", archived ? others : [...others, session]);
  };
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
          {iconButton("archive", `${archived ? "Unarchive" : "Archive"} ${nameOf(summary)}`, archive)}
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
  const close = (form: HTMLFormElement) => {
    const row = form.closest("li");
    setUi({ renaming: null });
    show();
    row?.querySelector<HTMLElement>(".entry")?.focus();
  };
  const done = instead(({ target }) => {
    const title = new FormData(target).get("title");
    rename(summary.session, String(title ?? ""));
    close(target);
  });
  return (
    <form
      class="renaming"
      onSubmit={done}
      onKeyDown={(event: TargetedKeyboardEvent<HTMLFormElement>) => {
        if (event.key === "Escape" && !composing(event)) (event.stopPropagation(), close(event.currentTarget));
      }}>
      <input name="title" aria-label="New name" maxLength={200} defaultValue={summary.title ?? ""} ref={focused} />
      <button>Rename</button>
    </form>
  );
}
