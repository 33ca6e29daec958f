// A dialog that keeps the focus, and gives it back.

import { Component } from "preact";
import { Notes } from "./banner.js";
import { icon, instead } from "./html.js";
import { show } from "./store.js";

interface DialogProps {
  label: string;
  /** For its looks. */
  kind?: string;
  onClose: () => void;
  children: Shown;
}

export class Dialog extends Component<DialogProps> {
  box: HTMLDialogElement | null = null;

  componentDidMount() {
    this.box?.showModal();
  }

  componentWillUnmount() {
    this.box?.close();
  }

  /** Close it before the next key, which belongs to the page. */
  leave() {
    this.props.onClose();
    show();
  }

  render({ label, children, kind }: DialogProps) {
    return (
      <dialog
        ref={(box) => void (this.box = box)}
        class={kind}
        aria-label={label}
        onCancel={instead(() => this.leave())}
        onClick={(event: Event) => event.target === this.box && this.leave()}>
        <div class="inside">
          {children}
          <button class="quiet round close" aria-label="Close" onClick={() => this.leave()}>
            {icon("close")}
          </button>
        </div>
        <Notes />
      </dialog>
    );
  }
}
