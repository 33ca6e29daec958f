// What reads text of agents with the help of libraries: terminal output, code, Markdown. It runs in
// worker.js, so that no text stops the page; where there are no workers, it is called directly.

import { ELEMENTS, fewEnough } from "./elements.js";

/** Loads all modules that a parser needs, before its time begins. */
export async function load(name: string) {
  if (name === "screen") await Promise.all([import("./ansi.js"), import("./screen.js")]);
  else if (name === "colours") await import("./highlight.js");
  else if (name === "math") await import("./math.js");
  else if (name === "review") await Promise.all([import("./highlight.js"), import("./review.js")]);
  else await import("./parse.js");
}

/** What stands on the screen of a terminal after some output. */
export async function screen(text: string) {
  const { pieces } = await import("./ansi.js");
  const found = await pieces(text);
  return found.length > ELEMENTS ? null : found;
}

/** The words of some code with the classes of their colours: a tree, or null if the language is not
 *  known. Of a long text only the beginning has colours: the last string is the rest. */
export async function colours(language: string, text: string) {
  const { lowlight } = await import("./highlight.js");
  if (!lowlight.registered(language)) return null;
  let left = ELEMENTS;
  let shown = 0;
  const tree = (nodes: readonly any[]): Coloured[] => {
    const made: Coloured[] = [];
    for (const node of nodes) {
      if (left-- <= 0) break;
      if (node.type !== "text") made.push({ style: node.properties.className.join(" "), inner: tree(node.children) });
      else {
        made.push(node.value);
        shown += node.value.length;
      }
    }
    return made;
  };
  const made = tree(lowlight.highlight(language, text).children);
  return shown < text.length ? [...made, text.slice(shown)] : made;
}

/** The MathML of a formula in TeX; null if it is not known. */
export async function math(source: string, display: boolean) {
  const { formula } = await import("./math.js");
  return formula(source, display);
}

/** The lines of a change, with colours and marks: of two versions or, without the first, of a patch.
 *  Null: too large. */
export async function review(language: string, before: string | null, text: string) {
  const { hunks, patched, reviewed } = await import("./review.js");
  const parts = before === null ? patched(text) : hunks(before, text);
  let left = COLOURED;
  return (
    parts &&
    reviewed(parts, async (side) => {
      left -= side.length;
      return left < 0 ? null : colours(language, side);
    })
  );
}

/** Characters of a change that have colours. */
const COLOURED = 100_000;

/** Markdown to which nothing will be added. */
export async function whole(text: string, env: ParserEnv) {
  const { parse } = await import("./parse.js");
  const tokens = fewEnough(parse(text, env));
  return tokens && { tokens, env };
}

/** Markdown that may go on: what will stay as it is, the rest, and where that begins. */
export async function open(text: string, env: ParserEnv) {
  const { lastBlock, parse, parseOpen } = await import("./parse.js");
  const cut = lastBlock(text);
  const fixed = fewEnough(cut ? parse(text.slice(0, cut), env) : []);
  const rest = fewEnough(parseOpen(text.slice(cut), env));
  return fixed && rest && { cut, fixed, rest, env };
}
