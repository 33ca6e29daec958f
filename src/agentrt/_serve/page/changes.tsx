// The changes of the session: what the agent says that it has changed, and what differs from the last
// commit. A comment on a line becomes a prompt in the queue.

import { computed, signal } from "@preact/signals";
import { Component } from "preact";
import { ask, prompt } from "./actions.js";
import { changedFiles, changingTurns, type ChangedFile } from "./changed.js";
import { Change } from "./change.js";
import { wordsOf } from "./content.js";
import { within } from "./format.js";
import { icon, iconButton, valued } from "./html.js";
import { More } from "./more.js";
import { oneLine } from "./safe.js";
import { setUi, ui } from "./store.js";

/** In `localStorage`: whether both versions are shown next to each other. */
const SPLIT = "split-changes";

/** Files that are unfolded at first. */
const UNFOLDED = 12;

/** The turn whose changes are shown; null: of all. */
const turn = signal<string | null>(null);

/** Show the changes of a turn, or all. */
export function showChanges(of: string | null) {
  turn.value = of;
  setUi({ panel: "changes" });
}

interface ChangesProps {
  seat: Seat;
  cwd: string;
  /** Whether no prompt can be sent. */
  off: boolean;
}

export class Changes extends Component<ChangesProps> {
  state: { split: boolean; committed: boolean; found: w.UncommittedResult | null; problem: string } = {
    split: (localStorage.getItem(SPLIT) ?? "no") === "yes",
    committed: false,
    found: null,
    problem: "",
  };
  gone = false;
  /** Other ones only if a change is another one: not while texts grow. */
  parts = computed(() => {
    const found = [...this.props.seat.view.items.values()].filter(({ tool }) =>
      tool?.content?.some(({ type }) => type === "diff"),
    );
    const same = found.length === this.found.length && found.every((item, at) => item === this.found[at]);
    return same ? this.found : (this.found = found);
  });
  found: w.Item[] = [];

  box: HTMLElement | null = null;
  /** The element that has the focus again when this is closed. */
  before = document.activeElement;

  componentDidMount() {
    this.compare();
    this.box?.focus({ preventScroll: true });
  }

  componentWillUnmount() {
    this.gone = true;
    const isWithin = this.box?.contains(document.activeElement);
    if (isWithin && this.before instanceof HTMLElement) this.before.focus({ preventScroll: true });
  }

  compare = async () => {
    const ack = await ask("uncommitted", { session: ui().session });
    if (this.gone) return;
    if (ack.ok) this.setState({ found: ack as unknown as w.UncommittedResult, problem: "" });
    else this.setState({ found: null, problem: ack.error?.message ?? "The server did not answer." });
  };

  split = () => {
    const split = !this.state.split;
    localStorage.setItem(SPLIT, split ? "yes" : "no");
    this.setState({ split });
  };

  render({ seat, cwd }: ChangesProps) {
    const { committed, split, found } = this.state;
    const side = (of: boolean, words: string) => (
      <button type="button" aria-pressed={committed === of} onClick={() => this.setState({ committed: of })}>
        {words}
      </button>
    );
    const files = changedFiles(this.parts.value, turn.value);
    return (
      <section class="changes" aria-label="Changes" tabIndex={-1} ref={(box) => void (this.box = box)}>
        <header>
          <h2>Changes</h2>
          {iconButton("close", "Close", () => setUi({ panel: null }))}
        </header>
        <div class="sides">
          {side(false, "By the agent")}
          {side(true, "Since the last commit")}
          <span class="space" />
          <button type="button" class="quiet" aria-pressed={split} onClick={this.split}>
            Side by side
          </button>
        </div>
        <div class="files" tabIndex={0} role="group" aria-label="changed files">
          {committed ? this.committed(files) : this.reported(seat, files)}
          {committed && found && found.left_out.length > 0 && (
            <p class="hint">
              Not compared, too large or too many: {found.left_out.map((path) => oneLine(within(path, cwd))).join(", ")}
            </p>
          )}
        </div>
      </section>
    );
  }

  /** What the agent says. */
  reported(seat: Seat, files: ChangedFile[]) {
    const turns = changingTurns(this.parts.value);
    const { found } = this.state;
    const differ = new Set(found?.files.map(({ path }) => path));
    for (const path of found?.left_out ?? []) differ.add(path);
    return [
      turns.length > 0 && (
        <select aria-label="Turn" value={turn.value ?? ""} onChange={valued((id) => (turn.value = id || null))}>
          <option value="">All turns</option>
          {turns.map((id) => (
            <option key={id} value={id}>
              {asked(seat, id)}
            </option>
          ))}
        </select>
      ),
      files.length === 0 && <p class="hint">The agent has reported no changes{turn.value ? " in this turn" : ""}.</p>,
      files.map(({ path, changes }, at) => (
        <File
          key={path}
          path={path}
          cwd={this.props.cwd}
          open={at < UNFOLDED}
          note={found && !differ.has(path) ? "same as in the last commit" : ""}>
          {changes.map(({ item, before, after, cut }, index) => [
            this.change(path, before ?? "", after, before === null ? "new file" : "", index),
            cut && More(item),
          ])}
        </File>
      )),
    ];
  }

  /** What differs from the last commit. */
  committed(files: ChangedFile[]) {
    const { found, problem } = this.state;
    const reported = new Set(files.map(({ path }) => path));
    return [
      <p class="hint">
        {found
          ? `${found.files.length} ${found.files.length === 1 ? "file differs" : "files differ"} from ${found.commit ? `commit ${found.commit.slice(0, 9)}` : "nothing: there is no commit yet"}.`
          : problem || "Comparing…"}{" "}
        <button type="button" class="quiet" onClick={this.compare}>
          Compare again
        </button>
      </p>,
      found?.files.map(({ path, patch }, at) => (
        <File
          key={path}
          path={path}
          cwd={this.props.cwd}
          open={at < UNFOLDED}
          note={reported.has(path) ? "" : "not reported by the agent"}>
          {this.change(path, null, patch, "")}
        </File>
      )),
    ];
  }

  change(path: string, before: string | null, text: string, kind: string, key?: number) {
    const { cwd, off } = this.props;
    const comment = (line: Line, words: string) => send(within(path, cwd), line, words);
    const onComment = off ? undefined : comment;
    return (
      <Change
        key={key}
        path={path}
        cwd={cwd}
        before={before}
        text={text}
        kind={kind}
        split={this.state.split}
        onComment={onComment}
      />
    );
  }
}

interface FileProps {
  path: string;
  cwd: string;
  open: boolean;
  note: string;
  children: Shown;
}

class File extends Component<FileProps> {
  state = { open: this.props.open };

  render({ path, cwd, note, children }: FileProps) {
    const { open } = this.state;
    return (
      <details
        class="changed"
        open={open}
        onToggle={({ currentTarget }) => this.setState({ open: currentTarget.open })}>
        <summary>
          <span class="path" dir="ltr">
            {oneLine(within(path, cwd))}
          </span>
          {note && <small>{note}</small>}
        </summary>
        {open && children}
      </details>
    );
  }
}

/** The beginning of a turn's prompt. */
function asked(seat: Seat, turn: string): string {
  for (const item of seat.view.items.values()) {
    if (item.turn === turn && item.type === "user") return oneLine(item.text || wordsOf(item.content), 60) || "a turn";
  }
  return "a turn";
}

/** Queue a comment on a line as a prompt. */
function send(path: string, { sign, text, before, after }: Line, comment: string) {
  const where = sign === "-" ? `line ${before} of the version before your change` : `line ${after}`;
  const words = `About \`${path}\`, ${where}:\n\n> ${text}\n\n${comment}`;
  prompt([{ type: "text", text: words }], words, "queue");
}

/** A button that shows the changes. */
export const ChangesButton = ({ off }: { off: boolean }) => (
  <button class="quiet round" aria-label="Changes" title="Changes" disabled={off} onClick={() => showChanges(null)}>
    {icon("changes")}
  </button>
);
