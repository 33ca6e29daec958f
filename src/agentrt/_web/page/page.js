// A plain page for trying the protocol `agentrt.v1`: one session at a time, and all that an agent
// wrote is set as text. What it shows is a function of the last snapshot and the events after it.

const $ = (id) => document.getElementById(id);
const clientId = Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join("");
let socket, delay = 250, commands = 0;
let session = null, place = {}, items = new Map(), permissions = new Map(), state = null;

function send(type, fields = {}) {
  socket.send(JSON.stringify({ type, id: `${clientId}:${++commands}`, ...fields }));
}

function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/ws`, ["agentrt.v1"]);
  socket.onopen = () => {
    delay = 250;
    $("status").textContent = "";
    send("hello", { client: clientId, sessions: session ? [{ session, ...place }] : [] });
  };
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    for (const each of Array.isArray(message) ? message : [message]) take(each);
    draw();
  };
  socket.onclose = ({ code, reason }) => {
    $("status").textContent = `not connected (${code}) ${reason}`;
    if (code === 4401 || code === 4403) return;
    setTimeout(connect, delay * (1 + Math.random()));
    delay = Math.min(5000, delay * 2);
  };
}

function take(message) {
  switch (message.type) {
    case "ready":
      fill($("agents"), message.agents.filter((a) => a.available).map((a) => [a.name, a.title || a.name]));
      // falls through: it lists the sessions, too
    case "sessions":
      fill($("sessions"), message.sessions.map((s) => [s.session, s.title || `${s.agent} ${s.session.slice(0, 6)}`]));
      if (message.sessions.length && !message.sessions.some((s) => s.session === session)) attach(message.sessions[0].session);
      break;
    case "snapshot":
      if (message.session !== session) break;
      place = { epoch: message.epoch, seq: message.seq };
      state = message.state;
      items = new Map(message.items.map((item) => [item.id, { ...item }]));
      permissions = new Map(message.permissions.map((p) => [p.request, p]));
      break;
    case "event":
      if (message.session !== session) break;
      place = { epoch: message.epoch, seq: message.seq };
      reduce(message.event);
      break;
    case "ack":
      if (!message.ok) $("status").textContent = message.error.message;
      else if (message.session && message.session !== session) attach(message.session);
  }
}

function reduce(event) {
  switch (event.kind) {
    case "state": state = event.state; break;
    case "item.opened": items.set(event.item.id, { ...event.item }); break;
    case "item.delta": items.get(event.item).text = (items.get(event.item).text ?? "") + event.text; break;
    case "item.updated": Object.assign(items.get(event.item), event.patch); break;
    case "item.closed": items.get(event.item).status = event.status; break;
    case "permission.opened": permissions.set(event.request, event); break;
    case "permission.closed": permissions.delete(event.request); break;
  }
}

function attach(id) {
  if (session && session !== id) send("detach", { session });
  session = id;
  place = {};
  items.clear();
  permissions.clear();
  send("attach", { session });
}

function fill(select, options) {
  select.replaceChildren(...options.map(([value, text]) => new Option(text, value, false, value === session)));
}

function draw() {
  $("phase").textContent = state?.phase ?? "";
  $("stop").disabled = !state?.turn;
  $("items").replaceChildren(...[...items.values()].map((item) => {
    const box = document.createElement("div");
    box.className = item.type;
    const tool = item.tool && `${item.tool.title || item.tool.name} – ${item.status}`;
    box.textContent = tool ?? item.text ?? (item.content ?? []).map((block) => block.text ?? `[${block.type}]`).join("");
    return box;
  }));
  $("permissions").replaceChildren(...[...permissions.values()].map((ask) => {
    const box = document.createElement("div");
    box.append(ask.title, " ", ...ask.options.map((option) => {
      const button = document.createElement("button");
      button.textContent = option.name;
      button.onclick = () => send("permission", { session, request: ask.request, option: option.id });
      return button;
    }));
    return box;
  }));
}

$("form").onsubmit = (event) => {
  event.preventDefault();
  const text = $("prompt").value.trim();
  if (!text || !session) return;
  send("prompt", { session, content: [{ type: "text", text }] });
  $("prompt").value = "";
};
$("stop").onclick = () => send("cancel", { session });
$("new").onclick = () => send("session", { op: "new", agent: $("agents").value, cwd: "." });
$("sessions").onchange = () => attach($("sessions").value);
connect();
