// Folds traces with the reducer of agentrt-client. A line in: a snapshot and the events after it, as an array.
// A line out: the `snapshots` before, between and behind the events, what each leaves `open`, and each
// as it is when the session is `gone`.

import assert from "node:assert";
import { createInterface } from "node:readline";
import { fromSnapshot, gone, leftOpen, reduce } from "../../src/agentrt/_serve/page/client.js";

/** The snapshot that a view is. */
const toSnapshot = (view) =>
  Object.fromEntries(Object.entries(view).map(([key, value]) => [key, value?.forEach && !Array.isArray(value) ? [...value.values()] : value]));

for await (const line of createInterface({ input: process.stdin })) {
  const [snapshot, ...events] = JSON.parse(line);
  const views = [fromSnapshot(snapshot)];
  for (const event of events) views.push(reduce(views.at(-1), [event]));
  // Not before now: an event that changed an earlier view would be seen.
  const snapshots = views.map(toSnapshot);
  for (let start = 0; start < events.length; start += 7) {
    assert.deepEqual(toSnapshot(reduce(views[start], events.slice(start))), snapshots.at(-1));
  }
  assert.equal(reduce(views[0], []), views[0]);
  const ended = views.map(gone);
  for (const view of ended) assert.equal(gone(view), view);
  const told = { snapshots, open: views.map(leftOpen), gone: ended.map(toSnapshot) };
  process.stdout.write(`${JSON.stringify(told)}\n`);
}
