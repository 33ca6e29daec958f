// Runs of calls that need no attention: several of them are one line of the conversation.

import { isOver } from "./client.js";

/** Calls in a run, at least. */
const LEAST = 3;

/** A line of the conversation: one item or, of a run, several. */
export interface RowOf {
  first: w.Item;
  last: w.Item;
  ids: readonly string[];
}

const WORDS: Record<string, (count: number) => string> = {
  read: (count) => `read ${count === 1 ? "a file" : `${count} files`}`,
  search: (count) => `searched ${count === 1 ? "once" : `${count} times`}`,
  execute: (count) => `ran ${count === 1 ? "a command" : `${count} commands`}`,
  fetch: (count) => `fetched ${count === 1 ? "a page" : `${count} pages`}`,
  other: (count) => (count === 1 ? "one other call" : `${count} other calls`),
};

const kindOf = ({ tool }: w.Item) => tool?.kind || "other";

/** Whether a call has done what it should, and shows nothing that somebody may wait for. */
const isQuiet = (item: w.Item) =>
  item.type === "tool" &&
  item.status === "completed" &&
  kindOf(item) in WORDS &&
  !item.tool?.content?.some(
    (part) => part.type === "diff" || (part.type === "content" && part.content.type !== "text"),
  );

/** Whether an item may be part of a run: agents think between their calls. */
export const joins = (item: w.Item): boolean => isQuiet(item) || (item.type === "thought" && isOver(item));

/** The items as lines. `hasInner`: whether others were begun by it. */
export function inRuns(items: readonly w.Item[], hasInner: (id: string) => boolean = () => false): RowOf[] {
  const rows: RowOf[] = [];
  let run: w.Item[] = [];
  const single = (item: w.Item) => rows.push({ first: item, last: item, ids: [item.id] });
  const end = () => {
    const [from, to] = [run.findIndex(isQuiet), run.findLastIndex(isQuiet) + 1];
    if (run.filter(isQuiet).length < LEAST) run.forEach(single);
    else {
      run.slice(0, from).forEach(single);
      const inner = run.slice(from, to);
      rows.push({ first: inner[0], last: inner[inner.length - 1], ids: inner.map(({ id }) => id) });
      run.slice(to).forEach(single);
    }
    run = [];
  };
  for (const item of items) {
    if (run.length && run[0].turn !== item.turn) end();
    if (joins(item) && !hasInner(item.id)) run.push(item);
    else {
      end();
      single(item);
    }
  }
  end();
  return rows;
}

/** What a run has done, in words. */
export function described(items: readonly w.Item[]): string {
  const kinds = new Map<string, Set<string>>();
  for (const item of items.filter(isQuiet)) {
    const kind = kindOf(item);
    const what = (kind === "read" && item.tool?.locations?.[0]?.path) || item.id;
    kinds.set(kind, (kinds.get(kind) ?? new Set()).add(what));
  }
  const words = [...kinds].map(([kind, all]) => WORDS[kind](all.size)).join(", ");
  return words.slice(0, 1).toUpperCase() + words.slice(1);
}
