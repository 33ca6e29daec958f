// A file before and after, line by line, with colours and marks for the words that differ.

import type { TargetedEvent, TargetedKeyboardEvent } from "preact";
import { ask } from "./ask.js";
import { ending, within } from "./format.js";
import { copy } from "./code.js";
import { composing, instead, Still } from "./html.js";
import { hunks, paired, summary } from "./review.js";
import { oneLine, running } from "./safe.js";

/** Lines that are shown at first, and further ones with each press. */
const SHOWN = 400;

export const SPOKEN = { "+": "added", "-": "removed", " ": "" };

export const look = ({ sign }: Line): string => (sign === "+" ? "added" : sign === "-" ? "removed" : "");

interface ChangeProps {
  path: string;
  cwd: string;
  /** The version before; null: `text` is a patch. */
  before: string | null;
  text: string;
  /** Instead of the numbers of lines, such as "new file". */
  kind?: string;
  /** Whether both versions are next to each other. */
  split?: boolean;
  /** What is done with a comment on a line. Without it there are none. */
  onComment?: (line: Line, comment: string) => void;
}

interface Known {
  before: string | null;
  text: string;
  parts: ReviewedLine[][] | null;
}

const plain = (parts: readonly Line[][]): ReviewedLine[][] =>
  parts.map((lines) => lines.map((line) => ({ ...line, pieces: [{ text: line.text, style: "", differs: false }] })));

export class Change extends Still<ChangeProps> {
  gone = false;
  /** What is known, and of which text. Its parts are null if they cannot be found. */
  known: Known | null = null;
  asked: Known | null = null;
  limit = SHOWN;
  /** The line that somebody writes about. */
  commented: Line | null = null;

  componentDidMount() {
    this.learn();
  }

  componentDidUpdate() {
    this.learn();
  }

  componentWillUnmount() {
    this.gone = true;
  }

  /** What is known; at first without colours and marks, and nothing of a patch, which the worker reads. */
  current() {
    const { before, text } = this.props;
    if (this.known?.text === text && this.known.before === before) return this.known;
    const parts = before === null ? null : hunks(before, text);
    return (this.known = { before, text, parts: parts && plain(parts) });
  }

  async learn() {
    const known = this.current();
    if (known === this.asked) return;
    this.asked = known;
    const parts = await ask("review", ending(this.props.path).toLowerCase(), known.before, known.text);
    if (!parts || this.gone) return;
    known.parts = parts;
    if (known === this.known) this.forceUpdate();
  }

  draw({ path, cwd, before, kind, split = false }: ChangeProps) {
    const { parts } = this.current();
    const count = (parts ?? []).reduce((sum, lines) => sum + lines.length, 0);
    let number = 0;
    return (
      <figure class={split ? "diff split" : "diff"}>
        <figcaption>
          <span class="path">{oneLine(within(path, cwd))}</span>
          <span>{kind || summary(parts)}</span>
          {before !== null && (
            <button type="button" class="quiet" onClick={copy(this.props.text)}>
              Copy
            </button>
          )}
        </figcaption>
        {parts === null && before !== null && (
          <p class="hint">These versions are too different or too large to compare here.</p>
        )}
        {before === null && !parts?.length && <pre class="raw">{running(this.props.text.slice(0, 20_000))}</pre>}
        {parts !== null && parts.length > 0 && (
          <div class="scroll" tabIndex={0} role="group" aria-label="changes" onKeyDown={this.onKey}>
            <table>
              <tbody>
                {parts.map((lines, at) => {
                  const shown = lines.filter(() => number++ < this.limit);
                  return [
                    at > 0 && (
                      <tr class="gap">
                        <td colSpan={split ? 4 : 3}>⋯</td>
                      </tr>
                    ),
                    split
                      ? paired(shown).map(([old, now]) => [
                          this.twoSides(old, now),
                          this.form(old),
                          old !== now && this.form(now),
                        ])
                      : shown.map((line) => [this.oneSide(line), this.form(line)]),
                  ];
                })}
              </tbody>
            </table>
          </div>
        )}
        {count > this.limit && (
          <p class="hint">
            {count - this.limit} more lines hidden.{" "}
            <button type="button" class="quiet" onClick={() => ((this.limit += 5 * SHOWN), this.forceUpdate())}>
              Show more
            </button>
          </p>
        )}
        {before !== null && parts?.length === 0 && <p class="hint">No differences.</p>}
      </figure>
    );
  }

  oneSide(line: ReviewedLine) {
    return (
      <tr class={look(line)}>
        <td class="number">{line.before}</td>
        <td class="number">{this.number(line, line.after ?? (this.props.onComment ? line.before : null))}</td>
        <td class="line">{text(line)}</td>
      </tr>
    );
  }

  twoSides(old: ReviewedLine | undefined, now: ReviewedLine | undefined) {
    const same = old === now;
    return (
      <tr>
        <td class={`number ${old && look(old)}`}>{old && (same ? old.before : this.number(old, old.before))}</td>
        <td class={`line ${old ? look(old) : "none"}`}>{old && text(old)}</td>
        <td class={`number ${now && look(now)}`}>{now && this.number(now, now.after)}</td>
        <td class={`line ${now ? look(now) : "none"}`}>{now && text(now)}</td>
      </tr>
    );
  }

  /** The number of a line; where comments are taken, a button. Arrow keys lead from one to the next. */
  number(line: Line, number: number | null) {
    if (!this.props.onComment || number === null) return number;
    const label = `Comment on ${SPOKEN[line.sign]} line ${number}`.replace("  ", " ");
    return (
      <button
        type="button"
        class="quiet comment"
        tabIndex={-1}
        aria-label={label}
        title={label}
        onClick={() => this.comment(line)}>
        {number}
      </button>
    );
  }

  comment(line: Line | null) {
    this.commented = line;
    this.forceUpdate();
  }

  onKey = (event: TargetedKeyboardEvent<HTMLElement>) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.target instanceof HTMLTextAreaElement) return;
    const all = [...event.currentTarget.querySelectorAll<HTMLElement>("button.comment")];
    const at = all.findIndex((each) => each === document.activeElement);
    const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  };

  /** Where one writes about a line. */
  form(line: Line | undefined) {
    const { onComment, split } = this.props;
    if (!line || line !== this.commented || !onComment) return null;
    const send = (event: TargetedEvent<HTMLFormElement>) => {
      const comment = String(new FormData(event.currentTarget).get("comment") ?? "").trim();
      if (comment) onComment(line, comment);
      this.comment(null);
    };
    return (
      <tr class="about">
        <td colSpan={split ? 4 : 3}>
          <form onSubmit={instead(send)}>
            <textarea
              name="comment"
              rows={3}
              maxLength={10_000}
              aria-label={`Comment on line ${line.after ?? line.before}`}
              placeholder="What should the agent do about this line?"
              ref={focus}
              onKeyDown={(event) => {
                if (composing(event)) return;
                if (event.key === "Escape") (event.preventDefault(), event.stopPropagation(), this.comment(null));
                if (event.key === "Enter" && (event.ctrlKey || event.metaKey))
                  event.currentTarget.form?.requestSubmit();
              }}></textarea>
            <button class="allow_once">Queue as a prompt</button>
            <button type="button" onClick={() => this.comment(null)}>
              Cancel
            </button>
          </form>
        </td>
      </tr>
    );
  }
}

const focus = (area: HTMLElement | null) => area?.focus();

const text = (line: ReviewedLine): Shown => [
  <span class="sign" aria-label={SPOKEN[line.sign]}>
    {line.sign}
  </span>,
  line.pieces.map(({ text, style, differs }) =>
    style || differs ? <span class={differs ? `${style} differs`.trim() : style}>{running(text)}</span> : running(text),
  ),
];
