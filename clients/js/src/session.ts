// The commands to one session, and its state.

import { checked, type AgentClient } from "./client.js";
import type { AttachedSession } from "./model.js";
import type { View } from "./reduce.js";
import type { Ack, Block, CancelResult, ContentResult, FileResult, FolderResult, ItemStatus, PromptCommand, PromptResult, FileCommand, TurnRecord, UncommittedResult } from "./wire.js";

/** The end of a prompt's turn. */
export interface TurnEnd extends TurnRecord {
  outcome: NonNullable<TurnRecord["outcome"]>;
}

/** A session of a client. Methods that send a command reject with a `CommandFailed` if it is refused. */
export class Session {
  readonly id: string;
  readonly #client: AgentClient<any>;

  constructor(client: AgentClient<any>, id: string) {
    this.#client = client;
    this.id = id;
  }

  /** The session as far as it is attached. */
  readonly getSnapshot = (): AttachedSession<any> | undefined => this.#client.getSnapshot().attached.get(this.id);

  /** Call a function after each change of this session. Returns a function that ends this. */
  readonly subscribe = (listener: () => void): (() => void) => {
    let last = this.getSnapshot();
    return this.#client.subscribe(() => {
      const next = this.getSnapshot();
      if (next === last) return;
      last = next;
      listener();
    });
  };

  /** The session's content; undefined until it has been attached. */
  get view(): View | undefined {
    return this.getSnapshot()?.view;
  }

  /** Send a prompt, or queue it. */
  async prompt(content: string | Block[], when: PromptCommand["when"] = "queue"): Promise<PromptResult> {
    return checked(await this.#client.send({ type: "prompt", session: this.id, content: blocks(content), when }));
  }

  /** Send a prompt to an idle session, and wait until its turn has ended. Rejects with `busy` if a turn runs. */
  async run(content: string | Block[]): Promise<TurnEnd> {
    const sent = await this.prompt(content, "reject");
    let turn = sent.turn;
    let before: ReadonlySet<string> | undefined;
    const found = await this.#client.when(({ attached }) => {
      const known = attached.get(this.id);
      if (known?.gone) return "gone";
      if (!known || known.seq < sent.seq) return null;
      if (!turn) {
        // The agent is still being started: the next turn is that of this prompt.
        before ??= new Set(known.view.turns.keys());
        turn = [...known.view.turns.keys()].find((id) => !before?.has(id));
      }
      const record = turn ? known.view.turns.get(turn) : undefined;
      return record?.outcome ? (record as TurnEnd) : null;
    });
    if (found === "gone") throw new Error("the session was closed");
    return found;
  }

  /** Cancel a turn, by default the running one. Its `turn.ended` confirms it. The queue is paused. */
  async cancel(turn?: string): Promise<CancelResult> {
    return checked(await this.#client.send({ type: "cancel", session: this.id, ...(turn ? { turn } : {}) }));
  }

  /** Answer a permission request by the id or the kind of an option. */
  async answer(request: string, option: string, note = ""): Promise<void> {
    checked(await this.#client.send({ type: "permission", session: this.id, request, option, note }));
  }

  /** Answer a form. */
  async submit(request: string, content: Record<string, unknown>): Promise<void> {
    checked(await this.#client.send({ type: "permission", session: this.id, request, content }));
  }

  /** Dismiss a request. */
  async dismiss(request: string, note = ""): Promise<void> {
    checked(await this.#client.send({ type: "permission", session: this.id, request, cancel: true, note }));
  }

  /** Resume a paused queue. */
  async resumeQueue(): Promise<void> {
    checked(await this.#client.send({ type: "queue", op: "resume", session: this.id }));
  }

  /** Remove a prompt from the queue. */
  async removeQueued(entry: string): Promise<void> {
    checked(await this.#client.send({ type: "queue", op: "remove", session: this.id, entry }));
  }

  async setMode(mode: string): Promise<void> {
    checked(await this.#client.send({ type: "session", op: "set_mode", session: this.id, mode }));
  }

  async setModel(model: string): Promise<void> {
    checked(await this.#client.send({ type: "session", op: "set_model", session: this.id, model }));
  }

  async rename(title: string): Promise<void> {
    checked(await this.#client.send({ type: "session", op: "rename", session: this.id, title }));
  }

  /** Close the session for all clients. */
  async close(): Promise<void> {
    checked(await this.#client.send({ type: "session", op: "close", session: this.id }));
  }

  /**
   * Load the complete value of a member of which there is only a preview. `at`: its place, which the object
   * that has the member names in `_cut`. Returns a string, or a list or an object.
   */
  async content(at: string): Promise<unknown> {
    let text = "";
    let json = false;
    for (let start: number | null = 0; start !== null; ) {
      const ack: Ack<ContentResult> = await this.#client.send({ type: "content", session: this.id, at, start });
      const piece: ContentResult = checked(ack);
      text += piece.text;
      json = piece.json;
      start = piece.next;
    }
    return json ? JSON.parse(text) : text;
  }

  /** List a folder of the session, by default its working folder. */
  async folder(path = ""): Promise<FolderResult> {
    return checked(await this.#client.send({ type: "folder", session: this.id, path }));
  }

  /** Read a piece of a file in the session's folders, from the byte `start` on. */
  async file(path: string, start = 0, encoding: FileCommand["encoding"] = "text"): Promise<FileResult> {
    return checked(await this.#client.send({ type: "file", session: this.id, path, start, encoding }));
  }

  /** Compare the files of the session's folder with the last git commit. */
  async uncommitted(): Promise<UncommittedResult> {
    return checked(await this.#client.send({ type: "uncommitted", session: this.id }));
  }

  /** Load the turns before those that are shown. Returns false if there are none. */
  async loadEarlier(): Promise<boolean> {
    const before = this.view?.earlier;
    if (!before) return false;
    checked(await this.#client.send({ type: "history", session: this.id, before }));
    return true;
  }
}

const blocks = (content: string | Block[]): Block[] =>
  typeof content === "string" ? [{ type: "text", text: content }] : content;

/** Return the text of an item: that of its blocks, or the text that was streamed. */
export const textOf = (item: { text?: string; content?: Block[]; status?: ItemStatus }): string =>
  (item.text ?? "") + (item.content ?? []).map((block) => (block.type === "text" ? block.text : "")).join("");
