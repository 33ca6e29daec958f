// Chats of the AI SDK on an agentrt server. `ai` is an optional peer dependency of this package.

import { WebSocketChatTransport, type AbstractChat, type UIMessage } from "ai";
import { offered, type AgentClient } from "./client.js";
import { isOver, type View } from "./reduce.js";

type TransportOptions<M extends UIMessage> = ConstructorParameters<typeof WebSocketChatTransport<M>>[0];

/** A transport for the server's `/ai`: the SDK's own, with the token, and without the earlier messages. */
export function agentrtTransport<M extends UIMessage = UIMessage>(
  options: Omit<TransportOptions<M>, "protocols" | "prepareSendMessagesRequest"> & { token?: string },
): WebSocketChatTransport<M> {
  const { token, ...rest } = options;
  return new WebSocketChatTransport<M>({
    ...rest,
    ...(token === undefined ? {} : { protocols: ["agentrt.ai", offered(token)] }),
    prepareSendMessagesRequest: ({ messages, body }) => ({ messages: messages.slice(-1), body }),
  } as TransportOptions<M>);
}

export interface FollowedChat {
  /** Stop the turn of the chat's message, also while a question or a tool call waits, and show its end. */
  stop(): Promise<void>;
  /** End following. */
  dispose(): void;
}

export interface FollowOptions {
  /** Show turns that other clients start, with their prompts. Default: true. */
  turns?: boolean;
  /** Called with errors of resuming. Default: they are ignored, and resuming is tried at the next change. */
  onError?: (error: unknown) => void;
}

interface Part {
  type: string;
  state?: string;
  toolCallId?: string;
  approval?: { id: string };
}

/**
 * Keep a chat up to date with its session, which other clients may change at any time.
 *
 * The AI SDK learns nothing while it is not streaming. This resumes the chat's message if the session has
 * changed in the meantime: if another client cancels the turn while a tool of the application or a question
 * waits, if another client answers the question, or if another client starts a turn. `client` is a client of
 * the same server's `/ws`.
 */
export function followChat<M extends UIMessage>(
  chat: AbstractChat<M>,
  client: AgentClient<any>,
  { turns = true, onError = () => {} }: FollowOptions = {},
): FollowedChat {
  let release: (() => void) | undefined;
  let session: string | undefined;
  let resuming = false;
  let stopping = false;
  let tried = "";

  const resume = async (options?: object) => {
    resuming = true;
    try {
      await chat.resumeStream(options as Parameters<typeof chat.resumeStream>[0]);
    } catch (error) {
      onError(error);
    } finally {
      resuming = false;
    }
  };

  const check = () => {
    const found = sessionOf(chat.messages) ?? (client.getSnapshot().sessions.some((each) => each.session === chat.id) ? chat.id : undefined);
    if (found !== session) {
      release?.();
      session = found;
      release = found === undefined ? undefined : client.hold(found);
    }
    if (session === undefined || resuming || stopping || (chat.status !== "ready" && chat.status !== "error")) return;
    const known = client.getSnapshot().attached.get(session);
    if (!known || known.gone) return;
    const key = `${known.epoch} ${known.seq}`;
    if (key === tried) return;
    const started = turns ? unseenTurn(chat.messages, known.view) : undefined;
    if (started === undefined && !isBehind(chat.lastMessage, known.view)) return;
    tried = key;
    if (started !== undefined) showPrompt(chat, known.view, started);
    void resume().then(check);
  };

  const forget = client.subscribe(check);
  const timer = setInterval(check, CHECK_INTERVAL_MS);
  check();
  return {
    async stop() {
      stopping = true;
      try {
        await chat.stop();
        await resume({ body: { stop: true } });
      } finally {
        stopping = false;
      }
      check();
    },
    dispose() {
      forget();
      clearInterval(timer);
      release?.();
    },
  };
}

/** Between two looks at a chat: a chat does not report that it has ended its streaming. */
const CHECK_INTERVAL_MS = 500;

const metadataOf = (message: UIMessage | undefined): { session?: string; turn?: string } =>
  message?.role === "assistant" ? ((message.metadata ?? {}) as { session?: string; turn?: string }) : {};

const sessionOf = (messages: readonly UIMessage[]): string | undefined => {
  const last = messages.findLast((message) => metadataOf(message).session !== undefined);
  return last && metadataOf(last).session;
};

/** True if a message shows something as open that is over in the session. */
function isBehind(message: UIMessage | undefined, view: View): boolean {
  const turn = metadataOf(message).turn;
  if (!message || turn === undefined) return false;
  const open = (message.parts as Part[]).filter(({ state }) => state === "input-available" || state === "approval-requested");
  const ended = Boolean(view.turns.get(turn)?.outcome);
  return open.some(({ state, toolCallId, approval }) => {
    if (ended) return true;
    if (state === "approval-requested" && approval) return !view.permissions.has(approval.id);
    const item = toolCallId === undefined ? undefined : view.items.get(toolCallId);
    return item !== undefined && isOver(item);
  });
}

/** The running turn, if another client has started it and no message shows it. */
function unseenTurn(messages: readonly UIMessage[], view: View): string | undefined {
  const running = view.state.turn?.id;
  if (running === undefined || messages.some((message) => metadataOf(message).turn === running)) return undefined;
  return running;
}

/** Add the prompt of a turn, as a message of the user. */
function showPrompt<M extends UIMessage>(chat: AbstractChat<M>, view: View, turn: string): void {
  const prompt = [...view.items.values()].find((item) => item.type === "user" && item.turn === turn);
  if (!prompt || chat.messages.some(({ id }) => id === prompt.id)) return;
  const parts = (prompt.content ?? []).flatMap((block) => (block.type === "text" ? [{ type: "text", text: block.text }] : []));
  if (prompt.text) parts.push({ type: "text", text: prompt.text });
  chat.messages = [...chat.messages, { id: prompt.id, role: "user", parts } as unknown as M];
}

