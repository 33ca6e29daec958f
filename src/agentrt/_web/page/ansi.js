// What a program wrote to a terminal, as pieces of text with their style. Colours are kept, lines
// that were written over are gone, and every other escape sequence is left out.

/** CSI and OSC and DCS strings, other escapes, backspaces, lone carriage returns, line ends. */
const CONTROL =
  /\x1b\[([0-?]*)[ -/]*([@-~])|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)|\x1b[ -/]*[0-~]?|\x9b([0-?]*)[ -/]*([@-~])|\r?\n|\r|\x08/g;

/** @param {string} text @returns {Piece[]} */
export function pieces(text) {
  /** @type {Piece[]} */
  const done = [];
  /** @type {Piece[]} the line that is being written */
  let line = [];
  let style = new Style();
  let returned = false;
  /** @param {string} words */
  const write = (words) => {
    if (!words) return;
    if (returned) line = [];
    returned = false;
    line.push({ text: words, style: style.classes() });
  };
  let end = 0;
  for (const match of text.matchAll(CONTROL)) {
    write(text.slice(end, match.index));
    end = match.index + match[0].length;
    const control = match[0];
    if (control.endsWith("\n")) {
      done.push(...line, { text: "\n", style: "" });
      line = [];
      returned = false;
    } else if (control === "\r") {
      returned = true;
    } else if (control === "\b") {
      const last = line.at(-1);
      if (last) last.text = last.text.slice(0, -1);
    } else if ((match[2] ?? match[4]) === "m") {
      style = style.after(match[1] ?? match[3] ?? "");
    } else if ((match[2] ?? match[4]) === "K" && /^[12]$/.test(match[1] ?? match[3] ?? "")) {
      line = [];
    }
  }
  write(text.slice(end));
  done.push(...line);
  return joined(done);
}

/** @type {(all: Piece[]) => Piece[]} neighbours of one style as one */
function joined(all) {
  /** @type {Piece[]} */
  const out = [];
  for (const piece of all) {
    const last = out.at(-1);
    if (last && last.style === piece.style) last.text += piece.text;
    else if (piece.text) out.push({ ...piece });
  }
  return out;
}

/** Colour and weight, as `SGR` sequences set them. */
class Style {
  /** @param {Partial<{ front: string, back: string, marks: ReadonlySet<string> }>} [fields] */
  constructor({ front = "", back = "", marks = new Set() } = {}) {
    this.front = front;
    this.back = back;
    /** @type {ReadonlySet<string>} */
    this.marks = marks;
  }

  classes() {
    return [...this.marks, this.front && `fg-${this.front}`, this.back && `bg-${this.back}`]
      .filter(Boolean)
      .join(" ");
  }

  /** @param {string} parameters with semicolons between @returns {Style} */
  after(parameters) {
    let { front, back } = this;
    const marks = new Set(this.marks);
    const codes = parameters.split(/[;:]/).map(Number);
    for (let at = 0; at < codes.length; at++) {
      const code = codes[at] ?? 0;
      if (code === 0) {
        front = back = "";
        marks.clear();
      } else if (code === 38 || code === 48) {
        const [color, used] = extended(codes.slice(at + 1));
        at += used;
        if (code === 38) front = color;
        else back = color;
      } else if (MARKS[code]) marks.add(MARKS[code]);
      else if (code === 22) ["bold", "faint"].forEach((mark) => marks.delete(mark));
      else if (UNMARKS[code]) marks.delete(UNMARKS[code]);
      else if (code === 39) front = "";
      else if (code === 49) back = "";
      else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) front = String(code % 10);
      else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) back = String(code % 10);
    }
    return new Style({ front, back, marks });
  }
}

/** @type {Record<number, string>} */
const MARKS = { 1: "bold", 2: "faint", 3: "italic", 4: "under", 7: "inverse", 9: "struck" };
/** @type {Record<number, string>} */
const UNMARKS = { 23: "italic", 24: "under", 27: "inverse", 29: "struck" };

/**
 * A colour of 256, or of all, as one of the eight that can be read on any background.
 * @param {number[]} codes what follows 38 or 48
 * @returns {[string, number]} the colour, and how many codes it took
 */
function extended([kind, ...rest]) {
  if (kind === 2) return [nearest(rest), 4];
  const color = rest[0] ?? 0;
  if (color < 16) return [String(color % 8), 2];
  const cube = color - 16;
  return [color > 231 ? "" : nearest([cube / 36, (cube / 6) % 6, cube % 6].map(Math.floor)), 2];
}

/** @type {(parts: number[]) => string} the one in which the same of red, green and blue prevail */
function nearest(parts) {
  const top = Math.max(...parts);
  const [red, green, blue] = parts.map((part) => Number(part > top * 0.6));
  return red + green + blue === 3 ? "" : String(red + 2 * green + 4 * blue);
}
