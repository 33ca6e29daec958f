// Pages with the unmodified `useChat`, led over standard input: one command a line, in JSON.
//
// Whatever a page shows is told on standard output whenever React has rendered it.

import { createInterface } from "node:readline";
import { createElement, useEffect } from "react";
import { create } from "react-test-renderer";
import { useChat } from "@ai-sdk/react";
import {
  WebSocketChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  safeValidateUIMessages,
} from "ai";
import WebSocket from "ws";

const tell = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

// React would have its browser's renderer used; there is no browser here.
const { error: complain } = console;
console.error = (what, ...more) => String(what).includes("is deprecated") || complain(what, ...more);

const pages = {};

function Page({ name, ...options }) {
  const chat = useChat(options);
  pages[name].chat = chat;
  const { status, error, messages } = chat;
  useEffect(() => {
    tell({ chat: name, status, error: error && String(error.message), messages });
  }, [status, error, messages]);
  return null;
}

function open({ chat: name, id, url, headers, body, resume, like }) {
  class Socket extends WebSocket {
    constructor(target, names) {
      super(target, names, { headers });
      pages[name].socket = this;
      this.texts = {};
      this.on("message", (data) => {
        const { type, requestId, errorText } = JSON.parse(data);
        if (type !== "chunk") tell({ told: name, type });
        if (type === "error") tell({ refused: name, text: this.texts[requestId], errorText });
      });
    }
    send(data) {
      const { type, requestId, messages } = JSON.parse(data);
      if (type === "send") this.texts[requestId] = messages.at(-1).parts.at(-1).text;
      super.send(data);
    }
  }
  const messages = like ? pages[like].chat.messages : undefined;
  const transport = new WebSocketChatTransport({ url, body, webSocket: Socket });
  const helpers = [
    lastAssistantMessageIsCompleteWithApprovalResponses,
    lastAssistantMessageIsCompleteWithToolCalls,
  ];
  const sendAutomaticallyWhen = (options) => helpers.some((helper) => helper(options));
  pages[name] = {};
  const options = { name, id, transport, messages, resume, sendAutomaticallyWhen };
  pages[name].root = create(createElement(Page, options));
}

const operations = {
  open,
  send: ({ chat, text, ...options }) => pages[chat].chat.sendMessage({ text }, options),
  stop: ({ chat }) => pages[chat].chat.stop(),
  // As the documentation has it.
  stopAll: async ({ chat }) => {
    await pages[chat].chat.stop();
    await pages[chat].chat.resumeStream({ body: { stop: true } });
  },
  resume: ({ chat }) => pages[chat].chat.resumeStream(),
  answer: ({ chat, id, approved }) => pages[chat].chat.addToolApprovalResponse({ id, approved }),
  output: ({ chat, tool, toolCallId, output }) =>
    pages[chat].chat.addToolOutput({ tool, toolCallId, output }),
  close: ({ chat }) => {
    pages[chat].socket?.terminate(); // before React knows: a page that is gone says nothing
    pages[chat].root.unmount();
  },
  validate: async ({ chat }) => {
    const { messages } = pages[chat].chat;
    const result = await safeValidateUIMessages({ messages });
    return result.success || String(result.error);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { op, number, ...command } = JSON.parse(line);
  Promise.resolve()
    .then(() => operations[op](command))
    .then(
      (result) => ({ done: number, result }),
      (error) => ({ done: number, failed: String(error) }),
    )
    .then((message) => setTimeout(tell, 0, message)); // behind what React renders
}
for (const { socket } of Object.values(pages)) socket?.terminate();
