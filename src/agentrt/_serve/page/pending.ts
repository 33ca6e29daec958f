// What was done here and not heard of yet: it is shown at once, as such, until the server's events
// show it. An answer says up to which event that is, so nothing of this can stay for ever.

import { wordsOf } from "./content.js";
import { cutsOf } from "./cuts.js";
import { drawnModel, seat, setUi, ui } from "./store.js";

/** Whether the events that report it are here */
const reported = ({ seq, epoch }: Place, known: Seat | undefined): boolean =>
  seq !== null && (!known || known.gone || known.epoch !== epoch || known.seq >= seq);

/** The prompts of this session that the server has not shown. */
export function sendingHere(): Sending[] {
  const known = seat();
  const mine = ui().sending.filter((each) => each.session === ui().session && !reported(each, known));
  if (!mine.length || !known) return mine;
  // After a reconnect the prompt may be here before the answer to it is.
  const fresh = [...known.view.items.values()].filter(({ type }) => type === "user");
  return mine.filter((each) => !fresh.some(({ id, content }) => !each.before.has(id) && shows(content, each.content)));
}

/** Also if a preview is shown */
function shows(shown: w.Block[] | undefined, sent: readonly w.Block[]): boolean {
  const [now, all] = [wordsOf(shown), wordsOf(sent)];
  return now === all || (cutsOf(shown).length > 0 && all.startsWith(now));
}

/** Whether a stop is on its way to the turn that is shown. */
export function isStopping() {
  const { stopping, session } = ui();
  const known = seat();
  if (stopping?.session !== session || reported(stopping, known)) return false;
  const turn = known?.view.state.turn;
  return stopping.turn ? turn?.id === stopping.turn : Boolean(turn) || sendingHere().length > 0;
}

/** Forget what is shown as the server's. */
export function clearPending() {
  const { sending, stopping } = ui();
  const seats = drawnModel().attached;
  const left = sending.filter((each) => !reported(each, seats.get(each.session)));
  if (left.length < sending.length) setUi({ sending: left });
  if (stopping && reported(stopping, seats.get(stopping.session))) setUi({ stopping: null });
}
