// A tool call: what it is, how it stands, and, unfolded, what went in and came out.

import { code } from "./code.js";
import { Terminal } from "./content.js";
import { Diff } from "./diff.js";
import { duration, within } from "./format.js";
import { html, icon, memo } from "./html.js";
import { More } from "./more.js";
import { Output } from "./output.js";
import { mention } from "./paths.js";
import { isOver } from "./client.js";
import { asJson, oneLine } from "./safe.js";
import { fold } from "./store.js";

/** Seconds after which it is worth saying that a tool says nothing. */
const SILENT = 60;

/** @type {Record<string, string>} */
export const STATUS = {
  pending: "preparing",
  waiting: "needs your answer",
  running: "running",
  completed: "done",
  failed: "failed",
  denied: "denied",
  cancelled: "stopped",
  orphaned: "interrupted",
};

/** The same while nobody can know how it goes on. @type {Record<string, string>} */
const LAST_SEEN = { pending: "was being prepared", waiting: "needed your answer", running: "was running" };

const KINDS = ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"];

/** @type {(item: w.Item) => string} what a call is called */
export const titleOf = (item) => oneLine(item.tool?.title || item.tool?.name) || "a tool";

/**
 * Whether a call is unfolded: as chosen by hand, or because it is at work, failed or changes a file.
 * While it waits for an answer, the question shows what it is about.
 * @type {(item: w.Item, open: boolean | undefined) => boolean}
 */
export function isShown(item, open) {
  const status = item.status ?? "running";
  const changes = item.tool?.content?.some(({ type }) => type === "diff") ?? false;
  return open ?? (status !== "waiting" && (changes || !isOver(item) || status === "failed"));
}

/**
 * @typedef {object} Props
 * @property {w.Item} item
 * @property {Times | undefined} times
 * @property {number} now
 * @property {boolean | undefined} open as chosen by hand
 * @property {string} cwd
 * @property {boolean} stale whether this is how it was when it was last seen
 * @property {Shown} children what a sub-agent did for it
 */

export const ToolCard = memo(
  /** @param {Props} props */
  ({ item, times, now, open, cwd, stale, children }) => {
    const tool = item.tool ?? {};
    const status = item.status ?? "running";
    const content = tool.content ?? [];
    const shown = isShown(item, open);
    const kind = /** @type {any} */ (KINDS.includes(tool.kind ?? "") ? tool.kind : "other");
    const took = times && (times.closed ?? now) - times.opened;
    const silent = !isOver(item) && status === "running" && times && now - times.heard >= SILENT;
    return html`<details class=${`tool ${status}`} ...${fold(item.id, shown)}>
      <summary>
        ${icon(kind)}
        <span class="title" dir="auto">${titleOf(item)}</span>
        <span class="owner">${tool.owner === "client" ? "browser tool" : tool.owner === "host" ? "app tool" : ""}</span>
        <span class="status"><span class="mark" aria-hidden="true"></span>${(stale && LAST_SEEN[status]) || STATUS[status] || status}</span>
        <span class="time">${took !== undefined && (took >= 1 || !isOver(item)) ? duration(took) : ""}</span>
      </summary>
      <div class="body">
        ${Locations(tool.locations ?? [], cwd)}
        ${silent && html`<p class="hint">No output for ${duration(now - (times?.heard ?? now))}.</p>`}
        ${shown && Parts(item, content, cwd)}
        ${shown && tool.input != null && Fold("input", "Input", tool.input)}
        ${shown && More(item)}
        ${shown && tool.output != null && content.length === 0 && !item.text && Fold("output", "Output", tool.output)}
        ${children}
      </div>
    </details>`;
  },
);

/** @type {(locations: readonly w.FileLocation[], cwd: string) => Shown} */
const Locations = (locations, cwd) =>
  locations.length > 0 &&
  html`<p class="locations">
    ${locations.slice(0, 20).map(({ path, line }) => {
      const at = line == null ? "" : `:${line}`;
      return html`${mention(within(path, cwd), `${within(path, cwd)}${at}`)} `;
    })}
  </p>`;

/** @type {(item: w.Item, content: readonly w.ToolContent[], cwd: string) => Shown} */
function Parts(item, content, cwd) {
  const parts = content.map((part, index) => {
    switch (part.type) {
      case "diff":
        return html`<${Diff} key=${index} diff=${part} cwd=${cwd} />`;
      case "content":
        return Output(item.tool, part.content, cwd, index);
      default:
        return null; // a terminal: what it wrote is the item's text
    }
  });
  return [item.text && html`<${Terminal} key="text" text=${item.text} />`, parts];
}

/** @type {(name: string, title: string, value: unknown) => Shown} */
const Fold = (name, title, value) =>
  html`<details class=${`fold ${name}`}><summary>${title}</summary>${code({ text: asJson(value) ?? "", language: "json" })}</details>`;
