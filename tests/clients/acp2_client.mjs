// A client of the unmodified ACP SDK in version 2, which starts the agent as editors do. It goes
// through a session and prints what it saw as one object.

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream } from "@agentclientprotocol/sdk/experimental/v2";

const [command, ...args] = JSON.parse(process.env.AGENT);
const agentProcess = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = ndJsonStream(Writable.toWeb(agentProcess.stdin), Readable.toWeb(agentProcess.stdout));
const updates = [];
let ended = () => {};
const text = (value) => [{ type: "text", text: value }];

await client({ name: "official" })
  .onNotification(methods.client.session.update, ({ params: { update } }) => {
    updates.push(update);
    const idle = update.sessionUpdate === "state_update" && update.state === "idle";
    if (idle && update.stopReason) ended(update);
  })
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    updates.push({ sessionUpdate: "asked", title: params.title });
    const { optionId } = params.options.find((option) => option.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId } };
  })
  .connectWith(stream, async (agent) => {
    const hello = await agent.request(methods.agent.initialize, {
      protocolVersion: 2,
      info: { name: "official", version: "1" },
      capabilities: {},
    });
    const cwd = process.cwd();
    const { sessionId } = await agent.request(methods.agent.session.new, { cwd, mcpServers: [] });
    const ends = [];
    for (const prompt of ["hello", "/ask", "/tools"]) {
      const end = new Promise((resolve) => (ended = resolve));
      const asked = { sessionId, prompt: text(prompt) };
      const { messageId } = await agent.request(methods.agent.session.prompt, asked);
      ends.push([(await end).stopReason, typeof messageId]);
    }
    const slow = new Promise((resolve) => (ended = resolve));
    await agent.request(methods.agent.session.prompt, { sessionId, prompt: text("/slow 600") });
    await agent.notify(methods.agent.session.cancel, { sessionId });
    ends.push([(await slow).stopReason, "cancel"]);
    const list = await agent.request(methods.agent.session.list, {});
    const count = updates.length;
    const replayFrom = { type: "start" };
    await agent.request(methods.agent.session.resume, { sessionId, cwd, replayFrom });
    const replayed = updates.slice(count).map((each) => each.sessionUpdate);
    await agent.request(methods.agent.session.close, { sessionId });
    const version = hello.protocolVersion;
    console.log(JSON.stringify({ version, ends, sessions: list.sessions.length, updates, replayed }));
  });
agentProcess.stdin.end();
