// Makes HTML of what the page draws for Markdown, to be compared with what others make of it. A line
// in: a text as a JSON string. A line out: HTML as a JSON string. (The page itself makes no HTML.)

import { createInterface } from "node:readline";
const { Code } = await import(`${process.env.PAGE}/code.js`);
const { Growing } = await import(`${process.env.PAGE}/growing.js`);

const escape = (text) =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

const KEPT = ["href", "start", "class", "aria-label"];

export function toHtml(node) {
  if (node === null || node === undefined || typeof node === "boolean") return "";
  if (Array.isArray(node)) return node.map(toHtml).join("");
  if (typeof node !== "object") return escape(String(node));
  const { type, props } = node;
  if (type === Code) {
    const language = props.language ? ` class="language-${escape(props.language)}"` : "";
    return `<pre><code${language}>${props.text && escape(`${props.text}\n`)}</code></pre>`;
  }
  const inner = toHtml(props.children);
  const kind = props.class ?? "";
  if (kind.includes("image")) return `<img src="${escape(props.title)}" alt="${inner.replace(/<img [^>]*alt="([^"]*)"[^>]*>/g, "$1").replace(/<[^>]*>|🖼 /g, "")}" />`;
  if (kind.includes("no-link")) return `<a href="${escape(props.title)}">${inner}</a>`;
  if (kind === "mention" || (type === "span" && !props.role) || kind === "table") return inner; // a tight paragraph; a box around
  if (type === "br") return "<br />\n";
  const kept = KEPT.filter((name) => props[name] != null && !(name === "start" && props[name] === 1));
  const attributes = kept.map((name) => ` ${name}="${escape(String(props[name]))}"`);
  const tag = type === "s" ? "del" : type;
  return `<${tag}${attributes.join("")}${tag === "hr" ? " />" : `>${inner}</${tag}>`}`;
}

if (process.argv[1] === import.meta.filename) {
  for await (const line of createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(toHtml(new Growing().show(JSON.parse(line), true)))}\n`);
  }
}
