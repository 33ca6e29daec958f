// Markdown as virtual DOM, block by block. No HTML is ever made of what an agent wrote: each token
// of the parser becomes an element that is named here, and everything else becomes text.

import { Lexer } from "./vendor/libraries.js";
import { html } from "./html.js";
import { link, running } from "./safe.js";

/** @import { ComponentChildren, Token, Tokens } from "./vendor/libraries.js" */

/** A block that grows beyond this is shown as plain text until it is complete: parsing it anew
 *  for each piece would take time by the square of its length. */
const LARGE = 16_000;

/**
 * Markdown that grows at its end. The blocks before the last are parsed once and stay the objects
 * they are, so that they cost nothing when the text is shown again.
 */
export class Growing {
  constructor() {
    /** @type {ComponentChildren[]} */
    this.done = [];
    /** The text, and how much of it is in `done`. */
    this.text = "";
    this.start = 0;
    this.over = false;
    /** @type {ComponentChildren[]} */
    this.last = [];
  }

  /**
   * The blocks of a text that is, but for what came behind it, the one of the last call.
   * @param {string} text
   * @param {boolean} over whether nothing will come behind it
   * @returns {ComponentChildren[]}
   */
  show(text, over) {
    if (text === this.text && over === this.over) return [...this.done, ...this.last];
    if (!text.startsWith(this.text)) [this.done, this.start] = [[], 0];
    this.text = text;
    this.over = over;
    const rest = text.slice(this.start);
    if (!over && rest.length > LARGE && isOneBlock(rest)) {
      const fence = rest.match(/^ {0,3}(?:`{3,}|~{3,})[^\n]*\n/)?.[0];
      this.last = [fence ? code(rest.slice(fence.length), "") : html`<p class="raw">${running(rest)}</p>`];
      return [...this.done, ...this.last];
    }
    const tokens = new Lexer({ gfm: true, breaks: false }).lex(rest);
    if (!over) {
      // The last block may still change; a blank line behind it changes nothing.
      let length = tokens.length;
      while (length && tokens[length - 1]?.type === "space") length--;
      for (const token of tokens.slice(0, Math.max(0, length - 1))) {
        this.done.push(block(token, this.done.length));
        this.start += token.raw.length;
      }
      this.last = tokens.slice(Math.max(0, length - 1), length).map((token) => block(token, this.done.length));
    } else {
      this.last = tokens.map((token, index) => block(token, this.done.length + index));
    }
    return [...this.done, ...this.last];
  }
}

/**
 * Whether a long text is one block: no blank line, or a code block that is not closed.
 * @param {string} text
 */
function isOneBlock(text) {
  const fence = text.match(/^ {0,3}(`{3,}|~{3,})/)?.[1];
  return fence ? !text.includes(`\n${fence}`, fence.length) : !/\n[ \t]*\n/.test(text);
}

/**
 * @param {Token} token
 * @param {number} key
 * @returns {ComponentChildren}
 */
function block(token, key) {
  const t = /** @type {any} */ (token);
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return html`<${`h${Math.min(6, t.depth + 2)}`} key=${key}>${inline(t.tokens)}<//>`;
    case "paragraph":
      return html`<p key=${key}>${inline(t.tokens)}</p>`;
    case "code":
      return code(t.text, t.lang, key);
    case "blockquote":
      return html`<blockquote key=${key}>${blocks(t.tokens)}</blockquote>`;
    case "list":
      return list(/** @type {Tokens.List} */ (token), key);
    case "table":
      return table(/** @type {Tokens.Table} */ (token), key);
    case "hr":
      return html`<hr key=${key} />`;
    case "text":
      return html`<span key=${key}>${t.tokens ? inline(t.tokens) : running(entities(t.text))}</span>`;
    default: // HTML, and whatever else there is
      return html`<p key=${key} class="raw">${running(token.raw.trimEnd())}</p>`;
  }
}

/** @type {(tokens: Token[] | undefined) => ComponentChildren[]} */
const blocks = (tokens) => (tokens ?? []).map(block);

/**
 * @param {string} text
 * @param {string} [language]
 * @param {number} [key]
 */
export function code(text, language, key) {
  const name = (language ?? "").trim().split(/\s/, 1)[0];
  return html`<figure class="code" key=${key}>
    <figcaption>
      <span>${running(name || "code")}</span>
      <button type="button" class="quiet" onClick=${() => navigator.clipboard.writeText(text)}>Copy</button>
    </figcaption>
    <pre tabindex="0"><code>${running(text)}</code></pre>
  </figure>`;
}

/**
 * @param {Tokens.List} token
 * @param {number} key
 */
function list(token, key) {
  const items = token.items.map(
    (item, index) =>
      html`<li key=${index} class=${item.task ? "task" : null}>
        ${item.task && html`<span class="check" role="img" aria-label=${item.checked ? "done" : "not done"}>${item.checked ? "☑" : "☐"}</span> `}
        ${blocks(item.tokens.filter((part) => part.type !== "checkbox"))}
      </li>`,
  );
  return token.ordered
    ? html`<ol key=${key} start=${token.start || 1}>${items}</ol>`
    : html`<ul key=${key}>${items}</ul>`;
}

/**
 * @param {Tokens.Table} token
 * @param {number} key
 */
function table(token, key) {
  /** @type {(cell: Tokens.TableCell, index: number, tag: string) => ComponentChildren} */
  const cell = (cell, index, tag) =>
    html`<${tag} key=${index} class=${cell.align ? `to-${cell.align}` : null}>${inline(cell.tokens)}<//>`;
  return html`<div class="table" key=${key} tabindex="0" role="region" aria-label="table"><table>
    <thead><tr>${token.header.map((head, index) => cell(head, index, "th"))}</tr></thead>
    <tbody>${token.rows.map((row, index) => html`<tr key=${index}>${row.map((each, at) => cell(each, at, "td"))}</tr>`)}</tbody>
  </table></div>`;
}

/**
 * @param {Token[] | undefined} tokens
 * @returns {ComponentChildren[]}
 */
function inline(tokens) {
  return (tokens ?? []).map((token) => {
    const t = /** @type {any} */ (token);
    switch (token.type) {
      case "text":
        return t.tokens ? inline(t.tokens) : running(entities(t.text));
      case "escape":
        return running(t.text);
      case "strong":
        return html`<strong>${inline(t.tokens)}</strong>`;
      case "em":
        return html`<em>${inline(t.tokens)}</em>`;
      case "del":
        return html`<del>${inline(t.tokens)}</del>`;
      case "codespan":
        return html`<code>${running(t.text)}</code>`;
      case "br":
        return html`<br />`;
      case "link":
        return anchor(t.href, inline(t.tokens));
      case "image": // nothing is loaded from elsewhere: that would tell somebody that it was read
        return anchor(t.href, [`🖼 ${running(t.text || t.href)}`]);
      default:
        return running(token.raw);
    }
  });
}

/**
 * @param {string} address
 * @param {ComponentChildren[]} words
 */
export function anchor(address, words) {
  const href = link(address);
  return href
    ? html`<a href=${href} title=${running(href)} target="_blank" rel="noopener noreferrer">${words}</a>`
    : html`<span class="no-link" title=${running(address)}>${words}</span>`;
}

/** @type {Record<string, string>} */
const NAMED = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", hellip: "…", mdash: "—", ndash: "–",
  copy: "©", reg: "®", trade: "™", times: "×", middot: "·", bull: "•", larr: "←", rarr: "→", deg: "°",
  laquo: "«", raquo: "»", lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”", euro: "€", check: "✓",
};

/** @type {(text: string) => string} what HTML's names of characters stand for */
function entities(text) {
  return text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]{2,8}));/gi, (whole, decimal, hex, name) => {
    if (name) return NAMED[name] ?? whole;
    const code = decimal ? Number(decimal) : parseInt(hex, 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
