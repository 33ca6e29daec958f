// A file before and after, line by line.

import { diffLines } from "./vendor/libraries.js";
import { within } from "./format.js";
import { html, memo } from "./html.js";
import { oneLine, running, whole } from "./safe.js";

/** Lines that are shown; of a question, the first and the last so many. And what may be compared at all. */
const SHOWN = 400;
const ENDS = 5_000;
const LARGEST = 2_000_000;

/** The lines that are shown about one that differs. */
const AROUND = [-3, -2, -1, 0, 1, 2, 3];

/**
 * @param {string} before
 * @param {string} after
 * @returns {Line[][] | null} the parts that differ, each with some lines around it; null if it
 *   takes too long to find them
 */
export function hunks(before, after) {
  if (before.length + after.length > LARGEST) return null;
  const changes = diffLines(before, after, { timeout: 500 });
  if (!changes) return null;
  let [old, now] = [1, 1];
  /** @type {Line[]} */
  const lines = changes.flatMap(({ added, removed, value }) =>
    value.replace(/\n$/, "").split("\n").map((text) => ({
      sign: added ? "+" : removed ? "-" : " ",
      text,
      before: added ? null : old++,
      after: removed ? null : now++,
    })),
  );
  const near = new Set(lines.flatMap(({ sign }, at) => (sign === " " ? [] : AROUND.map((step) => at + step))));
  /** @type {Line[][]} */
  const parts = [];
  lines.forEach((line, at) => {
    if (!near.has(at)) return;
    if (at === 0 || !near.has(at - 1)) parts.push([]);
    parts[parts.length - 1].push(line);
  });
  return parts;
}

/** @type {(parts: Line[][] | null) => string} */
export function summary(parts) {
  const lines = (parts ?? []).flat();
  const added = lines.filter(({ sign }) => sign === "+").length;
  const removed = lines.filter(({ sign }) => sign === "-").length;
  return `+${added} −${removed}`;
}

const SPOKEN = { "+": "added", "-": "removed", " ": "" };

export const Diff = memo(
  /** @param {{ diff: Extract<w.ToolContent, { type: "diff" }>, cwd: string, all?: boolean }} props `all`: of a question */
  ({ diff, cwd, all = false }) => {
    const parts = hunks(diff.oldText ?? "", diff.newText);
    const kind = diff.oldText == null ? "new file" : summary(parts);
    const count = (parts ?? []).reduce((sum, lines) => sum + lines.length, 0);
    const first = all ? ENDS : SHOWN;
    const last = all ? count - ENDS : count;
    let number = 0;
    return html`<figure class="diff">
      <figcaption><span class="path">${oneLine(within(diff.path, cwd))}</span><span>${kind}</span></figcaption>
      ${parts === null
        ? html`<p class="hint">These versions are too different, or too large, to be compared here.</p>
            ${all && html`<pre class="command" role="group" aria-label="the new version">${whole(diff.newText)}</pre>`}`
        : html`<div class="scroll" tabindex="0" role="group" aria-label="changes"><table><tbody>
            ${parts.map((lines, at) => {
              const shown = lines.filter(() => number++ < first || number > last);
              return [
                at > 0 && html`<tr class="gap"><td colspan="3">⋯</td></tr>`,
                shown.map(
                  (line) => html`<tr class=${line.sign === "+" ? "added" : line.sign === "-" ? "removed" : ""}>
                    <td class="number">${line.before}</td><td class="number">${line.after}</td>
                    <td class="line"><span class="sign" aria-label=${SPOKEN[line.sign]}>${line.sign}</span>${running(line.text)}</td>
                  </tr>`,
                ),
              ];
            })}
          </tbody></table></div>`}
      ${last > first && html`<p class="hint">${last - first} lines ${all ? "in the middle " : "below "}are not shown.</p>`}
      ${parts?.length === 0 && html`<p class="hint">Nothing is different.</p>`}
    </figure>`;
  },
);
