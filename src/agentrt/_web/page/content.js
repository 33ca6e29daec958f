// Content blocks: text, pictures, sound, files.

import { pieces } from "./ansi.js";
import { code } from "./code.js";
import { fileName, size } from "./format.js";
import { html, memo, Still } from "./html.js";
import { anchor, Growing } from "./markdown.js";
import { dataUrl, oneLine, running } from "./safe.js";

/** Characters of a text that is complete, above which nobody wants it laid out. */
const LARGE = 200_000;

/** Characters of a terminal's output, from its end, that are shown. */
const TERMINAL = 40_000;

/** Markdown that may still grow. */
export class Markdown extends Still {
  growing = new Growing();

  /** @param {any} props `text`, and whether it is `over` */
  draw({ text, over }) {
    return html`<div class="markdown" dir="auto">${this.growing.show(text, over)}</div>`;
  }
}

export const Terminal = memo(
  /** @param {{ text: string, label?: string }} props */
  ({ text, label }) => {
    const cut = text.length > TERMINAL ? text.slice(text.indexOf("\n", text.length - TERMINAL) + 1) : text;
    return html`<pre class="terminal" tabindex="0" role="group" aria-label=${label ?? "output"}>
      ${cut !== text && html`<span class="hint">… ${size(text.length - cut.length)} above are not shown\n</span>`}
      ${pieces(cut).map(({ text, style }) => (style ? html`<span class=${style}>${running(text)}</span>` : running(text)))}
    </pre>`;
  },
);

/** @type {(uri: string, name?: string | null, bytes?: number | null) => Shown} */
const FileLink = (uri, name, bytes) =>
  html`<span class="file">
    ${anchor(uri, [oneLine(name || fileName(uri)) || "file"])} ${bytes ? html`<small>${size(bytes)}</small>` : ""}
  </span>`;

export const BlockView = memo(
  /** @param {{ block: w.Block, verbatim?: boolean }} props */
  ({ block, verbatim }) => {
    switch (block.type) {
      case "text":
        if (block.text.length > LARGE) return code({ text: block.text });
        return verbatim
          ? html`<p class="verbatim" dir="auto">${running(block.text)}</p>`
          : html`<${Markdown} text=${block.text} over=${true} />`;
      case "image": {
        const source = dataUrl(block.mimeType, block.data);
        return source
          ? html`<img class="picture" src=${source} alt="picture" />`
          : html`<p class="hint">A picture (${oneLine(block.mimeType)}) that cannot be shown here.</p>`;
      }
      case "audio": {
        const source = dataUrl(block.mimeType, block.data);
        return source
          ? html`<audio controls src=${source}></audio>`
          : html`<p class="hint">A sound (${oneLine(block.mimeType)}) that cannot be played here.</p>`;
      }
      case "resource_link":
        return FileLink(block.uri, block.title || block.name, block.size);
      case "resource": {
        const { uri = "", text, blob, mimeType } = block.resource;
        if (text == null) return FileLink(uri, null, ((blob?.length ?? 0) * 3) / 4);
        return html`<details class="resource">
          <summary>${oneLine(fileName(uri)) || "file"} <small>${size(text.length)}</small></summary>
          ${mimeType === "text/markdown"
            ? html`<${Markdown} text=${text} over=${true} />`
            : code({ text, language: fileName(uri).split(".").pop(), first: 1 })}
        </details>`;
      }
      default:
        return html`<p class="hint">Something of a kind that this page does not know.</p>`;
    }
  },
);

/** @type {(blocks: readonly w.Block[] | undefined) => string} the words among some blocks */
export const wordsOf = (blocks) =>
  (blocks ?? []).map((block) => (block.type === "text" ? block.text : "")).filter(Boolean).join("\n");
