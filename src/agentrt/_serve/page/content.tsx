// Content blocks: text, pictures, sound, files.

import { lastLines, needsScreen, stripped } from "./ansi.js";
import { ask, unloaded } from "./ask.js";
import { saveText } from "./clipboard.js";
import { code, copy, parts } from "./code.js";
import { fileName, size } from "./format.js";
import { Growing } from "./growing.js";
import { memo, Still } from "./html.js";
import { anchor } from "./markdown.js";
import { dataUrl, oneLine, running } from "./safe.js";

/** Characters of a text that is complete, above which nobody wants it laid out. */
const LARGE = 200_000;

/** Characters of a terminal's output, from its end, that are shown at first. */
const TERMINAL = 40_000;

/** Markdown that may still grow. */
export class Markdown extends Still<{ text: string; over: boolean }> {
  gone = false;
  growing = new Growing(() => this.gone || this.forceUpdate());

  componentWillUnmount() {
    this.gone = true;
  }

  /** @param props `over`: whether nothing will be added */
  draw({ text, over }: { text: string; over: boolean }) {
    return <div class="markdown">{this.growing.show(text, over)}</div>;
  }
}

/** The output of a command, which may still grow. It is at its end until it is scrolled away from there. */
export class Terminal extends Still<{ text: string; label?: string }> {
  /** The styled text of its screen, and the output that this is of. */
  screen = { text: "", pieces: [] as Piece[] };
  /** The text that is being written to it. */
  writing = "";
  gone = false;
  /** Whether all of it is shown, also what is above its last lines. */
  whole = false;
  atEnd = true;
  box: HTMLElement | null = null;

  componentDidMount() {
    this.follow();
  }

  componentDidUpdate() {
    this.follow();
  }

  componentWillUnmount() {
    this.gone = true;
  }

  follow() {
    if (this.atEnd && this.box) this.box.scrollTop = this.box.scrollHeight;
  }

  async write(text: string) {
    if (this.writing || this.gone) return; // the next one is written when it is shown
    this.writing = text;
    const pieces = (await ask("screen", text)) ?? [{ text: stripped(text), style: "" }];
    this.screen = { text, pieces };
    this.writing = "";
    if (!this.gone) this.forceUpdate();
  }

  draw({ text, label }: { text: string; label?: string }) {
    const cut = lastLines(text, this.whole ? Infinity : TERMINAL);
    const hidden = text.length - cut.length;
    return (
      <figure class="output">
        <figcaption>
          <span>{hidden > 0 && `${size(hidden)} hidden`}</span>
          {hidden > 0 && (
            <button type="button" class="quiet" onClick={() => ((this.whole = true), this.forceUpdate())}>
              Show all
            </button>
          )}
          <button type="button" class="quiet" onClick={copy(stripped(text))}>
            Copy
          </button>
          <button type="button" class="quiet" onClick={() => saveText("output.txt", text)}>
            Save
          </button>
        </figcaption>
        <pre
          class="terminal"
          tabIndex={0}
          role="group"
          aria-label={label ?? "output"}
          ref={(box) => void (this.box = box)}
          onScroll={() =>
            this.box && (this.atEnd = this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 4)
          }>
          {this.shown(cut)}
        </pre>
      </figure>
    );
  }

  shown(text: string): Shown {
    if (text.length > TERMINAL) return parts(stripped(text), Infinity);
    if (!needsScreen(text)) return running(text);
    if (this.screen.text !== text) this.write(text);
    if (!this.screen.text || (unloaded() && this.screen.text !== text)) return running(stripped(text));
    return this.screen.pieces.map(({ text, style, color, background }) =>
      style || color ? (
        <span class={style || undefined} style={color ? { color, backgroundColor: background ?? "" } : undefined}>
          {running(text)}
        </span>
      ) : (
        running(text)
      ),
    );
  }
}

const FileLink = (uri: string, name?: string | null, bytes?: number | null): Shown => (
  <span class="file">
    {anchor(uri, [oneLine(name || fileName(uri)) || "file"])} {bytes ? <small>{size(bytes)}</small> : ""}
  </span>
);

export const BlockView = memo(({ block, verbatim }: { block: w.Block; verbatim?: boolean }) => {
  switch (block.type) {
    case "text":
      if (block.text.length > LARGE) return code({ text: block.text });
      return verbatim ? Verbatim(block.text) : <Markdown text={block.text} over />;
    case "image": {
      const source = dataUrl(block.mimeType, block.data);
      if (block._cut) return <p class="hint">A picture ({oneLine(block.mimeType)})</p>;
      return source ? (
        <img class="picture" src={source} alt="picture" />
      ) : (
        <p class="hint">A picture ({oneLine(block.mimeType)}) that cannot be shown here.</p>
      );
    }
    case "audio": {
      const source = dataUrl(block.mimeType, block.data);
      if (block._cut) return <p class="hint">A sound ({oneLine(block.mimeType)})</p>;
      return source ? (
        <audio controls src={source}></audio>
      ) : (
        <p class="hint">A sound ({oneLine(block.mimeType)}) that cannot be played here.</p>
      );
    }
    case "resource_link":
      return FileLink(block.uri, block.title || block.name, block.size);
    case "resource": {
      const { uri = "", text, blob, mimeType } = block.resource;
      if (text == null) return FileLink(uri, null, ((blob?.length ?? 0) * 3) / 4);
      return (
        <details class="resource">
          <summary>
            {oneLine(fileName(uri)) || "file"} <small>{size(text.length)}</small>
          </summary>
          {mimeType === "text/markdown" ? (
            <Markdown text={text} over />
          ) : (
            code({ text, language: fileName(uri).split(".").pop(), first: 1 })
          )}
        </details>
      );
    }
    default:
      return <p class="hint">Unsupported content</p>;
  }
});

/** Lines and characters of a message that are shown at once, if it has clearly more. */
const LINES = 20;
const CHARACTERS = 2_000;

/** A message as it was written; of a long one, its beginning, and the rest folded */
function Verbatim(text: string): Shown {
  const lines = text.split("\n");
  const head = lines.slice(0, LINES).join("\n").slice(0, CHARACTERS);
  const rest = text.slice(head.length);
  const words = (part: string) => (
    <p class="verbatim" dir="auto">
      {running(part)}
    </p>
  );
  if (lines.length < 1.5 * LINES && rest.length < CHARACTERS) return words(text);
  const more = rest.replace(/^\n/, "");
  const count = more.split("\n").length;
  return (
    <>
      {words(head)}
      <details class="fold">
        <summary>{count > 1 ? `${count} more lines` : `${more.length} more characters`}</summary>
        {words(more)}
      </details>
    </>
  );
}

/** The words among some blocks */
export const wordsOf = (blocks: readonly w.Block[] | undefined): string =>
  (blocks ?? [])
    .map((block) => (block.type === "text" ? block.text : ""))
    .filter(Boolean)
    .join("\n");
