// Which lines a conversation has. They are others only when items come or change their kind, and not
// while texts grow.

import { inRuns, joins, type RowOf } from "./runs.js";

/** Which items are drawn, in their order; those that others have begun are in `children`. */
export interface Outline {
  rows: readonly RowOf[];
  children: ReadonlyMap<string, readonly string[]>;
  /** The turns that have changed files. */
  changing: ReadonlySet<string>;
}

/** Whether the same items stand in the same places. */
export function sameShape(before: ReadonlyMap<string, w.Item>, after: ReadonlyMap<string, w.Item>) {
  if (before.size !== after.size) return false;
  const old = before.values();
  for (const item of after.values()) {
    const was = old.next().value;
    if (was !== item && (!was || shape(was) !== shape(item))) return false;
  }
  return true;
}

const shape = (item: w.Item) => `${item.type} ${joins(item)} ${changes(item)} ${item.id} ${item.parent ?? ""}`;

const changes = ({ tool }: w.Item) => tool?.content?.some(({ type }) => type === "diff") ?? false;

/** Which items stand by themselves, and which belong to others. */
export function tree(items: ReadonlyMap<string, w.Item>): Outline {
  const roots: w.Item[] = [];
  const children = new Map<string, string[]>();
  const changing = new Set<string>();
  for (const item of items.values()) {
    if (item.turn && changes(item)) changing.add(item.turn);
    if (item.parent && items.has(item.parent)) {
      const siblings = children.get(item.parent);
      if (siblings) siblings.push(item.id);
      else children.set(item.parent, [item.id]);
    } else roots.push(item);
  }
  return { rows: inRuns(roots, (id) => children.has(id)), children, changing };
}
