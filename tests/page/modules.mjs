// Calls a function of one of the page's modules. A line in: `[module, function, …arguments]`. A line
// out: what it returned, or promised.

import { createInterface } from "node:readline";

for await (const line of createInterface({ input: process.stdin })) {
  const [module, name, ...given] = JSON.parse(line);
  const { [name]: called } = await import(`${process.env.PAGE}/${module}.js`);
  process.stdout.write(`${JSON.stringify((await called(...given)) ?? null)}\n`);
}
