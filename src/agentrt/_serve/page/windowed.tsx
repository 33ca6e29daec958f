// A long list of which only the part in sight, and some of what is around it, is drawn. What is not
// has the height that it had, or that it may have; the browser keeps what is in sight in its place.

import { Component } from "preact";

/** Rows of a block, which are drawn together. */
export const BLOCK = 20;

/** Blocks at the end that are always drawn: what comes next belongs there. */
const LAST = 2;

/** Pixels above and below what is in sight that are drawn, too. */
const AROUND = 2_000;

/** Pixels of a row that nobody has seen yet. */
const GUESS = 90;

/** The blocks of one list. It is drawn again by whoever draws the list (`changed`). */
export class Windowed {
  near: Set<number> = new Set();
  heights: Map<number, number> = new Map();
  observer: IntersectionObserver | null = null;

  constructor(readonly changed: () => void) {}

  /** @param box what is scrolled */
  start(box: HTMLElement) {
    this.observer = new IntersectionObserver((entries) => this.moved(entries), {
      root: box,
      rootMargin: `${AROUND}px 0px`,
    });
    for (const block of box.querySelectorAll(".block")) this.observer.observe(block);
  }

  stop() {
    this.observer?.disconnect();
  }

  /** The block that has a row. */
  blockOf(row: number, ahead: number): number {
    return Math.floor((row - ahead) / BLOCK);
  }

  /** Draw a block that is out of sight. Returns false if it is drawn already. */
  show(at: number): boolean {
    if (this.near.has(at)) return false;
    this.near.add(at);
    this.changed();
    return true;
  }

  moved(entries: readonly IntersectionObserverEntry[]) {
    let changed = false;
    for (const { target, isIntersecting, boundingClientRect } of entries) {
      const at = Number(target.getAttribute("data-block"));
      if (isIntersecting === this.near.has(at)) continue;
      if (isIntersecting) this.near.add(at);
      else if (inUse(target)) continue;
      else {
        this.near.delete(at);
        this.heights.set(at, boundingClientRect.height);
      }
      changed = true;
    }
    if (changed) this.changed();
  }

  /**
   * @param count of all rows
   * @param ahead how many have come in before what was the first one
   * @param rows draws some of them
   */
  draw(count: number, ahead: number, rows: (from: number, to: number) => Shown[]): Shown[] {
    const first = Math.floor(-ahead / BLOCK);
    const end = Math.ceil((count - ahead) / BLOCK);
    return Array.from({ length: end - first }, (_, index) => {
      const at = first + index;
      const [from, to] = [Math.max(0, at * BLOCK + ahead), Math.min(count, (at + 1) * BLOCK + ahead)];
      const drawn = this.near.has(at) || at >= end - LAST;
      const height = drawn ? null : (this.heights.get(at) ?? (to - from) * GUESS);
      return (
        <Block key={at} at={at} height={height} observer={this.observer}>
          {drawn && rows(from, to)}
        </Block>
      );
    });
  }
}

/** Whether somebody has marked something in it, or is about to press it. */
function inUse(block: Element) {
  const marked = getSelection();
  return (
    block.contains(document.activeElement) ||
    (marked !== null && !marked.isCollapsed && marked.containsNode(block, true))
  );
}

interface BlockProps {
  at: number;
  /** In pixels; null: as its rows have it. */
  height: number | null;
  observer: IntersectionObserver | null;
  children: Shown;
}

class Block extends Component<BlockProps> {
  box: HTMLElement | null = null;

  componentDidMount() {
    if (this.box) this.props.observer?.observe(this.box);
  }

  componentWillUnmount() {
    if (this.box) this.props.observer?.unobserve(this.box);
  }

  render({ at, height, children }: BlockProps) {
    return (
      <div
        class="block"
        data-block={at}
        ref={(box) => void (this.box = box ?? this.box)}
        style={{ height: height === null ? "" : `${height}px` }}>
        {children}
      </div>
    );
  }
}
