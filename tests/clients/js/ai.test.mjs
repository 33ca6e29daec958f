import assert from "node:assert/strict";
import test, { afterEach } from "node:test";
import { Chat } from "@ai-sdk/react";
import { agentrtTransport, followChat } from "agentrt-client/ai-sdk";
import WebSocket from "ws";
import { connect } from "./kit.mjs";

const { SITE, TOKEN } = process.env;
const pick = { name: "pick", description: "Let the user pick.", input_schema: { type: "object" } };

/** A chat that follows its session, and a client of that session which is not the chat's. */
async function open(body = {}) {
  const transport = agentrtTransport({
    url: `ws://${SITE}/ai`, token: TOKEN, webSocket: WebSocket,
    body: { agent: "demo", mode: "auto", client: crypto.randomUUID(), ...body },
  });
  const chat = new Chat({ id: crypto.randomUUID(), transport });
  const client = connect();
  const other = connect();
  const followed = followChat(chat, client);
  opened.push(async () => {
    followed.dispose();
    await chat.dispose();
  });
  return { chat, other, followed };
}

const opened = [];
afterEach(async () => {
  for (const close of opened.splice(0)) await close();
});

/** The states of the tool calls that the chat shows last, each once. */
const states = (chat) => [...new Set(chat.lastMessage.parts.filter(({ toolCallId }) => toolCallId).map(({ state }) => state))];
const session = (chat, other) => other.session(chat.lastMessage.metadata.session);

async function until(condition) {
  for (let tries = 0; tries < 3000 && !condition(); tries++) await new Promise((done) => setTimeout(done, 10));
  assert.ok(condition());
}

test("the call of an application's tool ends in the chat when another client cancels the turn", async () => {
  const { chat, other } = await open({ tools: [pick] });
  await chat.sendMessage({ text: "/tool pick {}" });
  assert.deepEqual(states(chat), ["input-available"]);
  await session(chat, other).cancel();
  await until(() => states(chat).includes("output-error"));
  await until(() => chat.status === "ready");
  assert.equal(chat.lastMessage.metadata.outcome, "cancelled");
});

test("a question that another client answers is answered in the chat, and the message continues", async () => {
  const { chat, other } = await open({ mode: "ask" });
  await chat.sendMessage({ text: "/ask" });
  const asked = chat.lastMessage.parts.find(({ state }) => state === "approval-requested");
  await session(chat, other).answer(asked.approval.id, "allow_once");
  await until(() => states(chat).includes("output-available"));
  await until(() => chat.lastMessage.metadata.outcome === "completed");
});

test("a turn that another client starts is shown with its prompt", async () => {
  const { chat, other } = await open();
  await chat.sendMessage({ text: "hello" });
  const before = chat.messages.length;
  await session(chat, other).prompt("trickle 20");
  await until(() => chat.messages.length === before + 2 && chat.lastMessage.metadata?.outcome);
  const [prompt, answer] = chat.messages.slice(-2);
  assert.deepEqual(prompt.parts, [{ type: "text", text: "trickle 20" }]);
  assert.equal(answer.metadata.outcome, "completed");
});

test("a stop ends the turn while a tool of the application waits", async () => {
  const { chat, followed } = await open({ tools: [pick] });
  await chat.sendMessage({ text: "/tool pick {}" });
  await followed.stop();
  assert.deepEqual(states(chat), ["output-error"]);
  assert.equal(chat.lastMessage.metadata.outcome, "cancelled");
  await chat.sendMessage({ text: "hello" });
  assert.equal(chat.lastMessage.metadata.outcome, "completed");
});
