// The whole page.

import { signal } from "@preact/signals";
import { render } from "preact";
import { choose, connection, hashed, stop } from "./actions.js";
import { announce, Announcer } from "./announce.js";
import { arrive, leave } from "./away.js";
import { Aside } from "./aside.js";
import { addFiles } from "./attach.js";
import { Beside } from "./beside.js";
import { Banner, Elsewhere, Notes } from "./banner.js";
import { Changes } from "./changes.js";
import { Composer } from "./composer.js";
import { Dialog } from "./dialog.js";
import { Files } from "./files.js";
import { Frames } from "./drawer.js";
import { Header, Settings } from "./header.js";
import { composing, iconButton, instead } from "./html.js";
import { NewSession } from "./newsession.js";
import { attract, back } from "./notify.js";
import { Outline } from "./outline.js";
import { Palette } from "./palette.js";
import { clearPending, isStopping, sendingHere } from "./pending.js";
import { Sheet } from "./sheet.js";
import { onShortcut, Shortcuts } from "./shortcuts.js";
import { Sidebar } from "./sidebar.js";
import { refreshBranch } from "./statusbar.js";
import { field, framed, listen, model, onPress, seat, setUi, tabKey, ui } from "./store.js";
import { Transcript } from "./transcript.js";

/** Whether what is shown may be old. */
const isOffline = signal(true);

const look = () => (isOffline.value = ui().link.status !== "open" || connection.silent());

function App() {
  const { session, panel, creating } = ui();
  const { server, sessions } = model();
  const here = seat();
  const summary = sessions.find((each) => each.session === session);
  const offline = isOffline.value;
  const reading = server?.role === "viewer";
  const cwd = summary?.cwd ?? "/";
  return (
    <>
      {here && (
        <a class="skip" href="#prompt" onClick={instead(() => field()?.focus())}>
          To the message field
        </a>
      )}
      <Sidebar offline={offline} reading={reading} />
      {panel === "sessions" && <div class="shade" onClick={() => setUi({ panel: null })}></div>}
      <main>
        <Header summary={summary} seat={here} offline={offline} reading={reading} />
        <div role="status">
          <Banner seat={here} />
        </div>
        {!creating && (!panel || panel === "sessions") && <Notes />}
        {here ? (
          <>
            <Transcript key={session} seat={here} cwd={cwd} stale={offline} />
            <div class="dock">
              <div class="column">
                <Away session={session ?? ""} />
                <Aside seat={here} offline={offline} reading={reading} />
                <Elsewhere seat={here} />
                {!reading && <Sheet seat={here} offline={offline} />}
                <Composer seat={here} offline={offline || here.view.state.phase === "closed"} reading={reading} />
              </div>
            </div>
          </>
        ) : (
          <div class="start">
            {server && !session ? (
              reading ? (
                <p class="hint">No session is open.</p>
              ) : (
                <NewSession first />
              )
            ) : (
              <p class="hint" role="status">
                {server ? "Opening…" : "Connecting…"}
              </p>
            )}
          </div>
        )}
      </main>
      <Beside />
      <Announcer />
      {creating && (
        <Dialog label="New session" onClose={() => setUi({ creating: false })}>
          <NewSession first={false} />
        </Dialog>
      )}
      {panel === "settings" && (
        <Dialog label="Settings" kind="small" onClose={() => setUi({ panel: null })}>
          <h2>Settings</h2>
          <Settings seat={here} offline={offline} reading={reading} />
        </Dialog>
      )}
      {panel === "changes" && here && session && (
        <Changes key={`changes ${session}`} seat={here} cwd={cwd} off={offline || reading} />
      )}
      {panel === "frames" && <Frames />}
      {panel === "palette" && <Palette />}
      {panel === "outline" && <Outline />}
      {panel === "files" && <Files key={session} />}
      {panel === "shortcuts" && <Shortcuts />}
    </>
  );
}

/** What happened in a session while nobody looked. */
function Away({ session }: { session: string }): Shown {
  const text = ui().away.get(session);
  if (!text) return null;
  const close = () => setUi({ away: new Map([...ui().away].filter(([each]) => each !== session)) });
  return (
    <p class="away" role="status">
      <span>While you were away: {text}</span>
      {iconButton("close", "Dismiss", close)}
    </p>
  );
}

/** Times move on while something is being timed. */
function tick() {
  const working = model().sessions.some(({ phase }) => !["idle", "closed", "dead", "stored"].includes(phase));
  if (working || ui().link.status !== "open") setUi({ now: Date.now() / 1000 });
}

function onKey(event: KeyboardEvent) {
  if (composing(event) || event.defaultPrevented) return;
  if (event.key !== "Escape") return onShortcut(event);
  if (document.querySelector("dialog[open]")) return;
  if (ui().panel) return setUi({ panel: null });
  const state = seat()?.view.state;
  if (!(state?.turn || sendingHere().length) || ui().link.status !== "open") return;
  if (state?.phase === "cancelling" || isStopping()) return;
  const asks = seat()?.view.permissions.size;
  if (!asks || confirm("The agent is waiting for your answer. Stop the turn?")) stop();
}

/** Files may be dropped anywhere: the browser would leave the page and open them. */
function takeDrops() {
  const over = (now: boolean) => document.body.classList.toggle("dropping", now);
  addEventListener("dragover", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    over(field() !== null);
  });
  addEventListener("dragleave", (event) => event.relatedTarget ?? over(false));
  addEventListener("drop", (event) => {
    over(false);
    if (event.defaultPrevented || !event.dataTransfer?.files.length) return;
    event.preventDefault();
    if (field()) addFiles(event.dataTransfer.files);
  });
}

/** Milliseconds for which a note that is no error is shown. */
const NOTED = 12_000;
let noted = 0;

function fade() {
  const newest = model().noted;
  if (newest === noted) return;
  noted = newest;
  setTimeout(() => setUi({ faded: newest }), NOTED);
}

/** A keyboard on the screen covers the page, and in some browsers the page is not told otherwise. */
function fit() {
  const { height = 0, offsetTop = 0, scale = 1 } = visualViewport ?? {};
  const covered = scale === 1 && innerHeight - height > 1;
  const { style } = document.documentElement;
  style.setProperty("--height", covered ? `${height}px` : "100dvh");
  style.setProperty("--top", covered ? `${offsetTop}px` : "0px");
}

/** What is typed, and what was to be sent when the connection is there again. */
function kept() {
  const drafts = new Map(ui().drafts);
  const { status } = ui().link;
  for (const { session, seq, text } of status === "open" ? [] : ui().sending) {
    if (seq === null) drafts.set(session, [text, drafts.get(session)].filter(Boolean).join("\n\n"));
  }
  return drafts;
}

/** The message field of a second session takes the keys when it is drawn. */
function takeFocus() {
  const end = listen(() => {
    if (!field()) return;
    end();
    if (document.activeElement === document.body && document.hasFocus()) field()?.focus();
  });
}

export function start() {
  document.body.classList.toggle("framed", framed);
  if (framed) takeFocus();
  [look, attract, announce, fade, arrive, clearPending, () => void refreshBranch()].forEach(listen);
  addEventListener("visibilitychange", () => document.hidden && leave(), true);
  addEventListener("pagehide", leave);
  addEventListener("visibilitychange", back, true);
  takeDrops();
  addEventListener("keydown", onKey);
  addEventListener("keydown", onPress, true);
  addEventListener("hashchange", () => {
    if (hashed()) choose(hashed());
  });
  setUi({ drafts: new Map(JSON.parse(sessionStorage.getItem(tabKey("drafts")) ?? "[]")) });
  addEventListener("pagehide", () => sessionStorage.setItem(tabKey("drafts"), JSON.stringify([...kept()])));
  for (const change of ["resize", "scroll"]) visualViewport?.addEventListener(change, fit);
  fit();
  setInterval(tick, 1000);
  connection.start();
  render(<App />, document.getElementById("page") as HTMLElement);
}

// For tests, and for the console of a developer: `const { model } = await import("/page/app.js")`.
export { ask } from "./ask.js";
export { client, connection } from "./actions.js";
export { model, seat, setModel, setUi, ui } from "./store.js";
export { options } from "preact";
