// Takes frames into the model of agentrt-client. A line in: lots of frames, in an array each. A line out: how the
// seats stand behind each lot.

import { createInterface } from "node:readline";
import { EMPTY, NO_OBSERVER, take } from "../../src/agentrt/_serve/page/client.js";

const stands = ({ seq, gone, behind, view: { state, turns } }) =>
  [seq, gone, behind, state.phase, state.error?.code ?? null, [...turns.values()].map(({ outcome }) => outcome ?? null)];

for await (const line of createInterface({ input: process.stdin })) {
  let model = EMPTY;
  const told = JSON.parse(line).map((frames) => {
    model = take(model, frames, NO_OBSERVER);
    return Object.fromEntries([...model.attached].map(([session, seat]) => [session, stands(seat)]));
  });
  process.stdout.write(`${JSON.stringify(told)}\n`);
}
