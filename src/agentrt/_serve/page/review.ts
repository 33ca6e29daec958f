// The lines of a change: which differ, which words of them do, and their colours. What needs time runs
// in the worker (parsers.ts).

import { diffLines, diffWordsWithSpace, parsePatch } from "diff";
import { ELEMENTS } from "./elements.js";

/** Characters that may be compared at all. */
const LARGEST = 400_000;

/** The lines that are shown about one that differs. */
const AROUND = [-3, -2, -1, 0, 1, 2, 3];

/** Characters of two lines whose words are compared, and pairs of lines for which this is done. */
const COMPARED = 1_000;
const PAIRS = 400;

/**
 * @param whole whether the lines that do not differ are parts, too
 * @returns the parts that differ, each with some lines around it; null if it
 * takes too long to find them
 */
export function hunks(before: string, after: string, whole: boolean = false): Line[][] | null {
  if (before.length + after.length > LARGEST) return null;
  const changes = diffLines(before, after, { timeout: 100 });
  if (!changes) return null;
  let [old, now] = [1, 1];
  const lines: Line[] = changes.flatMap(({ added, removed, value }) =>
    value
      .replace(/\n$/, "")
      .split("\n")
      .map((text) => ({
        sign: added ? "+" : removed ? "-" : " ",
        text,
        before: added ? null : old++,
        after: removed ? null : now++,
      })),
  );
  if (whole) return lines.length ? [lines] : [];
  const near = new Set(lines.flatMap(({ sign }, at) => (sign === " " ? [] : AROUND.map((step) => at + step))));
  const parts: Line[][] = [];
  lines.forEach((line, at) => {
    if (!near.has(at)) return;
    if (at === 0 || !near.has(at - 1)) parts.push([]);
    parts[parts.length - 1].push(line);
  });
  return parts;
}

export function summary(parts: readonly Line[][] | null): string {
  const lines = (parts ?? []).flat();
  const added = lines.filter(({ sign }) => sign === "+").length;
  const removed = lines.filter(({ sign }) => sign === "-").length;
  return `+${added} −${removed}`;
}

/** The parts of a patch in the unified format. Throws an error if it is none. */
export function patched(patch: string): Line[][] {
  return parsePatch(patch).flatMap(({ hunks }) =>
    hunks.map(({ oldStart, newStart, lines }) => {
      let [old, now] = [oldStart, newStart];
      return lines.flatMap((line): Line[] => {
        const [sign, text] = [line[0], line.slice(1)];
        if (sign !== "+" && sign !== "-" && sign !== " ") return []; // a note about the last line
        return [{ sign, text, before: sign === "+" ? null : old++, after: sign === "-" ? null : now++ }];
      });
    }),
  );
}

/** Lines that were replaced by others, in pairs: one of a pair is missing where there are more of the
 *  others. Lines that do not differ are pairs of themselves. */
export function paired<L extends Line>(lines: readonly L[]): [L | undefined, L | undefined][] {
  const pairs: [L | undefined, L | undefined][] = [];
  let [old, now]: [L[], L[]] = [[], []];
  const end = () => {
    for (let at = 0; at < Math.max(old.length, now.length); at++) pairs.push([old[at], now[at]]);
    [old, now] = [[], []];
  };
  for (const line of lines) {
    if (line.sign === "-") old.push(line);
    else if (line.sign === "+") now.push(line);
    else {
      end();
      pairs.push([line, line]);
    }
  }
  end();
  return pairs;
}

/** Where the words of two lines differ: places at which that begins and ends, by turns. */
export function wordsThatDiffer(before: string, after: string): [number[], number[]] {
  const found: [number[], number[]] = [[], []];
  if (before.length + after.length > COMPARED) return found;
  let [old, now] = [0, 0];
  let same = 0;
  for (const { added, removed, value } of diffWordsWithSpace(before, after)) {
    if (removed) found[0].push(old, old + value.length);
    if (added) found[1].push(now, now + value.length);
    if (!added && !removed) same += value.trim().length;
    if (!added) old += value.length;
    if (!removed) now += value.length;
  }
  return same * 4 < Math.min(before.length, after.length) ? [[], []] : found; // they have little in common
}

/** A tree of colours as a row of pieces for each line. */
export function colouredLines(tree: readonly Coloured[]): LinePiece[][] {
  const lines: LinePiece[][] = [[]];
  const add = (nodes: readonly Coloured[], style: string) => {
    for (const node of nodes) {
      if (typeof node !== "string") add(node.inner, node.style);
      else {
        node.split("\n").forEach((text, at) => {
          if (at) lines.push([]);
          if (text) lines[lines.length - 1].push({ text, style, differs: false });
        });
      }
    }
  };
  add(tree, "");
  return lines;
}

/** The pieces of a line, cut where its words begin and end to differ. */
export function marked(pieces: readonly LinePiece[], places: readonly number[]): LinePiece[] {
  const out: LinePiece[] = [];
  let at = 0;
  for (const { text, style } of pieces) {
    const cuts = places.filter((place) => place > at && place < at + text.length).map((place) => place - at);
    [0, ...cuts].forEach((from, index) => {
      const differs = places.filter((place) => place <= at + from).length % 2 === 1;
      out.push({ text: text.slice(from, cuts[index]), style, differs });
    });
    at += text.length;
  }
  return out;
}

/** The parts with colours and marks; `colours` are those of a text. */
export async function reviewed(
  parts: readonly Line[][],
  colours: (text: string) => Promise<Coloured[] | null>,
): Promise<ReviewedLine[][]> {
  let left = PAIRS;
  let spans = ELEMENTS;
  const all = parts.map(async (lines) => {
    const places = new Map<Line, number[]>();
    for (const [old, now] of paired(lines)) {
      if (!old || !now || old === now || left-- <= 0) continue;
      const [before, after] = wordsThatDiffer(old.text, now.text);
      places.set(old, before).set(now, after);
    }
    const sides = await Promise.all(
      ["-", "+"].map(async (sign) => {
        const side = lines.filter((line) => line.sign === sign || line.sign === " ");
        const tree = await colours(side.map(({ text }) => text).join("\n"));
        const pieces = tree ? colouredLines(tree) : [];
        return side.map((line, at): [Line, LinePiece[]] => [line, pieces[at] ?? []]);
      }),
    );
    const coloured = new Map(sides.flat());
    return lines.map((line): ReviewedLine => {
      const known = coloured.get(line) ?? [];
      const fits = known.map(({ text }) => text).join("") === line.text;
      const plain = [{ text: line.text, style: "", differs: false }];
      const pieces = marked(fits ? known : plain, places.get(line) ?? []);
      spans -= pieces.length;
      return { ...line, pieces: spans > 0 ? pieces : plain };
    });
  });
  return Promise.all(all);
}
