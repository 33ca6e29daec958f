// The drawer of raw frames, and the dialogs.

import { Component } from "./vendor/libraries.js";
import { Notes } from "./banner.js";
import { copyText } from "./clipboard.js";
import { frames } from "./frames.js";
import { html, icon, instead } from "./html.js";
import { plain } from "./safe.js";
import { setUi } from "./store.js";

/** A dialog that keeps the focus, and gives it back. */
export class Dialog extends Component {
  /** @type {HTMLDialogElement | null} */
  box = null;

  componentDidMount() {
    this.box?.showModal();
  }

  componentWillUnmount() {
    this.box?.close();
  }

  /** @param {any} props `label`, what to do `onClose`, `children`, a `kind` for the looks */
  render({ label, onClose, children, kind }) {
    return html`<dialog ref=${(/** @type {any} */ box) => (this.box = box)} class=${kind} aria-label=${label} onCancel=${instead(onClose)}
        onClick=${(/** @type {Event} */ event) => event.target === this.box && onClose()}>
      <div class="inside">${children}
        <button class="quiet round close" aria-label="Close" onClick=${onClose}>${icon("close")}</button>
      </div>
      <${Notes} />
    </dialog>`;
  }
}

/** What went over the wire, the newest first. */
export function Frames() {
  const all = frames();
  const copy = () => {
    const lines = all.map(({ at, direction, text }) => `${new Date(at * 1000).toISOString()} ${direction} ${text}`);
    copyText(lines.join("\n"));
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
