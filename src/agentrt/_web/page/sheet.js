// The sheet on which the agent's questions stand, one after the other, above where one writes.

import { useEffect, useRef } from "./vendor/libraries.js";
import { answer } from "./actions.js";
import { BlockView } from "./content.js";
import { Diff } from "./diff.js";
import { FormFields, isComplete } from "./form.js";
import { duration } from "./format.js";
import { html, icon } from "./html.js";
import { anchor, code } from "./markdown.js";
import { asJson, oneLine, plain } from "./safe.js";
import { here, setUi, ui } from "./store.js";

/** @import * as w from "./wire.js" */
/** @import { Decision, Seat } from "./types.js" */
/** @import { ComponentChildren } from "./vendor/libraries.js" */

/** Milliseconds for which a question that has just come up takes no answer: whoever was about to
 *  press a key or a button meant something else. */
export const GUARD = 500;

/** @type {(request: string) => boolean} */
const isGuarded = (request) => {
  const { asked } = ui();
  return asked?.request !== here(request) || performance.now() - asked.since < GUARD;
};

/** @param {{ seat: Seat, cwd: string, offline: boolean }} props */
export function Sheet({ seat, cwd, offline }) {
  const asks = [...seat.view.permissions.values()];
  const ask = asks[0];
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!ask) return;
    const seen = () => {
      if (document.hidden) return;
      removeEventListener("visibilitychange", seen, true);
      setUi({ asked: { request: here(ask.request), since: performance.now() } });
      setTimeout(() => setUi({}), GUARD + 20);
      // Whoever is writing goes on writing; the others are led to the words, not to a button.
      const typing = document.activeElement;
      const busy = typing instanceof HTMLTextAreaElement && typing.value !== "";
      if (!busy) box.current?.focus({ preventScroll: true });
    };
    addEventListener("visibilitychange", seen, true);
    seen();
    return () => removeEventListener("visibilitychange", seen, true);
  }, [ask && here(ask.request)]);
  if (!ask) return null;
  const waiting = ui().answering === here(ask.request);
  const blocked = offline || waiting || isGuarded(ask.request);
  const item = ask.item ? seat.view.items.get(ask.item) : undefined;
  const isForm = Boolean(ask.form || ask.url);
  const options = (ask.options ?? []).filter(({ id }) => !isForm || id !== "accept");
  /** @param {Decision} given */
  const give = (given) => {
    if (!offline && !waiting && !isGuarded(ask.request)) answer(ask.request, given);
  };
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.key === "Escape") {
      event.stopPropagation();
      document.getElementById("prompt")?.focus();
    } else if (event.key === "Tab") {
      keepInside(event, /** @type {HTMLElement} */ (box.current));
    } else if (/^[1-9]$/.test(event.key) && !/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const option = options[Number(event.key) - 1];
      if (option) give({ option: option.id });
    }
  };
  return html`<section ref=${box} class="sheet" role="alertdialog" aria-labelledby="ask-title" aria-describedby="ask-detail"
      tabindex="-1" onKeyDown=${onKey} key=${here(ask.request)}>
    <header>
      <h2 id="ask-title" dir="auto">${oneLine(ask.title, 600) || "The agent asks"}</h2>
      ${asks.length > 1 && html`<span class="count">1 of ${asks.length}</span>`}
      ${ask.expires && html`<span class="count">${duration(ask.expires - ui().now)} left</span>`}
      ${ask.background && html`<span class="count">from background work</span>`}
    </header>
    <div id="ask-detail" class="detail">
      ${ask.url && html`<p>The agent asks you to visit this page: ${anchor(ask.url, [plain(ask.url)])}</p>`}
      ${item && Subject(item, cwd)}
      ${Detail(ask.detail, item, cwd)}
    </div>
    ${ask.form && html`<${FormFields} request=${ask.request} form=${ask.form} onSubmit=${(/** @type {object} */ content) => give({ content })} />`}
    <div class="options">
      ${isForm && html`<button type=${ask.form ? "submit" : "button"} form=${ask.form ? "elicitation" : null} class="allow_once"
          aria-disabled=${blocked || !isComplete(ask)} onClick=${ask.form ? null : () => give({ option: "accept" })}>${ask.form ? "Send" : "Done"}</button>`}
      ${options.map(
        (option, index) => html`<button key=${option.id} class=${option.kind} aria-disabled=${blocked}
            onClick=${() => give({ option: option.id })}>
          <kbd aria-hidden="true">${index + 1}</kbd>${oneLine(option.name, 80)}
        </button>`,
      )}
      <button class="quiet" aria-disabled=${blocked} onClick=${() => give({ cancel: true })}>${icon("close")}Dismiss</button>
    </div>
    ${waiting && html`<p class="hint" role="status">Your answer is on its way…</p>`}
  </section>`;
}

/** @type {(item: w.Item, cwd: string) => ComponentChildren} what the question is about */
function Subject(item, cwd) {
  const { input, content = [] } = item.tool ?? {};
  const diffs = content.filter((part) => part.type === "diff");
  const command = commandOf(input);
  return html`
    ${command && html`<pre class="command" tabindex="0" role="region" aria-label="command"><code>${plain(command)}</code></pre>`}
    ${diffs.map((part) => html`<${Diff} diff=${part} cwd=${cwd} />`)}
    ${!command && !diffs.length && input != null && code(plain(asJson(input) ?? ""), "json")}
  `;
}

/** @type {(input: unknown) => string | null} the exact command, if that is what is asked for */
function commandOf(input) {
  if (typeof input !== "object" || input === null || !("command" in input)) return null;
  const { command } = input;
  if (typeof command === "string") return command;
  return Array.isArray(command) ? command.map(String).join(" ") : null;
}

/** @type {(detail: unknown, item: w.Item | undefined, cwd: string) => ComponentChildren} */
function Detail(detail, item, cwd) {
  if (detail == null) return null;
  if (typeof detail === "string") return html`<p class="verbatim">${plain(detail)}</p>`;
  if (!Array.isArray(detail)) return code(plain(asJson(detail) ?? ""), "json");
  const known = JSON.stringify(item?.tool?.content ?? []);
  return detail.map((part, index) => {
    if (known.includes(JSON.stringify(part))) return null; // it stands above already
    if (part?.type === "diff") return html`<${Diff} key=${index} diff=${part} cwd=${cwd} />`;
    if (part?.type === "content" && part.content) return html`<${BlockView} key=${index} block=${part.content} />`;
    return null;
  });
}

/**
 * Tab goes round inside the sheet; Escape leaves it.
 * @param {KeyboardEvent} event
 * @param {HTMLElement} box
 */
function keepInside(event, box) {
  const stops = [...box.querySelectorAll("button, input, select, textarea, a[href], summary, [tabindex='0']")];
  const first = stops[0];
  const last = stops.at(-1);
  const at = document.activeElement;
  const leaves = event.shiftKey ? at === first || at === box : at === last;
  if (!leaves) return;
  event.preventDefault();
  /** @type {HTMLElement | undefined} */ (event.shiftKey ? last : first)?.focus();
}
