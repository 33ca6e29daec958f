// Code, and other text in which every space counts: with its colours, and the numbers of its lines.

import { ask } from "./ask.js";
import { copyText, saveText } from "./clipboard.js";
import { html, Still } from "./html.js";
import { running } from "./safe.js";

/** Characters of a text that are shown, and of one that has colours. */
const SHOWN = 100_000;
const COLOURED = 60_000;
const PART = 4_000;

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
  /** The colours that are known, and of what. */
  known = { text: "", language: "", tree: /** @type {Coloured[] | null} */ (null) };
  /** What is asked about. */
  asked = "";

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
        ${left > 0 && html`<button type="button" class="quiet" onClick=${() => saveText("text.txt", text)}>Save</button>`}
        <button type="button" class="quiet" onClick=${copy(text)}>Copy</button>
      </figcaption>
      <pre tabindex="0">${first !== undefined &&
        html`<span class="numbers" aria-hidden="true">${Array.from({ length: count }, (_, line) => first + line).join("\n")}</span>`}<code>${(!grows && this.coloured(text, language)) || parts(text)}</code></pre>
      ${left > 0 && html`<p class="hint">${left} more characters are hidden; Copy and Save include them.</p>`}
    </figure>`;
  }

  /** @param {string} text @param {string} language @returns {Shown[] | null} */
  coloured(text, language) {
    const name = language.toLowerCase().match(/^[\w+#-]+/)?.[0];
    if (!name || text.length > COLOURED) return null;
    const { known } = this;
    if (known.language !== name || known.text !== text) this.learn(name, text);
    if (known.language !== name || !known.tree || !text.startsWith(known.text)) return null;
    return [...spans(known.tree), running(text.slice(known.text.length))];
  }

  /** @param {string} language @param {string} text */
  async learn(language, text) {
    if (this.asked || typeof document === "undefined") return; // the next one is asked about when it is shown
    this.asked = text;
    this.known = { text, language, tree: await ask("colours", language, text) };
    this.asked = "";
    if (!this.gone) this.forceUpdate();
  }
}

/** @type {(tree: readonly Coloured[]) => Shown[]} */
const spans = (tree) =>
  tree.map((node) => (typeof node === "string" ? running(node) : html`<span class=${node.style}>${spans(node.inner)}</span>`));

/**
 * A long text in parts of whole lines: only those in sight are laid out, and only the last grows.
 * @param {string} text
 * @param {number} [limit] characters of it that are shown
 * @returns {Shown[]}
 */
export function parts(text, limit = SHOWN) {
  const all = running(text.slice(0, limit));
  if (all.length < 2 * PART) return [all];
  /** @type {Shown[]} */
  const out = [];
  for (let at = 0, end = 0; at < all.length; at = end) {
    end = all.indexOf("\n", at + PART) + 1 || all.length;
    if (end - at > 2 * PART) end = at + PART; // a line that nobody reads to its end
    out.push(html`<span class="part" key=${out.length}>${all.slice(at, end)}</span>`);
  }
  return out;
}

/** @type {(text: string) => Handler} */
export const copy = (text) => async ({ currentTarget }) => {
  if (!(await copyText(text))) return;
  currentTarget.classList.add("done");
  setTimeout(() => currentTarget.classList.remove("done"), 1500);
};
