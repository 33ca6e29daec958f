// Markdown as it comes: what will stay as it is is parsed once, and what is long is parsed elsewhere.

import { ask } from "./ask.js";
import { code } from "./code.js";
import { draw, raw } from "./markdown.js";
import { fewEnough } from "./elements.js";
import { lastBlock, normal, parse, parseOpen } from "./parse.js";

/** Characters at the end of a text up to which it is parsed anew for each piece that comes; more of
 *  them when they have doubled. So the time it takes grows as the text does, and not as its square. */
const LARGE = 8_000;

/** Characters of a text that are read as Markdown; what is behind them is shown as it is. */
const MOST = 100_000;

/** Characters that are parsed at once, in the page. More are parsed by the worker, where there is one,
 *  and shown as they are written until it has answered. */
const AT_ONCE = typeof Worker === "undefined" ? Infinity : 4_000;

/** No address and no footnote that a text defines */
const nothing = (): ParserEnv => ({ references: {}, footnotes: { refs: {}, list: [] } });

/** Markdown that grows at its end. The blocks before the last ones are parsed once and stay the
 *  objects they are, so that they cost nothing when the text is shown again. */
export class Growing {
  text = "";
  /** What is shown of the text up to `start`, for good. */
  done: Shown[] = [];
  start = 0;
  /** In how many pieces that was parsed. */
  pieces = 0;
  env = nothing();
  /** What was shown of the rest, and how many characters of it that was. */
  last: Shown[] = [];
  parsed = 0;
  /** Whether the worker is asked, and whether it has given up on what there is. */
  asking = false;
  hopeless = false;

  /** @param changed called when more can be shown than `show` returned */
  constructor(readonly changed: () => void = () => {}) {}

  reset() {
    Object.assign(this, { done: [], start: 0, pieces: 0, env: nothing(), last: [], parsed: 0, hopeless: false });
  }

  /**
   * The blocks of a text that is, but for what came behind it, the one of the last call.
   * @param over whether nothing will come behind it
   */
  show(given: string, over: boolean): Shown[] {
    const all = normal(given);
    const cut = all.length > MOST ? all.lastIndexOf("\n", MOST) + 1 || MOST : all.length;
    const text = all.slice(0, cut);
    const complete = over || cut < all.length;
    const finished = this.start > 0 && this.start === this.text.length;
    const known = complete ? this.text.slice(0, this.start) : this.text;
    if (text !== this.text && (finished || !text.startsWith(known))) this.reset();
    this.text = text;
    const shown = text.length - this.start > AT_ONCE ? this.wait(complete) : complete ? this.finish() : this.grow();
    return cut < all.length ? [...shown, code({ text: all.slice(cut), key: "rest" })] : shown;
  }

  /** What is known of a text that is too long to be parsed here, and the rest as it is written. */
  wait(complete: boolean) {
    const rest = this.text.slice(this.start);
    const fence = complete ? null : openFence(rest);
    if (fence)
      return [
        ...this.done,
        code({ text: rest.slice(fence.length), language: fence.language, grows: true, key: this.done.length }),
      ];
    const enough = !complete && rest.length > LARGE && rest.length < 2 * this.parsed;
    if (!this.asking && !this.hopeless && !enough) this.ask(complete);
    return [...this.done, ...this.last, raw(rest.slice(this.parsed))];
  }

  async ask(complete: boolean) {
    const { text, start } = this;
    this.asking = true;
    // What was shown before all addresses were known may refer to them.
    const from = complete && this.refers() ? 0 : start;
    const env = from ? this.env : nothing();
    const found = complete ? await ask("whole", text.slice(from), env) : await ask("open", text.slice(from), env);
    this.asking = false;
    if (this.start === start && this.text.startsWith(text)) {
      if (!found) this.hopeless = true;
      else this.take(found, from, text.length);
    }
    this.changed();
  }

  /** @param found what the worker made of a part of the text */
  take(found: any, from: number, end: number) {
    const { tokens, fixed = tokens, rest = [], cut = end - from, env } = found;
    if (!from) this.reset();
    this.done = [...this.done, ...draw(fixed, this.done.length)];
    this.pieces += fixed.length > 0 ? 1 : 0;
    this.start = from + cut;
    this.env = env;
    this.last = draw(rest, this.done.length, true);
    this.parsed = end - this.start;
  }

  /** Whether the text defines what others of its parts may refer to. */
  refers() {
    const { references = {}, footnotes } = this.env;
    return Object.keys({ ...references, ...footnotes?.refs }).length > 0;
  }

  /** All of the text is there. */
  finish() {
    this.fix(this.text.length);
    if (this.pieces > 1 && this.refers()) {
      // What was shown before they were known may refer to them.
      this.reset();
      if (this.text.length > AT_ONCE) return this.wait(true);
      this.fix(this.text.length);
    }
    return this.done;
  }

  grow() {
    const rest = this.text.slice(this.start);
    if (rest.length > LARGE) {
      const fence = openFence(rest);
      if (fence)
        return [
          ...this.done,
          code({ text: rest.slice(fence.length), language: fence.language, grows: true, key: this.done.length }),
        ];
      if (rest.length < 2 * this.parsed) return [...this.done, ...this.last, raw(rest.slice(this.parsed))];
    }
    this.fix(this.start + lastBlock(rest));
    const open = this.text.slice(this.start);
    this.last = draw(parseOpen(open, this.env), this.done.length, true);
    this.parsed = open.length;
    return [...this.done, ...this.last];
  }

  /** @param end up to where the text will stay what it is */
  fix(end: number) {
    if (end <= this.start) return;
    const text = this.text.slice(this.start, end);
    const tokens = fewEnough(parse(text, this.env));
    this.done = [...this.done, ...(tokens ? draw(tokens, this.done.length) : [raw(text, this.done.length)])];
    this.start = end;
    this.pieces++;
  }
}

/** Where the code begins, if the text is all of one block */
function openFence(text: string): { length: number; language: string } | null {
  const fence = text.match(/^\s*(`{3,}|~{3,})/);
  const end = fence ? text.indexOf("\n", fence[0].length) : -1;
  if (!fence || end < 0 || text.includes(`\n${fence[1]}`, end)) return null;
  const language = text.slice(fence[0].length, end).match(/^[ \t]*(\S*)/)?.[1] ?? "";
  return { length: end + 1, language };
}
