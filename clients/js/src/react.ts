// React hooks. `react` is an optional peer dependency of this package.

import { useEffect, useMemo, useSyncExternalStore } from "react";
import type { AgentClient, ClientState } from "./client.js";
import type { View } from "./reduce.js";
import type { Session } from "./session.js";

/** Return the state of a client, and draw again after each change of it. */
export function useClient<Extra>(client: AgentClient<Extra>): ClientState<Extra> {
  return useSyncExternalStore(client.subscribe, client.getSnapshot, client.getSnapshot);
}

/** A session as a component shows it. */
export interface SessionState {
  /** The commands to the session. */
  session: Session;
  /** The content; null until it has come. */
  view: View | null;
  /** True while a turn runs. */
  busy: boolean;
  /** True if the connection is lost: the content may be out of date. */
  offline: boolean;
  /** True if the server no longer has the session. */
  gone: boolean;
}

/**
 * Attach to a session while the component is shown, and draw again after each change of it. Components
 * that show the same session share it.
 */
export function useSession(client: AgentClient<any>, id: string): SessionState {
  useEffect(() => client.hold(id), [client, id]);
  const session = client.session(id);
  const known = useSyncExternalStore(client.subscribe, session.getSnapshot, session.getSnapshot);
  const status = useSyncExternalStore(client.subscribe, statusOf, statusOf);
  return useMemo(
    () => ({
      session,
      view: known?.view ?? null,
      busy: Boolean(known?.view.state.turn),
      offline: status !== "open",
      gone: known?.gone ?? false,
    }),
    [session, known?.view, known?.gone, status],
  );

  function statusOf() {
    return client.getSnapshot().link.status;
  }
}
