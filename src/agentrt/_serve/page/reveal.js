// Text that a person decides on, with every character of it visible. The terminal has the same rules
// (`_core/model/reveal.py`, where they are explained); the tests compare both over all characters.

/** @type {[number, number][]} */
const SCRIPTS = [
  [0x370, 0x3ff], [0x400, 0x52f], [0x530, 0x58f], [0x10a0, 0x10ff], [0x13a0, 0x13ff],
  [0x1c80, 0x1cbf], [0x1f00, 0x1fff], [0x2c80, 0x2d2f], [0x2de0, 0x2dff], [0xa4d0, 0xa4ff],
  [0xa640, 0xa69f], [0xab70, 0xabbf], [0x10400, 0x1044f],
];

/** @type {[number, number][]} */
const DISGUISED = [
  [0x2cd, 0x2cd], [0x2d0, 0x2d0], [0x2d7, 0x2d7], [0x1c0, 0x1c3], [0x261, 0x261],
  [0x37e, 0x37e], [0x2010, 0x2011], [0x2024, 0x2024], [0x2044, 0x2044], [0x2160, 0x2188],
  [0x2212, 0x2212], [0x2215, 0x2216], [0x2223, 0x2223], [0x2236, 0x2236], [0x29f5, 0x29f5],
  [0x29f8, 0x29f9], [0xa789, 0xa789], [0xfe68, 0xfe68], [0xff10, 0xff19], [0xff21, 0xff3a],
  [0xff41, 0xff5a], [0x1d400, 0x1d7ff],
];

const HIDDEN = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800\ufff9-\ufffc]/u;
const DOUBLES = new Set("аеорсухѕіјһԁԛԝӏοανικτυρ");

/** Combining marks on one letter that are drawn as they are. */
const MARKS = 2;

/** ASCII that is shown as it is. */
const SIMPLE = /^[\n\t\x20-\x7e]*$/;

/** @type {(code: number, ranges: [number, number][]) => boolean} */
const among = (code, ranges) => ranges.some(([first, last]) => first <= code && code <= last);

/** @type {(character: string) => string} */
function kindOf(character) {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x80) {
    if (/[A-Za-z]/.test(character)) return "A";
    if (/[0-9]/.test(character)) return "D";
    return SIMPLE.test(character) ? "P" : "C";
  }
  if (code === 0xfe0e || code === 0xfe0f) return "V";
  if (HIDDEN.test(character)) return "H";
  if (among(code, DISGUISED)) return "X";
  if (/\p{Me}/u.test(character) || (code >= 0x334 && code <= 0x338)) return "O";
  if (/\p{M}/u.test(character)) return "M";
  if (/\p{N}/u.test(character)) return "D";
  if (/[\p{So}\p{Sm}]/u.test(character)) return "S";
  if (/\p{L}/u.test(character)) return among(code, SCRIPTS) ? "K" : "L";
  return "P";
}

/** @type {Map<string, string>} */
const kinds = new Map();

/** @type {(character: string) => string} */
function kind(character) {
  let known = kinds.get(character);
  if (!known) kinds.set(character, (known = kindOf(character)));
  return known;
}

/** @type {(character: string) => string} */
const code = (character) => `⟨U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`;

/** @type {(character: string) => string} */
const picture = (character) => (character === "\x7f" ? "\u2421" : String.fromCharCode(0x2400 + character.charCodeAt(0)));

/** @type {(characters: string[]) => Set<number>} the places of letters that pass for Latin ones */
function lookalikes(characters) {
  const found = /** @type {Set<number>} */ (new Set());
  for (let start = 0, end = 0; start < characters.length; start = end + 1) {
    for (end = start; end < characters.length && "ALKDMOX".includes(kind(characters[end])); ) end++;
    let [latin, other] = [false, false];
    /** @type {number[]} */
    const places = [];
    for (let at = start; at < end; at++) {
      const is = kind(characters[at]);
      if (is === "K") places.push(at);
      latin ||= is === "A";
      other ||= is === "L";
    }
    const alone = places.length > 1 && !other && places.every((at) => DOUBLES.has(characters[at]));
    if (latin || alone) for (const at of places) found.add(at);
  }
  return found;
}

/**
 * The text in pieces: those of the text itself, and those that we have put in, in turns.
 * @param {string} text
 */
export function pieces(text) {
  if (SIMPLE.test(text)) return [text];
  const characters = [...text];
  const marked = lookalikes(characters);
  const out = [""];
  const put = (/** @type {string} */ words, ours = false) => {
    if ((out.length % 2 === 0) === ours) out[out.length - 1] += words;
    else out.push(words);
  };
  let [before, marks, joins] = ["", 0, false];
  characters.forEach((character, place) => {
    const is = kind(character);
    if (is === "M") {
      marks++;
      if (joins && marks <= MARKS) put(character);
      else put(code(character), true);
      return;
    }
    [marks, joins] = [0, "ALKX".includes(is)];
    if (is === "C") put(picture(character), true);
    else if (is === "H" || is === "O" || (is === "V" && before !== "S")) put(code(character), true);
    else {
      put(character);
      if (is === "X" || marked.has(place)) put(code(character), true);
    }
    before = is;
  });
  return out;
}

/** @type {(text: string) => string} */
export const reveal = (text) => pieces(text).join("");

/**
 * In one line, cut off in the middle if it is long.
 * @param {string} text
 * @param {number} width
 */
export function revealedLine(text, width) {
  const line = reveal(text).replace(/[ \n\t]+/g, " ").trim();
  const characters = [...line];
  if (characters.length <= width) return line;
  const half = Math.floor((width - 3) / 2);
  return `${characters.slice(0, half).join("")} … ${characters.slice(-half).join("")}`;
}
