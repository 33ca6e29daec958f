// Markdown as virtual DOM, block by block. No HTML is ever made of what an agent wrote: each block
// and span becomes an element that is named here, and everything else is text.

import { linesOf, parse } from "./blocks.js";
import { html } from "./html.js";
import { parseInline } from "./inline.js";
import { link, running } from "./safe.js";

/** Characters of a block up to which it is parsed anew for each piece that comes; a larger one when
 *  it has doubled. So the time it takes grows as the text does, and not as its square. */
const LARGE = 8_000;

/** Characters of a code block or a plain one that are shown. */
const SHOWN = 200_000;
const PART = 4_000;

/**
 * Markdown that grows at its end. The blocks before the last ones are parsed once and stay the
 * objects they are, so that they cost nothing when the text is shown again.
 */
export class Growing {
  constructor() {
    /** The text, what is known of it for good, and where that ends. */
    this.text = "";
    /** @type {Shown[]} */
    this.done = [];
    this.start = 0;
    /** What was shown of the rest, and how much of it that was. @type {Shown[]} */
    this.last = [];
    this.parsed = 0;
    /** @type {References} */
    this.references = new Map();
  }

  /**
   * The blocks of a text that is, but for what came behind it, the one of the last call.
   * @param {string} text
   * @param {boolean} over whether nothing will come behind it
   * @returns {Shown[]}
   */
  show(text, over) {
    if (!text.startsWith(this.text) || (over && this.references.size)) this.reset();
    this.text = text;
    const rest = text.slice(this.start);
    if (!over && rest.length > LARGE) {
      const fence = openFence(rest);
      if (fence !== null) return [...this.done, code(rest.slice(fence))];
      if (rest.length < 2 * this.parsed) return [...this.done, ...this.last, raw(rest.slice(this.parsed))];
    }
    /** @type {number[]} */
    const ends = [];
    const lines = linesOf(rest);
    const blocks = parse(lines, this.references, (end) => ends.push(end));
    // The last lines may still change what they are, and so does the block that they belong to.
    const sure = over ? 0 : ends.slice(0, -1).filter((end) => end < lines.length - 2).length;
    const offset = this.done.length;
    const shown = blocks.map((each, index) => draw(each, offset + index, this.references));
    if (sure) this.start += lengthOf(rest, ends[sure - 1] ?? 0);
    this.done.push(...shown.slice(0, sure));
    this.last = shown.slice(sure);
    this.parsed = text.length - this.start;
    return [...this.done, ...this.last];
  }

  reset() {
    this.done = [];
    this.start = this.parsed = 0;
  }
}

/** @type {(text: string, lines: number) => number} the characters of so many lines */
function lengthOf(text, lines) {
  let at = 0;
  for (let line = 0; line < lines; line++) at = text.indexOf("\n", at) + 1;
  return at;
}

/** @type {(text: string) => number | null} where the code begins, if the text is all of one block */
function openFence(text) {
  const fence = text.match(/^\s*(`{3,}|~{3,})[^\n]*\n/);
  return fence && !text.includes(`\n${fence[1]}`, fence[0].length - 1) ? fence[0].length : null;
}

/**
 * @param {MarkdownBlock} block
 * @param {number} key
 * @param {References} references
 * @returns {Shown}
 */
function draw(block, key, references) {
  /** @param {string} text */
  const inline = (text) => parseInline(text, references).map(span);
  /** @param {readonly MarkdownBlock[]} blocks */
  const nested = (blocks) => blocks.map((each, index) => draw(each, index, references));
  switch (block.type) {
    case "paragraph":
      return block.text.length > 50_000 ? raw(block.text) : html`<p key=${key}>${inline(block.text)}</p>`;
    case "heading": // the page itself has the first two
      return html`<${`h${Math.min(6, block.depth + 2)}`} key=${key}>${inline(block.text)}<//>`;
    case "code":
      return code(block.text, block.language, key);
    case "rule":
      return html`<hr key=${key} />`;
    case "quote":
      return html`<blockquote key=${key}>${nested(block.blocks)}</blockquote>`;
    case "list": {
      const items = block.items.map(({ checked, blocks }, index) => {
        const parts = blocks.map((each, at) =>
          each.type === "paragraph" && !block.loose
            ? html`<span key=${at}>${inline(each.text)}</span>`
            : draw(each, at, references),
        );
        const box =
          checked !== null &&
          html`<span role="img" aria-label=${checked ? "done" : "not done"}>${checked ? "☑" : "☐"}</span> `;
        return html`<li key=${index} class=${box ? "task" : null}>${box}${parts}</li>`;
      });
      return block.start === null
        ? html`<ul key=${key}>${items}</ul>`
        : html`<ol key=${key} start=${block.start}>${items}</ol>`;
    }
    case "table": {
      /** @type {(row: readonly string[], tag: string) => Shown} */
      const cells = (row, tag) =>
        row.map((cell, at) => html`<${tag} key=${at} class=${block.align[at] && `to-${block.align[at]}`}>${inline(cell)}<//>`);
      return html`<div class="table" key=${key} tabindex="0" role="group" aria-label="table"><table>
        <thead><tr>${cells(block.head, "th")}</tr></thead>
        <tbody>${block.rows.map((row, index) => html`<tr key=${index}>${cells(row, "td")}</tr>`)}</tbody>
      </table></div>`;
    }
  }
}

/** @type {(each: Span) => Shown} */
function span(each) {
  if (typeof each === "string") return running(each);
  switch (each.type) {
    case "code":
      return html`<code>${running(each.text)}</code>`;
    case "break":
      return html`<br />`;
    case "link":
      return anchor(each.href, each.children.map(span));
    case "image": // nothing is loaded from elsewhere: that would tell somebody that it was read
      return anchor(each.href, ["🖼 ", ...(each.children.length ? each.children.map(span) : [running(each.href)])]);
    default:
      return html`<${each.type}>${each.children.map(span)}<//>`;
  }
}

/** @type {(text: string) => Shown} a block that is not looked into */
const raw = (text) => html`<div class="raw" key="raw">${parts(text)}</div>`;

/**
 * A long text in parts of whole lines: only those in sight are laid out, and only the last grows.
 * @param {string} text
 * @returns {Shown[]}
 */
function parts(text) {
  const all = running(text.slice(0, SHOWN));
  if (all.length < 2 * PART) return [all];
  /** @type {Shown[]} */
  const out = [];
  for (let at = 0, end = 0; at < all.length; at = end) {
    end = all.indexOf("\n", at + PART) + 1 || all.length;
    out.push(html`<span class="part" key=${out.length}>${all.slice(at, end)}</span>`);
  }
  return out;
}

/** @type {(text: string) => Handler} */
const copy = (text) => async ({ currentTarget }) => {
  await navigator.clipboard.writeText(text); // where the connection is no secret, there is none
  currentTarget.classList.add("done");
  setTimeout(() => currentTarget.classList.remove("done"), 1500);
};

/**
 * @param {string} text
 * @param {string} [language]
 * @param {number} [key]
 */
export function code(text, language, key) {
  const left = text.length - SHOWN;
  return html`<figure class="code" key=${key ?? "code"}>
    <figcaption>
      <span>${running(language || "code")}</span>
      <button type="button" class="quiet" onClick=${copy(text)}>Copy</button>
    </figcaption>
    <pre tabindex="0"><code>${parts(text)}</code></pre>
    ${left > 0 && html`<p class="hint">${left} more characters are not shown; “Copy” takes all.</p>`}
  </figure>`;
}

/**
 * A link that leads away, or words that only look like one.
 * @param {string} address
 * @param {Shown[]} words
 */
export function anchor(address, words) {
  const href = link(address);
  return href
    ? html`<a href=${href} title=${running(href)} target="_blank" rel="noopener noreferrer">${words}</a>`
    : html`<span class="no-link" title=${running(address)}>${words}</span>`;
}
