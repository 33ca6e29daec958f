// Shows Markdown as it grows. A line in: the pieces of a text, as an array. A line out: what is shown
// behind the last piece, and what is shown of the whole text at once.

import { createInterface } from "node:readline";
import { Growing } from "../../src/agentrt/_web/page/markdown.js";

function shown(node) {
  if (node === null || typeof node !== "object") return String(node ?? "");
  if (Array.isArray(node)) return node.map(shown);
  const { children, onClick: _, ...rest } = node.props;
  return [node.type, rest, shown(children ?? "")];
}

for await (const line of createInterface({ input: process.stdin })) {
  const pieces = JSON.parse(line);
  const growing = new Growing();
  let text = "";
  for (const piece of pieces) growing.show((text += piece), false);
  const result = [growing.show(text, true), new Growing().show(text, true)].map(shown);
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
