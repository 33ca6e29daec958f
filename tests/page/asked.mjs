// Answers what the page makes of a request: a line in, `[ask, item]` or a text; a line out, the parts
// of the request, or the text as it is revealed.

import { createInterface } from "node:readline";
import { requestParts } from "../../src/agentrt/_serve/page/request_parts.js";
import { reveal } from "../../src/agentrt/_serve/page/reveal.js";

for await (const line of createInterface({ input: process.stdin })) {
  const given = JSON.parse(line);
  const told = typeof given === "string" ? reveal(given) : requestParts(given[0], given[1] ?? undefined).map(({ block, ...part }) => part);
  process.stdout.write(`${JSON.stringify(told)}\n`);
}
