// What stands in a line of Markdown: emphasis, code, links, after CommonMark's rules, and GitHub's
// for struck text and bare addresses.

import { nameOf } from "./blocks.js";

/** Characters that are looked through, and runs and brackets that are kept in mind: whatever is
 *  longer than any prose is text. */
const LONGEST = 50_000;
const MOST = 500;

const SPECIAL = /[\\`*_~[\]!<&\n]|https?:\/\/|www\.(?=[^\s.])/g;
const PUNCTUATION = /[\p{P}\p{S}]/u;
const AUTOLINK = /^<([a-z][a-z0-9+.-]{1,31}:[^\s<>]*)>/i;
const MAIL = /^<([\w.!#$%&'*+/=?^`{|}~-]+@[a-z0-9.-]+)>/i;
const BARE = /^(?:https?:\/\/|www\.)[^\s<]+/;
const TARGET = /^\(\s*(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.|\([^\s()]*\))*\))*))(?:\s+(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?\s*\)/;
const ENTITY = /^&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z][a-z\d]{1,8}));/i;

/**
 * @param {string} text
 * @param {References} references
 * @returns {Span[]}
 */
export function parseInline(text, references) {
  return text.length > LONGEST ? [text] : new Scanner(text, references).scan();
}

class Scanner {
  /** @param {string} text @param {References} references */
  constructor(text, references) {
    this.text = text;
    this.references = references;
    this.at = 0;
    /** @type {Span[]} */
    this.spans = [];
    /** @type {Run[]} in `spans`, a run is its own text until it is used up */
    this.runs = [];
    /** @type {{ at: number, start: number, image: boolean, runs: number, live: boolean }[]} */
    this.brackets = [];
    /** Lengths of runs of backticks that have no partner further on. @type {Set<number>} */
    this.lonely = new Set();
  }

  scan() {
    const { text } = this;
    while (this.at < text.length) {
      SPECIAL.lastIndex = this.at;
      const special = SPECIAL.exec(text);
      const end = special?.index ?? text.length;
      if (end > this.at) this.spans.push(text.slice(this.at, end));
      this.at = end;
      if (special) this.special(special[0]);
    }
    this.pair(0);
    return joined(this.spans);
  }

  /** @param {string} mark what stands here, which may mean something */
  special(mark) {
    const rest = () => this.text.slice(this.at, this.at + 4000);
    switch (mark) {
      case "\\":
        return this.escape();
      case "`":
        return this.code();
      case "\n":
        return this.newline();
      case "*":
      case "_":
      case "~":
        return this.run(mark);
      case "[":
        return this.open(false);
      case "!":
        return this.text[this.at + 1] === "[" ? this.open(true) : this.plain(1);
      case "]":
        return this.close();
      case "&": {
        const entity = rest().match(ENTITY);
        return entity ? this.put(decoded(entity), entity[0].length) : this.plain(1);
      }
      case "<": {
        const link = rest().match(AUTOLINK);
        const mail = link ? null : rest().match(MAIL);
        const found = link ?? mail;
        if (!found) return this.plain(1);
        const href = link ? link[1] : `mailto:${found[1]}`;
        return this.put({ type: "link", href, children: [found[1]] }, found[0].length);
      }
      default:
        return this.bare(rest());
    }
  }

  /** @param {Span} span @param {number} length of the text that it was */
  put(span, length) {
    this.spans.push(span);
    this.at += length;
  }

  /** @param {number} length */
  plain(length) {
    this.put(this.text.slice(this.at, this.at + length), length);
  }

  escape() {
    const next = this.text[this.at + 1] ?? "";
    if (next === "\n") this.put({ type: "break" }, 2);
    else if (/[!-/:-@[-`{-~]/.test(next)) this.put(next, 2);
    else this.plain(1);
  }

  newline() {
    const last = this.spans.at(-1);
    const hard = typeof last === "string" && last.endsWith("  ");
    if (typeof last === "string") this.spans[this.spans.length - 1] = last.trimEnd();
    this.put(hard ? { type: "break" } : "\n", 1);
    while (this.text[this.at] === " ") this.at++;
  }

  code() {
    let length = 1;
    while (this.text[this.at + length] === "`") length++;
    if (!this.lonely.has(length)) {
      const start = this.at + length;
      const partner = new RegExp(`(?<!\`)\`{${length}}(?!\`)`, "g");
      partner.lastIndex = start;
      const found = partner.exec(this.text);
      if (found) {
        const inner = this.text.slice(start, found.index).replaceAll("\n", " ");
        const text = /^ .* $/.test(inner) && inner.trim() ? inner.slice(1, -1) : inner;
        return this.put({ type: "code", text }, found.index + length - this.at);
      }
      this.lonely.add(length);
    }
    this.plain(length);
  }

  /** @param {string} mark */
  run(mark) {
    let count = 1;
    while (this.text[this.at + count] === mark) count++;
    const before = this.text[this.at - 1] ?? " ";
    const after = this.text[this.at + count] ?? " ";
    const [spaceBefore, spaceAfter] = [/\s/.test(before), /\s/.test(after)];
    const [signBefore, signAfter] = [PUNCTUATION.test(before), PUNCTUATION.test(after)];
    const left = !spaceAfter && (!signAfter || spaceBefore || signBefore);
    const right = !spaceBefore && (!signBefore || spaceAfter || signAfter);
    const opens = mark === "_" ? left && (!right || signBefore) : left;
    const closes = mark === "_" ? right && (!left || signAfter) : right;
    if ((opens || closes) && this.runs.length < MOST && (mark !== "~" || count <= 2)) {
      this.runs.push({ mark, count, whole: count, opens, closes, at: this.spans.length });
    }
    this.plain(count);
  }

  /** @param {boolean} image */
  open(image) {
    const length = image ? 2 : 1;
    const start = this.at + length;
    if (this.brackets.length < MOST) {
      this.brackets.push({ at: this.spans.length, start, image, runs: this.runs.length, live: true });
    }
    this.plain(length);
  }

  close() {
    const bracket = this.brackets.pop();
    if (!bracket?.live) return this.plain(1);
    const rest = this.text.slice(this.at + 1, this.at + 4000);
    const inner = this.text.slice(bracket.start, this.at);
    const target = rest.match(TARGET);
    const named = rest.match(/^\[([^[\]\\]{0,200})\]/);
    const name = named?.[1] || inner;
    const href = target ? (target[1] ?? target[2]) : this.references.get(nameOf(name));
    if (href === undefined) return this.plain(1);
    this.pair(bracket.runs);
    const children = joined(this.spans.splice(bracket.at).slice(1));
    const length = 1 + ((target ?? named ?? [""])[0].length);
    const type = bracket.image ? "image" : "link";
    this.put({ type, href: href.replace(/\\([!-/:-@[-`{-~])/g, "$1").replaceAll("&amp;", "&"), children }, length);
    if (!bracket.image) for (const other of this.brackets) other.live &&= other.image; // no link in a link
  }

  /** @param {string} rest */
  bare(rest) {
    const before = this.text[this.at - 1];
    let address = rest.match(BARE)?.[0] ?? "";
    const inLink = () =>
      this.brackets.some(({ live, image }) => live && !image) && this.text.includes("](", this.at);
    if (!address || (before && /\w/.test(before)) || inLink()) return this.plain(4);
    address = address.replace(/(?:[?!.,:*_~'"]|&[a-z]+;)+$/i, "");
    while (address.endsWith(")") && count(address, ")") > count(address, "(")) address = address.slice(0, -1);
    const href = address.startsWith("www.") ? `http://${address}` : address;
    this.put({ type: "link", href, children: [address] }, address.length);
  }

  /**
   * Make emphasis of the runs that belong together, from `bottom` on.
   * @param {number} bottom
   */
  pair(bottom) {
    const { runs } = this;
    for (let at = bottom; at < runs.length; at++) {
      const closer = runs[at];
      while (closer.closes && closer.count > 0) {
        let from = at - 1;
        while (from >= bottom && !fits(runs[from], closer)) from--;
        if (from < bottom) break;
        const opener = runs[from];
        const used = closer.mark === "~" ? closer.count : opener.count >= 2 && closer.count >= 2 ? 2 : 1;
        opener.count -= used;
        closer.count -= used;
        const inner = joined(this.spans.slice(opener.at + 1, closer.at));
        const type = closer.mark === "~" ? "del" : used === 2 ? "strong" : "em";
        const removed = closer.at - opener.at - 2;
        this.spans[opener.at] = opener.mark.repeat(opener.count);
        this.spans[closer.at] = closer.mark.repeat(closer.count);
        this.spans.splice(opener.at + 1, closer.at - opener.at - 1, { type, children: inner });
        for (const run of runs.slice(at)) run.at -= removed;
        runs.splice(from + 1, at - from - 1);
        at = from + 1;
      }
    }
    runs.length = bottom;
  }
}

/** @type {(opener: Run, closer: Run) => boolean} */
function fits(opener, closer) {
  if (!opener.opens || opener.mark !== closer.mark || opener.count === 0) return false;
  if (closer.mark === "~") return opener.count === closer.count;
  const both = opener.closes || closer.opens;
  return !(both && (opener.whole + closer.whole) % 3 === 0 && (opener.whole % 3 || closer.whole % 3));
}

/** @type {(text: string, mark: string) => number} */
const count = (text, mark) => text.split(mark).length - 1;

/** @type {(spans: Span[]) => Span[]} neighbouring text as one */
function joined(spans) {
  /** @type {Span[]} */
  const out = [];
  for (const span of spans) {
    const last = out.at(-1);
    if (typeof span === "string" && typeof last === "string") out[out.length - 1] = last + span;
    else if (span !== "") out.push(span);
  }
  return out;
}

/** @type {Record<string, string>} */
const NAMED = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", hellip: "…", mdash: "—", ndash: "–",
  copy: "©", times: "×", middot: "·", larr: "←", rarr: "→",
};

/** @type {(entity: RegExpMatchArray) => string} what HTML's name of a character stands for */
function decoded([whole, decimal, hex, name]) {
  if (name) return NAMED[name] ?? whole;
  const code = decimal ? Number(decimal) : parseInt(hex, 16);
  return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd";
}
