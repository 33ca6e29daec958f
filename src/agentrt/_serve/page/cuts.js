// Previews of large contents: an object with some has their sizes and places in `_cut`. The rest is
// requested when a person opens it.

/** @typedef {{ [name: string]: unknown, _cut?: Record<string, w.Cut> }} Cuttable */

/** @param {unknown} value @returns {value is Cuttable} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** @type {(value: unknown) => w.Cut[]} the previews in a value that can be completed */
export function cutsOf(value) {
  if (Array.isArray(value)) return value.flatMap(cutsOf);
  if (!isObject(value)) return [];
  const { _cut = {}, ...members } = value;
  const own = Object.values(_cut).filter(({ at }) => at);
  return [...own, ...Object.entries(members).flatMap(([name, each]) => (name in _cut ? [] : cutsOf(each)))];
}

/** @type {(value: unknown) => number} characters that are left out of a value, about */
export const missing = (value) => cutsOf(value).reduce((sum, { chars, start }) => sum + (start || chars), 0);

/**
 * A value with the contents that have been fetched, by their places.
 * @template T
 * @param {T} value
 * @param {ReadonlyMap<string, string>} got the complete texts, or what comes before a preview
 * @returns {T}
 */
export function filled(value, got) {
  if (Array.isArray(value)) return /** @type {any} */ (value.map((each) => filled(each, got)));
  if (!isObject(value)) return value;
  const { _cut = {}, ...members } = /** @type {Cuttable} */ (value);
  /** @type {Cuttable} */
  const whole = {};
  /** @type {Record<string, w.Cut>} */
  const left = {};
  for (const [name, each] of Object.entries(members)) {
    const cut = _cut[name];
    const text = cut?.at ? got.get(cut.at) : undefined;
    if (cut && text === undefined) left[name] = cut;
    whole[name] = !cut ? filled(each, got) : text === undefined ? each : cut.json ? JSON.parse(text) : cut.start ? text + each : text;
  }
  return /** @type {any} */ (Object.keys(left).length ? { ...whole, _cut: left } : whole);
}

/**
 * Fetch what is left out of a value.
 * @param {unknown} value
 * @param {(fields: { at: string, start: number, count?: number }) => Promise<Answer>} ask
 * @returns {Promise<Map<string, string>>} by place, for `filled`; what cannot be fetched is not in it
 */
export async function fetched(value, ask) {
  /** @type {Map<string, string>} */
  const got = new Map();
  for (const { at = "", start: end = 0 } of cutsOf(value)) {
    const parts = [];
    /** @type {number | null | undefined} */
    let start = 0;
    while (start != null && (!end || start < end)) {
      /** @type {Answer} */
      const piece = await ask({ at, start, ...(end && { count: Math.min(65_536, end - start) }) });
      if (!piece.ok) break;
      parts.push(piece.text ?? "");
      start = piece.next;
    }
    if (start == null || (end && start >= end)) got.set(at, parts.join(""));
  }
  return got;
}
