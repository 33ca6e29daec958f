import { useState } from "react";
import { createRoot } from "react-dom/client";
import { AgentClient, textOf } from "agentrt-client";
import { useClient, useSession } from "agentrt-client/react";

// For this example: a page behind a login gets the address and the token from its own server.
const { server, token } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const client = new AgentClient({ url: server, token, name: "example" }).start();

function App() {
  const { link, sessions, agents } = useClient(client);
  const [id, choose] = useState(null);
  const create = async (agent) => choose((await client.newSession({ agent })).id);
  return (
    <>
      <header>
        <output>{link.status === "refused" ? link.reason : link.status}</output>
        <select value={id ?? ""} onChange={(event) => choose(event.target.value)}>
          <option value="" disabled>Sessions</option>
          {sessions.map((info) => (
            <option key={info.session} value={info.session}>{info.title || info.prompt || info.session}</option>
          ))}
        </select>
        {agents.filter((agent) => agent.available).map(({ name }) => (
          <button key={name} onClick={() => create(name)}>New {name} session</button>
        ))}
      </header>
      {id && <Session key={id} id={id} />}
    </>
  );
}

function Session({ id }) {
  const { session, view, busy, offline } = useSession(client, id);
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  if (!view) return <p>Loading</p>;
  const send = async (event) => {
    event.preventDefault();
    setText("");
    setError("");
    await session.prompt(text).catch((reason) => setError(reason.message));
  };
  return (
    <main>
      {view.earlier && <button onClick={() => session.loadEarlier()}>Earlier turns</button>}
      {[...view.items.values()].map((item) => (
        <article key={item.id} className={item.type}>
          {item.tool ? `${item.tool.title || item.tool.name}: ${item.status ?? "running"}` : textOf(item)}
        </article>
      ))}
      {[...view.permissions.values()].map((request) => (
        <fieldset key={request.request} disabled={offline}>
          <legend>{request.title}</legend>
          <pre>{JSON.stringify(request.detail, null, 2)}</pre>
          {request.options?.map((option) => (
            <button key={option.id} onClick={() => session.answer(request.request, option.id)}>{option.name}</button>
          ))}
        </fieldset>
      ))}
      {error && <p role="alert">{error}</p>}
      <form onSubmit={send}>
        <input value={text} onChange={(event) => setText(event.target.value)} placeholder="Message the agent…" />
        <button disabled={offline || !text}>Send</button>
        <button type="button" disabled={!busy} onClick={() => session.cancel()}>Stop</button>
      </form>
    </main>
  );
}

createRoot(document.getElementById("root")).render(<App />);
