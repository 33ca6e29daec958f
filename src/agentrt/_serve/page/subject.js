// What a question is about: all parts of the request, each with every character visible.

import { Diff } from "./diff.js";
import { html } from "./html.js";
import { formParts, requestParts } from "./request_parts.js";
import { reveal } from "./reveal.js";
import { revealed } from "./revealed.js";
import { dataUrl, link } from "./safe.js";

/** Characters of a text from which on the browser lays out only the parts in sight, of about so many. */
const MANY = 400_000;
const TOGETHER = 4_000;

/** @type {(ask: w.PermissionOpened, item: w.Item | undefined) => Shown} */
export function Subject(ask, item) {
  const parts = [...requestParts(ask, item), ...(ask.form ? formParts(ask.form) : [])];
  return parts.map((part, index) => Part(part, index));
}

/** @type {(part: RequestPart, key: string | number) => Shown} */
export function Part({ label, text, kind, old, block }, key) {
  switch (kind) {
    case "diff":
      return html`<${Diff} key=${key} diff=${{ type: "diff", path: label, newText: text, oldText: old }} cwd="" all=${true} />`;
    case "command":
      return html`<pre class="command" key=${key} role="group" aria-label="command"><code dir="ltr">${inChunks(text)}</code></pre>`;
    case "link": {
      const href = link(text);
      const words = html`<code dir="ltr">${revealed(text)}</code>`;
      return html`<p class="argument" key=${key}><b>${label}</b> ${href ? html`<a href=${href} target="_blank" rel="noopener noreferrer">${words}</a>` : words}</p>`;
    }
    case "media": {
      const source = block && "data" in block ? dataUrl(block.mimeType ?? "", block.data) : null;
      return html`<div class="argument" key=${key}><b>${label}</b> <span dir="ltr">${revealed(text)}</span>
        ${source && (block?.type === "audio" ? html`<audio controls src=${source}></audio>` : html`<img class="picture" src=${source} alt="" />`)}</div>`;
    }
    case "same":
      return html`<p class="argument" key=${key}><b>${revealed(label)}</b> <i>as above</i></p>`;
    case "text":
      return html`<div class="argument" key=${key}>${label !== "text" && html`<b>${revealed(label)}</b>`}
        <div class="verbatim said" dir="ltr">${inChunks(text)}</div></div>`;
    default:
      return html`<div class="argument" key=${key}><b>${revealed(label)}</b> <span class="verbatim" dir="ltr">${inChunks(text)}</span></div>`;
  }
}

/** @type {(text: string) => Shown[]} a long text in parts of whole lines, of which the browser lays out those in sight */
export function inChunks(text) {
  if (text.length < MANY) return revealed(text);
  /** @type {Shown[]} */
  const out = [];
  for (let at = 0, end = 0; at < text.length; at = end) {
    const line = text.indexOf("\n", at + TOGETHER);
    // A line without an end is not cut inside of a character or a word.
    end = line < 0 ? text.length : line + 1;
    out.push(html`<span class="part" key=${out.length}>${revealed(text.slice(at, end))}</span>`);
  }
  return out;
}

/** Words for the kinds of options. @type {Record<string, string>} */
const KINDS = { allow_once: "allow once", allow_always: "allow always", reject_once: "reject", reject_always: "reject always" };

/** Names that say what an option of a kind does. @type {Record<string, RegExp>} */
const PLAIN = {
  allow_once: /^(?:allow|allow once|accept)$/i,
  allow_always: /^(?:always allow|allow always)$/i,
  reject_once: /^(?:reject|reject once|deny|decline)$/i,
  reject_always: /^(?:reject always|always reject)$/i,
};

/** @type {(option: w.PermissionOption) => string} what an option does, where its name does not say it in plain words */
export const effect = ({ kind, name }) => (PLAIN[kind]?.test(name) ? "" : (KINDS[kind] ?? `another answer${kind ? `: ${reveal(kind)}` : ""}`));
