// A dialog that keeps the focus, and gives it back.

import { Component } from "./vendor/libraries.js";
import { Notes } from "./banner.js";
import { html, icon, instead } from "./html.js";

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
