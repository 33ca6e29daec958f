// The shortcut that a key stands for.

const LETTERS: ReadonlyMap<string, Action> = new Map([
  ["/", "search"],
  ["n", "new"],
  ["?", "shortcuts"],
]);

export type Action = "search" | "new" | "shortcuts";

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
  if (ctrlKey || metaKey) return key.toLowerCase() === "k" && !shiftKey && ctrlKey !== metaKey ? "search" : null;
  if (typing) return null;
  return LETTERS.get(key) ?? null;
}
