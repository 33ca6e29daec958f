// Code, and other text in which every space counts: with its colours, and the numbers of its lines.

import { ask } from "./ask.js";
import { copyText, saveText } from "./clipboard.js";
import { Still } from "./html.js";
import { running } from "./safe.js";

/** Characters of a text that are shown, and of one that has colours. */
const SHOWN = 100_000;
const COLOURED = 60_000;
const PART = 4_000;

interface CodeProps {
  text: string;
  /** Or the end of a file's name. */
  language?: string;
  /** The number of the first line, if they are to be numbered. */
  first?: number;
  /** What it is called. */
  name?: string;
  /** Whether it is long and still comes: it has no colours until it is there. */
  grows?: boolean;
}

export const code = ({ key = "code", ...given }: CodeProps & { key?: string | number }) => <Code key={key} {...given} />;

export class Code extends Still<CodeProps> {
  gone = false;
  /** The colours that are known, and of what. */
  known = { text: "", language: "", tree: null as Coloured[] | null };
  /** What is asked about. */
  asked = "";

  componentWillUnmount() {
    this.gone = true;
  }

  draw({ text, language = "", first, name, grows }: CodeProps) {
    const left = text.length - SHOWN;
    const count = text.slice(0, SHOWN).split("\n").length;
    return (
      <figure class="code">
        <figcaption>
          <span class={name ? "path" : undefined}>{running(name || language || "code")}</span>
          {left > 0 && (
            <button type="button" class="quiet" onClick={() => saveText("text.txt", text)}>
              Save
            </button>
          )}
          <button type="button" class="quiet" onClick={copy(text)}>
            Copy
          </button>
        </figcaption>
        <pre tabIndex={0}>
          {first !== undefined && (
            <span class="numbers" aria-hidden="true">
              {Array.from({ length: count }, (_, line) => first + line).join("\n")}
            </span>
          )}
          <code>{(!grows && this.coloured(text, language)) || parts(text)}</code>
        </pre>
        {left > 0 && <p class="hint">{left} more characters are hidden; Copy and Save include them.</p>}
      </figure>
    );
  }

  coloured(text: string, language: string): Shown[] | null {
    const name = language.toLowerCase().match(/^[\w+#-]+/)?.[0];
    if (!name || text.length > COLOURED) return null;
    const { known } = this;
    if (known.language !== name || known.text !== text) this.learn(name, text);
    if (known.language !== name || !known.tree || !text.startsWith(known.text)) return null;
    return [...spans(known.tree), running(text.slice(known.text.length))];
  }

  async learn(language: string, text: string) {
    if (this.asked || typeof document === "undefined") return; // the next one is asked about when it is shown
    this.asked = text;
    this.known = { text, language, tree: await ask("colours", language, text) };
    this.asked = "";
    if (!this.gone) this.forceUpdate();
  }
}

const spans = (tree: readonly Coloured[]): Shown[] =>
  tree.map((node) => (typeof node === "string" ? running(node) : <span class={node.style}>{spans(node.inner)}</span>));

/**
 * A long text in parts of whole lines: only those in sight are laid out, and only the last grows.
 * @param limit characters of it that are shown
 */
export function parts(text: string, limit: number = SHOWN): Shown[] {
  const all = running(text.slice(0, limit));
  if (all.length < 2 * PART) return [all];
  const out: Shown[] = [];
  for (let at = 0, end = 0; at < all.length; at = end) {
    end = all.indexOf("\n", at + PART) + 1 || all.length;
    if (end - at > 2 * PART) end = at + PART; // a line that nobody reads to its end
    out.push(
      <span class="part" key={out.length}>
        {all.slice(at, end)}
      </span>,
    );
  }
  return out;
}

export const copy =
  (text: string): Handler =>
  async ({ currentTarget }) => {
    if (!(await copyText(text))) return;
    currentTarget.classList.add("done");
    setTimeout(() => currentTarget.classList.remove("done"), 1500);
  };
