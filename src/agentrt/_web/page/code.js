// Code, and other text in which every space counts: with its colours, and the numbers of its lines.

import { copyText } from "./clipboard.js";
import { html, Still } from "./html.js";
import { running } from "./safe.js";

/** Characters of a text that are shown, and of one that has colours. */
const SHOWN = 200_000;
const COLOURED = 60_000;
const PART = 4_000;

/** @type {typeof import("./vendor/highlight.js").lowlight | null} */
let lowlight = null;

/** Loads what knows the languages, with the first code that has one. While the server is away it
 *  cannot be had: the browser itself says so, and it is tried again with the next one. */
const loaded = () =>
  import("./vendor/highlight.js").then(
    (module) => (lowlight = module.lowlight),
    () => null,
  );

/**
 * @param {object} given
 * @param {string} given.text
 * @param {string} [given.language] or the end of a file's name
 * @param {number} [given.first] the number of the first line, if they are to be numbered
 * @param {string} [given.name] what it is called
 * @param {boolean} [given.grows] whether it is long and still comes: it has no colours until it is there
 * @param {string | number} [given.key]
 */
export const code = ({ key = "code", ...given }) => html`<${Code} key=${key} ...${given} />`;

export class Code extends Still {
  gone = false;

  componentWillUnmount() {
    this.gone = true;
  }

  /** @param {Parameters<typeof code>[0]} props */
  draw({ text, language = "", first, name, grows }) {
    const left = text.length - SHOWN;
    const count = text.slice(0, SHOWN).split("\n").length;
    return html`<figure class="code">
      <figcaption>
        <span class=${name ? "path" : null}>${running(name || language || "code")}</span>
        <button type="button" class="quiet" onClick=${copy(text)}>Copy</button>
      </figcaption>
      <pre tabindex="0">${first !== undefined &&
        html`<span class="numbers" aria-hidden="true">${Array.from({ length: count }, (_, line) => first + line).join("\n")}</span>`}<code>${(!grows && this.coloured(text, language)) || parts(text)}</code></pre>
      ${left > 0 && html`<p class="hint">${left} more characters are not shown; “Copy” takes all.</p>`}
    </figure>`;
  }

  /** @param {string} text @param {string} language @returns {Shown[] | null} */
  coloured(text, language) {
    const known = language.toLowerCase().match(/^[\w+#-]+/)?.[0];
    if (!known || text.length > COLOURED) return null;
    if (lowlight) return lowlight.registered(known) ? spans(lowlight.highlight(known, text).children) : null;
    if (typeof document !== "undefined") loaded().then((there) => !there || this.gone || this.forceUpdate());
    return null;
  }
}

/** @type {(nodes: readonly any[]) => Shown[]} the words of a tree, in the classes of the parser's own names */
const spans = (nodes) =>
  nodes.map((node) =>
    node.type === "text" ? running(node.value) : html`<span class=${node.properties.className.join(" ")}>${spans(node.children)}</span>`,
  );

/**
 * A long text in parts of whole lines: only those in sight are laid out, and only the last grows.
 * @param {string} text
 * @returns {Shown[]}
 */
export function parts(text) {
  const all = running(text.slice(0, SHOWN));
  if (all.length < 2 * PART) return [all];
  /** @type {Shown[]} */
  const out = [];
  for (let at = 0, end = 0; at < all.length; at = end) {
    end = all.indexOf("\n", at + PART) + 1 || all.length;
    out.push(html`<span class="part" key=${out.length}>${all.slice(at, end)}</span>`);
  }
  return out;
}

/** @type {(text: string) => Handler} */
const copy = (text) => async ({ currentTarget }) => {
  if (!(await copyText(text))) return;
  currentTarget.classList.add("done");
  setTimeout(() => currentTarget.classList.remove("done"), 1500);
};
