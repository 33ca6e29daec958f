// The lines of a conversation: messages, thoughts, calls, and runs of calls.

import { computed, type ReadonlySignal } from "@preact/signals";
import { Component } from "preact";
import { fetchAll, stopTask } from "./actions.js";
import { isOver } from "./client.js";
import { copyText } from "./clipboard.js";
import { BlockView, Markdown, wordsOf } from "./content.js";
import { missing } from "./cuts.js";
import { duration, factsOf } from "./format.js";
import { icon, iconButton, memo } from "./html.js";
import { More } from "./more.js";
import type { Outline } from "./shape.js";
import { OwnTools } from "./own.js";
import { described } from "./runs.js";
import { oneLine } from "./safe.js";
import { clock, fold, isOpen, model, ui } from "./store.js";
import { isShown, titleOf, ToolCard } from "./toolcard.js";

/** Items of a sub-agent that are shown, the newest. */
const INNER = 200;

interface RowProps {
  id: string;
  seat: Seat;
  outline: ReadonlySignal<Outline>;
  cwd: string;
}

/** Calls that need no attention, in one line. */
export class Run extends Component<Omit<RowProps, "id"> & { ids: readonly string[] }> {
  words = computed(() => {
    const { items } = this.props.seat.view;
    return described(this.props.ids.flatMap((id) => items.get(id) ?? []));
  });

  render({ ids, ...shared }: Omit<RowProps, "id"> & { ids: readonly string[] }) {
    const id = `run ${ids[0]}`;
    const open = isOpen(id) ?? false;
    return (
      <article class="item" data-item={ids[0]}>
        <details class="run" {...fold(id, open)}>
          <summary>
            {icon("other")}
            <span class="title">{this.words.value}</span>
          </summary>
          <div class="nested">{open && ids.map((each) => <Row key={each} id={each} {...shared} />)}</div>
        </details>
      </article>
    );
  }
}

/** One item; it is drawn again when that item is another one, and while it is being timed. */
export class Row extends Component<RowProps> {
  item = computed(() => this.props.seat.view.items.get(this.props.id));
  times = computed(() => this.props.seat.extra.times.get(this.props.id));
  open = computed(() => isOpen(this.props.id));
  /** The work in the background that it has begun and that can be stopped. */
  task = computed(() => {
    const tasks = [...this.props.seat.view.tasks.values()];
    const live = ui().link.status === "open" && model().server?.role !== "viewer";
    return live ? tasks.find((task) => task.item === this.props.id && !isOver(task))?.id : undefined;
  });
  /** The progress or the report of the work in the background that it has begun. */
  report = computed(() => {
    const task = [...this.props.seat.view.tasks.values()].findLast((each) => each.item === this.props.id);
    return task ? factsOf(task).join(" · ") : "";
  });
  /** What was begun by it, in words. */
  steps = computed(() => {
    const inner = this.props.outline.value.children.get(this.props.id);
    if (!inner) return "";
    const last = this.props.seat.view.items.get(inner[inner.length - 1]);
    const now = last && !isOver(last) && last.tool ? `: ${titleOf(last)}` : "";
    return `${inner.length} ${inner.length === 1 ? "step" : "steps"}${now}`;
  });

  render({ id, seat, outline, cwd }: RowProps) {
    const item = this.item.value;
    if (!item) return null;
    const now = isOver(item) ? 0 : clock();
    const open = this.open.value;
    switch (item.type) {
      case "user":
        return <UserItem item={item} />;
      case "tool":
      case "task": {
        const inner = (isShown(open) && outline.value.children.get(id)) || [];
        const left = inner.length - INNER;
        const task = this.task.value;
        return (
          <article class="item" data-item={id}>
            {task && (
              <button type="button" class="stop-inner" onClick={() => stopTask(task)}>
                {icon("stop")}Stop
              </button>
            )}
            <ToolCard
              item={item}
              steps={this.steps.value}
              report={this.report.value}
              times={this.times.value}
              now={now}
              open={open}
              cwd={cwd}
              stale={ui().link.status !== "open"}>
              {inner.length > 0 && (
                <div class="nested">
                  {left > 0 && <p class="hint">{left} earlier steps hidden.</p>}
                  {inner.slice(-INNER).map((each) => (
                    <Row key={each} id={each} seat={seat} outline={outline} cwd={cwd} />
                  ))}
                </div>
              )}
            </ToolCard>
          </article>
        );
      }
      case "thought":
        return <Thought item={item} times={this.times.value} now={now} open={open} />;
      default:
        return <Answer item={item} />;
    }
  }
}

/** Copy the text of a message, as it was written. */
async function copyMessage(item: w.Item) {
  const { text, content } = missing(item) ? await fetchAll(item) : item;
  copyText([text, wordsOf(content)].filter(Boolean).join("\n"));
}

const CopyButton = (item: w.Item) => (
  <span class="copy">{iconButton("copy", "Copy message", () => copyMessage(item))}</span>
);

const UserItem = memo(({ item }: { item: w.Item }) => (
  <article class="item user" aria-label="you" data-item={item.id}>
    {CopyButton(item)}
    <div class="bubble">
      {item.text && <BlockView block={{ type: "text", text: item.text }} verbatim />}
      {(item.content ?? []).map((block, index) => (
        <BlockView key={index} block={block} verbatim />
      ))}
      {More(item)}
    </div>
    {ui().link.status === "open" && model().server?.role !== "viewer" && <OwnTools item={item} />}
  </article>
));

/** What is not known to have arrived */
export const Sent = ({ key, content }: Sending, stale: boolean): Shown => (
  <div class="sent" key={`sent-${key}`}>
    <UserItem item={{ id: "", type: "user", content }} />
    <p class="hint">{stale ? "Not sent yet" : "Sending…"}</p>
  </div>
);

const Answer = memo(({ item }: { item: w.Item }) => (
  <article class={`item ${item.type}`} aria-label="answer" data-item={item.id}>
    {isOver(item) && CopyButton(item)}
    {More(item)}
    {item.text && <Markdown text={item.text} over={isOver(item)} />}
    {(item.content ?? []).map((block, index) => (
      <BlockView key={index} block={block} />
    ))}
  </article>
));

const Thought = memo(
  ({
    item,
    times,
    now,
    open = false,
  }: {
    item: w.Item;
    times: Times | undefined;
    now: number;
    open: boolean | undefined;
  }) => {
    const took = times && (times.closed ?? now) - times.opened;
    const words = isOver(item) ? "Thought" : "Thinking";
    return (
      <article class="item thought" data-item={item.id}>
        <details {...fold(item.id, open)}>
          <summary>
            {icon("think")}
            <span>
              {words}
              {took !== undefined && took >= 1 ? ` for ${duration(took)}` : ""}
            </span>
            {!open && <span class="peek">{oneLine(item.text || wordsOf(item.content), 90)}</span>}
          </summary>
          {open && More(item)}
          {open && <Markdown text={item.text ?? ""} over={isOver(item)} />}
          {open && (item.content ?? []).map((block, index) => <BlockView key={index} block={block} />)}
        </details>
      </article>
    );
  },
);
