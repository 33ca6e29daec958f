// The sheet on which the agent's questions stand, one after the other, above where one writes.

import { Component } from "preact";
import { answer } from "./actions.js";
import { FormFields, isComplete } from "./form.js";
import { duration } from "./format.js";
import { composing, icon } from "./html.js";
import { InView } from "./inview.js";
import { requestParts, TITLE } from "./request_parts.js";
import { reveal, revealedLine } from "./reveal.js";
import { isolated } from "./revealed.js";
import { field, here, seat, setUi, ui } from "./store.js";
import { effect, Part, Subject } from "./subject.js";

/** Milliseconds for which a question that has just come up takes no answer: whoever was about to
 *  press a key or a button meant something else. */
const GUARD = 500;

/** Characters of an option's name on its button; a longer one stands above as well. */
const NAME = 80;

/** How far a key scrolls. */
const KEYS: Record<string, (page: HTMLElement) => number> = {
  ArrowDown: () => 40,
  ArrowUp: () => -40,
  PageDown: ({ clientHeight }) => clientHeight - 48,
  PageUp: ({ clientHeight }) => 48 - clientHeight,
  " ": ({ clientHeight }) => clientHeight - 48,
  End: ({ scrollHeight }) => scrollHeight,
  Home: ({ scrollHeight }) => -scrollHeight,
};

export function Sheet({ seat, offline }: { seat: Seat; offline: boolean }) {
  const asks = [...seat.view.permissions.values()];
  const ask = asks[0];
  if (!ask) return null;
  const item = seat.view.items.get(ask.item ?? "");
  return <Question key={here(ask.request)} ask={ask} item={item} count={asks.length} offline={offline} />;
}

interface QuestionProps {
  ask: w.PermissionOpened;
  item: w.Item | undefined;
  /** How many there are. */
  count: number;
  offline: boolean;
}

/** One question, as long as it is the first. */
class Question extends Component<QuestionProps> {
  box: HTMLElement | null = null;
  /** What scrolls. */
  subject: HTMLElement | null = null;
  /** What it is about, as text. */
  about = "";
  /** What is drawn of it, and of what. */
  drawn: { ask?: w.PermissionOpened; item?: w.Item; shown?: Shown } = {};
  /** Whether the focus is in it, as far as is known. */
  within: boolean | undefined = false;
  /** When all of it had been in view. */
  since = 0;
  inView = new InView((all) => {
    if (all) this.since = performance.now();
    this.forceUpdate();
    this.later();
  });

  sizes = new ResizeObserver(([{ contentRect }]) =>
    this.subject?.style.setProperty("--content", `${contentRect.height}px`),
  );

  componentDidMount() {
    addEventListener("visibilitychange", this.seen, true);
    this.seen();
    this.read();
    if (this.subject?.firstElementChild) this.sizes.observe(this.subject.firstElementChild);
  }

  componentDidUpdate(before: QuestionProps) {
    if (before.offline && !this.props.offline) this.seen();
    if (before.item !== this.props.item) this.read();
    else this.inView.look();
    if (this.within && document.activeElement === document.body) this.box?.focus({ preventScroll: true });
    this.within = this.box?.contains(document.activeElement);
  }

  /** All of it is to be seen, also when the agent has made something else of it. */
  read() {
    const { item, ask } = this.props;
    const about = JSON.stringify(requestParts(ask, item));
    if (about !== this.about && this.subject?.firstElementChild) this.inView.watch(this.subject.firstElementChild);
    this.about = about;
  }

  componentWillUnmount() {
    this.inView.end();
    this.sizes.disconnect();
    removeEventListener("visibilitychange", this.seen, true);
    const at = document.activeElement;
    if (at && (at === this.box || this.box?.contains(at))) field()?.focus({ preventScroll: true });
  }

  /** Now it is in sight, and can soon be answered. */
  seen = () => {
    if (document.hidden) return;
    removeEventListener("visibilitychange", this.seen, true);
    setUi({ asked: { request: here(this.props.ask.request), since: performance.now() } });
    this.later();
    // Whoever is writing goes on writing; the others are led to the words, not to a button.
    const at = document.activeElement;
    const writing = at instanceof HTMLTextAreaElement && at.value !== "";
    if (!writing && !document.querySelector("dialog[open]")) this.box?.focus({ preventScroll: true });
  };

  /** Draw it again when it can be answered. */
  later() {
    setTimeout(() => this.forceUpdate(), GUARD + 20);
  }

  /** Whether no answer is taken now. */
  blocked() {
    const { asked, answering } = ui();
    const request = here(this.props.ask.request);
    const guarded = asked?.request !== request || performance.now() - asked.since < GUARD;
    return guarded || this.props.offline || answering === request;
  }

  /** Whether nothing is allowed now: not all that it is about has been in view, or only just. */
  unread() {
    return !this.inView.all || performance.now() - this.since < GUARD;
  }

  /** True if the agent has changed the subject since it was drawn. */
  outdated() {
    const { ask, item } = this.props;
    const view = seat()?.view;
    const now = view?.items.get(ask.item ?? "");
    const asked = view?.permissions.get(ask.request) ?? ask;
    return (now !== item || asked !== ask) && JSON.stringify(requestParts(asked, now)) !== this.about;
  }

  give = (decision: Decision) => {
    if (this.blocked()) return;
    if (!this.declines(decision) && this.outdated()) return;
    if (!this.declines(decision) && this.unread()) this.more();
    else answer(this.props.ask.request, decision);
  };

  declines(decision: Decision) {
    if ("cancel" in decision) return true;
    const option = this.options().find(({ id }) => "option" in decision && id === decision.option);
    return Boolean(option?.kind.startsWith("reject"));
  }

  /** Show the next page of it. */
  more = () => this.scroll((page) => page.clientHeight - 48);

  scroll(by: (page: HTMLElement) => number) {
    const page = [this.subject, this.box].find((each) => each && each.scrollHeight > each.clientHeight + 1);
    page?.scrollBy({ top: by(page) });
  }

  /** All of the question, drawn again only when it has become another one. */
  all(): Shown {
    const { ask, item } = this.props;
    if (this.drawn.ask !== ask || this.drawn.item !== item) {
      const long = this.options().map((option, index) => {
        const label = `answer ${index + 1}${effect(option) && `, ${effect(option)}`}`;
        return (
          revealedLine(option.name, NAME) !== reveal(option.name) &&
          Part({ label, text: option.name, kind: "value" }, option.id)
        );
      });
      this.drawn = { ask, item, shown: [Subject(ask, item), long] };
    }
    return this.drawn.shown;
  }

  options(): w.PermissionOption[] {
    const { ask } = this.props;
    return (ask.options ?? []).filter(({ id }: w.PermissionOption) => id !== "accept" || !(ask.form || ask.url));
  }

  pressed = (event: KeyboardEvent) => {
    const { tagName } = event.target as HTMLElement;
    if (composing(event)) return;
    if (event.key === "Escape") {
      event.stopPropagation();
      field()?.focus();
    } else if (event.target === this.box && event.key in KEYS) {
      event.preventDefault();
      this.scroll(KEYS[event.key]);
    } else if (event.key === "Tab" && this.box) {
      keepInside(event, this.box);
    } else if (/^[1-9]$/.test(event.key) && !/^(INPUT|TEXTAREA|SELECT)$/.test(tagName)) {
      if (event.ctrlKey || event.metaKey || event.altKey) return; // the browser's own
      const option = this.options()[Number(event.key) - 1];
      if (option) this.give({ option: option.id });
    }
  };

  render({ ask, count, offline }: any) {
    const blocked = this.blocked();
    const unread = this.unread();
    const why = this.inView.left.size ? "ask-unread" : undefined;
    return (
      <section
        ref={(box: any) => (this.box = box)}
        class="sheet"
        hidden={offline}
        role="alertdialog"
        aria-labelledby="ask-title"
        aria-describedby="ask-detail"
        tabIndex={-1}
        onKeyDown={this.pressed}>
        <div
          ref={(subject: any) => (this.subject = subject)}
          class="subject"
          tabIndex={0}
          role="group"
          aria-label="Details of the request">
          <div>
            <i class="mark-of" aria-hidden="true"></i>
            <header>
              <h2 id="ask-title" dir="ltr">
                {isolated(revealedLine(ask.title, TITLE) || "The agent asks")}
              </h2>
              {count > 1 && <span class="count">1 of {count}</span>}
              {ask.expires && <span class="count">{duration(ask.expires - ui().now)} left</span>}
              {ask.background && (
                <span class="count">{ask.orphaned ? "asked before the agent stopped" : "from background work"}</span>
              )}
            </header>
            <div id="ask-detail" class="detail">
              {this.all()}
            </div>
            {ask.form && <FormFields form={ask.form} give={this.give} />}
            <i class="mark-of end" aria-hidden="true"></i>
          </div>
        </div>
        {why && (
          <p class="unread">
            <span id={why}>Scroll to the end to enable Allow.</span>
            <button onClick={this.more}>{icon("down")}Show more</button>
            <button onClick={() => this.scroll(KEYS.End)}>Jump to end</button>
          </p>
        )}
        <div class="options">
          {ask.form && (
            <button
              form="elicitation"
              class="allow_once"
              aria-describedby={why}
              aria-disabled={blocked || unread || !isComplete(ask)}>
              Send
            </button>
          )}
          {ask.url && (
            <button
              class="allow_once"
              aria-describedby={why}
              aria-disabled={blocked || unread}
              onClick={() => this.give({ option: "accept" })}>
              Done
            </button>
          )}
          {this.options().map((option, index) => (
            <button
              key={option.id}
              class={option.kind}
              aria-keyshortcuts={index < 9 ? String(index + 1) : undefined}
              aria-describedby={option.kind.startsWith("reject") ? undefined : why}
              aria-disabled={blocked || (unread && !option.kind.startsWith("reject"))}
              onClick={() => this.give({ option: option.id })}>
              <kbd aria-hidden="true">{index + 1}</kbd>
              <bdi dir="ltr">{isolated(revealedLine(option.name, NAME))}</bdi>
              {effect(option) && (
                <>
                  {" "}
                  <small class="effect">{effect(option)}</small>
                </>
              )}
            </button>
          ))}
          <button class="quiet" aria-disabled={blocked} onClick={() => this.give({ cancel: true })}>
            {icon("close")}Skip
          </button>
        </div>
        {ui().answering === here(ask.request) && (
          <p class="hint" role="status">
            Sending…
          </p>
        )}
      </section>
    );
  }
}

/** Tab goes round inside the sheet; Escape leaves it. */
function keepInside(event: KeyboardEvent, box: HTMLElement) {
  const stops = [...box.querySelectorAll("button, input, select, textarea, a[href], summary, [tabindex='0']")];
  const first = stops[0];
  const last = stops.at(-1);
  const at = document.activeElement;
  const leaves = event.shiftKey ? at === first || at === box : at === last;
  if (!leaves) return;
  event.preventDefault();
  ((event.shiftKey ? last : first) as HTMLElement | undefined)?.focus();
}
