// The files of the session's folders: a tree, and the content of a file behind each path.

import { Component } from "preact";
import { ask as request } from "./actions.js";
import { ask } from "./ask.js";
import { copyText, saveData } from "./clipboard.js";
import { Dialog } from "./dialog.js";
import { baseName, size, within } from "./format.js";
import { icon, valued } from "./html.js";
import { LINES, Lines } from "./lines.js";
import { colouredLines } from "./review.js";
import { mentionPath } from "./mention.js";
import { dataUrl, oneLine } from "./safe.js";
import { model, setUi, show, ui } from "./store.js";

/** Bytes of a text that are loaded at first. */
const LOADED = 2_000_000;

/** Bytes of a file that is downloaded, and of a picture that is shown. */
const MOST = 64_000_000;
const PICTURE = 8_000_000;

/** Bytes of a piece: base64 of a multiple of three needs no padding, so that pieces can be joined. */
const PIECE = 262_143;

/** Characters of a text that has colours. */
const COLOURED = 60_000;

interface OpenFile {
  path: string;
  state: "loading" | "text" | "picture" | "binary" | "failed";
  /** Why it cannot be shown. */
  reason: string;
  lines: string[];
  size_bytes: number;
  /** The first byte that is not loaded. */
  end: number;
  /** The address of a picture. */
  picture: string;
  /** The lines in colours, once they are known. */
  coloured: LinePiece[][] | null;
}

const NEW: Omit<OpenFile, "path"> = {
  state: "loading",
  reason: "",
  lines: [],
  size_bytes: 0,
  end: 0,
  picture: "",
  coloured: null,
};

/** Open the view of a file, or of the folder. */
export const openFile = (path: string = "", line: number | null = null) =>
  setUi({ panel: "files", viewing: { path, line } });

export class Files extends Component {
  /** The folders that were listed, by path; a text is the reason why one was not. */
  folders: Map<string, w.FolderResult | string> = new Map();
  unfolded: Set<string> = new Set();
  file: OpenFile | null = null;
  /** What is looked for in the folder's names, and what was found. */
  words = "";
  found: readonly string[] = [];
  gone = false;
  readonly session = ui().session ?? "";
  readonly cwd = model().sessions.find(({ session }) => session === ui().session)?.cwd ?? "/";

  componentDidMount() {
    this.list("");
    const { path = "" } = ui().viewing ?? {};
    if (path) this.show(path);
  }

  componentWillUnmount() {
    this.gone = true;
  }

  componentDidUpdate() {
    const { path = "" } = ui().viewing ?? {};
    if (path && path !== this.file?.path) this.show(path);
  }

  changed() {
    if (!this.gone) this.forceUpdate();
  }

  async list(path: string) {
    const ack = await request("folder", { session: this.session, path });
    this.folders.set(path, ack.ok ? (ack as unknown as w.FolderResult) : reasonOf(ack));
    this.changed();
  }

  fold(path: string) {
    if (this.unfolded.delete(path)) return this.changed();
    this.unfolded.add(path);
    this.list(path);
  }

  async find(words: string) {
    this.words = words;
    this.changed();
    if (!words) return;
    const ack = await request("files", { session: this.session, query: words });
    if (this.words !== words) return;
    this.found = ack.files ?? [];
    this.changed();
  }

  async show(path: string) {
    const file: OpenFile = { path, ...NEW };
    this.file = file;
    this.changed();
    await this.load(file, LOADED);
  }

  /** Load a file up to a byte, and show what it is. */
  async load(file: OpenFile, until: number) {
    let text = file.lines.join("\n");
    do {
      const ack = await request("file", { session: this.session, path: file.path, start: file.end });
      if (this.gone || this.file !== file) return;
      if (!ack.ok) {
        Object.assign(file, { state: "failed", reason: reasonOf(ack) });
        break;
      }
      const piece = ack as unknown as w.FileResult;
      file.size_bytes = piece.size_bytes;
      if (piece.kind === "binary") {
        await this.picture(file, piece.media_type);
        break;
      }
      text += piece.content;
      Object.assign(file, { state: "text", lines: text.split("\n").slice(0, LINES), end: piece.end });
      if (piece.end === piece.start) break;
      this.changed();
    } while (file.end < Math.min(until, file.size_bytes));
    this.changed();
    if (file.state === "text" && text.length <= COLOURED) this.colour(file, text);
  }

  async picture(file: OpenFile, type: string) {
    file.state = "binary";
    if (!type.startsWith("image/") || file.size_bytes > PICTURE) return;
    const data = await this.bytes(file);
    const url = data && dataUrl(type, data);
    if (url) Object.assign(file, { state: "picture", picture: url });
  }

  /** All of a file in base64; null if it cannot be read. */
  async bytes(file: OpenFile): Promise<string | null> {
    const pieces: string[] = [];
    for (let start = 0; ; ) {
      const given = { session: this.session, path: file.path, start, count: PIECE, encoding: "base64" };
      const ack = await request("file", given);
      if (!ack.ok || this.gone) return null;
      const piece = ack as unknown as w.FileResult;
      pieces.push(piece.content);
      start = piece.end;
      if (piece.end === piece.start || piece.end >= piece.size_bytes || start > MOST) return pieces.join("");
    }
  }

  async colour(file: OpenFile, text: string) {
    const name = baseName(file.path);
    const language = name.includes(".") ? (name.split(".").pop() ?? "") : name;
    const known = language.toLowerCase().match(/^[\w+#-]+$/)?.[0];
    const tree = known ? await ask("colours", known, text) : null;
    if (!tree || this.file !== file) return;
    file.coloured = colouredLines(tree);
    this.changed();
  }

  async download(file: OpenFile) {
    const data = await this.bytes(file);
    if (data !== null) saveData(baseName(file.path), data);
  }

  /** Name the file in the message; the focus goes there once the dialog is gone. */
  mention(file: OpenFile) {
    setUi({ panel: null, viewing: null });
    show();
    queueMicrotask(() => mentionPath(within(file.path, this.cwd)));
  }

  render() {
    void ui().viewing; // what is to be shown is loaded when this was drawn
    const { file } = this;
    void ui().viewing; // draws it again; componentDidUpdate loads the file
    const reading = model().server?.role === "viewer";
    return (
      <Dialog label="Files" kind="files" onClose={() => setUi({ panel: null, viewing: null })}>
        <h2>Files</h2>
        <div class={`panes ${file ? "with-file" : ""}`}>
          <nav class="tree" aria-label="Files of the folder">
            <input
              type="search"
              aria-label="Find a file"
              placeholder="Find a file"
              value={this.words}
              onInput={valued((words) => this.find(words))}
            />
            {this.words ? (
              <ul>
                {this.found.map((path) => this.entry(path, oneLine(path, 200)))}
                {this.found.length === 0 && <li class="hint">No results</li>}
              </ul>
            ) : (
              this.folder("")
            )}
          </nav>
          {file ? (
            <section class="opened-file" aria-label={`File ${oneLine(baseName(file.path), 80)}`}>
              <header>
                <button class="quiet back" onClick={() => ((this.file = null), setUi({ viewing: { path: "", line: null } }))}>
                  All files
                </button>
                <strong class="path" title={oneLine(file.path, 1000)}>
                  {oneLine(within(file.path, this.cwd), 200)}
                </strong>
                {file.size_bytes > 0 && <small>{size(file.size_bytes)}</small>}
                <span class="space"></span>
                {!reading && (
                  <button class="quiet" onClick={() => this.mention(file)}>
                    Mention
                  </button>
                )}
                <button class="quiet" onClick={() => copyText(file.path)}>
                  Copy path
                </button>
                {file.state !== "failed" && file.size_bytes <= MOST && (
                  <button class="quiet" onClick={() => this.download(file)}>
                    Download
                  </button>
                )}
              </header>
              {this.content(file)}
            </section>
          ) : (
            <p class="hint none">Choose a file.</p>
          )}
        </div>
      </Dialog>
    );
  }

  content(file: OpenFile): Shown {
    const rest = file.size_bytes - file.end;
    switch (file.state) {
      case "loading":
        return (
          <p class="hint" role="status">
            Loading…
          </p>
        );
      case "failed":
        return (
          <p class="refused" role="alert">
            {oneLine(file.reason, 600)}
          </p>
        );
      case "picture":
        return <img class="picture" src={file.picture} alt={oneLine(baseName(file.path), 80)} />;
      case "binary":
        return <p class="hint">This is a binary file ({size(file.size_bytes)}).</p>;
    }
    return (
      <>
        <Lines key={file.path} lines={file.lines} coloured={file.coloured} line={ui().viewing?.line ?? null} />
        {rest > 0 && (
          <p class="hint">
            {size(rest)} not loaded
            <button class="quiet" onClick={() => this.load(file, file.end + 4 * LOADED)}>
              Load more
            </button>
          </p>
        )}
      </>
    );
  }

  folder(path: string): Shown {
    const folder = this.folders.get(path);
    if (folder === undefined) return <p class="hint">Loading…</p>;
    if (typeof folder === "string") return <p class="hint">{oneLine(folder, 300)}</p>;
    return (
      <ul>
        {folder.entries.map(({ name, kind, size_bytes }) => {
          const inner = path ? `${path}/${name}` : name;
          if (kind !== "folder") return this.entry(inner, oneLine(name, 200), kind === "file" ? size(size_bytes) : "link");
          const open = this.unfolded.has(inner);
          return (
            <li key={inner}>
              <button class="entry" aria-expanded={open} onClick={() => this.fold(inner)}>
                <span aria-hidden="true">{open ? "▾" : "▸"}</span>
                <span class="name">{oneLine(name, 200)}</span>
              </button>
              {open && this.folder(inner)}
            </li>
          );
        })}
        {folder.entries.length === 0 && <li class="hint">Empty</li>}
        {!folder.complete && <li class="hint">There are more; use the search.</li>}
      </ul>
    );
  }

  entry(path: string, shown: string, about?: string): Shown {
    const here = this.file?.path === path;
    return (
      <li key={path} class={here ? "here" : ""}>
        <button class="entry" aria-current={here ? "true" : undefined} onClick={() => openFile(path)}>
          {icon("read")}
          <span class="name">{shown}</span>
          {about && <small>{about}</small>}
        </button>
      </li>
    );
  }
}

const reasonOf = (ack: Answer): string =>
  ack.error?.code === "unknown_command"
    ? "This server is older than the page and shows no files."
    : (ack.error?.message ?? "The server did not answer.");
