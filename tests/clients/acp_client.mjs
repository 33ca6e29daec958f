// Clients of the unmodified ACP SDK, led over standard input: one command a line, in JSON.
//
// Each update, question and end is told on standard output. What the SDK itself would not take is
// told as `unread`: every update that arrives must come out of it.

import { createInterface } from "node:readline";
import { client, methods } from "@agentclientprotocol/sdk";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import WebSocket from "ws";

const tell = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

const connections = {};
const questions = [];
const aborts = {};

// What has arrived of one connection, before the SDK looks at it.
function watched(name, stream) {
  const readable = stream.readable.pipeThrough(
    new TransformStream({
      transform(message, controller) {
        tell({ raw: name, message });
        controller.enqueue(message);
      },
    }),
  );
  return { readable, writable: stream.writable };
}

function open({ connection: name, url, headers, protocols }) {
  let socket;
  class Socket extends WebSocket {
    constructor(target, names, options) {
      super(target, names, options);
      socket = this;
      this.on("upgrade", ({ headers }) => tell({ upgraded: name, id: headers["acp-connection-id"] }));
      this.on("close", (code, reason) => tell({ closed: name, code, reason: String(reason) }));
    }
  }
  const ask = (kind) => ({ params, signal }) =>
    new Promise((resolve, reject) => {
      const question = questions.push(resolve) - 1;
      signal.addEventListener("abort", () => {
        tell({ withdrawn: name, question });
        reject(signal.reason);
      });
      tell({ asked: name, kind, question, params });
    });
  const stream = createWebSocketStream(url, { WebSocket: Socket, headers, protocols });
  const connection = client({ name: "test" })
    .onNotification(methods.client.session.update, ({ params }) =>
      tell({ update: name, session: params.sessionId, ...params.update }),
    )
    .onRequest(methods.client.session.requestPermission, ask("permission"))
    .onRequest(methods.client.elicitation.create, ask("form"))
    .connect(watched(name, stream));
  connections[name] = { agent: connection.agent, cut: () => socket.terminate() };
}

const operations = {
  open,
  request: ({ connection, method, params, key }) => {
    const controller = new AbortController();
    if (key) aborts[key] = controller;
    const options = key && { cancellationSignal: controller.signal };
    return connections[connection].agent.request(method, params, options);
  },
  notify: ({ connection, method, params }) => connections[connection].agent.notify(method, params),
  answer: ({ question, result }) => questions[question](result),
  abort: ({ key }) => aborts[key].abort(),
  cut: ({ connection }) => connections[connection].cut(),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { op, number, ...command } = JSON.parse(line);
  Promise.resolve()
    .then(() => operations[op](command))
    .then(
      (result) => ({ done: number, result }),
      (error) => ({ done: number, failed: { code: error.code, message: error.message, data: error.data } }),
    )
    .then((message) => setImmediate(tell, message));
}
for (const { cut } of Object.values(connections)) cut();
