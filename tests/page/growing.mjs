// Shows Markdown as it grows. A line in: a text, and the places where it is cut, or null for each
// place alone and all of them at once. A line out: what is shown of the whole text at once, what
// else was shown behind the last piece, and where links led meanwhile that lead nowhere at the end.

import { createInterface } from "node:readline";
const { Growing } = await import(`${process.env.PAGE}/growing.js`);
import { toHtml } from "./markdown.mjs";

const links = (html) => [...html.matchAll(/<a [^>]*href="([^"]*)"/g)].map(([, href]) => href);

for await (const line of createInterface({ input: process.stdin })) {
  const [text, cuts] = JSON.parse(line);
  const whole = toHtml(new Growing().show(text, true));
  const right = new Set(links(whole));
  const [others, wrong] = [new Set(), new Set()];
  const all = [...text].map((_, at) => at + 1);
  for (const places of cuts ? [cuts] : [...all.map((at) => [at]), all]) {
    const growing = new Growing();
    for (const at of places) {
      for (const href of links(toHtml(growing.show(text.slice(0, at), false)))) if (!right.has(href)) wrong.add(href);
    }
    const grown = toHtml(growing.show(text, true));
    if (grown !== whole) others.add(grown);
  }
  process.stdout.write(`${JSON.stringify([whole, [...others], [...wrong]])}\n`);
}
