// The rest of a large content: it is requested when it is asked for.

import { showAll } from "./actions.js";
import { missing } from "./cuts.js";
import { size } from "./format.js";
import { html } from "./html.js";

/** @type {(item: w.Item) => Shown} a button for what is not here yet of an item */
export function More(item) {
  const chars = missing(item);
  if (!chars) return null;
  /** @param {MouseEvent & { currentTarget: HTMLButtonElement }} event */
  const show = async ({ currentTarget: button }) => {
    button.disabled = true;
    await showAll(item);
    button.disabled = false; // if something is still missing
  };
  return html`<p class="more"><button type="button" class="quiet" onClick=${show}>Show all (${size(chars)})</button></p>`;
}
