// What the page's components are built from.

import { Component, type ComponentClass } from "preact";

/** A component that is drawn again only if one of its properties, or something that it
 *  has read of the store, is another object. What cannot be
 *  drawn costs itself, and not the page. */
export abstract class Still<P extends object> extends Component<P> {
  shouldComponentUpdate(next: P, state: unknown) {
    return state !== this.state || differ(this.props as Record<string, unknown>, next as Record<string, unknown>);
  }

  abstract draw(props: P): Shown;

  render() {
    try {
      return this.draw(this.props);
    } catch (error) {
      console.error(error);
      return <p class="hint">This cannot be shown.</p>;
    }
  }
}

const differ = (before: Record<string, unknown>, after: Record<string, unknown>) =>
  Object.keys({ ...before, ...after }).some((key) => before[key] !== after[key]);

/** The same, of a function. */
export const memo = <P extends object>(draw: (props: P) => Shown): ComponentClass<P> =>
  class extends Still<P> {
    draw = draw;
  };

export const valued =
  (use: (value: string) => void): Handler =>
  (event) =>
    use(event.target.value);

/** In the place of what the browser would do */
export const instead =
  (act: Handler): Handler =>
  (event) => {
    event.preventDefault();
    act(event);
  };

/** A picture of one line, for the eyes only. */
export const icon = (name: keyof typeof ICONS) => (
  <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    <path d={ICONS[name]} />
  </svg>
);

/** A button with nothing but a picture on it. */
export const iconButton = (name: keyof typeof ICONS, label: string, onClick: () => void, off: boolean = false) => (
  <button type="button" class="quiet round" aria-label={label} title={label} disabled={off} onClick={onClick}>
    {icon(name)}
  </button>
);

const ICONS = {
  read: "M14 3H6v18h12V7zM14 3v4h4M9 12h6M9 16h6",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  delete: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  search: "M10.5 4a6.5 6.5 0 1 0 0 13a6.5 6.5 0 0 0 0-13zM15.5 15.5L20 20",
  execute: "M4 5h16v14H4zM7 9l3 3-3 3M12 15h5",
  think: "M9 18h6M10 21h4M12 3a6 6 0 0 0-3.5 10.9V15h7v-1.1A6 6 0 0 0 12 3z",
  fetch: "M12 3a9 9 0 1 0 0 18a9 9 0 0 0 0-18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18",
  move: "M4 12h15M13 6l6 6-6 6",
  switch_mode: "M4 8h12M12 4l4 4-4 4M20 16H8M12 12l-4 4 4 4",
  other: "M12 8a4 4 0 1 0 0 8a4 4 0 0 0 0-8zM12 3v3M12 18v3M3 12h3M18 12h3",
  send: "M12 20V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  plus: "M12 5v14M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  clip: "M8 12.5l6-6a3 3 0 0 1 4.5 4.5l-8 8a5 5 0 0 1-7-7l7.5-7.5",
  gear: "M4 7h10M18 7h2M4 17h2M10 17h10M16 4v6M8 14v6",
  down: "M12 5v14M6 13l6 6 6-6",
  fork: "M6 4v4a5 5 0 0 0 5 5h2a5 5 0 0 1 5 5v2M6 8v12M18 16l-3 3M18 20l3-3",
  shield: "M12 3l7 3v5c0 5-3 8-7 10c-4-2-7-5-7-10V6z",
  unshielded: "M12 3l7 3v5c0 5-3 8-7 10c-4-2-7-5-7-10V6zM4 4l16 16",
  undo: "M9 7L4 12l5 5M4 12h10a6 6 0 0 1 6 6",
  redo: "M15 7l5 5-5 5M20 12H10a6 6 0 0 0-6 6",
  folder: "M3 6h6l2 2h10v11H3z",
  archive: "M4 5h16v4H4zM5 9v10h14V9M10 13h4",
  again: "M5 12a7 7 0 1 0 2-5M7 3v4h4",
  changes: "M6 4h12v16H6zM9 9h6M12 6v6M9 16h6",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  wire: "M8 6l-5 6 5 6M16 6l5 6-5 6M13 4l-2 16",
};

/** Whether a key belongs to an input method. Safari reports the one that commits behind the
 *  composition's end: only its number tells. */
export const composing = (event: KeyboardEvent): boolean => event.isComposing || event.keyCode === 229;
