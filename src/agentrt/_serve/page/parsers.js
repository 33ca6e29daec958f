// What reads text of agents with the help of libraries: terminal output, code, Markdown. It runs in
// worker.js, so that no text stops the page; where there are no workers, it is called directly.

/** Elements that are made of one text at the most: laying out more would stop the page. */
const ELEMENTS = 4_000;

/** @typedef {import("./vendor/libraries.js").Token} Token */

/** Loads all modules that a parser needs, before its time begins. @param {string} name */
export async function load(name) {
  if (name === "screen") await Promise.all([import("./ansi.js"), import("./vendor/screen.js")]);
  else if (name === "colours") await import("./vendor/highlight.js");
  else await import("./parse.js");
}

/** @type {(tokens: readonly any[]) => number} with those inside of each */
const count = (tokens) => tokens.reduce((sum, { children }) => sum + 1 + (children?.length ?? 0), 0);

/** @type {(tokens: Token[]) => Token[] | null} */
export const fewEnough = (tokens) => (count(tokens) > ELEMENTS ? null : tokens);

/** What stands on the screen of a terminal after some output. @param {string} text */
export async function screen(text) {
  const { pieces } = await import("./ansi.js");
  const found = await pieces(text);
  return found.length > ELEMENTS ? null : found;
}

/**
 * The words of some code with the classes of their colours: a tree, or null if the language is not
 * known. Of a long text only the beginning has colours: the last string is the rest.
 * @param {string} language
 * @param {string} text
 */
export async function colours(language, text) {
  const { lowlight } = await import("./vendor/highlight.js");
  if (!lowlight.registered(language)) return null;
  let left = ELEMENTS;
  let shown = 0;
  /** @type {(nodes: readonly any[]) => Coloured[]} */
  const tree = (nodes) => {
    /** @type {Coloured[]} */
    const made = [];
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

/**
 * Markdown to which nothing will be added.
 * @param {string} text
 * @param {ParserEnv} env
 */
export async function whole(text, env) {
  const { parse } = await import("./parse.js");
  const tokens = fewEnough(parse(text, env));
  return tokens && { tokens, env };
}

/**
 * Markdown that may go on: what will stay as it is, the rest, and where that begins.
 * @param {string} text
 * @param {ParserEnv} env
 */
export async function open(text, env) {
  const { lastBlock, parse, parseOpen } = await import("./parse.js");
  const cut = lastBlock(text);
  const fixed = fewEnough(cut ? parse(text.slice(0, cut), env) : []);
  const rest = fewEnough(parseOpen(text.slice(cut), env));
  return fixed && rest && { cut, fixed, rest, env };
}
