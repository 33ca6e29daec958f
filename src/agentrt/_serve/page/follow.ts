// Staying at the end of what grows, until somebody wants to look further up.

import { setUi, ui } from "./store.js";

/** Pixels from the end within which whoever scrolls down is taken to be there. */
const NEAR = 40;

/** Pixels that a finger may slip. */
const SLIP = 3;

const UP = new Set(["ArrowUp", "PageUp", "Home"]);
const DOWN = new Set(["ArrowDown", "PageDown", "End", " "]);

/** Whatever moves up ends it: a wheel, a finger, a key, the scrollbar. At the end it begins again. */
export class Following {
  box: HTMLElement | null = null;
  sizes = new ResizeObserver(() => this.follow());
  /** How the box stood when it was last looked at. */
  top = 0;
  height = 0;
  room = 0;
  /** Where the finger is. */
  finger = 0;
  /** Whether a button of the mouse is down on it, as on its scrollbar. */
  pressed = false;
  /** What stays at its height while what came in above gets its own, until somebody scrolls. */
  held: { item: Element; at: number } | null = null;

  /** @param box what scrolls; its first child is what grows */
  start(box: HTMLElement) {
    this.box = box;
    const on = (name: keyof HTMLElementEventMap, act: (event: any) => void): void =>
      box.addEventListener(name, act, { passive: true });
    on("scroll", () => this.scrolled());
    on("wheel", ({ deltaY, ctrlKey }) => ctrlKey || this.moved(deltaY));
    on("touchstart", ({ touches }) => (this.finger = touches[0].clientY));
    on("touchmove", ({ touches }) => {
      const by = this.finger - touches[0].clientY;
      if (Math.abs(by) < SLIP) return;
      this.finger = touches[0].clientY;
      this.moved(by);
    });
    on("keydown", ({ key, shiftKey, target }) => {
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return;
      if (UP.has(key) || (key === " " && shiftKey)) this.moved(-1);
      else if (DOWN.has(key)) this.moved(1);
    });
    on("pointerdown", () => ((this.pressed = true), (this.held = null)));
    on("pointermove", ({ buttons }) => (this.pressed &&= buttons > 0));
    on("pointerup", () => (this.pressed = false));
    if (box.firstElementChild) this.sizes.observe(box.firstElementChild);
    this.follow();
  }

  stop() {
    this.sizes.disconnect();
  }

  /** There may be more: show its end, unless somebody looks elsewhere. */
  follow() {
    if (!this.box) return;
    if (ui().atEnd && !this.left()) this.box.scrollTop = this.box.scrollHeight;
    else {
      const by = this.moving();
      if (by) this.box.scrollTop += by;
    }
    this.note();
  }

  /** @returns the first that is in sight, and its height */
  inSight(): { item: Element; at: number } | null {
    const items = [...(this.box?.querySelectorAll(".item") ?? [])];
    const item = items.find((each) => this.heightOf(each) + each.clientHeight > 0);
    return item ? { item, at: this.heightOf(item) } : null;
  }

  /** @returns pixels below the upper edge */
  heightOf(item: Element): number {
    return item.getBoundingClientRect().top - (this.box?.getBoundingClientRect().top ?? 0);
  }

  /** @returns how far what is held is from its place */
  moving(): number {
    const by = this.held?.item.isConnected ? this.heightOf(this.held.item) - this.held.at : 0;
    return Math.abs(by) < 0.5 ? 0 : by;
  }

  /** Somebody wants to go up or down. */
  moved(by: number) {
    this.held = null;
    if (!this.box || this.box.scrollHeight <= this.box.clientHeight) return;
    if (by < 0) this.turn(false);
    else if (by > 0 && this.rest() <= 1) this.turn(true);
  }

  scrolled() {
    if (this.moving()) this.held = null;
    if (!this.box || this.left()) return;
    const down = this.box.scrollTop > this.top;
    this.note();
    if (down && this.rest() < NEAR) this.turn(true);
  }

  /** Whether it was scrolled up, in whatever way; layout alone moves it when its sizes change. */
  left() {
    if (!this.box) return false;
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    const same = scrollHeight === this.height && clientHeight === this.room;
    if (scrollTop >= this.top - 0.5 || !(same || this.pressed)) return false;
    this.note();
    this.turn(false);
    return true;
  }

  note() {
    if (!this.box) return;
    this.top = this.box.scrollTop;
    this.height = this.box.scrollHeight;
    this.room = this.box.clientHeight;
  }

  rest(): number {
    return this.box ? this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight : 0;
  }

  turn(atEnd: boolean) {
    if (atEnd !== ui().atEnd) setUi({ atEnd });
  }
}
