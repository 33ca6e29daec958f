// What a question is about: the exact command, change or arguments, all of it.

import { code } from "./code.js";
import { Diff } from "./diff.js";
import { html } from "./html.js";
import { anchor } from "./markdown.js";
import { Output } from "./output.js";
import { asJson, plain, whole } from "./safe.js";

/** Characters of a title that stand above; a longer one is told again, whole. */
export const TITLE = 200;

/** @type {(ask: w.Permission, item: w.Item | undefined, cwd: string) => Shown} */
export function Subject(ask, item, cwd) {
  const { input, content = [] } = item?.tool ?? background(ask);
  const diffs = content.filter((part) => part.type === "diff");
  const { command, rest } = parted(input);
  return html`
    ${ask.title.length > TITLE && ask.title !== command && html`<p class="verbatim">${whole(ask.title)}</p>`}
    ${ask.url && html`<p>The agent asks you to visit this page: ${anchor(ask.url, [plain(ask.url)])}</p>`}
    ${command && html`<pre class="command" role="group" aria-label="command"><code>${whole(command)}</code></pre>`}
    ${diffs.map((part) => html`<${Diff} diff=${part} cwd=${cwd} all=${true} />`)}
    ${!diffs.length && rest != null && json(rest)}
    ${Detail(ask.detail, item, cwd)}
  `;
}

/** @type {(ask: w.Permission) => w.Tool} what is known of a call that nobody sees */
const background = ({ detail }) => ({ input: Object(detail).input });

/** @type {(value: unknown) => Shown} */
const json = (value) => code({ text: whole(asJson(value) ?? ""), language: "json" });

/** @type {(input: unknown) => { command: string | null, rest: unknown }} the exact command, and what else is given */
function parted(input) {
  if (typeof input !== "object" || input === null || !("command" in input)) return { command: null, rest: input };
  const { command, ...rest } = input;
  const words = Array.isArray(command) ? command.map(String).join(" ") : command;
  if (typeof words !== "string") return { command: null, rest: input };
  return { command: words, rest: Object.keys(rest).length ? rest : null };
}

/** @type {(detail: unknown, item: w.Item | undefined, cwd: string) => Shown} */
function Detail(detail, item, cwd) {
  if (detail == null) return null;
  if (typeof detail === "string") return html`<p class="verbatim">${whole(detail)}</p>`;
  if (!Array.isArray(detail)) return Reasons(/** @type {Record<string, unknown>} */ (detail));
  const known = JSON.stringify(item?.tool?.content ?? []);
  return detail.map((part, index) => {
    if (known.includes(JSON.stringify(part))) return null; // it stands above already
    if (part?.type === "diff") return html`<${Diff} key=${index} diff=${part} cwd=${cwd} all=${true} />`;
    if (part?.type === "content" && part.content) return Output(item?.tool, part.content, cwd, index);
    return null;
  });
}

/** @type {(detail: Record<string, unknown>) => Shown} sentences, and folded, the rest */
function Reasons({ input: _, ...detail }) {
  const entries = Object.entries(detail);
  const said = entries.filter(([, value]) => typeof value === "string" && value.includes(" "));
  const rest = entries.filter((entry) => !said.includes(entry));
  return html`
    ${said.map(([name, value]) => html`<p class="verbatim" key=${name}>${whole(String(value))}</p>`)}
    ${rest.length > 0 &&
    html`<details class="fold">
      <summary>What else was told</summary>
      ${json(Object.fromEntries(rest))}
    </details>`}
  `;
}
