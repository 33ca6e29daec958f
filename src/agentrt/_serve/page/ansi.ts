// What a program wrote to a terminal, as pieces of text with their style: what stands on the screen
// behind the last of it, and what was scrolled away above. The terminal is xterm.js, without a window.

/** Columns, of which a line may have more, and it is one line still; and rows, which a program can
 *  write over. */
const COLUMNS = 400;
const ROWS = 50;
const SCROLLED = 10_000;

/** Whether a text is more than lines: it moves the cursor, or has colours. */
export const needsScreen = (text: string) => /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)/.test(text);

/** Escape sequences, and what of them has come. */
const CONTROL =
  /\x1b\[[0-?]*[ -/]*[@-~]?|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)|\x1b[ -/]*[0-~]?|\x9b[0-?]*[ -/]*[@-~]?|\r/g;

/** Without what is not to be seen, as long as there is no terminal. */
export const stripped = (text: string) => text.replace(CONTROL, "");

/**
 * The end of a text, from the beginning of a line; of a line that is longer than `limit`, its end.
 * @param limit characters
 */
export function lastLines(text: string, limit: number) {
  if (text.length <= limit) return text;
  const start = text.length - limit;
  const line = text.indexOf("\n", start - 1) + 1;
  return text.slice(line && line < text.length ? line : start);
}

/** The numbers of control sequences, but for those of private modes. */
const NUMBERS = /(?:\x1b\[|\x9b)[0-9;:]+/g;

/** No number moves, repeats or inserts more than a line has columns. */
export const clamped = (text: string) =>
  text.replace(NUMBERS, (all) =>
    all.replace(/\d{4,}|\d{3}/g, (number) => (Number(number) > COLUMNS ? String(COLUMNS) : number)),
  );

export async function pieces(text: string): Promise<Piece[]> {
  const { Terminal } = await import("./screen.js");
  const options = { cols: COLUMNS, rows: ROWS, scrollback: SCROLLED, convertEol: true, allowProposedApi: true };
  const terminal = new Terminal({ ...options, logLevel: "off" });
  try {
    await (new Promise((resolve) => terminal.write(clamped(text), resolve)) as Promise<void>);
    return read(terminal.buffer.active);
  } finally {
    terminal.dispose();
  }
}

type Cell = import("@xterm/headless").IBufferCell;

function read(buffer: import("@xterm/headless").IBuffer) {
  const done: Piece[] = [];
  /** Lines without anything, until something comes behind them. */
  let ends = 0;
  const put = (piece: Piece) => {
    const last = done.at(-1);
    if (last && last.style === piece.style && last.color === piece.color && last.background === piece.background)
      last.text += piece.text;
    else done.push(piece);
  };
  for (let row = 0; row < buffer.length; row++) {
    const line = buffer.getLine(row);
    if (!line) continue;
    if (row > 0 && !line.isWrapped) ends++;
    const cells = cellsOf(line);
    if (cells.length && ends) {
      put({ text: "\n".repeat(ends), style: "" });
      ends = 0;
    }
    cells.forEach(put);
  }
  return done;
}

/** @returns up to the last that can be seen */
function cellsOf(line: import("@xterm/headless").IBufferLine): Piece[] {
  const cells: Piece[] = [];
  let cell: Cell | undefined;
  let seen = 0;
  for (let column = 0; column < line.length; column++) {
    cell = line.getCell(column, cell);
    if (!cell) break;
    if (cell.getWidth() === 0) continue; // the other half of a wide one
    const piece = styled(cell);
    cells.push(piece);
    if (cell.getChars() || piece.background) seen = cells.length;
  }
  return cells.slice(0, seen);
}

function styled(cell: Cell): Piece {
  const text = cell.getChars() || " ";
  if (cell.isAttributeDefault()) return { text, style: "" };
  const marks = [
    cell.isBold() && "bold",
    cell.isDim() && "faint",
    cell.isItalic() && "italic",
    cell.isUnderline() && "under",
    cell.isStrikethrough() && "struck",
  ].filter(Boolean);
  const front = cell.isFgDefault() ? null : cell.isFgRGB() ? rgb(cell.getFgColor()) : PALETTE[cell.getFgColor()];
  const back = cell.isBgDefault() ? null : cell.isBgRGB() ? rgb(cell.getBgColor()) : PALETTE[cell.getBgColor()];
  const [ink, paper] = cell.isInverse() ? [back ?? PAPER, front ?? INK] : [front, back];
  const style = marks.join(" ");
  if (!ink && !paper) return { text, style };
  const background = paper ? { background: css(paper) } : {};
  return { text, style, color: css(readable(ink ?? INK, paper ?? PAPER)), ...background };
}

/** Red, green and blue, up to 255. */
type Colour = readonly [number, number, number];

/** As in conversation.css. */
const PAPER: Colour = [0x21, 0x26, 0x2a];
const INK: Colour = [0xe4, 0xe6, 0xe3];

const rgb = (number: number): Colour => [number >> 16, (number >> 8) & 255, number & 255];

const css = (colour: Colour): string =>
  `#${colour.map((part) => Math.round(part).toString(16).padStart(2, "0")).join("")}`;

const FIRST = [
  0x484f56, 0xe0645c, 0x5fb56a, 0xc9a24a, 0x5f97e0, 0xc07acb, 0x4fb3ad, 0xc9cdc9, 0x8b939a, 0xff938a, 0x8fd996,
  0xe8c675, 0x93bdf5, 0xdfa5e8, 0x7fd4cf, 0xf4f5f3,
];
const STEPS = [0, 95, 135, 175, 215, 255];

/** The 256 colours: sixteen with names, a cube of 216, and greys. */
const PALETTE: readonly Colour[] = Array.from({ length: 256 }, (_, index) => {
  if (index < 16) return rgb(FIRST[index]);
  if (index > 231) return [8 + 10 * (index - 232), 8 + 10 * (index - 232), 8 + 10 * (index - 232)];
  const cube = index - 16;
  return [STEPS[Math.floor(cube / 36)], STEPS[Math.floor(cube / 6) % 6], STEPS[cube % 6]];
});

/** How bright it is, as WCAG has it. */
function luminance(colour: Colour): number {
  const [red, green, blue] = colour.map((part) => (part <= 10 ? part / 3295 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

export function contrast(one: Colour, other: Colour): number {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

/** A colour, or one beside it that can be read on that background. */
export function readable(ink: Colour, paper: Colour): Colour {
  const end = contrast([255, 255, 255], paper) > contrast([0, 0, 0], paper) ? 255 : 0;
  for (let part = 0; part < 1; part += 0.1) {
    const mixed = ink.map((each) => each + (end - each) * part) as unknown as Colour;
    if (contrast(mixed, paper) >= 4.6) return mixed;
  }
  return [end, end, end];
}
