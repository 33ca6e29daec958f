import assert from "node:assert/strict";
import test from "node:test";
import { JSDOM } from "jsdom";
import { connect, sockets } from "./kit.mjs";

const { window } = new JSDOM("<main></main>", { url: "http://localhost/" });
for (const [name, value] of Object.entries({ window, document: window.document, navigator: window.navigator })) {
  Object.defineProperty(globalThis, name, { value, configurable: true });
}
const { createElement: h, StrictMode } = await import("react");
const { createRoot } = await import("react-dom/client");
const { useClient, useSession } = await import("agentrt-client/react");

/** What is shown, once it is. */
async function shown(pattern) {
  const main = document.querySelector("main");
  for (let tries = 0; tries < 3000; tries++) {
    if (pattern.test(main.textContent)) return main.textContent;
    await new Promise((done) => setTimeout(done, 10));
  }
  assert.match(main.textContent, pattern);
}

function Chat({ client, id }) {
  const { session, view, busy, offline, gone } = useSession(client, id);
  if (!view) return h("p", null, "Loading…");
  return h("div", null,
    h("p", null, `${offline ? "offline" : "online"}, ${busy ? "busy" : "idle"}${gone ? ", gone" : ""}`),
    [...view.items.values()].map((item) => h("p", { key: item.id }, `${item.type}: ${item.text ?? item.content?.[0]?.text ?? ""}`)),
    [...view.permissions.values()].map((ask) =>
      h("button", { key: ask.request, onClick: () => session.answer(ask.request, "allow_once") }, ask.title)));
}

function draw(client, id, element = h(Chat, { client, id })) {
  const root = createRoot(document.querySelector("main"));
  root.render(h(StrictMode, null, element));
  return root;
}

test("a component shows a session while it changes", async () => {
  const client = connect();
  const session = await client.newSession({ agent: "demo" });
  const root = draw(client, session.id);
  await shown(/online, idle/);
  await session.run("hello there");
  await shown(/user: hello there.*text: I have no model/s);
  root.unmount();
});

test("a component answers a question", async () => {
  const client = connect();
  const session = await client.newSession({ agent: "demo" });
  const root = draw(client, session.id);
  const turn = session.run("/ask");
  await shown(/busy/);
  await client.when(() => session.view?.permissions.size);
  await shown(/permission/);
  document.querySelector("button").click();
  assert.equal((await turn).outcome, "completed");
  await shown(/idle/);
  root.unmount();
});

test("a component that is unmounted detaches from its session", async () => {
  const client = connect();
  const other = connect();
  const { id } = await other.newSession({ agent: "demo" });
  const root = draw(client, id);
  await shown(/online, idle/);
  root.unmount();
  await client.when(({ attached }) => !attached.has(id));
});

test("a component shows that the connection is lost, and that it is back", async () => {
  const WebSocket = sockets();
  const client = connect({ WebSocket });
  const session = await client.newSession({ agent: "demo" });
  const root = draw(client, session.id);
  await shown(/online/);
  WebSocket.made.at(-1).terminate();
  await shown(/offline/);
  await shown(/online/);
  root.unmount();
});

test("a component shows the list of sessions", async () => {
  const client = connect();
  function List() {
    const { sessions, link } = useClient(client);
    return h("p", null, `${link.status}: ${sessions.length} sessions`);
  }
  const root = draw(client, "", h(List));
  await shown(/open: 0 sessions/);
  await client.newSession({ agent: "demo" });
  await shown(/open: 1 sessions/);
  root.unmount();
});
