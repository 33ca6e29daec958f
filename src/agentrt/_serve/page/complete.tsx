// What is offered while one writes: the agent's commands behind `/`, files behind `@`.

import { ask } from "./actions.js";
import { decoded, within } from "./format.js";
import { best, bestMatches } from "./fuzzy.js";
import { instead } from "./html.js";
import { oneLine } from "./safe.js";
import { field, model, setUi, ui } from "./store.js";

const OPTIONS = 8;

export function completionAt(area: HTMLTextAreaElement, seat: Seat | undefined): Completion | null {
  if (!seat || document.activeElement !== area || area.selectionStart !== area.selectionEnd) return null;
  const end = area.selectionEnd;
  const before = area.value.slice(0, end);
  const command = before.match(/^\/(\S*)$/);
  const file = before.match(/(?:^|\s)@(\S*)$/);
  const words = command ? `/${command[1]}` : file ? `@${file[1]}` : null;
  const { completing } = ui();
  if (words === null || (completing?.at === -1 && completing.words === words)) return null;
  const part = words.slice(1).toLowerCase();
  const options = command ? commands(seat, part) : files(seat, part);
  return options.length ? { words, start: end - words.length, end, options } : null;
}

function commands(seat: Seat, part: string) {
  return best(seat.view.commands, ({ name }) => name, part)
    .slice(0, 30)
    .map(({ name, description, hint }) => ({
      insert: `/${name}${hint ? " " : ""}`,
      label: `/${oneLine(name, 40)}${hint ? ` ${oneLine(hint, 40)}` : ""}`,
      about: oneLine(description, 100),
    }));
}

/** What the server was asked for last. */
let asked = "";

/** Ask the server for files, unless it was just that. */
async function find(session: string, part: string) {
  const key = `${session} ${part}`;
  if (asked === key) return;
  asked = key;
  const ack = await ask("files", { session, query: part });
  if (ack.ok && ack.files) setUi({ found: { session, files: ack.files } });
  else if (asked === key && ack.error?.code !== "unknown_command") asked = "";
}

/** The files that this conversation has named, the newest first, and those of its folder. */
function files(seat: Seat, part: string) {
  const session = ui().session ?? "";
  find(session, part);
  const cwd = model().sessions.find((each) => each.session === session)?.cwd ?? "/";
  const paths: Set<string> = new Set();
  for (const { tool, content } of [...seat.view.items.values()].reverse()) {
    for (const { path } of tool?.locations ?? []) paths.add(path);
    for (const each of tool?.content ?? []) if (each.type === "diff") paths.add(each.path);
    for (const each of content ?? []) {
      if (each.type === "resource_link" && each.uri.startsWith("file://")) paths.add(decoded(each.uri.slice(7)));
    }
    if (paths.size > 500) break;
  }
  const named = [...paths].map((path) => within(path, cwd)).slice(0, part ? undefined : OPTIONS / 2);
  const found = ui().found;
  const known = new Set([...named, ...(found?.session === session ? found.files : [])]);
  return bestMatches(known, part)
    .filter((path) => !/\s/.test(path))
    .slice(0, OPTIONS)
    .map((path) => ({ insert: `@${path} `, label: oneLine(path, 100), about: "" }));
}

export function choosePart(completion: Completion, at: number) {
  const option = completion.options[at];
  const area = field();
  if (!option || !area) return;
  area.setRangeText(option.insert, completion.start, completion.end, "end");
  setUi({
    drafts: new Map(ui().drafts).set(ui().session ?? "", area.value),
    completing: { at: -1, words: option.insert.trim() },
  });
  area.focus();
}

export function Completions({ completion }: { completion: Completion }) {
  const chosen = Math.min(ui().completing?.at ?? 0, completion.options.length - 1);
  return (
    <ul id="completions" class="completions" role="listbox" aria-label="completions">
      {completion.options.map((option, index) => (
        <li
          id={`completion-${index}`}
          key={option.insert}
          role="option"
          aria-selected={index === chosen}
          ref={(element) => {
            if (index === chosen) element?.scrollIntoView({ block: "nearest" });
          }}
          onMouseDown={instead(() => choosePart(completion, index))}>
          <code>{option.label}</code>
          <small>{option.about}</small>
        </li>
      ))}
    </ul>
  );
}
