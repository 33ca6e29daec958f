// Markdown as virtual DOM. No HTML is ever made of what an agent wrote: each token of the parser
// becomes an element that is named here, and everything else is text.

import { code, parts } from "./code.js";
import { html } from "./html.js";
import { languageOf } from "./parse.js";
import { mention, namesFile } from "./paths.js";
import { link, running } from "./safe.js";

/** @typedef {import("./vendor/libraries.js").Token} Token */

/** @type {(tokens: readonly Token[], from: number, open?: boolean) => Shown[]} */
export const draw = (tokens, from, open = false) => new Drawing(tokens, open).blocks(from);

const ALERT = /^\[!(note|tip|important|warning|caution)\]$/i;
const TASK = /^\[([ xX])\][ \t]/;

/** @type {(token: Token, name: string) => string | number | undefined} also of one that came from the worker */
const attribute = (token, name) => token.attrs?.find(([known]) => known === name)?.[1];

/** Goes once through the tokens, in their order. */
class Drawing {
  at = 0;

  /** @param {readonly Token[]} tokens @param {boolean} open whether the last of them may go on */
  constructor(tokens, open) {
    this.tokens = tokens;
    /** Where the words are that may go on. */
    this.growing = open ? tokens.findLastIndex(({ nesting }) => nesting >= 0) : -1;
  }

  next() {
    return this.tokens[this.at++];
  }

  /** What stands up to the end of the element in which we are. @param {number} [key] */
  blocks(key = 0) {
    /** @type {Shown[]} */
    const out = [];
    for (let token = this.next(); token && token.nesting >= 0; token = this.next()) out.push(this.block(token, key++));
    return out;
  }

  /** @param {Token} token @param {number} key @returns {Shown} */
  block(token, key) {
    switch (token.type) {
      case "paragraph_open": // `hidden` in a list without room between its items
        return token.hidden ? html`<span key=${key}>${this.blocks()}</span>` : html`<p key=${key} dir="auto">${this.blocks()}</p>`;
      case "heading_open": // the page itself has the first two
        return html`<${`h${Math.min(6, Number(token.tag[1]) + 2)}`} key=${key} dir="auto">${this.blocks()}<//>`;
      case "inline":
        return inline(token.children ?? [], this.at - 1 === this.growing);
      case "long":
        return raw(token.content, key);
      case "fence":
      case "code_block":
        return code({ text: token.content.replace(/\n$/, ""), language: languageOf(token.info), key });
      case "hr":
        return html`<hr key=${key} />`;
      case "blockquote_open":
        return this.quote(key);
      case "bullet_list_open":
        return html`<ul key=${key} dir="auto">${this.blocks()}</ul>`;
      case "ordered_list_open":
        // Always a number: Preact sets a DOM property that is null to "", which is 0 for a number.
        return html`<ol key=${key} dir="auto" start=${Number(attribute(token, "start") ?? 1)}>${this.blocks()}</ol>`;
      case "list_item_open":
        return this.item(key);
      case "table_open":
        return html`<div class="table" key=${key} tabindex="0" role="group" aria-label="table"><table>${this.blocks()}</table></div>`;
      case "thead_open":
      case "tbody_open":
      case "tr_open":
        return html`<${token.tag} key=${key}>${this.blocks()}<//>`;
      case "th_open":
      case "td_open": {
        const side = String(attribute(token, "style") ?? "").match(/left|center|right/)?.[0];
        return html`<${token.tag} key=${key} dir="auto" class=${side && `to-${side}`}>${this.blocks()}<//>`;
      }
      case "details_open": {
        const summary = this.block(this.next(), 0);
        return html`<details class="fold" key=${key}><summary>${/** @type {any[]} */ (summary).length ? summary : "Details"}</summary>
          <div class="markdown">${this.blocks()}</div></details>`;
      }
      case "footnote_reference_open":
        return html`<aside class="footnote" key=${key} role="note"><sup>${running(String(token.meta?.label))}</sup><div>${this.blocks()}</div></aside>`;
      default:
        return token.nesting > 0 ? this.blocks() : running(token.content);
    }
  }

  /** @param {number} key */
  quote(key) {
    const first = this.tokens[this.at + 1];
    const words = first?.type === "inline" && this.tokens[this.at].type === "paragraph_open" ? (first.children ?? []) : [];
    const kind = words[0]?.content.match(ALERT)?.[1].toLowerCase();
    const alone = words.length === 1 || words[1]?.type === "softbreak" || words[1]?.type === "hardbreak";
    if (!kind || !alone) return html`<blockquote key=${key} dir="auto">${this.blocks()}</blockquote>`;
    first.children = words.slice(2);
    return html`<blockquote class=${`alert is-${kind}`} key=${key}><strong>${kind[0].toUpperCase() + kind.slice(1)}</strong>${this.blocks()}</blockquote>`;
  }

  /** @param {number} key */
  item(key) {
    const first = this.tokens[this.at + 1];
    const words = this.tokens[this.at].type === "paragraph_open" ? first?.children?.[0] : undefined;
    const task = words?.type === "text" ? words.content.match(TASK) : null;
    if (!words || !task) return html`<li key=${key} dir="auto">${this.blocks()}</li>`;
    words.content = words.content.slice(task[0].length);
    const done = task[1] !== " ";
    return html`<li key=${key} class="task"><span role="img" aria-label=${done ? "done" : "not done"}>${done ? "☑" : "☐"}</span> ${this.blocks()}</li>`;
  }
}

/**
 * @param {readonly Token[]} tokens
 * @param {boolean} open whether the last of them may go on
 * @returns {Shown[]}
 */
function inline(tokens, open) {
  /** The elements in which we are, and what is in each. @type {{ token: Token, inner: Shown[] }[]} */
  const stack = [];
  /** @type {Shown[]} */
  const all = [];
  const put = (/** @type {Shown} */ shown) => (stack.at(-1)?.inner ?? all).push(shown);
  tokens.forEach((token, index) => {
    if (token.nesting > 0) stack.push({ token, inner: [] });
    else if (token.nesting < 0) {
      const ended = stack.pop();
      if (!ended) return;
      const grows = open && ended.token.markup === "linkify" && !tokens.slice(index + 1).some(({ type, content }) => type.endsWith("break") || /\s/.test(content));
      put(grows ? ended.inner : element(ended.token, ended.inner));
    } else put(single(token, stack.some((each) => each.token.type === "link_open")));
  });
  return all;
}

/** @type {(token: Token, inner: Shown[]) => Shown} */
const element = (token, inner) =>
  token.type === "link_open" ? anchor(String(attribute(token, "href") ?? ""), inner) : html`<${token.tag}>${inner}<//>`;

/** @type {(token: Token, linked: boolean) => Shown} */
function single(token, linked) {
  switch (token.type) {
    case "code_inline":
      return !linked && namesFile(token.content) ? mention(token.content) : html`<code>${running(token.content)}</code>`;
    case "softbreak":
      return "\n";
    case "hardbreak":
      return html`<br />`;
    case "image": {
      // Nothing is loaded from elsewhere: that would tell somebody that it was read.
      const address = String(attribute(token, "src") ?? "");
      const words = inline(token.children ?? [], false);
      return anchor(address, ["🖼 ", ...(words.length ? words : [running(address)])], "image");
    }
    case "footnote_ref":
      return html`<sup class="footnote-ref">${running(String(token.meta?.label))}</sup>`;
    default:
      return running(token.content);
  }
}

/** @type {(text: string, key?: number | string) => Shown} a block that is not looked into */
export const raw = (text, key = "raw") => html`<div class="raw" key=${key}>${parts(text)}</div>`;

/**
 * A link that leads away, or words that only look like one.
 * @param {string} address
 * @param {Shown[]} words
 * @param {string} [kind]
 */
export function anchor(address, words, kind = "") {
  const href = link(address);
  return href
    ? html`<a class=${kind || null} href=${href} title=${running(href)} target="_blank" rel="noopener noreferrer">${words}</a>`
    : html`<span class=${`no-link ${kind}`} title=${running(address)}>${words}</span>`;
}
