// The page without any library: one session at a time, and everything as plain text.

import { AgentClient } from "./client.js";
import { address, credentials } from "./entrance.js";
import { formParts, requestParts } from "./request_parts.js";
import { reveal } from "./reveal.js";
import { plain, running } from "./safe.js";

let session = "";
let problem = "";

/** Items that are shown, the newest. */
const SHOWN = 200;

const STORE = { ok: "", slow: "The server's disk is slow; this page may lag.", failing: "The server cannot store new events; this page may lag." };

const client = new AgentClient({ url: address, credentials, name: "page" });

client.subscribe(() => {
  const { sessions, link } = client.getSnapshot();
  if (link.status !== "open") problem = `offline ${link.reason}`;
  else if (problem.startsWith("offline")) problem = "";
  const last = sessions.findLast(({ phase }) => phase !== "stored")?.session;
  if (last && !sessions.some((each) => each.session === session)) choose(last);
  draw();
});

/** @param {string} next */
function choose(next) {
  const before = session;
  session = next;
  if (before) client.detach(before);
  client.attach(session);
}

/** Send a command, and show why it is refused. @param {any} command */
async function send(command) {
  const { error } = await client.send(command);
  problem = error?.message ?? "";
  draw();
}

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {object} fields
 * @param {(Node | string)[]} children
 */
function element(tag, fields, ...children) {
  const made = Object.assign(document.createElement(tag), fields);
  made.append(...children);
  return made;
}

/** @type {(label: string, onclick: () => void) => Node} */
const button = (label, onclick) => element("button", { onclick }, plain(label));

/** @type {(blocks: w.Block[] | undefined) => string} */
const words = (blocks = []) =>
  blocks.map((block) => (block.type === "text" ? block.text : `[${block.type}]`)).join("\n");

/** @param {w.Item} item */
function line({ type, text, content, tool, status = "running" }) {
  const parts = (tool?.content ?? []).map((part) =>
    part.type === "content" ? words([part.content]) : part.type === "diff" ? `${part.path}\n${part.newText}` : "",
  );
  const title = tool && `${tool.title || tool.name} – ${status}`;
  const all = [title, text, words(content), ...parts].filter(Boolean).join("\n");
  return element("div", { className: `plain ${type}` }, running(all));
}

/** All parts of the request stand above the buttons. @param {w.PermissionOpened} ask @param {w.Item | undefined} item */
function question(ask, item) {
  const { request, title, form, options = [] } = ask;
  const parts = [...requestParts(ask, item), ...(form ? formParts(form) : [])];
  const lines = parts.map(({ label, text, kind, old }) => {
    if (kind === "same") return `${reveal(label)}: as above`;
    if (kind !== "diff") return `${reveal(label)}: ${reveal(text)}`;
    return old == null ? `new file ${reveal(label)}\n${reveal(text)}` : `change of ${reveal(label)}, from:\n${reveal(old)}\nto:\n${reveal(text)}`;
  });
  const answer = (/** @type {object} */ fields) => () => send({ type: "permission", session, request, ...fields });
  const buttons = options.map(({ id, name, kind }) => button(`${reveal(name)} (${reveal(kind.replace("_", " "))})`, answer({ option: id })));
  const about = element("div", { className: "plain" }, [reveal(title), ...lines].join("\n"));
  return element("div", { className: "sheet" }, about, ...buttons, button("Skip", answer({ cancel: true })));
}

const sessions = element("select", { ariaLabel: "session", onchange: () => choose(sessions.value) });
const agents = element("select", { ariaLabel: "agent" });
const status = element("output", {});
const items = element("section", { ariaLabel: "conversation" });
const asks = element("section", { ariaLabel: "questions" });
const field = element("textarea", { rows: 3, ariaLabel: "message" });

function draw() {
  const model = client.getSnapshot();
  const view = model.attached.get(session)?.view;
  status.textContent = plain(problem || (model.store ? STORE[model.store.state] : view?.state.phase) || "");
  const all = [...(view?.items.values() ?? [])];
  items.replaceChildren(...all.slice(-SHOWN).map(line));
  if (view?.earlier || all.length > SHOWN) items.prepend(element("p", { className: "hint" }, "Earlier messages are not shown."));
  const open = model.link.status === "open" ? [...(view?.permissions.values() ?? [])] : [];
  asks.replaceChildren(...open.map((ask) => question(ask, view?.items.get(ask.item ?? ""))));
  sessions.replaceChildren(...model.sessions.map((each) => new Option(plain(each.title || each.agent), each.session, false, each.session === session)));
  const available = model.agents.filter((agent) => agent.available);
  if (agents.length !== available.length) agents.replaceChildren(...available.map(({ name }) => new Option(name)));
}

function prompt() {
  if (field.value.trim()) send({ type: "prompt", session, content: [{ type: "text", text: field.value }] });
  field.value = "";
}

export function start() {
  document.body.className = "bare";
  document.getElementById("page")?.replaceChildren(
    element("p", { className: "hint" }, "This page shows plain text: agentrt was installed without the page's libraries."),
    element("p", {}, sessions, agents, button("New session", () => send({ type: "session", op: "new", agent: agents.value })), " ", status),
    ...[items, asks, field],
    element("p", {}, button("Send", prompt), button("Stop", () => send({ type: "cancel", session }))),
  );
  client.start();
}
