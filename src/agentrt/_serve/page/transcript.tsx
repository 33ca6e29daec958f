// The conversation: its items in order, and at the end of each turn how it ended.

import { Component } from "preact";
import { fork, lookBack, restore } from "./actions.js";
import { BlockView, Markdown, wordsOf } from "./content.js";
import { More } from "./more.js";
import { Following } from "./follow.js";
import { Empty } from "./empty.js";
import { count, duration, money } from "./format.js";
import { icon, iconButton, memo } from "./html.js";
import { OwnTools } from "./own.js";
import { sendingHere } from "./pending.js";
import { isOver } from "./client.js";
import { oneLine } from "./safe.js";
import { clock, fold, isOpen, model, setUi, ui } from "./store.js";
import { isShown, ToolCard } from "./toolcard.js";
import { Windowed } from "./windowed.js";

/** Items of a sub-agent that are shown, the newest. */
const INNER = 200;

/** Pixels from the beginning at which whoever scrolls up gets what was before. */
const TOP = 600;

/** Stays at the end while new things come, unless somebody has scrolled away from it. */
interface TranscriptProps {
  seat: Seat;
  cwd: string;
  /** Whether all of it is how it was when it was last seen. */
  stale: boolean;
}

export class Transcript extends Component<TranscriptProps> {
  box: HTMLElement | null = null;
  following = new Following();
  windowed = new Windowed(() => this.forceUpdate());
  /** A row and its number: what comes in before it changes no number behind it. */
  anchor = { id: "", number: 0 };

  componentDidMount() {
    const { box } = this;
    if (!box) return;
    this.windowed.start(box);
    this.following.start(box);
    box.addEventListener("scroll", () => box.scrollTop < TOP && !ui().atEnd && lookBack(), { passive: true });
  }

  /** What comes in above moves nothing that is in sight. */
  getSnapshotBeforeUpdate({ seat }: TranscriptProps) {
    if (seat.view.earlier !== this.props.seat.view.earlier) this.following.held = this.following.inSight();
    return null;
  }

  componentDidUpdate() {
    this.following.follow();
    const { goal } = ui();
    if (goal) this.reach(goal);
  }

  /** Scroll to an item, or to the block that has it, which is drawn then. */
  reach(goal: string) {
    const { roots } = tree(this.props.seat.view.items);
    let item = this.props.seat.view.items.get(goal);
    while (item?.parent && this.props.seat.view.items.has(item.parent)) {
      item = this.props.seat.view.items.get(item.parent);
    }
    const row = roots.findIndex(({ id }) => id === item?.id);
    const block = row < 0 ? null : this.windowed.blockOf(row, this.ahead(roots));
    const box = this.box?.querySelector(`[data-block="${block}"]`);
    const place = box?.querySelector(`[data-item="${CSS.escape(item?.id ?? "")}"]`);
    (place ?? box)?.scrollIntoView({ block: "start" });
    if (place) {
      place.classList.add("found");
      setTimeout(() => place.classList.remove("found"), 2_000);
    }
    if (!place && block !== null && this.windowed.show(block)) return; // it is drawn, and looked for again
    setUi({ goal: null });
  }

  /** @returns how many have come in before what was the first one */
  ahead(rows: readonly w.Item[]): number {
    const at = rows.findIndex(({ id }) => id === this.anchor.id);
    if (at >= 0) return at - this.anchor.number;
    this.anchor = { id: rows.at(-1)?.id ?? "", number: rows.length - 1 };
    return 0;
  }

  componentWillUnmount() {
    this.following.stop();
    this.windowed.stop();
  }

  render({ seat, cwd, stale }: TranscriptProps) {
    const { atEnd, looking, session } = ui();
    const { roots, children } = tree(seat.view.items);
    const sending = seat.view.state.turn ? [] : sendingHere(); // else they will wait in the queue
    const draw = (from: number, to: number) => rows(seat, roots, from, to, children, cwd);
    return (
      <div class="reading">
        <section
          ref={(box) => void (this.box = box)}
          class={`transcript ${stale ? "stale" : ""}`}
          tabIndex={0}
          role="log"
          aria-live="off"
          aria-label="conversation">
          <div class="column">
            <h2 class="unseen">Conversation</h2>
            {seat.view.earlier && <Earlier gone={seat.gone} looking={looking.has(session ?? "")} />}
            {this.windowed.draw(roots.length, this.ahead(roots), draw)}
            {sending.map((each) => Sent(each, stale))}
            {roots.length + sending.length === 0 && <Empty commands={seat.view.commands.length > 0} />}
          </div>
        </section>
        {!atEnd && (
          <button class="to-end" onClick={() => setUi({ atEnd: true })}>
            {icon("down")} Latest
          </button>
        )}
      </div>
    );
  }
}

const Earlier = ({ gone, looking }: { gone: boolean; looking: boolean }) => (
  <p class="earlier">
    {gone ? (
      "Earlier turns were not loaded here."
    ) : (
      <button class="quiet" aria-busy={looking} onClick={() => (setUi({ atEnd: false }), lookBack())}>
        {looking ? "Loading…" : "Earlier turns"}
      </button>
    )}
  </p>
);

/** Which items stand by themselves, and which belong to others. */
function tree(items: ReadonlyMap<string, w.Item>) {
  const roots: w.Item[] = [];
  const children: Map<string, w.Item[]> = new Map();
  for (const item of items.values()) {
    if (item.parent && items.has(item.parent)) {
      const siblings = children.get(item.parent);
      if (siblings) siblings.push(item);
      else children.set(item.parent, [item]);
    } else roots.push(item);
  }
  return { roots, children };
}

/** Some of the items. */
function rows(
  seat: Seat,
  items: readonly w.Item[],
  from: number,
  to: number,
  children: ReadonlyMap<string, readonly w.Item[]>,
  cwd: string,
) {
  const { turns } = seat.view;
  const forks = canFork();
  const canUndo = ui().link.status === "open" && model().server?.role !== "viewer";
  const out: Shown[] = [];
  for (let index = from; index < to; index++) {
    const item = items[index];
    const before = items[index - 1];
    const turn = turns.get(item.turn ?? "");
    if (turn?.origin === "agent" && before?.turn !== item.turn) {
      out.push(
        <p class="marker" key={`by-${turn.id}`}>
          The agent continued on its own
        </p>,
      );
    }
    out.push(Row(seat, item, children, cwd));
    if (turn?.outcome && items[index + 1]?.turn !== item.turn) {
      out.push(<Ending key={`end-${turn.id}`} turn={turn} />);
    }
    const after = items[index + 1];
    const ends = turn
      ? turn.outcome && after?.turn !== item.turn
      : item.replay && (!after?.replay || after.type === "user");
    const undo = turn && ends && canUndo ? seat.extra.undo.get(turn.id) : undefined;
    if ((forks || undo) && ends) {
      out.push(<Forks key={`fork-${turn?.id ?? item.id}`} at={forks ? (turn?.id ?? item.id) : ""} undo={undo} />);
    }
  }
  return out;
}

/** Whether a copy of the session that is shown may end at any of its turns. */
function canFork() {
  const { link, session } = ui();
  if (link.status !== "open" || model().server?.role === "viewer") return false;
  const shown = model().sessions.find((summary) => summary.session === session);
  return shown !== undefined && (shown.forks ?? "turn") === "turn"; // where it is not known, it is tried
}

const Forks = memo(
  /**
   * @param props the turn, or an item of it, after which the buttons are shown, and
   * the checkpoint before that turn
   */
  ({ at, undo }: { at: string; undo?: number }) => (
    <p class="forks">
      {at && iconButton("fork", "Fork from here", () => fork(ui().session ?? "", at))}
      {undo && iconButton("undo", "Restore the files from before this turn", () => restore(ui().session ?? "", undo))}
    </p>
  ),
);

function Row(seat: Seat, item: w.Item, children: ReadonlyMap<string, readonly w.Item[]>, cwd: string): Shown {
  const times = seat.extra.times.get(item.id);
  const now = isOver(item) ? 0 : clock();
  const open = isOpen(item.id);
  switch (item.type) {
    case "user":
      return <UserItem key={item.id} item={item} />;
    case "tool":
    case "task": {
      const inner = (isShown(item, open) && children.get(item.id)) || [];
      const left = inner.length - INNER;
      return (
        <article class="item" key={item.id} data-item={item.id}>
          <ToolCard item={item} times={times} now={now} open={open} cwd={cwd} stale={ui().link.status !== "open"}>
            {inner.length > 0 && (
              <div class="nested">
                {left > 0 && <p class="hint">{left} earlier steps hidden.</p>}
                {inner.slice(-INNER).map((child) => Row(seat, child, children, cwd))}
              </div>
            )}
          </ToolCard>
        </article>
      );
    }
    case "thought":
      return <Thought key={item.id} item={item} times={times} now={now} open={open} />;
    default:
      return <Answer key={item.id} item={item} />;
  }
}

const UserItem = memo(({ item }: { item: w.Item }) => (
  <article class="item user" aria-label="you" data-item={item.id}>
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
const Sent = ({ key, content }: Sending, stale: boolean): Shown => (
  <div class="sent" key={`sent-${key}`}>
    <UserItem item={{ id: "", type: "user", content }} />
    <p class="hint">{stale ? "Not sent yet" : "Sending…"}</p>
  </div>
);

const Answer = memo(({ item }: { item: w.Item }) => (
  <article class={`item ${item.type}`} aria-label="answer" data-item={item.id}>
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

export const OUTCOMES: Record<string, string> = {
  completed: "Done",
  cancelled: "Stopped",
  refused: "The agent refused",
  limit: "Limit reached",
  failed: "The agent failed",
  timed_out: "Timed out",
  agent_died: "The agent crashed",
};

const STOPPED = {
  user: "You stopped this",
  caller: "Stopped by the app",
  agent: "Stopped by the agent",
  budget: "Budget used up",
};

const Ending = memo(({ turn }: { turn: w.TurnRecord }) => {
  const outcome = turn.outcome ?? "completed";
  const { usage } = turn;
  const facts = [
    usage?.total_tokens != null && `${count(usage.total_tokens)} tokens`,
    usage?.cost != null && money(usage.cost, usage.currency),
  ].filter(Boolean);
  if (outcome === "completed") {
    return facts.length ? <p class="ending">{facts.join(" · ")}</p> : null;
  }
  const how = (outcome === "cancelled" && turn.by && STOPPED[turn.by]) || (OUTCOMES[outcome] ?? outcome);
  const why = turn.error?.message ?? (outcome === "limit" ? turn.stop_reason : null);
  return (
    <p class={`ending ${outcome}`} role="note">
      <strong>{how}</strong>
      {why ? (
        <>
          : <span>{oneLine(why, 600)}</span>
        </>
      ) : (
        "."
      )}
    </p>
  );
});
