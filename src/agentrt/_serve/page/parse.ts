// How Markdown is read: markdown-it with GitHub's additions, as far as they come without HTML.
// What it makes are tokens, of which markdown.js makes elements; its renderer is never asked.

import footnotes from "markdown-it-footnote";
import MarkdownIt from "markdown-it";

/** Characters of a paragraph that are looked through for links and such: more is no prose. */
const LONGEST = 50_000;

/** How deep quotes and lists are nested; what is deeper is shown as it is written. */
const DEEPEST = 32;

/** How deep folded parts are: each is read as a text of its own. */
const FOLDS = 8;

const parser = new MarkdownIt({ html: false, linkify: true }).use(footnotes);
// A footnote is shown where it is written: so none is lost to which nothing refers.
parser.core.ruler.disable("footnote_tail");
parser.inline.ruler.disable("footnote_inline");
// Which address is a link, and how it is shown, is decided where it is drawn.
parser.validateLink = () => true;
parser.normalizeLinkText = (text) => text;
// Names such as `main.rs` and `setup.py` would be addresses, too.
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
for (const schema of ["//", "ftp:"]) parser.linkify.add(schema, null);
parser.linkify.add("www.", {
  validate(text, pos, { re }) {
    const host = re.get_relative_proto_validator();
    host.lastIndex = pos;
    return host.exec(text)?.[0].length ?? 0;
  },
  normalize: (match) => void (match.url = `http://${match.url}`),
});

/** What a block rule says of the lines that it may stand before. */
const BEFORE = { alt: ["paragraph", "reference", "blockquote", "list"] };

parser.block.ruler.before("table", "deep", (state, start, end, silent) => {
  if (state.level < DEEPEST || state.isEmpty(start)) return false;
  if (silent) return true;
  const token = state.push("fence", "code", 0);
  token.content = state.getLines(start, end, state.blkIndent, true);
  token.map = [start, end];
  state.line = end;
  return true;
});

const FOLD = /^<details(?:\s+open)?\s*>/i;
const FENCE = /^\s*(`{3,}|~{3,})/;

parser.block.ruler.before(
  "table",
  "details",
  (state, start, end, silent) => {
    const env = state.env as ParserEnv;
    const line = (at: number) => state.src.slice(state.bMarks[at] + state.tShift[at], state.eMarks[at]);
    if (state.sCount[start] - state.blkIndent >= 4 || !FOLD.test(line(start)) || (env.folds ?? 0) >= FOLDS)
      return false;
    if (silent) return true;
    // Up to its own end, that of the list or quote around it, or that of the text.
    let fence = "";
    let depth = 0;
    let next = start;
    for (; next < end; next++) {
      if (next > start && state.sCount[next] < state.blkIndent && !state.isEmpty(next)) break;
      const text = line(next);
      const mark = text.match(FENCE)?.[1] ?? "";
      if (mark && (!fence || mark.startsWith(fence))) fence = fence ? "" : mark;
      if (fence) continue;
      depth += (text.match(/<details\b/gi)?.length ?? 0) - (text.match(/<\/details>/gi)?.length ?? 0);
      if (depth <= 0) {
        next++;
        break;
      }
    }
    const text = state.getLines(start, next, state.blkIndent, true).trim();
    const inner = text.replace(FOLD, "").replace(/<\/details>$/i, "");
    const summary = inner.match(/^\s*<summary>([^]*?)<\/summary>/i);
    const open = state.push("details_open", "details", 1);
    open.map = [start, next];
    const title = state.push("inline", "", 0);
    title.content = summary?.[1].trim() ?? "";
    title.children = [];
    env.folds = (env.folds ?? 0) + 1;
    const tokens: typeof state.tokens = [];
    state.md.block.parse(inner.slice(summary?.[0].length ?? 0), state.md, env, tokens);
    env.folds--;
    for (const token of tokens) {
      token.level += state.level;
      state.tokens.push(token);
    }
    state.push("details_close", "details", -1);
    state.line = next;
    return true;
  },
  BEFORE,
);

/** Elements without any power, as they are written in the middle of words. */
const ELEMENT = /^<(b|i|u|s|em|strong|del|ins|mark|small|sub|sup|kbd)>/i;

/** Where the last mark of a kind is in the text that was asked about last: so that a thousand without
 *  an end do not each look for it. */
const marks = { text: "", last: new Map() as Map<string, number> };

function lastMark(text: string, mark: string) {
  if (marks.text !== text) Object.assign(marks, { text, last: new Map() });
  const last = marks.last.get(mark) ?? text.lastIndexOf(mark);
  marks.last.set(mark, last);
  return last;
}

parser.inline.ruler.before("autolink", "element", (state, silent) => {
  if (state.src[state.pos] !== "<") return false;
  const head = state.src.slice(state.pos, state.pos + 10);
  const line = head.match(/^<br\s*\/?>/i);
  if (line) {
    if (!silent) state.push("hardbreak", "br", 0);
    state.pos += line[0].length;
    return true;
  }
  const found = head.match(ELEMENT);
  if (!found) return false;
  const mark = `</${found[1]}>`;
  if (lastMark(state.src, mark) < state.pos) return false;
  const end = state.src.indexOf(mark, state.pos);
  const max = state.posMax;
  if (end >= max) return false;
  if (!silent) {
    const tag = found[1].toLowerCase();
    state.push("element_open", tag, 1);
    state.pos += found[0].length;
    state.posMax = end;
    state.md.inline.tokenize(state);
    state.push("element_close", tag, -1);
  }
  state.pos = end + found[0].length + 1;
  state.posMax = max;
  return true;
});

/** Lines of a formula that stands by itself. */
const FORMULA = 200;

/** How formulas that stand by themselves begin and end. */
const DISPLAY = [
  ["$$", "$$"],
  ["\\[", "\\]"],
] as const;

parser.block.ruler.before(
  "table",
  "math",
  (state, start, end, silent) => {
    const line = (at: number) => state.src.slice(state.bMarks[at] + state.tShift[at], state.eMarks[at]).trim();
    const first = line(start);
    const marks = DISPLAY.find(([mark]) => first.startsWith(mark));
    if (!marks || state.sCount[start] - state.blkIndent >= 4) return false;
    for (let at = start; at < Math.min(end, start + FORMULA); at++) {
      const text = at === start ? first.slice(2) : line(at);
      if (at > start && (!text || state.sCount[at] < state.blkIndent)) return false;
      if (!text.endsWith(marks[1])) continue;
      const content = [first.slice(2), ...Array.from({ length: at - start }, (_, index) => line(start + index + 1))];
      content.push((content.pop() ?? "").slice(0, -2));
      if (!/[\p{L}\p{N}]/u.test(content.join(""))) return false;
      if (silent) return true;
      const token = state.push("math_block", "math", 0);
      token.content = content.join("\n").trim();
      token.map = [start, at + 1];
      state.line = at + 1;
      return true;
    }
    return false;
  },
  BEFORE,
);

/** A formula between two marks in the middle of words, which begins at `pos`: its source, and its end. */
function formulaAt(src: string, pos: number, max: number): { source: string; end: number; display: boolean } | null {
  const two = src.slice(pos, pos + 2);
  const close = ({ "$$": "$$", "\\(": "\\)", "\\[": "\\]" } as Record<string, string>)[two];
  if (close) {
    if (lastMark(src, close) < pos + 2) return null;
    const end = src.indexOf(close, pos + 2);
    const source = src.slice(pos + 2, end).trim();
    return end + 2 <= max && /[\p{L}\p{N}]/u.test(source) ? { source, end: end + 2, display: two !== "\\(" } : null;
  }
  // A single dollar sign is often money or a variable: as on GitHub, no space is within its pair.
  if (src[pos] !== "$" || /[\w$\\]/.test(src[pos - 1] ?? "") || /[\s$]/.test(src[pos + 1] ?? " ")) return null;
  const end = src.indexOf("$", pos + 1);
  if (end < 0 || end >= max || /[\s\\]/.test(src[end - 1]) || /[\w$]/.test(src[end + 1] ?? "")) return null;
  const source = src.slice(pos + 1, end);
  return source.includes("\n") ? null : { source, end: end + 1, display: false };
}

parser.inline.ruler.before("escape", "math", (state, silent) => {
  const first = state.src[state.pos];
  if (first !== "$" && first !== "\\") return false;
  const found = formulaAt(state.src, state.pos, state.posMax);
  if (!found) return false;
  if (!silent) {
    const token = state.push("math_inline", "math", 0);
    token.content = found.source;
    token.markup = found.display ? "display" : "";
  }
  state.pos = found.end;
  return true;
});

parser.core.ruler.before("inline", "long", ({ tokens }) => {
  for (const token of tokens) if (token.type === "inline" && token.content.length > LONGEST) token.type = "long";
});

/** The language of code, of the words behind its fence */
export const languageOf = (info: string): string => parser.utils.unescapeAll(info).trim().split(/\s/, 1)[0];

/** Line ends as the parser takes them */
export const normal = (text: string): string => (text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text);

/** @param env the addresses and footnotes that are known, to which those of the text are added */
export const parse = (text: string, env: ParserEnv) => parser.parse(text, env);

/** The same of a text that may go on. An address that is not complete leads to somebody else, so
 *  nothing in it defines one. */
export function parseOpen(text: string, env: ParserEnv) {
  const references = new Proxy(env.references ?? {}, { set: () => true });
  const footnotes = { refs: { ...env.footnotes?.refs }, list: [...(env.footnotes?.list ?? [])] };
  return parse(text, { references, footnotes });
}

/** Where the last block of a text begins, if nothing behind can change what stands before: it is a
 *  block of its own, behind a blank line. Else 0. Of lines, only whole ones count. */
export function lastBlock(text: string) {
  const lines = text.slice(0, text.lastIndexOf("\n") + 1);
  const tokens: import("markdown-it").Token[] = [];
  parser.block.parse(lines, parser, {}, tokens);
  const starts = new Set(
    tokens.filter(({ level, nesting, map }) => level === 0 && nesting >= 0 && map).map(({ map }) => map?.[0]),
  );
  let [last, line, blank] = [0, 0, false];
  for (let at = 0; at < lines.length; line++) {
    if (blank && starts.has(line)) last = at;
    const end = lines.indexOf("\n", at);
    blank = !lines.slice(at, end).trim();
    at = end + 1;
  }
  return last;
}
