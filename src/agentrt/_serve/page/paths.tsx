// Paths of files in what is shown: a press puts them into the message that is being written, or,
// where nothing can be written, onto the clipboard.

import { copyText } from "./clipboard.js";
import { oneLine } from "./safe.js";
import { field, setUi, ui } from "./store.js";

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
 * @param shown what of it is shown
 */
export const mention = (path: string, shown: string = path) => (
  <button
    type="button"
    class="mention"
    title={`Mention ${oneLine(bare(path))} in your message`}
    onClick={() => use(bare(path))}>
    <code>{oneLine(shown, 300)}</code>
  </button>
);

function use(path: string) {
  const area = field();
  if (!area) return void copyText(path);
  const before = area.value.slice(0, area.selectionStart);
  const words = /\s/.test(path) ? path : `@${path}`;
  area.setRangeText(
    `${before && !/\s$/.test(before) ? " " : ""}${words} `,
    area.selectionStart,
    area.selectionEnd,
    "end",
  );
  setUi({ drafts: new Map(ui().drafts).set(ui().session ?? "", area.value), completing: { at: -1, words } });
  area.focus();
}
