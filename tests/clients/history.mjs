// Keeps one view with the reducer of agentrt-client. A line in: what it is given, as `start`, `events`, `history`
// or `again` (a later snapshot). A line out: the view, as a snapshot.

import { createInterface } from "node:readline";
import { fromSnapshot, reduce, resumed, withHistory } from "../../src/agentrt/_serve/page/client.js";

const toSnapshot = (view) =>
  Object.fromEntries(Object.entries(view).map(([key, value]) => [key, value?.forEach && !Array.isArray(value) ? [...value.values()] : value]));

let view;
for await (const line of createInterface({ input: process.stdin })) {
  const { start, events, history, again } = JSON.parse(line);
  if (start) view = fromSnapshot(start);
  else if (events) view = reduce(view, events);
  else if (history) view = withHistory(view, history);
  else view = resumed(view, again);
  process.stdout.write(`${JSON.stringify(toSnapshot(view))}\n`);
}
