// Clients of the unmodified ACP SDK, led over standard input: one command a line, in JSON. They
// come over a WebSocket, or start an agent as editors do.
//
// Each update, question and end is told on standard output. What the SDK itself would not take is
// told as `unread`: every update that arrives must come out of it.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import * as version1 from "@agentclientprotocol/sdk";
import * as version2 from "@agentclientprotocol/sdk/experimental/v2";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import WebSocket from "ws";

const { methods, ndJsonStream } = version1;
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

function open({ connection: name, version, url, headers, protocols }) {
  let socket;
  class Socket extends WebSocket {
    constructor(target, names, options) {
      super(target, names, options);
      socket = this;
      this.on("upgrade", ({ headers }) => tell({ upgraded: name, id: headers["acp-connection-id"] }));
      this.on("close", (code, reason) => tell({ closed: name, code, reason: String(reason) }));
    }
  }
  const stream = createWebSocketStream(url, { WebSocket: Socket, headers, protocols });
  connections[name] = { agent: connect(name, stream, version), cut: () => socket.terminate() };
}

function start({ connection: name, version, command, env, cwd, has }) {
  const agent = spawn(command[0], command.slice(1), { env, cwd, stdio: ["pipe", "pipe", "pipe"] });
  let err = "";
  agent.stderr.on("data", (data) => (err += data));
  agent.on("exit", (code, signal) => tell({ exited: name, code, signal, err }));
  agent.stdin.on("error", () => {}); // it was killed
  const stream = ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
  connections[name] = {
    agent: connect(name, stream, version, has),
    cut: () => agent.kill("SIGKILL"),
    close: () => agent.stdin.end(),
    pid: agent.pid,
  };
}

// An editor's files and terminals: `files` by their paths, and programs that it runs itself.
function lend(name, app, { files }) {
  const runs = {};
  const { fs, terminal } = methods.client;
  return app
    .onRequest(fs.readTextFile, ({ params }) => {
      tell({ lent: name, method: "read", ...params });
      return { content: files[params.path] ?? "" };
    })
    .onRequest(fs.writeTextFile, ({ params }) => {
      tell({ lent: name, method: "write", ...params });
      files[params.path] = params.content;
      return {};
    })
    .onRequest(terminal.create, ({ params: { command, args, cwd, env } }) => {
      const id = `mine-${Object.keys(runs).length}`;
      tell({ lent: name, method: "create", terminalId: id, command, args, cwd, variables: env });
      const run = (runs[id] = { output: "" });
      const program = spawn(command, args, { cwd });
      program.stdout.on("data", (data) => (run.output += data));
      run.ended = new Promise((resolve) => program.on("close", (exitCode) => resolve({ exitCode })));
      run.kill = () => program.kill();
      return { terminalId: id };
    })
    .onRequest(terminal.output, ({ params }) => ({
      output: runs[params.terminalId].output,
      truncated: false,
    }))
    .onRequest(terminal.waitForExit, ({ params }) => runs[params.terminalId].ended)
    .onRequest(terminal.kill, ({ params }) => {
      tell({ lent: name, method: "kill", ...params });
      runs[params.terminalId].kill();
      return {};
    })
    .onRequest(terminal.release, ({ params }) => {
      tell({ lent: name, method: "release", ...params });
      return {};
    });
}

function connect(name, stream, version, has) {
  const { client, methods } = version === 2 ? version2 : version1;
  const ask = (kind) => ({ params, signal }) =>
    new Promise((resolve, reject) => {
      const question = questions.push(resolve) - 1;
      signal.addEventListener("abort", () => {
        tell({ withdrawn: name, question });
        reject(signal.reason);
      });
      tell({ asked: name, kind, question, params });
    });
  const app = client({ name: "test" })
    .onNotification(methods.client.session.update, ({ params }) =>
      tell({ update: name, session: params.sessionId, ...params.update }),
    )
    .onRequest(methods.client.session.requestPermission, ask("permission"))
    .onRequest(methods.client.elicitation.create, ask("form"));
  return (has ? lend(name, app, has) : app).connect(watched(name, stream)).agent;
}

const operations = {
  open,
  start,
  close: ({ connection }) => connections[connection].close(),
  pid: ({ connection }) => connections[connection].pid,
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
