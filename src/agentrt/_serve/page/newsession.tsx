// The form for a new session, which is also the first thing to see.

import { Component } from "preact";
import { ask, newSession } from "./actions.js";
import { copy } from "./code.js";
import { icon, instead } from "./html.js";
import { oneLine } from "./safe.js";
import { model, setUi, ui } from "./store.js";

/** Folders that are offered again. */
const RECENT = 5;

/** The folders of the sessions, the last used first */
function recentFolders(): string[] {
  const sessions = [...model().sessions].sort((a, b) => (b.updated ?? b.created) - (a.updated ?? a.created));
  return [...new Set(sessions.map(({ cwd }) => cwd))].slice(0, RECENT);
}

interface NewSessionProps {
  /** Whether it is the first thing to see. */
  first: boolean;
}

export class NewSession extends Component<NewSessionProps> {
  /** The folder whose folders are listed, once somebody browses. */
  listed: w.FoldersResult | null = null;
  /** Why it is not listed. */
  refused = "";
  input: HTMLInputElement | null = null;

  async browse(path: string) {
    const ack = await ask("folders", { path: path || "." });
    if (ack.ok) this.listed = ack as unknown as w.FoldersResult;
    this.refused = ack.ok ? "" : (ack.error?.message ?? "The server did not answer.");
    if (ack.ok && this.listed) this.take(this.listed.path);
    this.forceUpdate();
  }

  take(path: string) {
    if (this.input) this.input.value = path;
  }

  create = instead(async (event) => {
    const form = new FormData(event.target);
    const text = (name: string) => String(form.get(name) ?? "").trim();
    const [agent, cwd, title, agent_session] = ["agent", "cwd", "title", "agent_session"].map(text);
    const button = event.target.querySelector("[type=submit]");
    button.disabled = true;
    button.textContent = "Starting…";
    setUi({ refused: "" });
    const refused = await newSession({
      agent,
      ...(cwd && { cwd }),
      ...(agent_session ? { agent_session } : title && { title }),
    });
    button.disabled = false;
    button.textContent = "Start";
    if (refused) setUi({ refused });
  });

  render({ first }: NewSessionProps) {
    const agents = model().agents;
    const available = agents.filter((agent) => agent.available);
    const missing = agents.filter((agent) => !agent.available);
    const { refused } = ui();
    const last = model().sessions.find(({ session }) => session === ui().session);
    const recent = recentFolders().filter((path) => path !== last?.cwd);
    return (
      <form class="new-session" onSubmit={this.create}>
        <h2>New session</h2>
        <fieldset class="agents">
          <legend>Agent</legend>
          {available.map((agent, index) => (
            <label key={agent.name}>
              <input
                type="radio"
                name="agent"
                value={agent.name}
                required
                defaultChecked={last ? last.agent === agent.name : index === 0}
              />
              <span>
                <strong>{oneLine(agent.title || agent.name)}</strong>
                <small>{oneLine(agent.name)}</small>
              </span>
            </label>
          ))}
          {available.length === 0 && <p class="hint">No agent is installed. Install one of those below.</p>}
        </fieldset>
        <div class="field">
          <label for="new-cwd">Folder</label>
          <span class="with-button">
            <input
              id="new-cwd"
              name="cwd"
              autocomplete="off"
              spellcheck={false}
              maxLength={1000}
              placeholder="the server's folder"
              defaultValue={last?.cwd ?? ""}
              ref={(input) => void (this.input = input)}
            />
            <button
              type="button"
              aria-expanded={this.listed !== null}
              onClick={() => (this.listed ? ((this.listed = null), this.forceUpdate()) : this.browse(this.input?.value ?? ""))}>
              {icon("folder")}Browse
            </button>
          </span>
          {recent.length > 0 && !this.listed && (
            <span class="recent">
              {recent.map((path) => (
                <button key={path} type="button" class="quiet" title={`Use ${oneLine(path, 500)}`} onClick={() => this.take(path)}>
                  {oneLine(path, 60)}
                </button>
              ))}
            </span>
          )}
          {this.refused && (
            <small role="alert" class="needed">
              {oneLine(this.refused, 300)}
            </small>
          )}
          {this.listed && this.picker(this.listed)}
        </div>
        {Field("title", "Name", "optional")}
        <details class="fold">
          <summary>Resume by agent session ID</summary>
          {Field("agent_session", "Agent session ID")}
        </details>
        <div role="alert">
          {refused && (
            <p class="refused">
              <strong>Couldn't start:</strong> {oneLine(refused, 1000)}
            </p>
          )}
        </div>
        <div class="buttons">
          {!first && (
            <button type="button" onClick={() => setUi({ creating: false })}>
              Cancel
            </button>
          )}
          <button type="submit" class="send" disabled={!available.length}>
            Start
          </button>
        </div>
        {missing.length > 0 && (
          <details class="fold" open={available.length === 0}>
            <summary>{missing.length} more agents available</summary>
            <ul class="installs">
              {missing.map((agent) => (
                <li key={agent.name}>
                  <strong>{oneLine(agent.title || agent.name)}</strong>
                  {agent.install && (
                    <>
                      <code>{oneLine(agent.install, 200)}</code>
                      <button
                        type="button"
                        class="quiet"
                        aria-label={`Copy how to install ${oneLine(agent.title || agent.name)}`}
                        onClick={copy(agent.install)}>
                        Copy
                      </button>
                    </>
                  )}
                </li>
              ))}
            </ul>
            <p class="hint">Install it on the server, then start the server again.</p>
          </details>
        )}
      </form>
    );
  }

  picker({ path, parent, folders, complete }: w.FoldersResult): Shown {
    return (
      <ul class="picker" aria-label={`Folders in ${oneLine(path, 200)}`}>
        {parent !== null && (
          <li>
            <button type="button" class="quiet" onClick={() => this.browse(parent)}>
              .. (up)
            </button>
          </li>
        )}
        {folders.map((name) => (
          <li key={name}>
            <button type="button" class="quiet" onClick={() => this.browse(`${path.replace(/\/$/, "")}/${name}`)}>
              {icon("folder")}
              {oneLine(name, 100)}
            </button>
          </li>
        ))}
        {folders.length === 0 && <li class="hint">No folders in it</li>}
        {!complete && <li class="hint">There are more; type the name.</li>}
      </ul>
    );
  }
}

const Field = (name: string, label: string, hint?: string): Shown => (
  <div class="field">
    <label for={`new-${name}`}>{label}</label>
    <input
      id={`new-${name}`}
      name={name}
      autocomplete="off"
      spellcheck={false}
      maxLength={1000}
      placeholder={hint}
      defaultValue=""
    />
  </div>
);
