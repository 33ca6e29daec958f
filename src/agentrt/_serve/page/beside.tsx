// A second session next to the one that is shown: the page itself in a frame, with its own connection.

import { iconButton } from "./html.js";
import { nameOf } from "./header.js";
import { framed, model, setUi, ui } from "./store.js";

/** As in the style sheet: on a narrower screen the second session is hidden. */
const isWide = () => matchMedia("(min-width: 75rem)").matches;

/** The sessions that can be shown next to this one. */
export const besides = () =>
  framed || !isWide()
    ? []
    : model().sessions.filter(({ session, phase }) => session !== ui().session && phase !== "stored");

export const showBeside = (session: string | null) => setUi({ beside: session });

/** Go from the message field of one session to that of the other. */
export function goOver() {
  const other = framed ? globalThis.parent : frame?.contentWindow;
  other?.focus();
  other?.document.getElementById("prompt")?.focus();
}

let frame: HTMLIFrameElement | null = null;

/** Who opens a second session goes on there: the keys are its own once it is drawn. */
const opened = (element: HTMLIFrameElement | null) => {
  if (element && element !== frame) element.focus();
  frame = element;
};

export function Beside(): Shown {
  const { beside } = ui();
  const summary = model().sessions.find(({ session }) => session === beside);
  if (!beside || !summary) return null;
  const name = nameOf(summary);
  return (
    <aside class="beside" aria-label={`Second session: ${name}`}>
      {iconButton("close", "Close the second session", () => showBeside(null))}
      <iframe ref={opened} title={name} src={`./#/s/${encodeURIComponent(beside)}`}></iframe>
    </aside>
  );
}
