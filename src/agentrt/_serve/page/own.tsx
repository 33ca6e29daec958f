// One's own messages: edit one, or send it again. Where the agent can, in a copy of the conversation
// that ends before it; the first conversation stays as it is.

import { ask, fetchAll, prompt, say, send, write } from "./actions.js";
import { wordsOf } from "./content.js";
import { cutsOf } from "./cuts.js";
import { iconButton } from "./html.js";
import { field, model, setUi, ui } from "./store.js";

export const OwnTools = ({ item }: { item: w.Item }): Shown =>
  item.turn && (
    <p class="own">
      {iconButton("edit", "Edit this message", () => void repeat(item, true))}
      {iconButton("again", "Send this message again", () => void repeat(item, false))}
    </p>
  );

/** The session in which a message is written anew; null if there is none. */
async function place(session: string, item: w.Item): Promise<string | null> {
  const summary = model().sessions.find((each) => each.session === session);
  const view = model().attached.get(session)?.view;
  const turns = [...(view?.turns.keys() ?? [])];
  const at = turns.indexOf(item.turn ?? "");
  if (!summary || at < 0 || (summary.forks ?? "turn") !== "turn") {
    say("This agent can't go back to an earlier message: the new one goes to the end of the conversation.");
    return session;
  }
  if (at === 0 && view?.earlier) {
    say("Load the earlier turns first.", "error");
    return null;
  }
  const given =
    at === 0
      ? { op: "new", agent: summary.agent, cwd: summary.cwd, roots: summary.roots ?? [] }
      : { op: "fork", session, at: turns[at - 1] };
  const ack = await send("session", given);
  return ack.ok && ack.session ? ack.session : null;
}

async function repeat(item: w.Item, edits: boolean) {
  const before = ui().session ?? ""; // another one may be shown before all of the message is here
  const content = await fetchAll(item.content ?? []);
  if (cutsOf(content).length) return say("This message could not be loaded completely.", "error");
  const text = wordsOf(content);
  const session = await place(before, item);
  if (session === null) return;
  if (session !== before) write(session);
  if (edits) {
    const draft = ui().drafts.get(session)?.trim();
    const files = content.filter(({ type }) => type !== "text" && type !== "resource_link");
    const attached = files.map((block) => ({ name: block.type, size: 0, block }));
    setUi({
      drafts: new Map(ui().drafts).set(session, [draft, text].filter(Boolean).join("\n\n")),
      attached: new Map(ui().attached).set(session, attached),
      atEnd: true,
    });
    if (session === before) field()?.focus();
  } else if (session === before && session === ui().session) await prompt(content, text, "queue");
  else {
    const ack = await ask("prompt", { session, content });
    if (!ack.ok) say(ack.error?.message ?? "The message was not sent.", "error");
  }
}
