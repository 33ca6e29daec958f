// Chats of the unmodified AI SDK, led over standard input: one command a line, in JSON.
//
// Whatever a chat shows is told on standard output whenever it has changed.

import { createInterface } from "node:readline";
import { Chat } from "@ai-sdk/react";
import {
  WebSocketChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  safeValidateUIMessages,
} from "ai";
import WebSocket from "ws";

const tell = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

// Tells what a chat shows, once for all changes of one step of the program.
function watch(name, chat) {
  let waiting = false;
  const changed = () => {
    if (waiting) return;
    waiting = true;
    setImmediate(() => {
      waiting = false;
      const { status, error, messages } = chat;
      tell({ chat: name, status, error: error && String(error.message), messages });
    });
  };
  chat["~registerMessagesCallback"](changed); // as `useChat` does
  chat["~registerStatusCallback"](changed);
  chat["~registerErrorCallback"](changed);
}

const sockets = {};
const chats = {};

function open({ chat, id, url, protocols, headers, body, answers, tools, trims }) {
  class Socket extends WebSocket {
    constructor(target, names) {
      super(target, names, { headers });
      sockets[chat] = this;
      this.on("close", (code, reason) => tell({ closed: chat, code, reason: String(reason) }));
    }
  }
  const helpers = [
    answers && lastAssistantMessageIsCompleteWithApprovalResponses,
    tools && lastAssistantMessageIsCompleteWithToolCalls,
  ].filter(Boolean);
  const made = new Chat({
    id,
    transport: new WebSocketChatTransport({
      url,
      protocols,
      body,
      webSocket: Socket,
      ...(trims && {
        prepareSendMessagesRequest: ({ messages, body }) => ({ messages: messages.slice(-1), body }),
      }),
    }),
    sendAutomaticallyWhen: (options) => helpers.some((helper) => helper(options)),
    onToolCall: ({ toolCall }) => {
      tell({ called: chat, tool: toolCall });
      const output = tools?.[toolCall.toolName];
      if (output !== undefined) {
        // Not awaited: that is how the SDK wants it.
        made.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output });
      }
    },
    onData: (data) => tell({ data: chat, part: data }),
    onFinish: ({ isAbort, isDisconnect, isError, finishReason }) =>
      tell({ finished: chat, isAbort, isDisconnect, isError, finishReason }),
  });
  watch(chat, made);
  chats[chat] = made;
}

const operations = {
  open,
  send: ({ chat, text, files, ...options }) =>
    chats[chat].sendMessage(text === undefined ? undefined : { text, files }, options),
  again: ({ chat }) => chats[chat].regenerate(),
  resume: ({ chat, options }) => chats[chat].resumeStream(options),
  clear: ({ chat }) => {
    chats[chat].messages = [];
  },
  stop: ({ chat }) => chats[chat].stop(),
  answer: ({ chat, id, approved, reason, options }) =>
    chats[chat].addToolApprovalResponse({ id, approved, reason, options }),
  output: ({ chat, tool, toolCallId, output }) =>
    chats[chat].addToolOutput({ tool, toolCallId, output }),
  cut: ({ chat }) => sockets[chat].terminate(),
  validate: async ({ chat }) => {
    const result = await safeValidateUIMessages({ messages: chats[chat].messages });
    return result.success || String(result.error);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { op, number, ...command } = JSON.parse(line);
  // Commands are not waited for: a chat that streams can be stopped.
  Promise.resolve()
    .then(() => operations[op](command))
    .then(
      (result) => ({ done: number, result }),
      (error) => ({ done: number, failed: String(error) }),
    )
    .then((message) => setImmediate(tell, message)); // behind what it has changed
}
for (const socket of Object.values(sockets)) socket.terminate();
