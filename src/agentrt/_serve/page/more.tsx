// The rest of a large content: it is requested when it is asked for.

import { showAll } from "./actions.js";
import { missing } from "./cuts.js";
import { size } from "./format.js";

/** A button for what is not here yet of an item */
export function More(item: w.Item): Shown {
  const chars = missing(item);
  if (!chars) return null;
  const show = async ({ currentTarget: button }: MouseEvent & { currentTarget: HTMLButtonElement }) => {
    button.disabled = true;
    await showAll(item);
    button.disabled = false; // if something is still missing
  };
  return (
    <p class="more">
      <button type="button" class="quiet" onClick={show}>
        Show all ({size(chars)})
      </button>
    </p>
  );
}
