// Where one writes: text, files, and what to do with them while the agent works.

import type { TargetedEvent } from "preact";
import { editQueued, lookBack, prompt, say, stop } from "./actions.js";
import { addFiles, Attached, fits } from "./attach.js";
import { Completions, completionAt, choosePart } from "./complete.js";
import { wordsOf } from "./content.js";
import { cutsOf } from "./cuts.js";
import { composing, icon, instead, valued } from "./html.js";
import { isStopping, sendingHere } from "./pending.js";
import { StatusBar } from "./statusbar.js";
import { asDrawn, field, model, seat, setUi, touched, ui } from "./store.js";

const key = (): string => ui().session ?? "";

const shown = () => model().sessions.find(({ session }) => session === ui().session);

/** The queued prompt of this session that is being edited. */
export const editedHere = (): string | undefined => ui().editing.get(key());

export function setEditing(entry: string | null) {
  const others = [...ui().editing].filter(([session]) => session !== key());
  setUi({ editing: new Map(entry === null ? others : [...others, [key(), entry]]) });
}

export function setDraft(text: string) {
  setUi({ drafts: new Map(ui().drafts).set(key(), text) });
}

/** The blocks of a prompt: `@file` is a link */
function blocksOf(text: string, cwd: string): w.Block[] {
  const blocks: w.Block[] = text.trim() ? [{ type: "text", text }] : [];
  for (const [, path = ""] of text.matchAll(/(?:^|\s)@([^\s@]*[^\s@.,:;!?)])/g)) {
    if (!/^\.{0,2}\/|\.[a-z]\w*$/i.test(path)) continue; // a person or a package, and no file
    const whole = path.startsWith("/") ? path : `${cwd.replace(/\/$/, "")}/${path}`;
    const uri = `file://${whole.split("/").map(encodeURIComponent).join("/")}`;
    blocks.push({ type: "resource_link", uri, name: path });
  }
  return blocks;
}

async function submit(when: When) {
  const area = field();
  const text = area?.value ?? "";
  const cwd = shown()?.cwd ?? "/";
  const attached = ui().attached.get(key()) ?? [];
  const content = [...blocksOf(text, cwd), ...attached.map(({ block }) => block)];
  if (!content.length || ui().link.status !== "open" || seat()?.view.state.phase === "closed") return;
  if (!fits(content)) return say("This message is larger than the server accepts.", "error");
  const editing = editedHere();
  const session = key();
  const drafts = new Map(ui().drafts).set(session, "");
  if (area) area.value = ""; // at once: what is typed before the next frame begins the next prompt
  setUi({ drafts, attached: new Map(ui().attached).set(session, []), completing: null, atEnd: true });
  setEditing(null);
  const ack = await (editing ? editQueued(editing, content) : prompt(content, text, when));
  if (!ack.ok) {
    // Nothing that was written is lost, neither this nor what has been written since.
    const since = ui().drafts.get(session);
    const files = [...attached, ...(ui().attached.get(session) ?? [])];
    const draft = since ? `${text}\n\n${since}` : text;
    setUi({ drafts: new Map(ui().drafts).set(session, draft), attached: new Map(ui().attached).set(session, files) });
  }
}

/** What was asked before, the newest first */
const history = (seat: Seat | undefined): string[] =>
  [...(seat?.view.items.values() ?? [])]
    .filter((item) => item.type === "user" && !cutsOf(item.content).length)
    .map((item) => wordsOf(item.content))
    .filter(Boolean)
    .reverse();

function onKey(event: KeyboardEvent, busy: boolean) {
  const area = field();
  if (composing(event) || !area) return;
  const completion = asDrawn(() => completionAt(area, seat()));
  if (completion && completion.options.length) {
    const { options } = completion;
    const at = Math.min(ui().completing?.at ?? 0, options.length - 1);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : options.length - 1;
      return setUi({ completing: { at: (at + step) % options.length, words: completion.words } });
    }
    if (
      event.key === "Tab" ||
      (event.key === "Enter" && !event.shiftKey && completion.words !== options[at]?.insert.trim())
    ) {
      event.preventDefault();
      return choosePart(completion, at);
    }
    if (event.key === "Escape") {
      event.stopPropagation();
      return setUi({ completing: { at: -1, words: completion.words } });
    }
  }
  const line = event.shiftKey || event.altKey || (touched() && !event.ctrlKey && !event.metaKey);
  if (event.key === "Enter" && !line) {
    event.preventDefault();
    submit(busy && (event.ctrlKey || event.metaKey) ? "interrupt" : "queue");
  } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    recall(event, area.value);
  } else if (event.key === "Escape" && editedHere()) {
    event.stopPropagation();
    setDraft("");
    setEditing(null);
  }
}

/** Arrow up in an empty field brings back what was asked before. */
function recall(event: KeyboardEvent, text: string) {
  const asked = history(seat());
  const at = text === "" ? -1 : asked.indexOf(text);
  if (text !== "" && at < 0) return;
  const next = at + (event.key === "ArrowUp" ? 1 : -1);
  if (next === asked.length) lookBack(); // an older one may be there when it is asked for again
  if (next >= asked.length || next < -1) return;
  event.preventDefault();
  setDraft(asked[next] ?? "");
}

/** The button goes away with the turn: the focus goes to the field, unless that shows a keyboard on the screen. */
function stopHere() {
  void stop();
  if (!touched()) field()?.focus();
}

const HINT = "Message the agent, or type / for commands and @ for files";

async function picked({ currentTarget: target }: TargetedEvent<HTMLInputElement>) {
  await addFiles([...(target.files ?? [])]);
  target.value = ""; // the same file may be chosen again
}

export function Composer({ seat, offline, reading }: { seat: Seat | undefined; offline: boolean; reading: boolean }) {
  const text = ui().drafts.get(key()) ?? "";
  const attached = ui().attached.get(key()) ?? [];
  const state = seat?.view.state;
  const busy = !offline && (Boolean(state?.turn) || sendingHere().length > 0);
  const stopping = state?.phase === "cancelling" || isStopping();
  const empty = !text.trim() && !attached.length;
  const editing = editedHere() !== undefined;
  const label = editing ? "Save" : busy ? "Queue" : "Send";
  const area = field();
  void ui().caret; // what is offered depends on it
  const completion = area && completionAt(area, seat);
  if (reading) return <p class="composer reading-only">View only.</p>;
  return (
    <form
      class="composer"
      onSubmit={instead(() => submit("queue"))}
      onDragOver={instead(() => {})}
      onDrop={instead((event) => addFiles(event.dataTransfer?.files))}>
      {completion && <Completions completion={completion} />}
      {attached.length > 0 && <Attached files={attached} />}
      <label class="unseen" for="prompt">
        {editing ? "Edit the queued prompt" : "Message the agent"}
      </label>
      <textarea
        id="prompt"
        rows={Math.min(12, text.split("\n").length)}
        value={text}
        dir="auto"
        enterkeyhint={touched() ? "enter" : "send"}
        aria-autocomplete="list"
        aria-controls={completion ? "completions" : undefined}
        aria-activedescendant={
          completion && (ui().completing?.at ?? 0) >= 0 ? `completion-${ui().completing?.at ?? 0}` : undefined
        }
        placeholder={editing ? "Edit the queued prompt" : busy ? "Queue a follow-up…" : HINT}
        onInput={valued((words) => (setDraft(words), setUi({ completing: null })))}
        onKeyDown={(event: KeyboardEvent) => onKey(event, busy)}
        onSelect={({ currentTarget }) => setUi({ caret: currentTarget.selectionEnd })}
        onPaste={(event: ClipboardEvent) => {
          const files = event.clipboardData?.files;
          if (files?.length) (event.preventDefault(), addFiles(files));
        }}></textarea>
      <div class="buttons">
        <label class="quiet round button" title="Attach files">
          {icon("clip")}
          <span class="unseen">Attach files</span>
          <input class="unseen" type="file" multiple onChange={picked} />
        </label>
        <span class="space"></span>
        {state?.turn && !offline && !editing && !empty && !stopping && shown()?.steers && (
          <button type="button" onClick={() => submit("steer")} title="Send it into the running turn">
            Steer
          </button>
        )}
        {busy && !editing && !empty && (
          <button type="button" onClick={() => submit("interrupt")} title="Ctrl+Enter">
            Interrupt
          </button>
        )}
        {busy && (
          <button type="button" class="stop" disabled={stopping} onClick={stopHere}>
            {icon("stop")}
            {stopping ? "Stopping…" : "Stop"}
          </button>
        )}
        <button class="send" disabled={offline || empty} title={offline ? "Offline" : label}>
          {icon("send")}
          <span>{label}</span>
        </button>
      </div>
      <StatusBar seat={seat} offline={offline} />
    </form>
  );
}
