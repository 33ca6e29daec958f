// The outline of a conversation, which is its prompts, and a search in it.

import { Component } from "preact";
import { lookBack } from "./actions.js";
import { wordsOf } from "./content.js";
import { Dialog } from "./dialog.js";
import { valued } from "./html.js";
import { oneLine } from "./safe.js";
import { seat, setUi, ui } from "./store.js";
import { titleOf } from "./toolcard.js";

/** Rows that are shown. */
const ROWS = 300;

const WHO: Record<string, string> = { user: "You", text: "Agent", thought: "Thought", tool: "Tool", task: "Task" };

interface Hit {
  id: string;
  type: string;
  text: string;
}

/** The text of an item that is searched. */
const textOf = (item: w.Item): string =>
  [item.tool && titleOf(item), item.text, wordsOf(item.content)].filter(Boolean).join(" ");

/** The prompts, or the items with some words, the newest last. */
export function hits(items: Iterable<w.Item>, words: string): Hit[] {
  const wanted = words.trim().toLowerCase();
  const found: Hit[] = [];
  for (const item of items) {
    if (!wanted && item.type !== "user") continue;
    const text = textOf(item);
    const at = wanted ? text.toLowerCase().indexOf(wanted) : 0;
    if (at < 0) continue;
    const start = Math.max(0, at - 40);
    found.push({ id: item.id, type: item.type, text: `${start ? "…" : ""}${text.slice(start, start + 300)}` });
  }
  return found;
}

export class Outline extends Component {
  words = "";

  render() {
    const view = seat()?.view;
    const found = hits(view?.items.values() ?? [], this.words);
    const looking = ui().looking.has(ui().session ?? "");
    const go = (id: string) => setUi({ panel: null, goal: id, atEnd: false });
    return (
      <Dialog label="Search and outline" kind="outline" onClose={() => setUi({ panel: null })}>
        <h2>{this.words ? "Found in this conversation" : "Outline"}</h2>
        <input
          type="search"
          aria-label="Search in this conversation"
          placeholder="Search in this conversation"
          value={this.words}
          onInput={valued((words) => ((this.words = words), this.forceUpdate()))}
        />
        <p class="hint" role="status">
          {found.length === 0
            ? "No results"
            : this.words
              ? `${found.length} found${found.length > ROWS ? `, the last ${ROWS} shown` : ""}`
              : ""}
        </p>
        {view?.earlier && (
          <button class="quiet" aria-busy={looking} onClick={lookBack}>
            {looking ? "Loading…" : "Include earlier turns"}
          </button>
        )}
        <ol>
          {found.slice(-ROWS).map(({ id, type, text }) => (
            <li key={id}>
              <button class="entry" onClick={() => go(id)}>
                <small>{WHO[type] ?? oneLine(type, 20)}</small>
                <span dir="auto">{oneLine(text, 160)}</span>
              </button>
            </li>
          ))}
        </ol>
      </Dialog>
    );
  }
}
