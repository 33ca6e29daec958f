// Walks through the history of a session with agentrt-client. A line in: the number of pages to take, or a seed
// for random steps. A line out: the map entries that were read and written for the pages, or the number of
// views that were compared.

import assert from "node:assert";
import { createInterface } from "node:readline";
import { AgentClient, reduce, withHistory, withItem } from "../../src/agentrt/_serve/page/client.js";

const SIZE = 20;
const turn = (number) => ({ id: `t${number}`, origin: "prompt", outcome: "completed" });
const item = (number) => ({ id: `i${number}`, type: "agent", turn: `t${Math.floor(number / 30)}`, status: "completed" });
const between = (start, end, make) => Array.from({ length: Math.max(0, end - start) }, (_, at) => make(start + at));

/** The items and turns from `start` on; a turn may begin in an earlier page. */
const content = (start, end) => ({
  items: between(start, end, item),
  turns: between(Math.floor(start / 30), Math.floor((end - 1) / 30) + 1, turn),
  earlier: start ? `i${start}` : null,
});

const snapshot = (start, end) => ({
  state: { phase: "ready", turn: null, agent: { alive: true } },
  ...content(start, end), permissions: [], queue: [], plan: [], tasks: [], usage: null, modes: null, commands: [],
});

/** Count the map entries that are written, and those that an iterator gives. */
function counted(work) {
  const iterator = Object.getPrototypeOf(new Map().entries());
  const { set } = Map.prototype;
  const { next } = iterator;
  let count = 0;
  Map.prototype.set = function (key, value) {
    count += 1;
    return set.call(this, key, value);
  };
  iterator.next = function () {
    count += 1;
    return next.call(this);
  };
  try {
    work();
  } finally {
    Map.prototype.set = set;
    iterator.next = next;
  }
  return count;
}

function walk(pages) {
  const tools = [{ name: "tool", description: "", input_schema: {}, run: () => "" }];
  const client = new AgentClient({ url: "ws://nowhere", tools });
  const end = (pages + 1) * SIZE;
  let start = end - SIZE;
  const place = { session: "s", epoch: "e", seq: 1 };
  client.take([{ type: "snapshot", ...place, ...snapshot(start, end) }]);
  const count = counted(() => {
    for (; start; start -= SIZE) {
      const before = `i${start}`;
      client.take([{ type: "ack", id: before, ok: true, ...place, before, ...content(start - SIZE, start) }]);
    }
  });
  const { view } = client.getSnapshot().attached.get("s");
  assert.deepEqual([...view.items.values()], between(0, end, item));
  assert.equal(view.items.size, end);
  assert.equal(view.earlier, null);
  return count;
}

/** The view with plain maps. */
const plain = (view) => ({ ...view, items: new Map(view.items), turns: new Map(view.turns) });
const entries = (view) => ({ ...view, items: [...view.items], turns: [...view.turns] });

/** Take the same random steps with views that share content, and with copies of it. */
function compare(seed) {
  const chance = (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * below);
  };
  const first = { ...snapshot(200, 230), paused: false, title: null };
  for (const key of ["items", "turns"]) first[key] = new Map(first[key].map((each) => [each.id, each]));
  if (chance(2)) { // an item that was open in the snapshot
    first.items = new Map([["i150", { ...item(150), status: "running" }], ...first.items]);
  }
  const views = [first];
  const known = [entries(first)];
  for (let step = 0; step < 40; step++) {
    const view = views[chance(3) ? views.length - 1 : chance(views.length)];
    const id = `i${chance(240)}`;
    const events = [
      { kind: "item.updated", item: id, patch: { title: `title ${step}` } },
      { kind: "item.opened", item: { ...item(300 + step), status: "running" } },
      { kind: "turn.ended", turn: `t${chance(9)}`, outcome: "cancelled", step },
    ];
    const acts = [
      (each) => reduce(each, events.slice(0, 1)),
      (each) => reduce(each, events),
      (each) => (each.items.has(id) ? withItem(each, { ...each.items.get(id), step }) : each),
    ];
    const older = (each) => {
      const end = Number(each.earlier.slice(1));
      return withHistory(each, content(Math.max(0, end - size), end));
    };
    const size = 1 + chance(25);
    const act = view.earlier && chance(2) ? older : acts[chance(acts.length)];
    const next = act(view);
    assert.deepEqual(entries(next), entries(act(plain(view))));
    for (const name of ["items", "turns"]) {
      const maps = [next[name], plain(next)[name]];
      assert.equal(maps[0].size, maps[1].size);
      assert.deepEqual([...maps[0].keys()], [...maps[1].keys()]);
      for (const map of maps) map.forEach((value, key) => assert.equal(maps[0].get(key), value));
      for (const gone of ["i0", "i500", "t99"]) assert.equal(maps[0].has(gone), maps[1].has(gone));
    }
    views.push(next);
    known.push(entries(next));
  }
  views.forEach((view, place) => assert.deepEqual(entries(view), known[place]));
  return views.length;
}

for await (const line of createInterface({ input: process.stdin })) {
  const { pages, seed } = JSON.parse(line);
  process.stdout.write(`${JSON.stringify(pages ? walk(pages) : compare(seed))}\n`);
}
