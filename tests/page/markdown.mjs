// Makes HTML of Markdown with the page's parser, to be compared with what others make of it. A line
// in: a text as a JSON string. A line out: HTML as a JSON string. (The page itself makes no HTML.)

import { createInterface } from "node:readline";
import { linesOf, parse } from "../../src/agentrt/_web/page/blocks.js";
import { parseInline } from "../../src/agentrt/_web/page/inline.js";

const escape = (text) =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

export function toHtml(text) {
  const references = new Map();
  const inline = (words) => parseInline(words, references).map(span).join("");
  const span = (each) => {
    if (typeof each === "string") return escape(each);
    const inner = (each.children ?? []).map(span).join("");
    if (each.type === "code") return `<code>${escape(each.text)}</code>`;
    if (each.type === "break") return "<br />\n";
    if (each.type === "link") return `<a href="${escape(each.href)}">${inner}</a>`;
    if (each.type === "image") return `<img src="${escape(each.href)}" alt="${inner.replace(/<[^>]*>/g, "")}" />`;
    return `<${each.type}>${inner}</${each.type}>`;
  };
  const item = ({ checked, blocks }, loose) => {
    const box = checked === null ? "" : `[${checked ? "x" : " "}] `;
    const inner = blocks.map((each) => (each.type === "paragraph" && !loose ? inline(each.text) : block(each)));
    return `<li>${box}${inner.join("\n")}</li>`;
  };
  const cells = (row, tag, align) =>
    `<tr>${row.map((cell, at) => `<${tag}${align[at] ? ` align="${align[at]}"` : ""}>${inline(cell)}</${tag}>`).join("")}</tr>`;
  const block = (each) => {
    switch (each.type) {
      case "heading":
        return `<h${each.depth}>${inline(each.text)}</h${each.depth}>`;
      case "code":
        return `<pre><code${each.language ? ` class="language-${escape(each.language)}"` : ""}>${each.text && escape(`${each.text}\n`)}</code></pre>`;
      case "rule":
        return "<hr />";
      case "quote":
        return `<blockquote>${each.blocks.map(block).join("\n")}</blockquote>`;
      case "list": {
        const items = each.items.map((one) => item(one, each.loose)).join("\n");
        if (each.start === null) return `<ul>${items}</ul>`;
        return `<ol${each.start === 1 ? "" : ` start="${each.start}"`}>${items}</ol>`;
      }
      case "table": {
        const rows = each.rows.map((row) => cells(row, "td", each.align)).join("");
        return `<table><thead>${cells(each.head, "th", each.align)}</thead>${rows && `<tbody>${rows}</tbody>`}</table>`;
      }
      default:
        return `<p>${inline(each.text)}</p>`;
    }
  };
  const blocks = parse(linesOf(text), references);
  return blocks.map(block).join("\n");
}

if (process.argv[1] === import.meta.filename) {
  for await (const line of createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(toHtml(JSON.parse(line)))}\n`);
  }
}
