// The hook by which the notebook editor marimo shows agents, unmodified, led over standard input:
// one command a line, in JSON.
//
// Whatever it shows is told on standard output whenever React has rendered it.

import { createInterface } from "node:readline";
import { createElement, useEffect } from "react";
import { create } from "react-test-renderer";
import WebSocket from "ws";

const tell = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

// There is no browser here. What the hook has to say of itself is not for standard output.
globalThis.WebSocket = WebSocket;
console.log = () => {};
const { error: complain } = console;
console.error = (what, ...more) => String(what).includes("is deprecated") || complain(what, ...more);

const { mergeToolCalls, useAcpClient } = await import("use-acp");

let shown;
let root;

function Panel({ url, files }) {
  shown = useAcpClient({
    wsUrl: url,
    clientOptions: { readTextFile: async ({ path }) => ({ content: files[path] ?? "" }) },
  });
  const { connectionState, activeSessionId, notifications, pendingPermission, agent } = shown;
  useEffect(() => {
    const updates = notifications.filter((each) => each.type === "session_notification");
    tell({
      shows: connectionState.status,
      ready: agent !== null,
      session: activeSessionId,
      updates: updates.map((each) => each.data.update),
      permission: pendingPermission,
    });
  });
  return null;
}

const operations = {
  open: ({ url, files }) => {
    root = create(createElement(Panel, { url, files }));
  },
  ask: ({ method, params }) => shown.agent[method](params),
  answer: ({ option }) =>
    shown.resolvePermission({ outcome: { outcome: "selected", optionId: option } }),
  close: () => root.unmount(),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { op, number, ...command } = JSON.parse(line);
  // Commands are not waited for: what is asked can be cancelled.
  Promise.resolve()
    .then(() => operations[op](command))
    .then(
      (result) => ({ done: number, result }),
      (error) => ({ done: number, failed: String(error) }),
    )
    .then((message) => setImmediate(tell, message)); // behind what it has changed
}
process.exit();
