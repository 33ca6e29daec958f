// A tool call: what it is, how it stands, and, unfolded, what went in and came out.

import { code } from "./code.js";
import { Terminal } from "./content.js";
import { lastLines, stripped } from "./ansi.js";
import { Diff } from "./diff.js";
import { duration, within } from "./format.js";
import { icon, memo } from "./html.js";
import { More } from "./more.js";
import { Output } from "./output.js";
import { mention } from "./paths.js";
import { isOver } from "./client.js";
import { hunks, summary } from "./review.js";
import { asJson, oneLine } from "./safe.js";
import { fold } from "./store.js";

/** Seconds after which it is worth saying that a tool says nothing. */
const SILENT = 60;

export const STATUS: Record<string, string> = {
  pending: "preparing",
  waiting: "needs your answer",
  running: "running",
  completed: "done",
  failed: "failed",
  denied: "denied",
  cancelled: "stopped",
  orphaned: "interrupted",
};

/** The same while nobody can know how it goes on. */
const LAST_SEEN: Record<string, string> = {
  pending: "was being prepared",
  waiting: "needed your answer",
  running: "was running",
};

const KINDS = ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"];

/** What a call is called */
export const titleOf = (item: w.Item): string => oneLine(item.tool?.title || item.tool?.name) || "a tool";

/** Whether a call is unfolded, which is chosen by hand. */
export const isShown = (open: boolean | undefined): boolean => open ?? false;

/** What stands next to the title of a folded call: its steps, the lines it has changed, or where its
 *  output stands while it is at work or because it has failed. */
function peek(item: w.Item, steps: string): string {
  if (steps) return steps;
  const { content = [] } = item.tool ?? {};
  const change = content.find((part) => part.type === "diff");
  if (change) return counted(change);
  if (isOver(item) && item.status !== "failed") return "";
  const said = content.map((part) =>
    part.type === "content" && part.content.type === "text" ? part.content.text : "",
  );
  const words = lastLines(item.text || said.join("\n"), PEEK);
  return oneLine(stripped(words).trimEnd().split("\n").pop(), 90);
}

/** Characters at the end of an output that are looked at. */
const PEEK = 2_000;

const counts = new WeakMap<w.Diff, string>();

/** How many lines a change adds and removes. */
function counted(diff: w.Diff): string {
  const known = counts.get(diff) ?? summary(hunks(diff.oldText ?? "", diff.newText));
  counts.set(diff, known);
  return known;
}

type Props = {
  item: w.Item;
  times: Times | undefined;
  now: number;
  /** As chosen by hand. */
  open: boolean | undefined;
  cwd: string;
  /** Whether this is how it was when it was last seen. */
  stale: boolean;
  /** What a sub-agent does for it, in words. */
  steps: string;
  /** The progress or the report of the work in the background that it has begun. */
  report: string;
  /** What a sub-agent did for it. */
  children: Shown;
};

export const ToolCard = memo(({ item, times, now, open, cwd, stale, steps, report, children }: Props) => {
  const tool = item.tool ?? {};
  const status = item.status ?? "running";
  const content = tool.content ?? [];
  const shown = isShown(open);
  const more = shown ? "" : peek(item, steps);
  const kind = (KINDS.includes(tool.kind ?? "") ? tool.kind : "other") as any;
  const took = times && (times.closed ?? now) - times.opened;
  const silent = !isOver(item) && status === "running" && times && now - times.heard >= SILENT;
  return (
    <details class={`tool ${status}`} {...fold(item.id, shown)}>
      <summary>
        {icon(kind)}
        <span class="title" dir="auto">
          {titleOf(item)}
        </span>
        {more && <span class="peek">{more}</span>}
        <span class="owner">{tool.owner === "client" ? "browser tool" : tool.owner === "host" ? "app tool" : ""}</span>
        <span class="status">
          <span class="mark" aria-hidden="true"></span>
          {(stale && LAST_SEEN[status]) || STATUS[status] || status}
        </span>
        <span class="time">{took !== undefined && (took >= 1 || !isOver(item)) ? duration(took) : ""}</span>
      </summary>
      <div class="body">
        {Locations(tool.locations ?? [], cwd)}
        {silent && <p class="hint">No output for {duration(now - (times?.heard ?? now))}.</p>}
        {shown && Parts(item, content, cwd)}
        {shown && tool.input != null && Fold("input", "Input", tool.input)}
        {shown && tool.input == null && tool.input_text && Fold("input", "Input so far", tool.input_text)}
        {shown && More(item)}
        {shown && tool.output != null && Structured(item, content.length > 0)}
        {children}
        {report && (
          <p class="report" dir="auto">
            {report}
          </p>
        )}
      </div>
    </details>
  );
});

const Locations = (locations: readonly w.FileLocation[], cwd: string): Shown =>
  locations.length > 0 && (
    <p class="locations">
      {locations.slice(0, 20).map(({ path, line }) => {
        const at = line == null ? "" : `:${line}`;
        return <>{mention(within(path, cwd), `${within(path, cwd)}${at}`)} </>;
      })}
    </p>
  );

function Parts(item: w.Item, content: readonly w.ToolContent[], cwd: string): Shown {
  const parts = content.map((part, index) => {
    switch (part.type) {
      case "diff":
        return <Diff key={index} diff={part} cwd={cwd} />;
      case "content":
        return Output(item.tool, part.content, cwd, index);
      default:
        return null; // a terminal: what it wrote is the item's text
    }
  });
  return [item.text && <Terminal key="text" text={item.text} />, parts];
}

/** Kinds of calls whose structured result repeats their output. */
const REPEATING = ["execute", "read", "edit"];

function Structured(item: w.Item, hasContent: boolean): Shown {
  if (!hasContent && !item.text) return Fold("output", "Output", item.tool?.output);
  return !REPEATING.includes(item.tool?.kind ?? "") && Fold("output", "Structured result", item.tool?.output);
}

const Fold = (name: string, title: string, value: unknown): Shown => (
  <details class={`fold ${name}`}>
    <summary>{title}</summary>
    {code({ text: asJson(value) ?? "", language: "json" })}
  </details>
);
