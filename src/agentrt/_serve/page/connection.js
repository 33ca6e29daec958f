// The WebSocket: it comes back by itself, and each command is carried out once, however often the
// connection breaks. It knows nothing of what the frames mean.

/** Milliseconds between two attempts, at first and at most. */
const DELAY = 250;
const LONGEST = 5_000;

/** Milliseconds to wait for the answer of a server that may have gone while the machine slept. */
const PROBE = 4_000;

/** Seconds for a connection to come about. */
const PATIENCE = 15;

const REFUSED = new Set([4400, 4401, 4403]);
const REPLACED = 4409;

export class Connection {
  /** @param {Wiring} wiring */
  constructor(wiring) {
    this.wiring = wiring;
    /** @type {Link} */
    this.link = { status: "connecting", heard: now(), reason: "" };
    /** Seconds between two beats of the server. */
    this.beat = 15;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.delay = DELAY;
    this.timer = 0;
    this.tried = now();
    this.client = sessionStorage.getItem("client") ?? newName();
    this.load = newName();
    this.greeting = "";
    this.commands = 0;
    /** @type {Map<string, { text: string, again: boolean, resolve: (ack: w.Ack) => void }>} */
    this.pending = new Map();
  }

  start() {
    setInterval(() => this.watch(), 5_000);
    for (const change of ["online", "offline", "pageshow"]) addEventListener(change, () => this.probe());
    document.addEventListener("visibilitychange", () => document.hidden || this.probe());
    document.addEventListener("resume", () => this.probe());
    this.connect();
  }

  /**
   * Send a command; the answer may take as long as the network does. `attach` and `detach` are
   * about this connection and end with it; all others are sent again on the next one.
   * @param {string} type
   * @param {object} [fields]
   * @returns {Promise<w.Ack>}
   */
  send(type, fields = {}) {
    const id = `${this.load}:${++this.commands}`;
    const text = JSON.stringify({ type, id, ...fields });
    const again = type !== "attach" && type !== "detach";
    return new Promise((resolve) => {
      if (!again && this.link.status !== "open") return resolve(unsent(id));
      this.pending.set(id, { text, again, resolve });
      if (this.link.status === "open") this.write(text);
    });
  }

  connect() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.tried = now();
    const address = new URL("ws", location.href); // it may be below a path of somebody else's server
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address, protocols());
    this.socket = socket;
    socket.onopen = () => this.opened();
    socket.onmessage = ({ data }) => {
      if (socket === this.socket) this.received(data);
    };
    socket.onclose = ({ code, reason }) => {
      if (socket === this.socket) this.closed(code, reason);
    };
  }

  /** @param {boolean} [looking] whether this browser may only look on, and offer no tools */
  opened(looking = false) {
    sessionStorage.setItem("client", this.client);
    this.greeting = `${this.load}:${++this.commands}`;
    this.write(JSON.stringify({ type: "hello", id: this.greeting, client: this.client, name: "page", ...this.wiring.hello(looking) }));
  }

  /** @param {string} data */
  received(data) {
    this.wiring.onRaw("in", data);
    const message = JSON.parse(data);
    /** @type {w.Frame[]} */
    const frames = Array.isArray(message) ? message : [message];
    this.link.heard = now();
    for (const frame of frames) {
      if (frame.type === "ready") this.ready(frame.beat_s);
      else if (frame.type === "closing") this.link.reason = frame.reason;
      else if (frame.type === "ack" && frame.id === this.greeting) {
        if (frame.error?.code === "forbidden") this.opened(true);
      } else if (frame.type === "ack" && frame.id) {
        const command = this.pending.get(frame.id);
        this.pending.delete(frame.id);
        command?.resolve(frame);
      }
    }
    this.wiring.onFrames(frames);
  }

  /** @param {number} beat */
  ready(beat) {
    this.beat = beat;
    this.delay = DELAY;
    this.say("open", "");
    for (const { text } of this.pending.values()) this.write(text);
  }

  /** @param {number} code @param {string} reason */
  closed(code, reason) {
    this.socket = null;
    for (const [id, command] of this.pending) {
      if (command.again) continue;
      this.pending.delete(id);
      command.resolve(unsent(id));
    }
    if (code === REPLACED) this.client = newName(); // this tab is a copy of another one
    const refused = REFUSED.has(code);
    this.say(refused ? "refused" : "lost", reason || this.link.reason);
    // A refused browser may be let in later: its cookie and key come with the server's new link.
    const wait = refused ? LONGEST : this.delay * (0.5 + Math.random());
    this.delay = Math.min(LONGEST, this.delay * 2);
    this.timer = setTimeout(() => this.connect(), wait);
  }

  /** Give up a connection that only seems to be one, and make another. */
  reconnect() {
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.closed(0, "");
    this.connect();
  }

  /** The server beats while it has nothing to say, and a network may swallow what is said to it. */
  watch() {
    const late = this.link.status === "open" ? this.silent() : now() - this.tried > PATIENCE;
    if (this.socket && late) this.reconnect();
  }

  /** The machine may have slept, or the network have changed: is the server still there? */
  probe() {
    if (this.timer) {
      this.connect();
    } else if (this.link.status === "open" && this.silent()) {
      this.reconnect();
    } else if (this.link.status === "open") {
      const socket = this.socket;
      const heard = this.link.heard;
      this.send("session", { op: "list" });
      setTimeout(() => {
        if (socket === this.socket && this.link.heard === heard) this.reconnect();
      }, PROBE);
    }
  }

  /** Whether nothing has come for so long that what is shown may be untrue. */
  silent() {
    return now() - this.link.heard > 2.5 * this.beat;
  }

  /** @param {Link["status"]} status @param {string} reason */
  say(status, reason) {
    this.link = { status, heard: this.link.heard, reason };
    this.wiring.onLink(this.link);
  }

  /** @param {string} text */
  write(text) {
    this.wiring.onRaw("out", text);
    this.socket?.send(text);
  }
}

/** The name of the key in `localStorage`, as in `main.js`: other servers of this origin have other paths. */
const keyName = () => `key${new URL(".", location.href).pathname.replace(/^\/$/, "")}`;

/** The protocol, and the key that lets this page in: another tab may have got a newer one. */
const protocols = () => ["agentrt.v1", `agentrt.key.${localStorage.getItem(keyName()) ?? ""}`];

/** @type {() => number} */
const now = () => Date.now() / 1000;

/** @type {(id: string) => w.Ack} */
const unsent = (id) => ({ type: "ack", id, ok: false, error: { code: "not_sent", message: "" } });

/** A word that nobody else has. */
function newName() {
  const numbers = crypto.getRandomValues(new Uint32Array(4));
  return Array.from(numbers, (number) => number.toString(36)).join("");
}
