// Takes frames into a model with the page's own values. A line in: lots of frames, in an array each, or of
// the checkpoints of a session. A line out: what can be undone in each session after each lot.

import { createInterface } from "node:readline";
const { EMPTY, take } = await import(`${process.env.PAGE}/client.js`);
const { observer, undoable } = await import(`${process.env.PAGE}/model.js`);

const values = observer({ now: () => 0, tell() {}, listed() {} });

function withCheckpoints(model, session, checkpoints) {
  const known = model.attached.get(session);
  const extra = undoable(known.extra, session, checkpoints);
  return { ...model, attached: new Map(model.attached).set(session, { ...known, extra }) };
}

for await (const line of createInterface({ input: process.stdin })) {
  let model = EMPTY;
  const told = JSON.parse(line).map((frames) => {
    for (const each of frames) {
      model = each.checkpoints ? withCheckpoints(model, each.session, each.checkpoints) : take(model, [each], values);
    }
    return Object.fromEntries([...model.attached].map(([session, { extra }]) => [session, Object.fromEntries(extra.undo)]));
  });
  process.stdout.write(`${JSON.stringify(told)}\n`);
}
