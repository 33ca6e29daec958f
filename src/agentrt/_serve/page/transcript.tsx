// The conversation: its items in order, and at the end of each turn how it ended.

import { computed, type ReadonlySignal } from "@preact/signals";
import { Component } from "preact";
import { lookBack } from "./actions.js";
import { Empty } from "./empty.js";
import { Ending, Forks } from "./ending.js";
import { Following } from "./follow.js";
import { icon } from "./html.js";
import { sameShape, tree, type Outline } from "./shape.js";
import { undoOf } from "./model.js";
import { sendingHere } from "./pending.js";
import { Row, Run, Sent } from "./rows.js";
import type { RowOf } from "./runs.js";
import { beforePainting, drawApart, field, listen, model, setUi, ui } from "./store.js";
import { Windowed } from "./windowed.js";

/** Pixels from the beginning at which whoever scrolls up gets what was before. */
const TOP = 600;

interface TranscriptProps {
  seat: Seat;
  cwd: string;
  /** Whether all of it is how it was when it was last seen. */
  stale: boolean;
}

/** Stays at the end while new things come, unless somebody has scrolled away from it. */
export class Transcript extends Component<TranscriptProps> {
  box: HTMLElement | null = null;
  following = new Following();
  windowed = new Windowed(() => drawApart(() => this.forceUpdate()));
  /** A row and its number: what comes in before it changes no number behind it. */
  anchor = { id: "", number: 0 };
  /** Another one only if it is not what it was: not while texts grow. */
  outline = computed(() => this.arrange(this.props.seat.view.items));
  arranged: { items: ReadonlyMap<string, w.Item>; outline: Outline } | null = null;
  earlier = this.props.seat.view.earlier;
  isSoon = false;
  unlisten = () => {};

  componentDidMount() {
    const { box } = this;
    if (!box) return;
    this.windowed.start(box);
    this.following.start(box);
    // After what has changed is drawn, also when the browser shows no frames.
    this.unlisten = listen(() => this.followSoon());
    const { writing, session } = ui();
    if (writing === session) (setUi({ writing: null }), field()?.focus());
    box.addEventListener("scroll", () => box.scrollTop < TOP && !ui().atEnd && lookBack(), { passive: true });
  }

  /** Once everything is drawn, so that the browser computes the layout once. */
  followSoon() {
    if (!this.isSoon) beforePainting(() => ((this.isSoon = false), this.following.follow()));
    this.isSoon = true;
  }

  /** Keep the visible items in place when older ones are inserted above. At the end there is no need to. */
  getSnapshotBeforeUpdate() {
    const { earlier } = this.props.seat.view;
    if (earlier !== this.earlier && !ui().atEnd) this.following.held = this.following.inSight();
    this.earlier = earlier;
    return null;
  }

  componentDidUpdate() {
    this.windowed.drawNext();
    this.followSoon();
    const { goal } = ui();
    if (goal) this.reach(goal);
  }

  /** Scroll to an item, or to the block that has it, which is drawn then. */
  reach(goal: string) {
    const { items } = this.props.seat.view;
    const { rows } = this.outline.value;
    let item = items.get(goal);
    while (item?.parent && items.has(item.parent)) item = items.get(item.parent);
    const at = rows.findIndex(({ ids }) => ids.includes(item?.id ?? ""));
    const block = at < 0 ? null : this.windowed.blockOf(at, this.ahead(rows));
    const box = this.box?.querySelector(`[data-block="${block}"]`);
    const place = box?.querySelector(`[data-item="${CSS.escape(rows[at]?.first.id ?? "")}"]`);
    (place ?? box)?.scrollIntoView({ block: "start" });
    if (place) {
      place.classList.add("found");
      setTimeout(() => place.classList.remove("found"), 2_000);
    }
    if (!place && block !== null && this.windowed.show(block)) return; // it is drawn, and looked for again
    setUi({ goal: null });
  }

  arrange(items: ReadonlyMap<string, w.Item>): Outline {
    const before = this.arranged;
    const outline = before && sameShape(before.items, items) ? before.outline : tree(items);
    this.arranged = { items, outline };
    return outline;
  }

  /** @returns how many have come in before what was the first one */
  ahead(rows: readonly RowOf[]): number {
    const at = rows.findIndex(({ ids }) => ids.includes(this.anchor.id));
    if (at >= 0) return at - this.anchor.number;
    this.windowed.reset();
    this.anchor = { id: rows.at(-1)?.first.id ?? "", number: rows.length - 1 };
    return 0;
  }

  componentWillUnmount() {
    this.unlisten();
    this.following.stop();
    this.windowed.stop();
  }

  render({ seat, cwd, stale }: TranscriptProps) {
    const { atEnd, goal, looking, session } = ui();
    void goal; // it is reached when this is drawn
    const { rows } = this.outline.value;
    const sending = seat.view.state.turn ? [] : sendingHere(); // else they will wait in the queue
    const draw = (from: number, to: number) => drawn(seat, this.outline, from, to, cwd);
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
            {this.windowed.draw(rows.length, this.ahead(rows), draw)}
            {sending.map((each) => Sent(each, stale))}
            {rows.length + sending.length === 0 && <Empty commands={seat.view.commands.length > 0} />}
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

/** Some of the rows. */
function drawn(seat: Seat, outline: ReadonlySignal<Outline>, from: number, to: number, cwd: string) {
  const { turns } = seat.view;
  const forks = canFork();
  const canUndo = ui().link.status === "open" && model().server?.role !== "viewer";
  const { rows, changing } = outline.value;
  const out: Shown[] = [];
  for (let index = from; index < to; index++) {
    const { first: item, last, ids } = rows[index];
    const before = rows[index - 1]?.first;
    const after = rows[index + 1]?.first;
    const turn = turns.get(item.turn ?? "");
    if (turn?.origin === "agent" && before?.turn !== item.turn) {
      out.push(
        <p class="marker" key={`by-${turn.id}`}>
          The agent continued on its own
        </p>,
      );
    }
    const shared = { key: item.id, seat, outline, cwd };
    out.push(ids.length > 1 ? <Run ids={ids} {...shared} /> : <Row id={item.id} {...shared} />);
    if (turn?.outcome && after?.turn !== item.turn) {
      out.push(<Ending key={`end-${turn.id}`} turn={turn} />);
    }
    const ends = turn
      ? turn.outcome && after?.turn !== item.turn
      : last.replay && (!after?.replay || after.type === "user");
    const undo = turn && ends && canUndo ? undoOf(seat.extra, turn.id) : undefined;
    const changed = turn && ends && changing.has(turn.id) ? turn.id : "";
    if ((forks || undo || changed) && ends) {
      const at = forks ? (turn?.id ?? last.id) : "";
      out.push(<Forks key={`fork-${turn?.id ?? last.id}`} at={at} {...undo} changed={changed} />);
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
