// What the AI SDK makes of chunks: on each line of standard input a message's parts and the chunks
// of one stream, on each line of the output the parts afterwards and what was wrong.

import { createInterface } from "node:readline";
import { readUIMessageStream, safeValidateUIMessages, uiMessageChunkSchema } from "ai";
import { safeValidateTypes } from "@ai-sdk/provider-utils";

for await (const line of createInterface({ input: process.stdin })) {
  const { parts, chunks } = JSON.parse(line);
  const errors = [];
  for (const value of chunks) {
    const valid = await safeValidateTypes({ value, schema: uiMessageChunkSchema });
    if (!valid.success) errors.push(`${JSON.stringify(value)}: ${valid.error}`);
  }
  // The id is that of the start chunk: with another one a message would begin anew.
  let message = { id: chunks[0].messageId, role: "assistant", parts };
  const stream = ReadableStream.from(chunks);
  const onError = (error) => errors.push(error.message);
  for await (message of readUIMessageStream({ message, stream, onError }));
  if (message.parts.length) {
    const valid = await safeValidateUIMessages({ messages: [message] });
    if (!valid.success) errors.push(String(valid.error));
  }
  console.log(JSON.stringify({ parts: message.parts, errors }));
}
