// The drawer of raw frames, and the dialogs.

import { useEffect, useRef } from "./vendor/libraries.js";
import { frames } from "./frames.js";
import { html, icon } from "./html.js";
import { plain } from "./safe.js";
import { setUi } from "./store.js";

/** @import { ComponentChildren } from "./vendor/libraries.js" */

/**
 * A dialog that keeps the focus, and gives it back.
 * @param {{ label: string, onClose: () => void, children?: ComponentChildren, kind?: string }} props
 */
export function Dialog({ label, onClose, children, kind }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return html`<dialog ref=${box} class=${kind} aria-label=${label} onCancel=${(/** @type {Event} */ event) => (event.preventDefault(), onClose())}
      onClick=${(/** @type {Event} */ event) => event.target === box.current && onClose()}>
    <div class="inside">${children}
      <button class="quiet round close" aria-label="Close" onClick=${onClose}>${icon("close")}</button>
    </div>
  </dialog>`;
}

/** What went over the wire, the newest first. */
export function Frames() {
  const all = frames();
  const copy = () => {
    const lines = all.map(({ at, direction, text }) => `${new Date(at * 1000).toISOString()} ${direction} ${text}`);
    navigator.clipboard.writeText(lines.join("\n"));
  };
  return html`<${Dialog} label="What goes over the wire" kind="drawer" onClose=${() => setUi({ panel: null })}>
    <header><h2>On the wire</h2><span>the last ${all.length} frames</span>
      <button onClick=${copy}>Copy all</button></header>
    <ol class="frames" tabindex="0">
      ${[...all].reverse().slice(0, 150).map(
        (frame) => html`<li key=${frame.id} class=${frame.direction}>
          <time>${new Date(frame.at * 1000).toLocaleTimeString()}</time>
          <b>${frame.direction === "in" ? "from the server" : "to the server"}</b>
          <code>${plain(frame.text)}</code>
        </li>`,
      )}
    </ol>
  <//>`;
}
