// The address of the server, and the key that lets this page in.

/** The page may be below a path of another server. */
export function address() {
  const address = new URL("ws", location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  return address.href;
}

/** The name of the key in `localStorage`, as in `main.js`: other servers of this origin have other paths. */
const keyName = () => `key${new URL(".", location.href).pathname.replace(/^\/$/, "")}`;

/** Read at each attempt: another tab may have got a newer key. */
export const credentials = () => [`agentrt.key.${localStorage.getItem(keyName()) ?? ""}`];
