// A long list of which only the part in sight, and some of what is around it, is drawn. What is not
// has the height that it had, or that it may have; the browser keeps what is in sight in its place.

import { Component } from "./vendor/libraries.js";
import { html } from "./html.js";

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
  /** @type {Set<number>} */
  near = new Set();
  /** @type {Map<number, number>} */
  heights = new Map();
  /** @type {IntersectionObserver | null} */
  observer = null;

  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
  }

  /** @param {HTMLElement} box what is scrolled */
  start(box) {
    this.observer = new IntersectionObserver((entries) => this.moved(entries), { root: box, rootMargin: `${AROUND}px 0px` });
    for (const block of box.querySelectorAll(".block")) this.observer.observe(block);
  }

  stop() {
    this.observer?.disconnect();
  }

  /** @param {readonly IntersectionObserverEntry[]} entries */
  moved(entries) {
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
   * @param {number} count of all rows
   * @param {number} ahead how many have come in before what was the first one
   * @param {(from: number, to: number) => Shown[]} rows draws some of them
   * @returns {Shown[]}
   */
  draw(count, ahead, rows) {
    const first = Math.floor(-ahead / BLOCK);
    const end = Math.ceil((count - ahead) / BLOCK);
    return Array.from({ length: end - first }, (_, index) => {
      const at = first + index;
      const [from, to] = [Math.max(0, at * BLOCK + ahead), Math.min(count, (at + 1) * BLOCK + ahead)];
      const drawn = this.near.has(at) || at >= end - LAST;
      const height = drawn ? null : (this.heights.get(at) ?? (to - from) * GUESS);
      return html`<${Block} key=${at} at=${at} height=${height} observer=${this.observer}>${drawn && rows(from, to)}<//>`;
    });
  }
}

/** Whether somebody has marked something in it, or is about to press it. @param {Element} block */
function inUse(block) {
  const marked = getSelection();
  return block.contains(document.activeElement) || (marked !== null && !marked.isCollapsed && marked.containsNode(block, true));
}

class Block extends Component {
  /** @type {HTMLElement | null} */
  box = null;

  componentDidMount() {
    if (this.box) this.props.observer?.observe(this.box);
  }

  componentWillUnmount() {
    if (this.box) this.props.observer?.unobserve(this.box);
  }

  /** @param {any} props */
  render({ at, height, children }) {
    return html`<div class="block" data-block=${at} ref=${(/** @type {any} */ box) => (this.box = box ?? this.box)}
      style=${{ height: height === null ? "" : `${height}px` }}>${children}</div>`;
  }
}
