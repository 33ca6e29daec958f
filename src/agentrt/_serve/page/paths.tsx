// Paths of files in what is shown: a press opens the file, or, for those who may only look on, copies
// the path.

import { copyText } from "./clipboard.js";
import { oneLine } from "./safe.js";
import { model, setUi } from "./store.js";

const PATH = /^(?:~\/)?[\w@+./-]+$/;
const ENDING = /\.[A-Za-z][A-Za-z0-9]{0,9}$/;
const NAMES = new Set(["Makefile", "Dockerfile", "LICENSE", "README"]);
const ENDS = new Set(
  "c cc cfg cjs conf cpp cs css csv go h hpp html ini java js json jsx kt lock log lua md mjs php pl proto ps1 py pyi rb rs rst scala sh sql svg swift toml ts tsx txt vue xml yaml yml zig".split(
    " ",
  ),
);

/** Without the line that it may end with */
const bare = (path: string): string => path.replace(/:\d+(?::\d+|-\d+)?$/, "");

/** Whether words are the name of a file: in a folder, or of a kind that is known. */
export function namesFile(words: string) {
  if (words.length > 300) return false;
  const path = bare(words);
  const name = path.slice(path.lastIndexOf("/") + 1);
  return (
    PATH.test(path) &&
    (NAMES.has(name) || ENDING.test(name)) &&
    (path.includes("/") ? !path.includes("//") : ENDS.has(path.split(".").pop() ?? "") || !path.includes("."))
  );
}

/**
 * A path that can be pressed.
 * @param shown what of it is shown; its line, if it ends with one
 */
export const mention = (path: string, shown: string = path) => {
  const line = shown.match(/:(\d+)(?::\d+|-\d+)?$/)?.[1];
  return (
    <button
      type="button"
      class="mention"
      title={`Open ${oneLine(bare(path))}`}
      onClick={() => use(bare(path), line === undefined ? null : Number(line))}>
      <code>{oneLine(shown, 300)}</code>
    </button>
  );
};

function use(path: string, line: number | null) {
  if (model().server?.role === "viewer") return void copyText(path);
  setUi({ panel: "files", viewing: { path, line } });
}
