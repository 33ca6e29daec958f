// The page without any library: one session at a time, and everything as plain text.

import { Connection } from "./connection.js";
import { EMPTY, take } from "./model.js";
import { plain, running } from "./safe.js";

/** @import * as w from "./wire.js" */

let model = EMPTY;
/** @type {string | null} */
let session = null;
let status = "Connecting…";

const connection = new Connection({
  hello: () => ({ sessions: session ? [{ session }] : [] }),
  onFrames(frames) {
    model = take(model, frames, Date.now() / 1000);
    const first = model.sessions.at(-1)?.session;
    if (first && !model.sessions.some((each) => each.session === session)) choose(first);
    else if (session && model.seats.get(session)?.behind) connection.send("attach", { session });
    for (const frame of frames) if (frame.type === "ack" && frame.error) status = frame.error.message;
    draw();
  },
  onLink(link) {
    status = link.status === "open" ? "" : `not connected ${link.reason}`;
    draw();
  },
  onRaw() {},
});

/** @param {string} next */
function choose(next) {
  if (session) connection.send("detach", { session });
  session = next;
  connection.send("attach", { session });
}

/**
 * @param {string} tag
 * @param {object} [fields]
 * @param {(Node | string)[]} children
 */
function element(tag, fields = {}, ...children) {
  const made = Object.assign(document.createElement(tag), fields);
  made.append(...children);
  return made;
}

/** @type {(blocks: w.Block[] | undefined) => string} */
const words = (blocks) =>
  (blocks ?? []).map((block) => (block.type === "text" ? block.text : `[${block.type}]`)).join("\n");

/** @param {w.Item} item */
function line(item) {
  const { tool } = item;
  const title = tool && `${tool.title || tool.name} – ${item.status ?? "running"}`;
  const parts = (tool?.content ?? []).map((part) => (part.type === "content" ? words([part.content]) : part.type === "diff" ? `${part.path}\n${part.newText}` : ""));
  return element("div", { className: `plain ${item.type}` }, running([title, item.text, words(item.content), ...parts].filter(Boolean).join("\n")));
}

/** @param {w.Permission} ask */
function question(ask) {
  const answer = (/** @type {object} */ fields) => () => connection.send("permission", { session, request: ask.request, ...fields });
  const options = (ask.options ?? []).map((option) => element("button", { textContent: plain(option.name), onclick: answer({ option: option.id }) }));
  return element("div", { className: "sheet" }, plain(ask.title), " ", ...options, element("button", { textContent: "Dismiss", onclick: answer({ cancel: true }) }));
}

/** @type {Record<string, HTMLElement>} */
const parts = {};

function draw() {
  const view = model.seats.get(session ?? "")?.view;
  parts.status?.replaceChildren(plain(status || view?.state.phase || ""));
  parts.items?.replaceChildren(...[...(view?.items.values() ?? [])].slice(-200).map(line));
  parts.asks?.replaceChildren(...[...(view?.permissions.values() ?? [])].map(question));
  const options = model.sessions.map((each) => new Option(plain(each.title || each.agent), each.session, false, each.session === session));
  parts.sessions?.replaceChildren(...options);
  const agents = model.agents.filter(({ available }) => available);
  if (parts.agents?.childElementCount !== agents.length) parts.agents?.replaceChildren(...agents.map((agent) => new Option(plain(agent.title || agent.name), agent.name)));
}

export function start() {
  parts.sessions = element("select", { ariaLabel: "session", onchange: (/** @type {any} */ event) => choose(event.target.value) });
  parts.agents = element("select", { ariaLabel: "agent" });
  parts.status = element("output");
  parts.items = element("section", { ariaLabel: "conversation" });
  parts.asks = element("section", { ariaLabel: "questions" });
  const create = () => connection.send("session", { op: "new", agent: /** @type {HTMLSelectElement} */ (parts.agents).value });
  const field = /** @type {HTMLTextAreaElement} */ (element("textarea", { rows: 3, ariaLabel: "message" }));
  const send = () => {
    if (!field.value.trim() || !session) return;
    connection.send("prompt", { session, content: [{ type: "text", text: field.value }] });
    field.value = "";
  };
  document.body.className = "bare";
  document.getElementById("page")?.replaceChildren(
    element("p", { className: "hint" }, "This page shows plain text: the libraries that it needs for more were not there when agentrt was installed."),
    element("p", {}, parts.sessions, " ", parts.agents, element("button", { textContent: "New session", onclick: create }), " ", parts.status),
    parts.items,
    parts.asks,
    field,
    element("p", {}, element("button", { textContent: "Send", onclick: send }), element("button", { textContent: "Stop", onclick: () => connection.send("cancel", { session }) })),
  );
  connection.start();
}
