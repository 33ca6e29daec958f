// Markdown into blocks: CommonMark with GitHub's tables and task lists. HTML is text like any other.
// A block is a plain object; what stands in a line is `inline.js`'s business.

/** Lists and quotes may be nested this deep; what is deeper is text. */
const DEEPEST = 24;

const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})[ \t]*(.*?)[ \t]*$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*$/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const QUOTE = /^ {0,3}> ?/;
const MARKER = /^( {0,3})([-+*]|(\d{1,9})[.)])(?=[ \t]|$)( *)/;
const UNDERLINE = /^ {0,3}(=+|-+)[ \t]*$/;
const COLUMNS = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const DEFINITION = /^ {0,3}\[([^\]\\]{1,200})\]:[ \t]*<?([^\s<>]+)>?(?:[ \t]+(?:"[^"]*"|'[^']*'|\([^)]*\)))?[ \t]*$/;
const TASK = /^\[([ xX])\][ \t]+(?=\S)/;

/** @type {(line: string) => boolean} */
const isBlank = (line) => !line.trim();

/** @type {(line: string) => number} how far a line is indented */
const indent = (line) => /** @type {RegExpMatchArray} */ (line.match(/^ */))[0].length;

/** @type {(text: string) => string[]} tabs at the beginning count for four columns */
export function linesOf(text) {
  return text.replace(/\n$/, "").split("\n").map((line) => {
    const clean = line.endsWith("\r") ? line.slice(0, -1) : line;
    if (!clean.includes("\t")) return clean;
    return clean.replace(/^ *\t[ \t]*/, (space) => {
      let width = 0;
      for (const mark of space) width += mark === "\t" ? 4 - (width % 4) : 1;
      return " ".repeat(width);
    });
  });
}

/**
 * The blocks of some lines.
 * @param {readonly string[]} lines
 * @param {References} references is added to
 * @param {(end: number) => void} [onBlock] told, behind each block, which line is next
 * @param {number} [depth]
 * @returns {MarkdownBlock[]}
 */
export function parse(lines, references, onBlock, depth = 0) {
  /** @type {MarkdownBlock[]} */
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (isBlank(line)) {
      at++;
      continue;
    }
    const [block, end] = next(lines, at, references, depth);
    if (block) {
      blocks.push(block);
      onBlock?.(end);
    }
    at = end;
  }
  return blocks;
}

/**
 * The block that begins in a line, and the line behind it.
 * @param {readonly string[]} lines
 * @param {number} at
 * @param {References} references
 * @param {number} depth
 * @returns {[MarkdownBlock | null, number]}
 */
function next(lines, at, references, depth) {
  const line = lines[at];
  const fence = line.match(FENCE);
  if (fence) return fenced(lines, at, fence);
  if (indent(line) >= 4) return indented(lines, at);
  const heading = line.match(HEADING);
  if (heading) {
    return [{ type: "heading", depth: heading[1].length, text: (heading[2] ?? "").trim() }, at + 1];
  }
  if (RULE.test(line)) return [{ type: "rule" }, at + 1];
  if (depth < DEEPEST) {
    if (QUOTE.test(line)) return quote(lines, at, references, depth);
    if (MARKER.test(line)) return list(lines, at, references, depth);
  }
  const table = tableAt(lines, at);
  if (table) return table;
  const definition = line.match(DEFINITION);
  if (definition) {
    const name = nameOf(definition[1]);
    if (!references.has(name)) references.set(name, definition[2]);
    return [null, at + 1];
  }
  return paragraph(lines, at, depth);
}

/** @type {(name: string) => string} names of references are alike but for case and space */
export const nameOf = (name) => name.trim().toLowerCase().replace(/\s+/g, " ");

/**
 * Whether a line begins a block in the middle of a paragraph.
 * @param {string} line
 * @param {number} depth
 */
function interrupts(line, depth) {
  if (indent(line) >= 4) return false;
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line)) return true;
  if (depth >= DEEPEST) return false;
  const marker = line.match(MARKER);
  const begins = marker && (!marker[3] || marker[3] === "1") && !isBlank(line.slice(marker[0].length));
  return Boolean(begins) || QUOTE.test(line);
}

/** @type {(lines: readonly string[], at: number, depth: number) => [MarkdownBlock, number]} */
function paragraph(lines, at, depth) {
  const text = [lines[at].trimStart()];
  let end = at + 1;
  for (; end < lines.length; end++) {
    const line = lines[end];
    const under = line.match(UNDERLINE);
    if (under) {
      return [{ type: "heading", depth: under[1][0] === "=" ? 1 : 2, text: text.join("\n") }, end + 1];
    }
    if (isBlank(line) || interrupts(line, depth) || tableAt(lines, end)) break;
    text.push(line.trimStart());
  }
  return [{ type: "paragraph", text: text.join("\n").trimEnd() }, end];
}

/** @type {(lines: readonly string[], at: number, fence: RegExpMatchArray) => [MarkdownBlock, number]} */
function fenced(lines, at, fence) {
  const mark = fence[1];
  const margin = indent(lines[at]);
  const close = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}[ \\t]*$`);
  const strip = new RegExp(`^ {0,${margin}}`);
  /** @type {string[]} */
  const text = [];
  let end = at + 1;
  for (; end < lines.length; end++) {
    const line = lines[end];
    if (line.includes(mark) && close.test(line)) {
      end++;
      break;
    }
    text.push(margin ? line.replace(strip, "") : line);
  }
  return [{ type: "code", text: text.join("\n"), language: fence[2].split(/\s/, 1)[0] }, end];
}

/** @type {(lines: readonly string[], at: number) => [MarkdownBlock, number]} */
function indented(lines, at) {
  let end = at;
  for (let probe = at; probe < lines.length; probe++) {
    const line = lines[probe];
    if (indent(line) >= 4 && !isBlank(line)) end = probe + 1;
    else if (!isBlank(line)) break;
  }
  const text = lines.slice(at, end).map((line) => line.slice(4));
  return [{ type: "code", text: text.join("\n"), language: "" }, end];
}

/** @type {(lines: readonly string[], at: number, references: References, depth: number) => [MarkdownBlock, number]} */
function quote(lines, at, references, depth) {
  const inner = new Inner(depth);
  let end = at;
  for (; end < lines.length; end++) {
    const line = lines[end];
    if (QUOTE.test(line)) inner.push(line.replace(QUOTE, ""));
    else if (isBlank(line) || !inner.goesOn(line)) break;
    else inner.push(line);
  }
  return [{ type: "quote", blocks: parse(inner.lines, references, undefined, depth + 1) }, end];
}

/** The lines inside a quote or an item, and how they end. */
class Inner {
  /** @param {number} depth */
  constructor(depth) {
    this.depth = depth;
    /** @type {string[]} */
    this.lines = [];
    /** The fence that is open. */
    this.fence = "";
  }

  /** @param {string} line */
  push(line) {
    this.lines.push(line);
    const mark = line.match(FENCE)?.[1];
    if (mark && !this.fence) this.fence = mark;
    else if (mark && mark[0] === this.fence[0] && mark.length >= this.fence.length) this.fence = "";
  }

  /**
   * Whether a line goes on with the paragraph that these end with, as lazy people write.
   * @param {string} line
   */
  goesOn(line) {
    const last = this.lines.at(-1);
    if (this.fence || last === undefined || isBlank(last) || MARKER.test(line)) return false;
    if (FENCE.test(last) || HEADING.test(last) || RULE.test(last) || indent(last) >= 4) return false;
    return !interrupts(line, this.depth);
  }
}

/** @type {(lines: readonly string[], at: number, references: References, depth: number) => [MarkdownBlock, number]} */
function list(lines, at, references, depth) {
  const first = /** @type {RegExpMatchArray} */ (lines[at].match(MARKER));
  const kind = first[2].slice(-1);
  /** @type {Extract<MarkdownBlock, { type: "list" }>["items"]} */
  const items = [];
  let loose = false;
  let end = at;
  while (end < lines.length) {
    const line = lines[end];
    const marker = line.match(MARKER);
    if (!marker || marker[2].slice(-1) !== kind || RULE.test(line)) break;
    const [inner, behind] = itemLines(lines, end, marker, depth);
    const task = inner[0].match(TASK);
    if (task) inner[0] = inner[0].slice(task[0].length);
    const ends = [0];
    const blocks = parse(inner, references, (line) => ends.push(line), depth + 1);
    loose ||= ends.slice(1, -1).some((line) => isBlank(inner[line]) || isBlank(inner[line - 1]));
    items.push({ checked: task ? task[1] !== " " : null, blocks });
    end = behind;
    while (isBlank(lines[end] ?? "x")) end++;
    const apart = isBlank(lines[end - 1]);
    if (apart && lines[end]?.match(MARKER)?.[2].endsWith(kind)) loose = true;
  }
  return [{ type: "list", start: first[3] ? Number(first[3]) : null, loose, items }, end];
}

/**
 * The lines of one item, without its marker and indentation.
 * @param {readonly string[]} lines
 * @param {number} at
 * @param {RegExpMatchArray} marker
 * @param {number} depth
 * @returns {[string[], number]}
 */
function itemLines(lines, at, marker, depth) {
  const space = marker[4].length;
  const rest = lines[at].slice(marker[0].length);
  const head = marker[1].length + marker[2].length;
  const margin = head + (isBlank(rest) || space > 4 ? 1 : Math.max(1, space));
  const inner = new Inner(depth);
  inner.push(isBlank(rest) ? "" : lines[at].slice(margin));
  let end = at + 1;
  for (; end < lines.length; end++) {
    const line = lines[end];
    if (isBlank(line)) {
      if (end === at + 1 && isBlank(rest)) break; // an item that begins with nothing has nothing
      inner.push("");
    } else if (indent(line) >= margin) inner.push(line.slice(margin));
    else if (inner.goesOn(line)) inner.push(line.trimStart());
    else break;
  }
  return [inner.lines, end];
}

/** @type {(row: string) => string[]} the cells of a table's row */
function cells(row) {
  const inner = row.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** @type {(lines: readonly string[], at: number) => [MarkdownBlock, number] | null} */
function tableAt(lines, at) {
  const [first = "", second = ""] = [lines[at], lines[at + 1]];
  if (!first.includes("|") || !COLUMNS.test(second)) return null;
  const head = cells(first);
  const rules = cells(second);
  if (head.length !== rules.length) return null;
  const align = rules.map((rule) =>
    rule.endsWith(":") ? (rule.startsWith(":") ? "center" : "right") : rule.startsWith(":") ? "left" : "",
  );
  /** @type {string[][]} */
  const rows = [];
  let end = at + 2;
  for (; end < lines.length; end++) {
    const line = lines[end];
    if (isBlank(line) || interrupts(line, 0)) break;
    const row = cells(line);
    rows.push(head.map((_, column) => row[column] ?? ""));
  }
  return [{ type: "table", align, head, rows }, end];
}
