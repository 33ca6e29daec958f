// The shortcut that a key stands for.

/** @type {ReadonlyMap<string, Action>} */
const LETTERS = new Map([["/", "search"], ["n", "new"], ["?", "shortcuts"]]);

/** @typedef {"search" | "new" | "shortcuts"} Action */

/**
 * @param {{ key: string, ctrlKey: boolean, metaKey: boolean, altKey: boolean, shiftKey: boolean }} event
 * @param {boolean} typing whether a field has the focus
 * @returns {Action | null}
 */
export function actionOf({ key, ctrlKey, metaKey, altKey, shiftKey }, typing) {
  if (altKey) return null;
  if (ctrlKey || metaKey) return key.toLowerCase() === "k" && !shiftKey && ctrlKey !== metaKey ? "search" : null;
  if (typing) return null;
  return LETTERS.get(key) ?? null;
}
