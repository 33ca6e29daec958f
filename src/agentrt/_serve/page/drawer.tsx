// The drawer of raw frames.

import { Component } from "preact";
import { ask } from "./actions.js";
import { copyText } from "./clipboard.js";
import { Dialog } from "./dialog.js";
import { frames } from "./frames.js";
import { plain } from "./safe.js";
import { model, setUi, ui } from "./store.js";

/** What went over one of the two wires, the newest first. */
export class Frames extends Component {
  state = { agent: false };

  render() {
    const { agent } = this.state;
    const side = (of: boolean, words: string) => (
      <button aria-pressed={agent === of} onClick={() => this.setState({ agent: of })}>
        {words}
      </button>
    );
    return (
      <Dialog label="Protocol log" kind="drawer" onClose={() => setUi({ panel: null })}>
        <div class="sides">
          {side(false, "This page and the server")}
          {model().server?.role !== "viewer" && ui().session && side(true, "The server and the agent")}
        </div>
        {agent ? <AgentWire /> : PageWire()}
      </Dialog>
    );
  }
}

/** The server listens while somebody looks. */
class AgentWire extends Component {
  state: { rows: w.WireRow[] | null } = { rows: null };
  looking = true;

  componentDidMount() {
    this.look();
  }

  componentWillUnmount() {
    this.looking = false;
  }

  async look() {
    const ack = await ask("wire", { session: ui().session });
    if (!this.looking) return;
    if (ack.ok && ack.rows) this.setState({ rows: ack.rows });
    setTimeout(() => this.looking && this.look(), 1000);
  }

  render() {
    const { rows } = this.state;
    const copy = () => {
      const lines = (rows ?? []).map((row) => `${time(row.t)} ${HEADS[row.kind] ?? "the process"}: ${described(row)}`);
      copyText(lines.join("\n"));
    };
    return (
      <section>
        <header>
          <h2>Agent protocol log</h2>
          <span>{rows?.length ? `last ${rows.length} rows` : rows ? "recording from now on" : "connecting…"}</span>
          {rows && rows.length > 0 && <button onClick={copy}>Copy all</button>}
        </header>
        <ol class="frames" tabIndex={0}>
          {[...(rows ?? [])].reverse().map((row) => (
            <li key={`${row.t} ${row.what}`} class={row.kind === "sent" ? "out" : "in"}>
              <time>{new Date(row.t * 1000).toLocaleTimeString()}</time>
              <b>{HEADS[row.kind] ?? "the process"}</b>
              <code>{plain(described(row))}</code>
            </li>
          ))}
        </ol>
      </section>
    );
  }
}

const HEADS: Record<string, string> = {
  sent: "to the agent",
  received: "from the agent",
  stderr: "its standard error",
};

const time = (at: number): string => new Date(at * 1000).toISOString();

function described({ kind, what, detail, count, took, answer, odd }: w.WireRow) {
  const words = [kind === "stderr" ? "" : what, count > 1 && `×${count}`, detail];
  if (took != null)
    words.push(
      `${answer && `⇒ ${answer} `}after ${took < 1 ? `${Math.round(took * 1000)} ms` : `${took.toFixed(1)} s`}`,
    );
  return [...words, ...odd.map((each) => `⚠ ${each}`)].filter(Boolean).join("  ");
}

function PageWire() {
  const all = frames();
  const copy = () => {
    const lines = all.map(({ at, direction, text }) => `${time(at)} ${direction} ${text}`);
    copyText(lines.join("\n"));
  };
  return (
    <section>
      <header>
        <h2>Protocol log</h2>
        <span>last {all.length} frames</span>
        <button onClick={copy}>Copy all</button>
      </header>
      <ol class="frames" tabIndex={0}>
        {[...all]
          .reverse()
          .slice(0, 150)
          .map((frame) => (
            <li key={frame.id} class={frame.direction}>
              <time>{new Date(frame.at * 1000).toLocaleTimeString()}</time>
              <b>{frame.direction === "in" ? "from the server" : "to the server"}</b>
              <code>{plain(frame.text)}</code>
            </li>
          ))}
      </ol>
    </section>
  );
}
