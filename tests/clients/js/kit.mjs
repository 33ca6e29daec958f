// What the tests of agentrt-client share: a client of the site, and control over its connection.

import { afterEach } from "node:test";
import { AgentClient } from "agentrt-client";
import WebSocket from "ws";

const { SITE, TOKEN } = process.env;

/** A WebSocket class that remembers its connections. Frames from the server that `drop` accepts are left out. */
export function sockets() {
  class Socket extends WebSocket {
    constructor(...given) {
      super(...given);
      Socket.made.push(this);
    }
    set onmessage(take) {
      super.onmessage = ({ data }) => {
        const frames = [JSON.parse(data)].flat().filter((frame) => !Socket.drop(frame));
        if (frames.length) take({ data: JSON.stringify(frames) });
      };
    }
    send(text) {
      Socket.sent.push(JSON.parse(text));
      super.send(text);
    }
  }
  return Object.assign(Socket, { made: [], sent: [], drop: () => false });
}

const clients = [];

export function connect(options = {}) {
  const client = new AgentClient({ url: `ws://${SITE}/ws`, token: TOKEN, WebSocket, ...options });
  clients.push(client);
  return client.start();
}

afterEach(() => {
  for (const client of clients) client.close();
});

/** The prompts that a session shows. */
export const prompts = (view) =>
  [...view.items.values()].filter(({ type }) => type === "user").map(({ content }) => content[0].text);

/** The answers that a session shows. */
export const answers = (view) =>
  [...view.items.values()].filter(({ type }) => type === "text").map(({ text }) => text);
