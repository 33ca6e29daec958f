// Previews of large contents: an object with some has their sizes and places in `_cut`. The rest is
// requested when a person opens it.

type Cuttable = { [name: string]: unknown; _cut?: Record<string, w.Cut> };

const isObject = (value: unknown): value is Cuttable =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The previews in a value that can be completed */
export function cutsOf(value: unknown): w.Cut[] {
  if (Array.isArray(value)) return value.flatMap(cutsOf);
  if (!isObject(value)) return [];
  const { _cut = {}, ...members } = value;
  const own = Object.values(_cut).filter(({ at }) => at);
  return [...own, ...Object.entries(members).flatMap(([name, each]) => (name in _cut ? [] : cutsOf(each)))];
}

/** Characters that are left out of a value, about */
export const missing = (value: unknown): number =>
  cutsOf(value).reduce((sum, { chars, start }) => sum + (start || chars), 0);

/**
 * A value with the contents that have been fetched, by their places.
 * @param got the complete texts, or what comes before a preview
 */
export function filled<T>(value: T, got: ReadonlyMap<string, string>): T {
  if (Array.isArray(value)) return value.map((each) => filled(each, got)) as any;
  if (!isObject(value)) return value;
  const { _cut = {}, ...members } = value as Cuttable;
  const whole: Cuttable = {};
  const left: Record<string, w.Cut> = {};
  for (const [name, each] of Object.entries(members)) {
    const cut = _cut[name];
    const text = cut?.at ? got.get(cut.at) : undefined;
    if (cut && text === undefined) left[name] = cut;
    whole[name] = !cut
      ? filled(each, got)
      : text === undefined
        ? each
        : cut.json
          ? JSON.parse(text)
          : cut.start
            ? text + each
            : text;
  }
  return (Object.keys(left).length ? { ...whole, _cut: left } : whole) as any;
}

/**
 * Fetch what is left out of a value.
 * @returns by place, for `filled`; what cannot be fetched is not in it
 */
export async function fetched(
  value: unknown,
  ask: (fields: { at: string; start: number; count?: number }) => Promise<Answer>,
): Promise<Map<string, string>> {
  const got: Map<string, string> = new Map();
  for (const { at = "", start: end = 0 } of cutsOf(value)) {
    const parts = [];
    let start: number | null | undefined = 0;
    while (start != null && (!end || start < end)) {
      const piece: Answer = await ask({ at, start, ...(end && { count: Math.min(65_536, end - start) }) });
      if (!piece.ok) break;
      parts.push(piece.text ?? "");
      start = piece.next;
    }
    if (start == null || (end && start >= end)) got.set(at, parts.join(""));
  }
  return got;
}
