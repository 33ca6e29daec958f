// Markdown as virtual DOM. No HTML is ever made of what an agent wrote: each token of the parser
// becomes an element that is named here, and everything else is text.

import { h } from "preact";
import { code, parts } from "./code.js";
import { FormulaView } from "./formula.js";
import { languageOf } from "./parse.js";
import { mention, namesFile } from "./paths.js";
import { link, running } from "./safe.js";

import type { Token } from "markdown-it";

export const draw = (tokens: readonly Token[], from: number, open: boolean = false): Shown[] =>
  new Drawing(tokens, open).blocks(from);

const ALERT = /^\[!(note|tip|important|warning|caution)\]$/i;
const TASK = /^\[([ xX])\][ \t]/;

/** Also of one that came from the worker */
const attribute = (token: Token, name: string): string | number | undefined =>
  token.attrs?.find(([known]) => known === name)?.[1];

/** Goes once through the tokens, in their order. */
class Drawing {
  at = 0;
  /** Where the words are that may go on. */
  readonly growing: number;

  /** @param open whether the last of them may go on */
  constructor(
    readonly tokens: readonly Token[],
    open: boolean,
  ) {
    this.growing = open ? tokens.findLastIndex(({ nesting }) => nesting >= 0) : -1;
  }

  next() {
    return this.tokens[this.at++];
  }

  /** What stands up to the end of the element in which we are. */
  blocks(key: number = 0) {
    const out: Shown[] = [];
    for (let token = this.next(); token && token.nesting >= 0; token = this.next()) out.push(this.block(token, key++));
    return out;
  }

  block(token: Token, key: number): Shown {
    switch (token.type) {
      case "paragraph_open": // `hidden` in a list without room between its items
        return token.hidden ? (
          <span key={key}>{this.blocks()}</span>
        ) : (
          <p key={key} dir="auto">
            {this.blocks()}
          </p>
        );
      case "heading_open": // the page itself has the first two
        return h(`h${Math.min(6, Number(token.tag[1]) + 2)}`, { key, dir: "auto" }, this.blocks());
      case "inline":
        return inline(token.children ?? [], this.at - 1 === this.growing);
      case "long":
        return raw(token.content, key);
      case "fence":
      case "code_block":
        return code({ text: token.content.replace(/\n$/, ""), language: languageOf(token.info), key });
      case "math_block":
        return <FormulaView key={key} source={token.content} display />;
      case "hr":
        return <hr key={key} />;
      case "blockquote_open":
        return this.quote(key);
      case "bullet_list_open":
        return (
          <ul key={key} dir="auto">
            {this.blocks()}
          </ul>
        );
      case "ordered_list_open":
        // Always a number: Preact sets a DOM property that is null to "", which is 0 for a number.
        return (
          <ol key={key} dir="auto" start={Number(attribute(token, "start") ?? 1)}>
            {this.blocks()}
          </ol>
        );
      case "list_item_open":
        return this.item(key);
      case "table_open":
        return (
          <div class="table" key={key} tabIndex={0} role="group" aria-label="table">
            <table>{this.blocks()}</table>
          </div>
        );
      case "thead_open":
      case "tbody_open":
      case "tr_open":
        return h(token.tag, { key }, this.blocks());
      case "th_open":
      case "td_open": {
        const side = String(attribute(token, "style") ?? "").match(/left|center|right/)?.[0];
        return h(token.tag, { key, dir: "auto", class: side && `to-${side}` }, this.blocks());
      }
      case "details_open": {
        const summary = this.block(this.next(), 0);
        return (
          <details class="fold" key={key}>
            <summary>{(summary as any[]).length ? summary : "Details"}</summary>
            <div class="markdown">{this.blocks()}</div>
          </details>
        );
      }
      case "footnote_reference_open":
        return (
          <aside class="footnote" key={key} role="note">
            <sup>{running(String(token.meta?.label))}</sup>
            <div>{this.blocks()}</div>
          </aside>
        );
      default:
        return token.nesting > 0 ? this.blocks() : running(token.content);
    }
  }

  quote(key: number) {
    const first = this.tokens[this.at + 1];
    const words =
      first?.type === "inline" && this.tokens[this.at].type === "paragraph_open" ? (first.children ?? []) : [];
    const kind = words[0]?.content.match(ALERT)?.[1].toLowerCase();
    const alone = words.length === 1 || words[1]?.type === "softbreak" || words[1]?.type === "hardbreak";
    if (!kind || !alone)
      return (
        <blockquote key={key} dir="auto">
          {this.blocks()}
        </blockquote>
      );
    first.children = words.slice(2);
    return (
      <blockquote class={`alert is-${kind}`} key={key}>
        <strong>{kind[0].toUpperCase() + kind.slice(1)}</strong>
        {this.blocks()}
      </blockquote>
    );
  }

  item(key: number) {
    const first = this.tokens[this.at + 1];
    const words = this.tokens[this.at].type === "paragraph_open" ? first?.children?.[0] : undefined;
    const task = words?.type === "text" ? words.content.match(TASK) : null;
    if (!words || !task)
      return (
        <li key={key} dir="auto">
          {this.blocks()}
        </li>
      );
    words.content = words.content.slice(task[0].length);
    const done = task[1] !== " ";
    return (
      <li key={key} class="task">
        <span role="img" aria-label={done ? "done" : "not done"}>
          {done ? "☑" : "☐"}
        </span>{" "}
        {this.blocks()}
      </li>
    );
  }
}

/** @param open whether the last of them may go on */
function inline(tokens: readonly Token[], open: boolean): Shown[] {
  /** The elements in which we are, and what is in each. */
  const stack: { token: Token; inner: Shown[] }[] = [];
  const all: Shown[] = [];
  const put = (shown: Shown) => (stack.at(-1)?.inner ?? all).push(shown);
  tokens.forEach((token, index) => {
    if (token.nesting > 0) stack.push({ token, inner: [] });
    else if (token.nesting < 0) {
      const ended = stack.pop();
      if (!ended) return;
      const grows =
        open &&
        ended.token.markup === "linkify" &&
        !tokens.slice(index + 1).some(({ type, content }) => type.endsWith("break") || /\s/.test(content));
      put(grows ? ended.inner : element(ended.token, ended.inner));
    } else
      put(
        single(
          token,
          stack.some((each) => each.token.type === "link_open"),
        ),
      );
  });
  return all;
}

const element = (token: Token, inner: Shown[]): Shown =>
  token.type === "link_open" ? anchor(String(attribute(token, "href") ?? ""), inner) : h(token.tag, null, inner);

function single(token: Token, linked: boolean): Shown {
  switch (token.type) {
    case "code_inline":
      return !linked && namesFile(token.content) ? mention(token.content) : <code>{running(token.content)}</code>;
    case "math_inline":
      return <FormulaView source={token.content} display={token.markup === "display"} />;
    case "softbreak":
      return "\n";
    case "hardbreak":
      return <br />;
    case "image": {
      // Nothing is loaded from elsewhere: that would tell somebody that it was read.
      const address = String(attribute(token, "src") ?? "");
      const words = inline(token.children ?? [], false);
      return anchor(address, ["🖼 ", ...(words.length ? words : [running(address)])], "image");
    }
    case "footnote_ref":
      return <sup class="footnote-ref">{running(String(token.meta?.label))}</sup>;
    default:
      return running(token.content);
  }
}

/** A block that is not looked into */
export const raw = (text: string, key: number | string = "raw"): Shown => (
  <div class="raw" key={key}>
    {parts(text)}
  </div>
);

/** A link that leads away, or words that only look like one. */
export function anchor(address: string, words: Shown[], kind: string = "") {
  const href = link(address);
  return href ? (
    <a class={kind || undefined} href={href} title={running(href)} target="_blank" rel="noopener noreferrer">
      {words}
    </a>
  ) : (
    <span class={`no-link ${kind}`} title={running(address)}>
      {words}
    </span>
  );
}
