// The shortcut that a key stands for.

const LETTERS: ReadonlyMap<string, Action> = new Map([
  ["/", "search"],
  ["n", "new"],
  ["o", "outline"],
  ["f", "files"],
  ["i", "field"],
  ["?", "shortcuts"],
]);

export type Action = "search" | "new" | "shortcuts" | "palette" | "outline" | "files" | "field";

/** @param typing whether a field has the focus */
export function actionOf(
  {
    key,
    ctrlKey,
    metaKey,
    altKey,
    shiftKey,
  }: { key: string; ctrlKey: boolean; metaKey: boolean; altKey: boolean; shiftKey: boolean },
  typing: boolean,
): Action | null {
  if (altKey) return null;
  if (ctrlKey || metaKey) return key.toLowerCase() === "k" && !shiftKey && ctrlKey !== metaKey ? "palette" : null;
  if (typing) return null;
  return LETTERS.get(key) ?? null;
}
