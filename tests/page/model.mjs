// Takes frames into the page's model. A line in: lots of frames, in an array each. A line out: how the
// seats stand behind each lot.

import { createInterface } from "node:readline";
import { EMPTY, take, undoable } from "../../src/agentrt/_serve/page/model.js";

const stands = ({ seq, gone, behind, undo, view: { state, turns } }) =>
  undo.size ? Object.fromEntries(undo) :
  [seq, gone, behind, state.phase, state.error?.code ?? null, [...turns.values()].map(({ outcome }) => outcome ?? null)];

for await (const line of createInterface({ input: process.stdin })) {
  let model = EMPTY;
  const told = JSON.parse(line).map((frames) => {
    for (const each of frames) {
      model = each.checkpoints ? undoable(model, each.session, each.checkpoints) : take(model, [each], 0);
    }
    return Object.fromEntries([...model.seats].map(([session, seat]) => [session, stands(seat)]));
  });
  process.stdout.write(`${JSON.stringify(told)}\n`);
}
