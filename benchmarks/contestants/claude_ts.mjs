// `@anthropic-ai/claude-agent-sdk`: one `query` with streamed input for each session.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { run } from "../harness.mjs";

const require = createRequire(`${process.env.BENCH_NPM}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const sdk = await load("@anthropic-ai/claude-agent-sdk");

class Adapter {
  prompts = [];
  wake = () => {};
  ended = false;

  async *input() {
    while (!this.ended) {
      while (this.prompts.length) yield this.prompts.shift();
      await new Promise((resolve) => (this.wake = resolve));
    }
  }

  async open(agent, asks) {
    const options = {
      pathToClaudeCodeExecutable: `${agent}/fake-claude`,
      includePartialMessages: true,
    };
    if (asks === "ask") {
      options.canUseTool = async (name, input) => ({ behavior: "allow", updatedInput: input });
    }
    if (asks === "mcp") {
      const { z } = await load("zod");
      const echo = sdk.tool("echo", "Echo", { text: z.string() }, async ({ text }) => ({
        content: [{ type: "text", text }],
      }));
      options.mcpServers = {
        agentrt: sdk.createSdkMcpServer({ name: "agentrt", tools: [echo] }),
      };
    }
    this.query = sdk.query({ prompt: this.input(), options });
    await this.query.initializationResult();
  }

  async turn(prompt, seen) {
    const message = { role: "user", content: prompt };
    this.prompts.push({ type: "user", message, parent_tool_use_id: null, session_id: "" });
    this.wake();
    for (;;) {
      const { value, done } = await this.query.next();
      if (done) throw new Error("the stream has ended");
      if (value.type === "result") return;
      const texts = this.texts(value);
      for (const text of texts) seen.add(text);
      if (seen.slow && texts.length) await seen.wait();
    }
  }

  texts({ type, event, message }) {
    if (type === "stream_event") return [event.delta.text];
    if (type !== "assistant" && type !== "user") return [];
    return message.content.flatMap((block) => {
      if (block.type === "text") return [block.text];
      return block.type === "tool_result" ? [block.content] : [];
    });
  }

  async cancel() {
    await this.query.interrupt();
  }

  async close() {
    this.ended = true;
    this.wake();
    await this.query.return();
  }
}

await run(Adapter);
