// The palette (Ctrl+K): what can be done, and where one can go, by a few letters of its name.

import { Component } from "preact";
import { choose, restore, setMode, setModelOf, stop, stopAll } from "./actions.js";
import { showChanges } from "./changes.js";
import { besides, goOver, showBeside } from "./beside.js";
import { setDraft } from "./composer.js";
import { Dialog } from "./dialog.js";
import { BRING_BACK } from "./ending.js";
import { openFile } from "./files.js";
import { baseName } from "./format.js";
import { best } from "./fuzzy.js";
import { nameOf, PHASES } from "./header.js";
import { instead, valued } from "./html.js";
import { undoOf } from "./model.js";
import { oneLine } from "./safe.js";
import { asDrawn, field, framed, keep, model, seat, setUi, show, ui } from "./store.js";

/** Rows that are shown. */
const ROWS = 50;

interface Entry {
  name: string;
  about?: string;
  run: () => void;
}

function entries(): Entry[] {
  const { sessions, server } = model();
  const { session, drafts, templates } = ui();
  const here = seat();
  const modes = here?.view.modes;
  const acts = server?.role !== "viewer" && ui().link.status === "open";
  const draft = (drafts.get(session ?? "") ?? "").trim();
  const found: (Entry | false | null | undefined | "")[] = [
    acts && { name: "New session", about: "n", run: () => setUi({ creating: true, refused: "" }) },
    here && { name: "Search and outline of this conversation", run: () => setUi({ panel: "outline" }) },
    here && { name: "Changes", run: () => showChanges(null) },
    here && acts && { name: "Files", run: () => openFile() },
    here && acts && undoing(here),
    here && acts && here.view.state.turn && { name: "Stop", about: "Esc", run: () => void stop() },
    here && { name: "Open this session in another window", run: openWindow },
    (framed || ui().beside) && { name: "Go to the other session", run: goOver },
    ui().beside && { name: "Close the second session", run: () => showBeside(null) },
    acts && { name: "Stop all agents", run: () => void stopAll() },
    { name: "Settings", run: () => setUi({ panel: "settings" }) },
    { name: "Keyboard shortcuts", about: "?", run: () => setUi({ panel: "shortcuts" }) },
    { name: "Protocol log", run: () => setUi({ panel: "frames" }) },
    draft && {
      name: "Keep the draft as a template",
      run: () => keep("templates", [...templates.filter((each) => each !== draft), draft].slice(-50)),
    },
    ...templates.map((text) => ({
      name: `Template: ${oneLine(text, 80)}`,
      run: () => (setDraft([draft, text].filter(Boolean).join("\n\n")), setTimeout(() => field()?.focus())),
    })),
    ...templates.map((text) => ({
      name: `Delete the template: ${oneLine(text, 80)}`,
      run: () => keep("templates", templates.filter((each) => each !== text)),
    })),
    ...[...sessions].reverse().map((each) => ({
      name: nameOf(each),
      about: `${PHASES[each.phase]} · ${oneLine(baseName(each.cwd), 40)}`,
      run: () => choose(each.session),
    })),
    ...besides().map((each) => ({
      name: `Side by side: ${nameOf(each)}`,
      run: () => showBeside(each.session),
    })),
    ...(acts ? (modes?.modes ?? []) : []).map(({ id, name }) => ({
      name: `Mode: ${oneLine(name || id, 60)}`,
      run: () => void setMode(id),
    })),
    ...(acts ? (modes?.models ?? []) : []).map(({ id, name }) => ({
      name: `Model: ${oneLine(name || id, 60)}`,
      run: () => void setModelOf(id),
    })),
  ];
  return found.filter((each): each is Entry => Boolean(each));
}

/** The entry that restores the files from before the last turn that has changed any, or brings them back. */
function undoing({ view, extra }: Seat): Entry | null {
  const turn = [...view.turns.keys()].findLast((id) => extra.undo.has(id));
  const undo = turn && undoOf(extra, turn);
  return undo
    ? {
        name: undo.isUndone ? BRING_BACK : "Undo: restore the files from before the last turn that changed any",
        run: () => void restore(ui().session ?? "", undo.checkpoint),
      }
    : null;
}

/** Show the session a second time, on half of the screen. */
function openWindow() {
  const [width, height] = [Math.floor(screen.availWidth / 2), screen.availHeight];
  // Without the opener, so that the window is a client of its own.
  window.open(location.href, "_blank", `noopener,popup,width=${width},height=${height},left=${width}`);
}

export class Palette extends Component {
  words = "";
  at = 0;

  choose(entry: Entry | undefined) {
    if (!entry) return;
    setUi({ panel: null });
    show();
    // The dialog has given back the focus, which the command may move. The next key belongs to what it shows.
    queueMicrotask(() => (entry.run(), show()));
  }

  /** The entries for the words, and the number of the chosen one. */
  found() {
    const shown = best(entries(), ({ name }) => name, this.words.trim()).slice(0, ROWS);
    return { shown, at: Math.min(this.at, Math.max(0, shown.length - 1)) };
  }

  render() {
    const { shown, at } = this.found();
    const onKey = (event: KeyboardEvent) => {
      const { shown, at } = asDrawn(() => this.found()); // more may have been typed since this was drawn
      const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
      if (event.key === "Enter") (event.preventDefault(), this.choose(shown[at]));
      if (!step || !shown.length) return;
      event.preventDefault();
      this.at = (at + step + shown.length) % shown.length;
      this.forceUpdate();
    };
    return (
      <Dialog label="Commands" kind="palette" onClose={() => setUi({ panel: null })}>
        <input
          type="text"
          role="combobox"
          autocomplete="off"
          aria-label="Command, session, mode or model"
          aria-expanded="true"
          aria-controls="palette"
          aria-activedescendant={shown.length ? `palette-${at}` : undefined}
          placeholder="Type a command or the name of a session"
          value={this.words}
          onInput={valued((words) => ((this.words = words), (this.at = 0), this.forceUpdate()))}
          onKeyDown={onKey}
        />
        <ul id="palette" role="listbox" aria-label="Commands">
          {shown.map((entry, index) => (
            <li
              id={`palette-${index}`}
              key={`${index} ${entry.name}`}
              role="option"
              aria-selected={index === at}
              ref={(element) => {
                if (index === at) element?.scrollIntoView({ block: "nearest" });
              }}
              onClick={instead(() => this.choose(entry))}>
              <span dir="auto">{entry.name}</span>
              <small>{entry.about}</small>
            </li>
          ))}
        </ul>
        {shown.length === 0 && (
          <p class="hint" role="status">
            No results
          </p>
        )}
      </Dialog>
    );
  }
}
