// Text of agents as a page may show it. Whatever they say becomes a text node, never HTML; what is
// left to take care of are characters that cannot be seen, or that turn the words around them.

/** All control characters but newline and tab. */
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/** What overrides or isolates the direction of writing. */
const TURNING = /[\u061c\u202a-\u202e\u2066-\u2069]/g;

/** What is not seen, or breaks a line; some of it is needed in running text, none in a title. */
const HIDDEN =
  /[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028\u2029\u2060-\u2065\u206a-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb]|[\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;

/** @type {(mark: string) => string} */
function picture(mark) {
  const code = mark.charCodeAt(0);
  if (code === 0x0d) return "";
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "\u2421" : "\ufffd";
}

/**
 * Running text: nothing in it moves or turns what stands beside it.
 * @param {string} text
 */
export function running(text) {
  return text.replace(CONTROL, picture).replace(TURNING, "\ufffd");
}

/**
 * Text on which a decision rests: every character of it is seen.
 * @param {string} text
 */
export function plain(text) {
  return running(text).replace(HIDDEN, "\ufffd");
}

/**
 * The same in one line, cut off in the middle if it is long: the end of a command counts, too.
 * @param {string | null | undefined} text
 * @param {number} [width]
 */
export function oneLine(text, width = 200) {
  const line = plain((text ?? "").slice(0, 10_000)).split(/\s+/).filter(Boolean).join(" ");
  if (line.length <= width) return line;
  const half = Math.floor((width - 3) / 2);
  return `${line.slice(0, half)} … ${line.slice(-half)}`;
}

const LINKS = new Set(["http:", "https:", "mailto:"]);

/**
 * Where a link may lead, or null: nothing that runs, and nothing on this server.
 * @param {string} address
 */
export function link(address) {
  if (!/^[a-z][a-z0-9+.-]*:/i.test(address)) return null; // a relative one would lead to us
  try {
    const url = new URL(address);
    return LINKS.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

const SHOWN = /^(?:image\/(?:png|jpeg|gif|webp|avif)|audio\/[\w.+-]+)$/;

/**
 * The data URL of a picture or a sound that came with the message, or null. (An SVG is a document,
 * with what that brings; it is not shown.)
 * @param {string} mimeType
 * @param {string} data in base64
 */
export function dataUrl(mimeType, data) {
  const type = mimeType.split(";")[0].trim().toLowerCase();
  return SHOWN.test(type) && /^[\w+/=\s-]+$/.test(data) ? `data:${type};base64,${data}` : null;
}

/**
 * A value of an agent, for people.
 * @param {unknown} value
 */
export function asJson(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}
