// Chats of the unmodified AI SDK, led over standard input: one command a line, in JSON.
//
// Whatever a chat shows is told on standard output whenever it has changed.

import { createInterface } from "node:readline";
import {
  AbstractChat,
  WebSocketChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  safeValidateUIMessages,
} from "ai";
import WebSocket from "ws";

const tell = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

// What a framework's binding gives `AbstractChat`: a place for its state.
class State {
  constructor(name) {
    this.name = name;
    this._messages = [];
    this._status = "ready";
    this._error = undefined;
    this.told = false;
  }
  changed() {
    if (this.told) return;
    this.told = true;
    setImmediate(() => {
      this.told = false;
      tell({
        chat: this.name,
        status: this._status,
        error: this._error && String(this._error.message),
        messages: this._messages,
      });
    });
  }
  get status() { return this._status; }
  set status(status) { this._status = status; this.changed(); }
  get error() { return this._error; }
  set error(error) { this._error = error; this.changed(); }
  get messages() { return this._messages; }
  set messages(messages) { this._messages = messages; this.changed(); }
  pushMessage = (message) => { this._messages = [...this._messages, message]; this.changed(); };
  popMessage = () => { this._messages = this._messages.slice(0, -1); this.changed(); };
  replaceMessage = (index, message) => {
    this._messages = this._messages.with(index, structuredClone(message));
    this.changed();
  };
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {
  constructor({ state, ...init }) {
    super({ ...init, state });
  }
}

const sockets = {};
const chats = {};

function open({ chat, id, url, protocols, headers, body, answers, tools }) {
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
    state: new State(chat),
    transport: new WebSocketChatTransport({ url, protocols, body, webSocket: Socket }),
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
  chats[chat] = made;
}

const operations = {
  open,
  send: ({ chat, text, files, ...options }) =>
    chats[chat].sendMessage(text === undefined ? undefined : { text, files }, options),
  again: ({ chat }) => chats[chat].regenerate(),
  resume: ({ chat }) => chats[chat].resumeStream(),
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
