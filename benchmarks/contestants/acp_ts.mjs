// The ACP SDK for TypeScript (`@agentclientprotocol/sdk`) on a child's pipes.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";
import { run } from "../harness.mjs";

const require = createRequire(`${process.env.BENCH_NPM}/`);
const acp = await import(pathToFileURL(require.resolve("@agentclientprotocol/sdk")));

class Adapter {
  async open(agent, asks, line) {
    this.child = spawn(`${agent}/fake-acp`, [], { stdio: ["pipe", "pipe", "inherit"] });
    this.exited = new Promise((resolve) => this.child.on("exit", resolve));
    const stream = acp.ndJsonStream(
      Writable.toWeb(this.child.stdin),
      Readable.toWeb(this.child.stdout),
      line ? { maxMessageBytes: line } : undefined,
    );
    this.connection = acp
      .client({ name: "bench" })
      .onRequest(acp.methods.client.session.requestPermission, ({ params }) => ({
        outcome: { outcome: "selected", optionId: params.options[0].optionId },
      }))
      .connect(stream);
    this.agent = this.connection.agent;
    await this.agent.request(acp.methods.agent.initialize, {
      protocolVersion: 1,
      clientCapabilities: {},
    });
    this.session = await this.agent.buildSession("/").start();
  }

  async turn(prompt, seen) {
    const turn = this.session.prompt(prompt);
    turn.catch(() => {}); // it is awaited below
    for (;;) {
      const message = await this.session.nextUpdate();
      if (message.kind === "stop") break;
      const { sessionUpdate, content } = message.update;
      seen.add(sessionUpdate === "agent_message_chunk" ? content.text : content[0].content.text);
      if (seen.slow) await seen.wait();
    }
    await turn;
  }

  async cancel() {
    const params = { sessionId: this.session.sessionId };
    await this.agent.notify(acp.methods.agent.session.cancel, params);
  }

  async close() {
    this.session.dispose();
    this.child.stdin.end();
    this.connection.close?.();
    await this.exited;
  }
}

await run(Adapter);
