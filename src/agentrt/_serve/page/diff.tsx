// A file before and after, line by line.

import { diffLines } from "diff";
import { within } from "./format.js";
import { memo } from "./html.js";
import { revealed } from "./revealed.js";
import { oneLine, running } from "./safe.js";

/** Lines that are shown, if it is not a question; and characters that may be compared at all. */
const SHOWN = 400;
const LARGEST = 400_000;

/** The lines that are shown about one that differs; of a short text in a question, all of them. */
const AROUND = [-3, -2, -1, 0, 1, 2, 3];
const SHORT = 40;

/** Stands after a last line that does not end, if that of the other version does. */
const NO_NEWLINE = "  ⟨no newline at the end⟩";

/**
 * @param whole whether the lines that do not differ are parts, too
 * @returns the parts that differ, each with some lines around it; null if it
 * takes too long to find them
 */
export function hunks(before: string, after: string, whole: boolean = false): Line[][] | null {
  if (before.length + after.length > LARGEST) return null;
  const changes = diffLines(before, after, { timeout: 100 });
  if (!changes) return null;
  let [old, now] = [1, 1];
  const lines: Line[] = changes.flatMap(({ added, removed, value }) =>
    value
      .replace(/\n$/, "")
      .split("\n")
      .map((text) => ({
        sign: added ? "+" : removed ? "-" : " ",
        text,
        before: added ? null : old++,
        after: removed ? null : now++,
      })),
  );
  if (whole) return lines.length ? [lines] : [];
  const near = new Set(lines.flatMap(({ sign }, at) => (sign === " " ? [] : AROUND.map((step) => at + step))));
  const parts: Line[][] = [];
  lines.forEach((line, at) => {
    if (!near.has(at)) return;
    if (at === 0 || !near.has(at - 1)) parts.push([]);
    parts[parts.length - 1].push(line);
  });
  return parts;
}

export function summary(parts: Line[][] | null): string {
  const lines = (parts ?? []).flat();
  const added = lines.filter(({ sign }) => sign === "+").length;
  const removed = lines.filter(({ sign }) => sign === "-").length;
  return `+${added} −${removed}`;
}

const SPOKEN = { "+": "added", "-": "removed", " ": "" };

export const Diff = memo(
  /** @param props `all`: of a question */
  ({ diff, cwd, all = false }: { diff: Pick<w.Diff, "path" | "oldText" | "newText">; cwd: string; all?: boolean }) => {
    const { path, oldText, newText } = diff;
    if (all) return Asked(path, oldText ?? null, newText);
    const parts = hunks(oldText ?? "", newText);
    const kind = oldText == null ? "new file" : summary(parts);
    const count = (parts ?? []).reduce((sum, lines) => sum + lines.length, 0);
    let number = 0;
    return (
      <figure class="diff">
        <figcaption>
          <span class="path">{oneLine(within(path, cwd))}</span>
          <span>{kind}</span>
        </figcaption>
        {parts === null ? (
          <p class="hint">These versions are too different or too large to compare here.</p>
        ) : (
          <div class="scroll" tabIndex={0} role="group" aria-label="changes">
            <table>
              <tbody>
                {parts.map((lines, at) => {
                  const shown = lines.filter(() => number++ < SHOWN);
                  return [
                    at > 0 && (
                      <tr class="gap">
                        <td colSpan={3}>⋯</td>
                      </tr>
                    ),
                    shown.map((line) => (
                      <tr class={look(line)}>
                        <td class="number">{line.before}</td>
                        <td class="number">{line.after}</td>
                        <td class="line">
                          <span class="sign" aria-label={SPOKEN[line.sign]}>
                            {line.sign}
                          </span>
                          {running(line.text)}
                        </td>
                      </tr>
                    )),
                  ];
                })}
              </tbody>
            </table>
          </div>
        )}
        {count > SHOWN && <p class="hint">{count - SHOWN} more lines hidden.</p>}
        {parts?.length === 0 && <p class="hint">No differences.</p>}
      </figure>
    );
  },
);

const look = ({ sign }: Line): string => (sign === "+" ? "added" : sign === "-" ? "removed" : "");

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
