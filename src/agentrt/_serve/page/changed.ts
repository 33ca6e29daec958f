// What agents say that they have changed, by file.

/** A change of a file; further ones that go on from its result are part of it. */
export interface FileChange {
  /** Of the call that has made it, or the first of them. */
  item: w.Item;
  before: string | null;
  after: string;
  /** Whether parts of the texts are not here yet. */
  cut: boolean;
}

export interface ChangedFile {
  path: string;
  changes: FileChange[];
}

/** Of a call in another state, the change was not made. */
const MADE = new Set(["completed", "running"]);

/** The changes of a turn, or of all: files in the order in which they were changed first. */
export function changedFiles(items: Iterable<w.Item>, turn: string | null): ChangedFile[] {
  const files = new Map<string, FileChange[]>();
  for (const item of items) {
    if (!item.tool?.content || !MADE.has(item.status ?? "running") || (turn && item.turn !== turn)) continue;
    for (const part of item.tool.content) {
      if (part.type !== "diff") continue;
      const { path, oldText = null, newText, _cut } = part;
      const known = files.get(path) ?? [];
      files.set(path, known);
      const last = known.at(-1);
      const cut = _cut !== undefined;
      if (last && !last.cut && !cut && last.after === oldText) last.after = newText;
      else known.push({ item, before: oldText, after: newText, cut });
    }
  }
  return [...files].map(([path, changes]) => ({ path, changes }));
}

/** The turns in which files were changed. */
export function changingTurns(items: Iterable<w.Item>): string[] {
  const turns = new Set<string>();
  for (const { turn, tool, status } of items) {
    if (turn && MADE.has(status ?? "running") && tool?.content?.some(({ type }) => type === "diff")) turns.add(turn);
  }
  return [...turns];
}
