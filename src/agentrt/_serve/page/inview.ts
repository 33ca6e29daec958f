// Whether both ends of something have been in view: nobody allows what they could not see.

/** Pixels of a mark that may be out of view: a line has as much room below its letters. */
const ROUNDED = 4;

/** The parts of a mark in view at which the browser says so. */
const STEPS = Array.from({ length: 21 }, (_, step) => 0.8 + step / 100);

/** Watches the marks of an element, at its first lines and its last, until each has been in view. */
export class InView {
  all = false;
  /** Those that are known to be out of view. */
  left = new Set<Element>();
  reported = 0;
  unseen = new Set<Element>();
  observer = new IntersectionObserver((entries) => this.noticed(entries), { threshold: STEPS });

  /** @param changed is called when more has been in view, or something is left */
  constructor(readonly changed: (all: boolean) => void) {}

  /** @param box has the marks in it; all is to be seen (again) */
  watch(box: Element) {
    this.all = false;
    this.left = new Set();
    this.unseen = new Set(box.querySelectorAll(":scope > .mark-of"));
    this.look();
  }

  /** Look once more: what covered the marks may be gone. */
  look() {
    this.observer.disconnect();
    for (const mark of this.unseen) this.observer.observe(mark);
  }

  end() {
    this.observer.disconnect();
  }

  noticed(entries: IntersectionObserverEntry[]) {
    if (document.hidden || document.querySelector("dialog[open], .sidebar.shown")) return;
    for (const { target, boundingClientRect, intersectionRect } of entries) {
      if (boundingClientRect.height - intersectionRect.height > ROUNDED || !intersectionRect.width)
        this.left.add(target);
      else (this.unseen.delete(target), this.left.delete(target), this.observer.unobserve(target));
    }
    const { all } = this;
    const known = this.left.size;
    this.all = !this.unseen.size;
    if (this.all !== all || known !== this.reported) this.changed(this.all);
    this.reported = known;
  }
}
