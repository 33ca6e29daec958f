// A client of an agentrt server: the connection, and a store of what the server has sent.

import { Connection, type Link, type SocketClass } from "./connection.js";
import { EMPTY, NO_OBSERVER, take, without, type Model, type Observer } from "./model.js";
import { shortened, withItem } from "./reduce.js";
import { Session } from "./session.js";
import type {
  Ack, AckFrame, Block, CommandRequest, HelloResult, Item, ResultOf, ServerFrame, SessionNewCommand, ToolOffer,
} from "./wire.js";

/** All that a client knows. It is replaced, never changed. */
export interface ClientState<Extra = undefined> extends Model<Extra> {
  readonly link: Link;
}

/** A tool that this client runs for the agents of the sessions that it opens. */
export interface ClientTool extends ToolOffer {
  /** Run the tool: return its text or blocks, or throw an error that the agent gets. */
  run(input: any): string | Block[] | Promise<string | Block[]>;
}

export interface ClientOptions<Extra = undefined> {
  /** The address of the server's `/ws`, or a function that returns it at each attempt. */
  url: string | (() => string);
  /** The server's token, or a function that returns it at each attempt. */
  token?: string | (() => string);
  /** Further subprotocols with secrets, instead of `token`. */
  credentials?: () => string[];
  /** The client's name for people. */
  name?: string;
  /** A random string under which the server remembers answers. Default: a new one. */
  client?: string;
  onClient?: (client: string) => void;
  tools?: ClientTool[];
  /** Sessions to attach to with each connection, by id, the most important first. */
  sessions?: () => readonly string[];
  /**
   * Milliseconds for which events may be gathered, to be applied together: each time costs as much as
   * the sessions have items. Other frames are applied at once, and the events before them. Default: 0.
   */
  gatherMs?: number;
  /** Derives further values from events. */
  observer?: Observer<Extra>;
  onRaw?: (direction: "in" | "out", text: string) => void;
  /** The WebSocket class. Default: the global one. */
  WebSocket?: SocketClass;
}

/** Sessions that one `hello` may name. */
const MAX_GREETED = 256;

export class AgentClient<Extra = undefined> {
  readonly connection: Connection;
  readonly #options: ClientOptions<Extra>;
  readonly #observer: Observer<Extra>;
  #state: ClientState<Extra>;
  readonly #listeners = new Set<() => void>();
  readonly #handles = new Map<string, Session>();
  /** The number of holders of each session. */
  readonly #held = new Map<string, number>();
  /** The tool calls that were answered. */
  readonly #answered = new Set<string>();

  constructor(options: ClientOptions<Extra>) {
    this.#options = options;
    this.#observer = options.observer ?? (NO_OBSERVER as Observer<any>);
    const { token } = options;
    this.connection = new Connection({
      ...options,
      credentials: options.credentials ?? (token === undefined ? undefined : () => [offered(token)]),
      hello: (looking) => this.#hello(looking),
      onFrames: (frames) => this.#gather(frames),
      onLink: (link) => (this.#flush(), this.#update({ ...this.#state, link })),
    });
    this.#state = { ...(EMPTY as Model<any>), link: this.connection.link };
  }

  /** Connect, and stay connected until `close`. Returns this client. */
  start(): this {
    this.connection.start();
    return this;
  }

  close(): void {
    this.connection.close();
  }

  readonly getSnapshot = (): ClientState<Extra> => this.#state;

  /** Call a function after each change. Returns a function that ends this. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Wait until a condition holds, and return its value. Rejects if the client is closed before. */
  when<T>(condition: (state: ClientState<Extra>) => T | null | undefined | false): Promise<T> {
    return new Promise((resolve, reject) => {
      const check = () => {
        const found = condition(this.#state);
        if (found) resolve(found);
        else if (this.#state.link.status === "closed") reject(new Error("the client is closed"));
        else return;
        stop();
      };
      const stop = this.subscribe(check);
      check();
    });
  }

  /** Send a command and wait for its answer; see `Connection.send`. */
  send<const C extends CommandRequest>(command: C, id?: string): Promise<Ack<ResultOf<C>>> {
    return this.connection.send(command, id);
  }

  /** Open a session and attach to it. Rejects with a `CommandFailed`. */
  async newSession(wanted: Omit<SessionNewCommand, "type" | "op" | "id">): Promise<Session> {
    const { session } = checked(await this.send({ type: "session", op: "new", ...wanted }));
    await this.attach(session);
    return this.session(session);
  }

  /** Return the handle of a session, which is the same object for the same id. */
  session(id: string): Session {
    let handle = this.#handles.get(id);
    if (!handle) this.#handles.set(id, (handle = new Session(this, id)));
    return handle;
  }

  /**
   * Receive a session until `detach`, also over reconnects. Returns the server's answer, or null if the
   * session is attached already, or will be with the connection.
   */
  async attach(id: string): Promise<Ack<ResultOf<{ type: "attach" }>> | null> {
    const known = this.#state.attached.get(id);
    if (known && !known.behind && !known.gone) return null;
    this.#wanted.add(id);
    if (this.#state.link.status !== "open") return null;
    if (this.#greeting?.ids.has(id)) {
      await this.#greeting.answered;
      if (this.#state.attached.has(id) || !this.#wanted.has(id)) return null;
    }
    return this.#attach(id);
  }

  /** Stop receiving a session, and forget it. */
  detach(id: string): void {
    this.#wanted.delete(id);
    void this.send({ type: "detach", session: id });
    this.forget([id]);
  }

  /** Attach to a session until the returned function is called. The last of several holders detaches. */
  hold(id: string): () => void {
    this.#held.set(id, (this.#held.get(id) ?? 0) + 1);
    void this.attach(id);
    let released = false;
    return () => {
      if (released) return;
      released = true;
      const left = (this.#held.get(id) ?? 1) - 1;
      this.#held.set(id, left);
      // A component that is replaced by another one for the same session keeps it.
      queueMicrotask(() => {
        if (this.#held.get(id) !== 0) return;
        this.#held.delete(id);
        this.detach(id);
      });
    };
  }

  /** Forget attached sessions, without a command. */
  forget(ids: readonly string[]): void {
    const attached = new Map(this.#state.attached);
    for (const id of ids) attached.delete(id);
    if (attached.size < this.#state.attached.size) this.#update({ ...this.#state, attached });
  }

  /**
   * Forget the oldest items of a session, except those that are not over and what follows them: about
   * `count` are kept. `Session.loadEarlier` brings them back.
   */
  shorten(id: string, count: number): void {
    const known = this.#state.attached.get(id);
    if (!known || known.gone) return;
    const view = shortened(known.view, count);
    if (view === known.view) return;
    this.#update({ ...this.#state, attached: new Map(this.#state.attached).set(id, { ...known, view }) });
  }

  /** Replace an item, for example by one whose previews were completed. */
  setItem(id: string, item: Item): void {
    const known = this.#state.attached.get(id);
    if (!known?.view.items.has(item.id)) return;
    const view = withItem(known.view, item);
    this.#update({ ...this.#state, attached: new Map(this.#state.attached).set(id, { ...known, view }) });
  }

  /** Replace the values that the observer derives for a session. */
  setExtra(id: string, extra: Extra): void {
    const known = this.#state.attached.get(id);
    if (known) this.#update({ ...this.#state, attached: new Map(this.#state.attached).set(id, { ...known, extra }) });
  }

  /** The sessions that are attached to and have not come yet. */
  readonly #wanted = new Set<string>();
  /** Those with an `attach` that has no answer yet. */
  readonly #attaching = new Set<string>();
  /** The sessions of a `hello` that has no answer yet. */
  #greeting: { ids: Set<string>; answered: Promise<void>; answer: () => void } | undefined;

  async #attach(id: string): Promise<Ack<ResultOf<{ type: "attach" }>>> {
    this.#attaching.add(id);
    const ack = await this.send({ type: "attach", session: id });
    this.#attaching.delete(id);
    if (ack.error?.code === "unknown_session") this.#unknown(id);
    return ack;
  }

  #unknown(id: string): void {
    this.#wanted.delete(id);
    this.#update(without<Extra, ClientState<Extra>>(this.#state, id, this.#observer));
  }

  /** Attach to the wanted sessions that `hello` did not name, or that could not be read then. */
  #greeted(answers: HelloResult["sessions"]): void {
    for (const id of this.#wanted) {
      const answer = answers[id];
      if (answer === "unknown_session") this.#unknown(id);
      else if ((answer === undefined || answer === "unavailable") && !this.#attaching.has(id)) void this.#attach(id);
    }
    this.#greeting?.answer();
    this.#greeting = undefined;
  }

  #hello(looking: boolean): object {
    const { sessions, tools = [] } = this.#options;
    const ids = new Set([...(sessions?.() ?? []), ...this.#state.attached.keys(), ...this.#wanted]);
    const offers = tools.map(({ run: _run, ...offer }) => offer);
    const named = [...ids].filter(Boolean).slice(0, MAX_GREETED);
    this.#greeting?.answer();
    let answer = () => {};
    const answered = new Promise<void>((resolve) => (answer = resolve));
    this.#greeting = { ids: new Set(named), answered, answer };
    return { tools: looking ? [] : offers, sessions: named.map((id) => this.#position(id)) };
  }

  /** A session, and the position up to which it is known. */
  #position(session: string): object {
    const known = this.#state.attached.get(session);
    return known && !known.behind && !known.gone ? { session, epoch: known.epoch, seq: known.seq } : { session };
  }

  #gathered: ServerFrame[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  #gather(frames: ServerFrame[]): void {
    this.#gathered.push(...frames);
    const { gatherMs = 0 } = this.#options;
    if (!gatherMs || frames.some(({ type }) => type !== "event")) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), gatherMs);
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const frames = this.#gathered;
    this.#gathered = [];
    if (frames.length) this.take(frames);
  }

  /** Take frames as if the server had sent them, for example those of a recording. */
  take(frames: ServerFrame[]): void {
    let state = take<Extra, ClientState<Extra>>(this.#state, frames, this.#observer);
    const behind = [...state.attached].filter(([, known]) => known.behind && !known.gone);
    if (behind.length) {
      const attached = new Map(state.attached);
      for (const [id, known] of behind) attached.set(id, { ...known, behind: false });
      state = { ...state, attached };
    }
    this.#update(state);
    for (const [id] of behind) void this.#attach(id);
    for (const id of this.#wanted) if (state.attached.has(id)) this.#wanted.delete(id);
    for (const frame of frames) if (frame.type === "ack" && isGreeting(frame)) this.#greeted(frame.sessions);
    if (frames.some(({ type }) => type === "event" || type === "snapshot")) this.#runTools(state);
  }

  #update(state: ClientState<Extra>): void {
    if (state === this.#state) return;
    this.#state = state;
    for (const listener of [...this.#listeners]) listener();
  }

  /** Run the tools that are called. A call that waits for another client is refused by the server. */
  #runTools(state: ClientState<Extra>): void {
    for (const tool of this.#options.tools ?? []) {
      for (const [session, { view, gone }] of state.attached) {
        if (gone) continue;
        for (const { id, status, tool: call } of view.items.values()) {
          const key = `${session} ${id}`;
          if (status !== "waiting" || call?.owner !== "client" || call.name !== tool.name || this.#answered.has(key)) continue;
          this.#answered.add(key);
          void this.#run(tool, session, id, call.input);
        }
      }
    }
  }

  async #run(tool: ClientTool, session: string, item: string, input: unknown): Promise<void> {
    let content: Block[];
    let error = false;
    try {
      const result = await tool.run(input);
      content = typeof result === "string" ? [{ type: "text", text: result }] : result;
    } catch (reason) {
      content = [{ type: "text", text: String(reason) }];
      error = true;
    }
    await this.send({ type: "tool_result", session, item, content, error });
  }
}

/** A command that the server refused. `code` is one of the error codes, or `not_sent`. */
export class CommandFailed extends Error {
  readonly code: string;
  readonly data: unknown;
  /** The command's id, to send it again. */
  readonly id: string | null;

  constructor(ack: Ack & { ok: false }) {
    super(ack.error.message || ack.error.code);
    this.name = "CommandFailed";
    this.code = ack.error.code;
    this.data = ack.error.data;
    this.id = ack.id;
  }
}

/** Return the answer if the command was carried out; throw a `CommandFailed` if not. */
export function checked<R>(ack: Ack<R>): Ack<R> & { ok: true } {
  if (!ack.ok) throw new CommandFailed(ack);
  return ack;
}

const isGreeting = (ack: AckFrame): ack is AckFrame & HelloResult =>
  "sessions" in ack && !Array.isArray(ack.sessions);

/** Return the subprotocol that carries a token: a browser cannot set headers on a WebSocket. */
export function offered(token: string | (() => string)): string {
  const bytes = new TextEncoder().encode(typeof token === "string" ? token : token());
  const base64 = btoa(String.fromCharCode(...bytes));
  return `agentrt.token.${base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}
