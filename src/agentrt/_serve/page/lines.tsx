// The numbered lines of a text, of which those in sight are drawn, and a search in them.

import { Component } from "preact";
import { valued } from "./html.js";
import { running } from "./safe.js";

/** Pixels of a line, as in the style sheet, and lines around those in sight. */
const LINE = 20;
const AROUND = 40;

/** Lines that are laid out: browsers bound the height of a box. */
export const LINES = 500_000;

interface LinesProps {
  lines: readonly string[];
  coloured: LinePiece[][] | null;
  /** The line to begin at, from 1. */
  line: number | null;
}

export class Lines extends Component<LinesProps> {
  box: HTMLElement | null = null;
  first = 0;
  words = "";
  hits: number[] = [];
  /** The line that stands out, from 1. */
  marked = this.props.line;

  componentDidMount() {
    this.jump(this.marked);
  }

  componentDidUpdate(before: LinesProps) {
    if (before.line !== this.props.line) this.jump(this.props.line);
  }

  jump(line: number | null) {
    if (!this.box || line === null) return;
    this.marked = line;
    this.box.scrollTop = Math.max(0, (line - 5) * LINE);
    this.forceUpdate();
  }

  search(words: string) {
    this.words = words;
    const wanted = words.toLowerCase();
    this.hits = wanted
      ? this.props.lines.flatMap((text, index) => (text.toLowerCase().includes(wanted) ? [index + 1] : []))
      : [];
    const next = this.hits.find((line) => line >= this.first) ?? this.hits[0];
    if (next !== undefined) this.jump(next);
    else this.forceUpdate();
  }

  step(by: 1 | -1) {
    const { hits, marked } = this;
    if (!hits.length) return;
    const at = hits.indexOf(marked ?? 0);
    this.jump(hits[(at + by + hits.length) % hits.length] ?? null);
  }

  render({ lines, coloured }: LinesProps) {
    const from = Math.max(0, this.first - AROUND);
    const to = Math.min(lines.length, this.first + Math.ceil((this.box?.clientHeight ?? 800) / LINE) + AROUND);
    const width = String(lines.length).length;
    const at = this.hits.indexOf(this.marked ?? 0);
    return (
      <>
        <form
          class="within"
          onSubmit={(event) => {
            event.preventDefault();
            this.step(1);
          }}>
          <input
            type="search"
            aria-label="Search in this file"
            placeholder="Search in this file"
            value={this.words}
            onInput={valued((words) => this.search(words))}
            onKeyDown={(event: KeyboardEvent) => {
              if (event.key === "Enter" && event.shiftKey) (event.preventDefault(), this.step(-1));
            }}
          />
          <span role="status">
            {this.words && (this.hits.length ? `${Math.max(0, at) + 1} of ${this.hits.length}` : "No results")}
          </span>
          <input
            class="number"
            type="number"
            min={1}
            max={lines.length}
            aria-label="Go to line"
            placeholder="Line"
            onChange={valued((line) => this.jump(Math.min(lines.length, Math.max(1, Number(line)))))}
          />
        </form>
        <div
          class="file-lines"
          role="group"
          tabIndex={0}
          aria-label="Content"
          ref={(box) => void (this.box = box)}
          onScroll={() => {
            const first = Math.floor((this.box?.scrollTop ?? 0) / LINE);
            if (Math.abs(first - this.first) < AROUND / 2) return;
            this.first = first;
            this.forceUpdate();
          }}>
          <div class="all" style={{ height: `${lines.length * LINE}px` }}>
            <div class="drawn" style={{ top: `${from * LINE}px` }}>
              {lines.slice(from, to).map((text, index) => {
                const line = from + index + 1;
                return (
                  <div key={line} class={`file-line ${line === this.marked ? "marked" : ""}`}>
                    <span class="numbers" aria-hidden="true" style={{ minWidth: `${width + 3}ch` }}>
                      {line}
                    </span>
                    <code>{coloured?.[line - 1] ? spans(coloured[line - 1]) : running(text.slice(0, 2_000))}</code>
                  </div>
                );
              })}
            </div>
          </div>
        </div>
      </>
    );
  }
}

const spans = (pieces: readonly LinePiece[]): Shown[] =>
  pieces.map(({ text, style }) => (style ? <span class={style}>{running(text)}</span> : running(text)));
