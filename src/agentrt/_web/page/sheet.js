// The sheet on which the agent's questions stand, one after the other, above where one writes.

import { Component } from "./vendor/libraries.js";
import { answer } from "./actions.js";
import { code } from "./code.js";
import { Diff } from "./diff.js";
import { FormFields, isComplete } from "./form.js";
import { duration } from "./format.js";
import { html, icon } from "./html.js";
import { anchor } from "./markdown.js";
import { Output } from "./output.js";
import { asJson, oneLine, plain } from "./safe.js";
import { field, here, setUi, ui } from "./store.js";

/** Milliseconds for which a question that has just come up takes no answer: whoever was about to
 *  press a key or a button meant something else. */
const GUARD = 500;

/** @param {{ seat: Seat, cwd: string, offline: boolean }} props */
export function Sheet({ seat, cwd, offline }) {
  const asks = [...seat.view.permissions.values()];
  const ask = asks[0];
  if (!ask) return null;
  const item = seat.view.items.get(ask.item ?? "");
  return html`<${Question} key=${here(ask.request)} ask=${ask} item=${item} count=${asks.length} cwd=${cwd} offline=${offline} />`;
}

/** One question, as long as it is the first. */
class Question extends Component {
  /** @type {HTMLElement | null} */
  box = null;

  componentDidMount() {
    addEventListener("visibilitychange", this.seen, true);
    this.seen();
  }

  /** @param {any} before */
  componentDidUpdate(before) {
    if (before.offline && !this.props.offline) this.seen();
  }

  componentWillUnmount() {
    removeEventListener("visibilitychange", this.seen, true);
    const at = document.activeElement;
    if (at && (at === this.box || this.box?.contains(at))) field()?.focus({ preventScroll: true });
  }

  /** Now it is in sight, and can soon be answered. */
  seen = () => {
    if (document.hidden) return;
    removeEventListener("visibilitychange", this.seen, true);
    setUi({ asked: { request: here(this.props.ask.request), since: performance.now() } });
    setTimeout(() => setUi({}), GUARD + 20);
    // Whoever is writing goes on writing; the others are led to the words, not to a button.
    const at = document.activeElement;
    const writing = at instanceof HTMLTextAreaElement && at.value !== "";
    if (!writing && !document.querySelector("dialog[open]")) this.box?.focus({ preventScroll: true });
  };

  /** Whether no answer is taken now. */
  blocked() {
    const { asked, answering } = ui();
    const request = here(this.props.ask.request);
    const guarded = asked?.request !== request || performance.now() - asked.since < GUARD;
    return guarded || this.props.offline || answering === request;
  }

  /** @param {Decision} decision */
  give = (decision) => {
    if (!this.blocked()) answer(this.props.ask.request, decision);
  };

  /** @type {() => w.Option[]} */
  options() {
    const { ask } = this.props;
    return (ask.options ?? []).filter((/** @type {w.Option} */ { id }) => id !== "accept" || !(ask.form || ask.url));
  }

  /** @param {KeyboardEvent} event */
  pressed = (event) => {
    const { tagName } = /** @type {HTMLElement} */ (event.target);
    if (event.key === "Escape") {
      event.stopPropagation();
      field()?.focus();
    } else if (event.key === "Tab" && this.box) {
      keepInside(event, this.box);
    } else if (/^[1-9]$/.test(event.key) && !/^(INPUT|TEXTAREA|SELECT)$/.test(tagName)) {
      if (event.ctrlKey || event.metaKey || event.altKey) return; // the browser's own
      const option = this.options()[Number(event.key) - 1];
      if (option) this.give({ option: option.id });
    }
  };

  /** @param {any} props */
  render({ ask, item, count, cwd, offline }) {
    const blocked = this.blocked();
    return html`<section ref=${(/** @type {any} */ box) => (this.box = box)} class="sheet" hidden=${offline} role="alertdialog" aria-labelledby="ask-title"
        aria-describedby="ask-detail" tabindex="-1" onKeyDown=${this.pressed}>
      <header>
        <h2 id="ask-title" dir="auto">${oneLine(ask.title, 600) || "The agent asks"}</h2>
        ${count > 1 && html`<span class="count">1 of ${count}</span>`}
        ${ask.expires && html`<span class="count">${duration(ask.expires - ui().now)} left</span>`}
        ${ask.background && html`<span class="count">from background work</span>`}
      </header>
      <div id="ask-detail" class="detail">
        ${ask.url && html`<p>The agent asks you to visit this page: ${anchor(ask.url, [plain(ask.url)])}</p>`}
        ${item && Subject(item, cwd)}
        ${Detail(ask.detail, item, cwd)}
      </div>
      ${ask.form && html`<${FormFields} form=${ask.form} give=${this.give} />`}
      <div class="options">
        ${ask.form && html`<button form="elicitation" class="allow_once" aria-disabled=${blocked || !isComplete(ask)}>Send</button>`}
        ${ask.url && html`<button class="allow_once" aria-disabled=${blocked} onClick=${() => this.give({ option: "accept" })}>Done</button>`}
        ${this.options().map(
          (option, index) => html`<button key=${option.id} class=${option.kind} aria-disabled=${blocked}
              onClick=${() => this.give({ option: option.id })}>
            <kbd aria-hidden="true">${index + 1}</kbd>${oneLine(option.name, 80)}
          </button>`,
        )}
        <button class="quiet" aria-disabled=${blocked} onClick=${() => this.give({ cancel: true })}>
          ${icon("close")}Dismiss
        </button>
      </div>
      ${ui().answering === here(ask.request) && html`<p class="hint" role="status">Your answer is on its way…</p>`}
    </section>`;
  }
}

/** @type {(item: w.Item, cwd: string) => Shown} what the question is about */
function Subject(item, cwd) {
  const { input, content = [] } = item.tool ?? {};
  const diffs = content.filter((part) => part.type === "diff");
  const command = commandOf(input);
  return html`
    ${command && html`<pre class="command" tabindex="0" role="group" aria-label="command"><code>${plain(command)}</code></pre>`}
    ${diffs.map((part) => html`<${Diff} diff=${part} cwd=${cwd} />`)}
    ${!command && !diffs.length && input != null && code({ text: plain(asJson(input) ?? ""), language: "json" })}
  `;
}

/** @type {(input: unknown) => string | null} the exact command, if that is what is asked for */
function commandOf(input) {
  if (typeof input !== "object" || input === null || !("command" in input)) return null;
  const { command } = input;
  if (typeof command === "string") return command;
  return Array.isArray(command) ? command.map(String).join(" ") : null;
}

/** @type {(detail: unknown, item: w.Item | undefined, cwd: string) => Shown} */
function Detail(detail, item, cwd) {
  if (detail == null) return null;
  if (typeof detail === "string") return html`<p class="verbatim">${plain(detail)}</p>`;
  if (!Array.isArray(detail)) return Reasons(/** @type {Record<string, unknown>} */ (detail));
  const known = JSON.stringify(item?.tool?.content ?? []);
  return detail.map((part, index) => {
    if (known.includes(JSON.stringify(part))) return null; // it stands above already
    if (part?.type === "diff") return html`<${Diff} key=${index} diff=${part} cwd=${cwd} />`;
    if (part?.type === "content" && part.content) return Output(item?.tool, part.content, cwd, index);
    return null;
  });
}

/** @type {(detail: Record<string, unknown>) => Shown} sentences, and folded, the rest */
function Reasons(detail) {
  const entries = Object.entries(detail);
  const said = entries.filter(([, value]) => typeof value === "string" && value.includes(" "));
  const rest = entries.filter((entry) => !said.includes(entry));
  return html`
    ${said.map(([name, value]) => html`<p class="verbatim" key=${name}>${plain(String(value))}</p>`)}
    ${rest.length > 0 &&
    html`<details class="fold">
      <summary>What else was told</summary>
      ${code({ text: plain(asJson(Object.fromEntries(rest)) ?? ""), language: "json" })}
    </details>`}
  `;
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
