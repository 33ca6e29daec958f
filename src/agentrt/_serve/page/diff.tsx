// A file before and after, line by line.

import { Change, look, SPOKEN } from "./change.js";
import { memo } from "./html.js";
import { hunks, summary } from "./review.js";
import { revealed } from "./revealed.js";

/** Lines of a short text in a question, all of which are shown. */
const SHORT = 40;

/** Stands after a last line that does not end, if that of the other version does. */
const NO_NEWLINE = "  ⟨no newline at the end⟩";

/** A change that a call has made, or one that a question is about (`all`). */
export const Diff = memo(
  ({ diff, cwd, all = false }: { diff: Pick<w.Diff, "path" | "oldText" | "newText">; cwd: string; all?: boolean }) => {
    const { path, oldText, newText } = diff;
    if (all) return Asked(path, oldText ?? null, newText);
    return (
      <Change path={path} cwd={cwd} before={oldText ?? ""} text={newText} kind={oldText == null ? "new file" : ""} />
    );
  },
);

/** A change that somebody decides on: every line of it that differs, with every character visible.
 *  Where the versions cannot be compared, both are shown whole. */
function Asked(path: string, before: string | null, after: string): Shown {
  const ends = before && after && before.endsWith("\n") !== after.endsWith("\n");
  const marked = (text: string) => (ends && !text.endsWith("\n") ? `${text}${NO_NEWLINE}` : text);
  const [old, now] = [marked(before ?? ""), marked(after)];
  const short = old.split("\n").length + now.split("\n").length <= SHORT;
  const parts =
    before === null
      ? [entire("+", now)]
      : (hunks(old, now, short || old === now) ?? [entire("-", old), entire("+", now)]);
  const same = old === now;
  const many = parts.reduce((sum, lines) => sum + lines.length, 0) > MANY;
  return (
    <figure class="diff asked">
      <figcaption>
        <span class="path verbatim" dir="ltr">
          {revealed(path)}
        </span>
        <span>{before === null ? "new file" : same ? "no change" : summary(parts)}</span>
      </figcaption>
      <div class="scroll" role="group" aria-label="changes">
        {parts.map((lines, at) => [
          at > 0 && <div class="gap">⋯</div>,
          ...blocks(lines).map((block, key) => (
            <div class={many ? "block-of" : undefined} key={`${at} ${key}`}>
              {block.map((line, row) => (
                <div key={row} class={`row ${look(line)}`}>
                  <span class="number" aria-hidden="true">
                    {line.after ?? line.before}
                  </span>
                  <span class="sign" aria-label={SPOKEN[line.sign]}>
                    {line.sign}
                  </span>
                  <span class="line" dir="ltr">
                    {revealed(line.text)}
                  </span>
                </div>
              ))}
            </div>
          )),
        ])}
      </div>
    </figure>
  );
}

/** Lines in a block of a question; and lines of a change from which on the browser lays out only the
 *  blocks in sight. It guesses the height of the others, so that the end moves while it is approached. */
const TOGETHER = 100;
const MANY = 20_000;

const blocks = (lines: Line[]): Line[][] =>
  Array.from({ length: Math.ceil(lines.length / TOGETHER) }, (_, at) =>
    lines.slice(at * TOGETHER, (at + 1) * TOGETHER),
  );

const entire = (sign: Line["sign"], text: string): Line[] =>
  text === ""
    ? []
    : text
        .replace(/\n$/, "")
        .split("\n")
        .map((line, at) => ({
          sign,
          text: line,
          before: sign === "-" ? at + 1 : null,
          after: sign === "+" ? at + 1 : null,
        }));
