// A long list of which only the part in sight, and some of what is around it, is drawn. What is not
// has the height that it had, or that it may have; the browser keeps what is in sight in its place.

import { Component } from "preact";
import { afterTyping, frameCost_ms, isTyping, ui } from "./store.js";

/** Rows of a block, which are drawn together. */
export const BLOCK = 3;

/** Blocks of a section: those of one that is far from what is in sight are no elements. */
const SECTION = 20;

/** Blocks at the end that are always drawn: what comes next belongs there. */
const LAST = 1;

/** Milliseconds of a frame for further blocks, if the last one took as long as that for one. */
const FRAME_MS = 32;

/** Pixels above and below what is in sight that are drawn, too; and within which sections have blocks. */
const AROUND = 1_000;
const AROUND_SECTIONS = 4_000;

/** Pixels of a row that nobody has seen yet, and between two blocks. */
const GUESS = 90;
const GAP = 17.6;

/** The blocks of one list. It is drawn again by whoever draws the list (`changed`). */
export class Windowed {
  near: Set<number> = new Set();
  /** Blocks waiting to be drawn, each with its distance from the visible area in pixels. */
  wanted: Map<number, number> = new Map();
  heights: Map<number, number> = new Map();
  observer: IntersectionObserver | null = null;
  nearSections: Set<number> = new Set();
  sectionHeights: Map<number, number> = new Map();
  sectionObserver: IntersectionObserver | null = null;

  constructor(readonly changed: () => void) {}

  /** @param box what is scrolled */
  start(box: HTMLElement) {
    const observe = (name: string, around: number, moved: (entries: IntersectionObserverEntry[]) => void) => {
      const observer = new IntersectionObserver(moved, { root: box, rootMargin: `${around}px 0px` });
      for (const each of box.querySelectorAll(name)) observer.observe(each);
      return observer;
    };
    this.observer = observe(".block", AROUND, (entries) => this.moved(entries));
    this.sectionObserver = observe(".section", AROUND_SECTIONS, (entries) => this.movedSections(entries));
  }

  stop() {
    this.observer?.disconnect();
    this.sectionObserver?.disconnect();
  }

  /** The rows have other numbers from now on. */
  reset() {
    for (const each of [this.near, this.wanted, this.heights, this.nearSections, this.sectionHeights]) each.clear();
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
    for (const { target, isIntersecting, boundingClientRect, rootBounds } of entries) {
      const at = Number(target.getAttribute("data-block"));
      const { top = 0, bottom = 0 } = rootBounds ?? {}; // including the margin AROUND
      const above = top + AROUND - boundingClientRect.bottom;
      const below = boundingClientRect.top - (bottom - AROUND);
      if (!isIntersecting) this.wanted.delete(at);
      if (isIntersecting === this.near.has(at)) continue;
      if (isIntersecting) this.wanted.set(at, Math.max(0, above, below));
      else if (!target.isConnected || inUse(target)) continue;
      else {
        this.near.delete(at);
        this.heights.set(at, boundingClientRect.height);
        changed = true;
      }
    }
    if (!this.drawNext() && changed) this.changed();
  }

  movedSections(entries: readonly IntersectionObserverEntry[]) {
    let changed = false;
    for (const { target, isIntersecting, boundingClientRect } of entries) {
      const section = Number(target.getAttribute("data-section"));
      if (isIntersecting === this.nearSections.has(section)) continue;
      if (isIntersecting) this.nearSections.add(section);
      else if (!target.isConnected || inUse(target)) continue;
      else {
        this.nearSections.delete(section);
        this.sectionHeights.set(section, boundingClientRect.height);
        for (const at of [...this.near, ...this.wanted.keys()]) {
          if (Math.floor(at / SECTION) !== section) continue;
          this.near.delete(at);
          this.wanted.delete(at);
        }
      }
      changed = true;
    }
    if (changed) this.changed();
  }

  /** Draw the nearest of the blocks that are to be drawn, as many as a frame has time for. Those that are out
   *  of sight wait while the user types at the end of the list, which may leave them before anyone sees them.
   *  To be called after each drawing. */
  drawNext(): boolean {
    const waits = ui().atEnd && isTyping();
    if (waits && this.wanted.size) afterTyping(() => this.drawNext());
    const nearest = [...this.wanted].filter(([, far]) => !waits || far <= 0).sort(([, one], [, other]) => one - other);
    if (!nearest.length) return false;
    for (const [at] of nearest.slice(0, Math.max(1, Math.floor(FRAME_MS / frameCost_ms())))) {
      this.wanted.delete(at);
      this.near.add(at);
    }
    this.changed();
    return true;
  }

  /**
   * @param count of all rows
   * @param ahead how many have come in before what was the first one
   * @param rows draws some of them
   */
  draw(count: number, ahead: number, rows: (from: number, to: number) => Shown[]): Shown[] {
    const first = Math.floor(-ahead / BLOCK);
    const end = Math.ceil((count - ahead) / BLOCK);
    const open = new Set([...this.nearSections, ...[...this.near, end - 1].map((at) => Math.floor(at / SECTION))]);
    const out: Shown[] = [];
    for (let section = Math.floor(first / SECTION); section * SECTION < end; section++) {
      const [from, to] = [Math.max(first, section * SECTION), Math.min(end, (section + 1) * SECTION)];
      const blocks: Shown[] = [];
      let height = (to - from - 1) * GAP;
      for (let at = from; at < to; at++) {
        const [start, stop] = [Math.max(0, at * BLOCK + ahead), Math.min(count, (at + 1) * BLOCK + ahead)];
        const drawn = this.near.has(at) || at >= end - LAST;
        const guessed = this.heights.get(at) ?? (stop - start) * GUESS;
        height += guessed;
        if (!open.has(section)) continue;
        blocks.push(
          <Part key={at} kind="block" at={at} height={drawn ? null : guessed} observer={this.observer}>
            {drawn && rows(start, stop)}
          </Part>,
        );
      }
      const known = open.has(section) ? null : (this.sectionHeights.get(section) ?? height);
      out.push(
        <Part key={section} kind="section" at={section} height={known} observer={this.sectionObserver}>
          {blocks}
        </Part>,
      );
    }
    return out;
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

interface PartProps {
  kind: "block" | "section";
  at: number;
  /** In pixels; null: as what it has makes it. */
  height: number | null;
  observer: IntersectionObserver | null;
  children: Shown;
}

class Part extends Component<PartProps> {
  box: HTMLElement | null = null;

  componentDidMount() {
    if (this.box) this.props.observer?.observe(this.box);
  }

  componentWillUnmount() {
    if (this.box) this.props.observer?.unobserve(this.box);
  }

  render({ kind, at, height, children }: PartProps) {
    return (
      <div
        class={kind}
        {...{ [`data-${kind}`]: at }}
        ref={(box) => void (this.box = box ?? this.box)}
        style={{ height: height === null ? "" : `${height}px` }}>
        {children}
      </div>
    );
  }
}
