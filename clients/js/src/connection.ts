// The WebSocket. It reconnects by itself, and each command is carried out once, however often the
// connection breaks. It does not interpret frames.

import { CloseCode, type Ack, type CommandRequest, type ReadyFrame, type ResultOf, type ServerFrame } from "./wire.js";

/** Pauses between two attempts, at first and at most. */
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;

/** Time to wait for an answer of a server that may have gone while the machine slept. */
const PROBE_MS = 4_000;

/** Time for a connection to be established. */
const CONNECT_TIMEOUT_S = 15;

const WATCH_INTERVAL_MS = 5_000;

/** Silence after which a connection counts as lost, in beats. */
const SILENT_BEATS = 2.5;

const REFUSED: ReadonlySet<number> = new Set([CloseCode.BAD_REQUEST, CloseCode.UNAUTHORIZED, CloseCode.FORBIDDEN]);

/** Events of a window and of its document after which the connection is checked. */
const WINDOW_EVENTS = ["online", "offline", "pageshow"];
const DOCUMENT_EVENTS = ["visibilitychange", "resume"];

/** The state of a connection. `refused`: the server does not accept this client; it is tried again. */
export interface Link {
  readonly status: "connecting" | "open" | "lost" | "refused" | "closed";
  /** The time at which the server was last heard, in seconds since the Unix epoch. */
  readonly heard: number;
  readonly reason: string;
}

/** The part of a WebSocket that is used. */
export interface Socket {
  onopen: ((event: any) => void) | null;
  onmessage: ((event: any) => void) | null;
  onclose: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
  send(data: string): void;
  close(): void;
}

export type SocketClass = new (url: string, protocols: string[]) => Socket;

export interface ConnectionOptions {
  /** The address of the server's `/ws`, or a function that returns it at each attempt. */
  url: string | (() => string);
  /** The token or another secret as a subprotocol, such as `agentrt.token.…`, at each attempt. */
  credentials?: () => string[];
  /** A random string under which the server remembers answers. Keep it over reloads of a page, but not
   * for two connections at the same time. */
  client?: string;
  /** Called with the name that `hello` is sent under, which changes if a copy of this page uses it. */
  onClient?: (client: string) => void;
  /** The client's name for people. */
  name?: string;
  /** The further fields of `hello`. `looking`: this client may only look on, and must offer no tools. */
  hello: (looking: boolean) => object;
  onFrames: (frames: ServerFrame[]) => void;
  onLink: (link: Link) => void;
  /** Called with each message as it is sent or received. */
  onRaw?: (direction: "in" | "out", text: string) => void;
  /** The WebSocket class. Default: the global one; Node before version 22 has none: use that of `ws`. */
  WebSocket?: SocketClass;
}

interface Pending {
  text: string;
  again: boolean;
  resolve: (ack: Ack<any>) => void;
}

export class Connection {
  link: Link = { status: "connecting", heard: now(), reason: "" };
  readonly #options: ConnectionOptions;
  #socket: Socket | null = null;
  #client: string;
  /** The beginning of the ids of this object's commands: ids are unique per client name. */
  readonly #prefix = newName();
  #commands = 0;
  #greeting = "";
  #beat_s = 15;
  #pause_ms = FIRST_PAUSE_MS;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #watch: ReturnType<typeof setInterval> | undefined;
  #tried = now();
  readonly #pending = new Map<string, Pending>();
  readonly #wake = (event: { type: string }) => {
    if (event.type !== "visibilitychange" || !globalThis.document.hidden) this.probe();
  };

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#client = options.client ?? newName();
  }

  /** Connect, and stay connected until `close`. */
  start(): void {
    if (this.#watch !== undefined) return;
    this.#watch = setInterval(() => this.#check(), WATCH_INTERVAL_MS);
    for (const change of WINDOW_EVENTS) globalThis.addEventListener?.(change, this.#wake);
    for (const change of DOCUMENT_EVENTS) globalThis.document?.addEventListener(change, this.#wake);
    this.#connect();
  }

  /** End the connection for good. Commands without an answer get one with the error code `not_sent`. */
  close(): void {
    clearInterval(this.#watch);
    clearTimeout(this.#retry);
    this.#watch = this.#retry = undefined;
    for (const change of WINDOW_EVENTS) globalThis.removeEventListener?.(change, this.#wake);
    for (const change of DOCUMENT_EVENTS) globalThis.document?.removeEventListener(change, this.#wake);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
    this.#dropPending(() => true);
    this.#report("closed", "");
  }

  /**
   * Send a command and wait for its answer, as long as the network takes. `attach` and `detach` concern
   * this connection and end with it; all others are sent again on the next one. `id`: that of an earlier
   * command that is sent again, for example after `unavailable`. Never rejects: see `ok` and `error`.
   */
  send<const C extends CommandRequest>(command: C, id = `${this.#prefix}:${++this.#commands}`): Promise<Ack<ResultOf<C>>> {
    const { type, ...fields } = command;
    const text = JSON.stringify({ type, id, ...fields });
    const again = type !== "attach" && type !== "detach";
    const open = this.link.status === "open";
    return new Promise((resolve) => {
      if (this.link.status === "closed" || (!again && !open)) return resolve(unsent(id));
      this.#pending.set(id, { text, again, resolve });
      if (open) this.#write(text);
    });
  }

  /** Send a heartbeat, for proxies that close connections on which the client sends nothing. */
  beat(): void {
    if (this.link.status === "open") this.#write('{"type":"beat"}');
  }

  /** Return true if the server has been silent for so long that the connection may be lost. */
  silent(): boolean {
    return now() - this.link.heard > SILENT_BEATS * this.#beat_s;
  }

  /** Check the connection, or try to connect, immediately: the machine may have slept. */
  probe(): void {
    if (this.#watch === undefined) return;
    if (this.#retry !== undefined) {
      this.#connect();
    } else if (this.link.status === "open" && this.silent()) {
      this.reconnect();
    } else if (this.link.status === "open") {
      const socket = this.#socket;
      const { heard } = this.link;
      this.send({ type: "session", op: "list" });
      setTimeout(() => {
        if (socket && socket === this.#socket && this.link.heard === heard) this.reconnect();
      }, PROBE_MS);
    }
  }

  /** Give up the current connection and make another. */
  reconnect(): void {
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
    this.#closed(0, "");
    this.#connect();
  }

  #connect(): void {
    clearTimeout(this.#retry);
    this.#retry = undefined;
    this.#tried = now();
    const { url, credentials, WebSocket: given } = this.#options;
    const Class = given ?? (globalThis.WebSocket as SocketClass | undefined);
    if (!Class) throw new Error("no WebSocket: pass the class of the package `ws` as the option WebSocket");
    const socket = new Class(typeof url === "string" ? url : url(), ["agentrt.v1", ...(credentials?.() ?? [])]);
    this.#socket = socket;
    const mine = () => socket === this.#socket;
    socket.onopen = () => mine() && this.#opened(false);
    socket.onmessage = ({ data }) => mine() && this.#received(String(data));
    socket.onclose = ({ code, reason }) => mine() && this.#closed(code, reason);
    socket.onerror = () => {}; // `close` follows
  }

  #opened(looking: boolean): void {
    this.#options.onClient?.(this.#client);
    this.#greeting = `${this.#prefix}:${++this.#commands}`;
    const { name, hello } = this.#options;
    const about = { client: this.#client, ...(name ? { name } : {}) };
    this.#write(JSON.stringify({ type: "hello", id: this.#greeting, ...about, ...hello(looking) }));
  }

  #received(data: string): void {
    this.#options.onRaw?.("in", data);
    const message = JSON.parse(data) as ServerFrame | ServerFrame[];
    const frames = Array.isArray(message) ? message : [message];
    this.link = { ...this.link, heard: now() };
    const answers: (() => void)[] = [];
    for (const frame of frames) {
      if (frame.type === "ready") this.#ready(frame);
      else if (frame.type === "closing") this.link = { ...this.link, reason: frame.reason };
      else if (frame.type !== "ack") continue;
      else if (frame.id === this.#greeting) {
        if (frame.error?.code === "forbidden") this.#opened(true);
      } else if (frame.id !== null) {
        const command = this.#pending.get(frame.id);
        this.#pending.delete(frame.id);
        if (command) answers.push(() => command.resolve(frame as Ack<any>));
      }
    }
    this.#options.onFrames(frames);
    for (const answer of answers) answer();
  }

  #ready(frame: ReadyFrame): void {
    this.#beat_s = frame.beat_s;
    this.#pause_ms = FIRST_PAUSE_MS;
    this.#report("open", "");
    for (const { text } of this.#pending.values()) this.#write(text);
  }

  #closed(code: number, reason: string): void {
    this.#socket = null;
    this.#dropPending(({ again }) => !again);
    if (code === CloseCode.REPLACED) this.#client = newName(); // this page is a copy of another one
    const refused = REFUSED.has(code);
    this.#report(refused ? "refused" : "lost", reason || this.link.reason);
    // A refused client may be accepted later, with new credentials.
    const pause_ms = refused ? LONGEST_PAUSE_MS : this.#pause_ms * (0.5 + Math.random());
    this.#pause_ms = Math.min(LONGEST_PAUSE_MS, this.#pause_ms * 2);
    this.#retry = setTimeout(() => this.#connect(), pause_ms);
  }

  #dropPending(which: (command: Pending) => boolean): void {
    for (const [id, command] of this.#pending) {
      if (!which(command)) continue;
      this.#pending.delete(id);
      command.resolve(unsent(id));
    }
  }

  /** The server sends a beat if it has nothing else to send, and a network may drop everything silently. */
  #check(): void {
    const late = this.link.status === "open" ? this.silent() : now() - this.#tried > CONNECT_TIMEOUT_S;
    if (this.#socket && late) this.reconnect();
  }

  #report(status: Link["status"], reason: string): void {
    this.link = { status, heard: this.link.heard, reason };
    this.#options.onLink(this.link);
  }

  #write(text: string): void {
    this.#options.onRaw?.("out", text);
    this.#socket?.send(text);
  }
}

const now = (): number => Date.now() / 1000;

const unsent = (id: string): Ack<never> =>
  ({ type: "ack", id, ok: false, error: { code: "not_sent", message: "the connection was lost" } });

/** Return a random string. */
export function newName(): string {
  const numbers = crypto.getRandomValues(new Uint32Array(4));
  return Array.from(numbers, (number) => number.toString(36)).join("");
}
