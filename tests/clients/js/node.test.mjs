import assert from "node:assert/strict";
import test from "node:test";
import { CommandFailed, textOf } from "agentrt-client";
import { connect, prompts, sockets } from "./kit.mjs";

test("a prompt is answered, and its turn ends", async () => {
  const client = connect();
  const session = await client.newSession({ agent: "demo" });
  const turn = await session.run("hello");
  assert.equal(turn.outcome, "completed");
  assert.deepEqual(prompts(session.view), ["hello"]);
  assert.match([...session.view.items.values()].map(textOf).join("\n"), /hello/);
  assert.equal(session.view.state.turn, null);
});

test("a permission request is shown and answered", async () => {
  const client = connect();
  const session = await client.newSession({ agent: "demo" });
  const turn = session.run("/ask");
  const ask = await client.when(() => session.view?.permissions.values().next().value);
  await session.answer(ask.request, "allow_once");
  assert.equal((await turn).outcome, "completed");
  assert.equal(session.view.permissions.size, 0);
  await assert.rejects(session.answer(ask.request, "allow_once"), { name: "CommandFailed", code: "already_resolved" });
});

test("a cancel ends the turn", async () => {
  const client = connect();
  const session = await client.newSession({ agent: "demo" });
  const turn = session.run("/ask");
  await client.when(() => session.view?.permissions.size);
  await session.cancel();
  const { outcome, by } = await turn;
  assert.deepEqual([outcome, by], ["cancelled", "user"]);
});

test("a refused command rejects with its code", async () => {
  const client = connect();
  const error = await client.newSession({ agent: "nobody" }).catch((reason) => reason);
  assert.ok(error instanceof CommandFailed);
  assert.ok(error.message);
  const ack = await client.send({ type: "prompt", session: "none", content: [{ type: "text", text: "hello" }] });
  assert.equal(ack.error.code, "unknown_session");
});

test("a turn continues while the connection is lost, and its events follow", async () => {
  const WebSocket = sockets();
  const client = connect({ WebSocket });
  const session = await client.newSession({ agent: "demo" });
  const turn = session.run("/ask");
  const ask = await client.when(() => session.view?.permissions.values().next().value);
  const { epoch, seq } = session.getSnapshot();
  WebSocket.made.at(-1).terminate();
  await client.when(({ link }) => link.status === "lost");
  await session.answer(ask.request, "allow_once");
  assert.equal((await turn).outcome, "completed");
  const [, hello] = WebSocket.sent.filter(({ type }) => type === "hello");
  assert.deepEqual(hello.sessions, [{ session: session.id, epoch, seq }]);
});

test("a command that has no answer when the connection breaks is carried out once", async () => {
  const WebSocket = sockets();
  const client = connect({ WebSocket });
  const session = await client.newSession({ agent: "demo" });
  WebSocket.drop = ({ type }) => type === "ack"; // the server carries it out; its answer is lost
  const sent = client.send({ type: "prompt", session: session.id, content: [{ type: "text", text: "once" }] });
  await client.when(() => session.view && prompts(session.view).length);
  WebSocket.drop = () => false;
  WebSocket.made.at(-1).terminate();
  const ack = await sent;
  assert.ok(ack.ok);
  await client.when(() => session.view.turns.get(ack.turn)?.outcome);
  assert.deepEqual(prompts(session.view), ["once"]);
});

test("a command that is sent again under its id gets the same answer", async () => {
  const client = connect();
  const session = await client.newSession({ agent: "demo" });
  const command = { type: "prompt", session: session.id, content: [{ type: "text", text: "once" }] };
  const first = await client.send(command);
  const second = await client.send(command, first.id);
  assert.deepEqual(second, first);
  await client.when(() => session.view.turns.get(first.turn)?.outcome);
  assert.deepEqual(prompts(session.view), ["once"]);
});

test("a client that misses an event gets a snapshot", async () => {
  const WebSocket = sockets();
  const client = connect({ WebSocket });
  const session = await client.newSession({ agent: "demo" });
  let missed = 0;
  WebSocket.drop = ({ event }) => event?.kind === "turn.started" && ++missed === 1;
  await session.prompt("hello");
  await client.when(() => [...session.view.turns.values()].some(({ outcome }) => outcome));
  assert.equal(missed, 1);
  assert.deepEqual(prompts(session.view), ["hello"]);
});

test("a client that comes later sees the same session", async () => {
  const first = connect();
  const session = await first.newSession({ agent: "demo" });
  await session.run("hello");
  const second = connect();
  await second.attach(session.id);
  const seen = await second.when(() => second.session(session.id).view);
  assert.deepEqual(seen.items, session.view.items);
});

test("a session that does not exist is reported", async () => {
  const client = connect();
  await client.when(({ link }) => link.status === "open");
  const ack = await client.attach("nothing");
  assert.equal(ack.error.code, "unknown_session");
});

test("all sessions are attached again after a reconnect", async () => {
  const WebSocket = sockets();
  const client = connect({ WebSocket });
  const opened = [];
  for (let count = 0; count < 3; count++) opened.push(await client.newSession({ agent: "demo" }));
  WebSocket.made.at(-1).terminate();
  await client.when(({ link }) => link.status === "lost");
  await client.when(({ link }) => link.status === "open");
  for (const session of opened) assert.equal((await session.run("hello")).outcome, "completed");
});

test("a tool of the client runs when the agent calls it", async () => {
  const inputs = [];
  const tools = [{
    name: "pick", description: "Let the user pick.", input_schema: { type: "object" },
    run: (input) => (inputs.push(input), "the red one"),
  }];
  const client = connect({ tools });
  const session = await client.newSession({ agent: "demo", mode: "auto" });
  await session.run('/tool pick {"from": "colours"}');
  assert.deepEqual(inputs, [{ from: "colours" }]);
  const [call] = [...session.view.items.values()].filter(({ tool }) => tool?.owner === "client");
  assert.equal(call.status, "completed");
});

test("held sessions are detached when nobody holds them", async () => {
  const client = connect();
  const session = await client.newSession({ agent: "demo" });
  const releases = [client.hold(session.id), client.hold(session.id)];
  await client.when(() => session.view);
  releases[0]();
  await new Promise((done) => setTimeout(done));
  assert.ok(session.view);
  releases[1]();
  await client.when(() => !session.view);
});

test("the complete content of a preview is loaded", async () => {
  const client = connect();
  const session = await client.newSession({ agent: "demo" });
  const long = "0123456789 ".repeat(100_000);
  await session.prompt(long);
  const cut = await client.when(() => {
    const prompt = session.view && [...session.view.items.values()].find(({ type }) => type === "user");
    return prompt?.content[0]._cut?.text;
  });
  assert.equal(await session.content(cut.at), long);
});

test("folders and files of a session are read", async () => {
  const client = connect();
  const session = await client.newSession({ agent: "demo" });
  const { entries, complete } = await session.folder();
  assert.ok(Array.isArray(entries) && complete);
  await assert.rejects(session.file("/etc/passwd"), { name: "CommandFailed", code: "forbidden" });
  await assert.rejects(session.file("gone"), { name: "CommandFailed", code: "unknown_file" });
});
