// The shapes of `agentrt.v1` (docs/reference/browser-protocol.md). A field that is absent has its default:
// no text, an empty list, null, false.

export as namespace w;

export type Phase = "starting" | "idle" | "running" | "waiting" | "cancelling" | "closed" | "dead";
export type ItemType = "user" | "text" | "thought" | "tool" | "notice" | "task";
export type ItemStatus =
  | "pending" | "waiting" | "running" | "completed" | "failed" | "denied" | "cancelled" | "orphaned";
export type Outcome =
  | "completed" | "cancelled" | "refused" | "limit" | "failed" | "timed_out" | "agent_died";

export interface Failure { code: string; message: string; data?: unknown; cause?: string | null; _cut?: Cuts }

/** A large member of which there is only a preview: `content` returns the rest. */
export interface Cut { at?: string; chars: number; start?: number; json?: boolean }
export type Cuts = Record<string, Cut>;

export type Block =
  | { type: "text"; text: string; _cut?: Cuts }
  | { type: "image"; data: string; mimeType: string; uri?: string | null; _cut?: Cuts }
  | { type: "audio"; data: string; mimeType: string; _cut?: Cuts }
  | { type: "resource_link"; uri: string; name?: string; title?: string | null;
      description?: string | null; mimeType?: string | null; size?: number | null }
  | { type: "resource"; resource: { uri?: string; mimeType?: string; text?: string; blob?: string; _cut?: Cuts }; _cut?: Cuts };

export type ToolContent =
  | { type: "content"; content: Block }
  | { type: "diff"; path: string; newText: string; oldText?: string | null; _cut?: Cuts }
  | { type: "terminal"; terminalId: string };

export interface Location { path: string; line?: number | null }

export interface Tool {
  call?: string; name?: string; kind?: string; title?: string;
  owner?: "agent" | "host" | "client";
  input?: unknown; output?: unknown; locations?: Location[]; content?: ToolContent[]; _cut?: Cuts;
}

export interface Item {
  id: string; type: ItemType; turn?: string | null; parent?: string | null;
  status?: ItemStatus; text?: string; content?: Block[]; tool?: Tool | null;
  message?: string | null; replay?: boolean; _cut?: Cuts;
}

export interface Option { id: string; name: string; kind: string; effect?: string }
export interface Permission {
  kind?: "permission.opened"; request: string; title: string; item?: string | null; detail?: unknown;
  options?: Option[]; expires?: number | null; form?: Schema | null; url?: string | null;
  background?: boolean; orphaned?: boolean; tool?: Tool | null;
}
export interface Schema {
  type?: string; title?: string; description?: string; default?: unknown; format?: string;
  enum?: unknown[]; enumNames?: string[]; oneOf?: { const: unknown; title?: string }[];
  anyOf?: { const: unknown; title?: string }[];
  items?: Schema; properties?: Record<string, Schema>; required?: string[];
  minimum?: number; maximum?: number; minLength?: number; maxLength?: number; pattern?: string;
}

export interface PlanEntry { content: string; status?: string; priority?: string }
export interface Choice { id: string; name: string; description?: string | null }
export interface Setting {
  id: string; name: string; category?: string | null; description?: string | null;
  value: string | boolean; choices?: Choice[];
}
export interface Modes {
  mode?: string | null; modes?: Choice[]; model?: string | null; models?: Choice[];
  options?: Setting[]; unconfirmed?: string[];
}
export interface Command { name: string; description?: string; hint?: string | null }
export interface Task {
  id: string; title?: string; status?: string; turn?: string | null; kind?: string | null;
  detail?: string | null; item?: string | null; _cut?: Cuts;
}
export interface Usage {
  used?: number | null; size?: number | null; input_tokens?: number | null;
  output_tokens?: number | null; total_tokens?: number | null; thought_tokens?: number | null;
  cache_read_tokens?: number | null; cache_write_tokens?: number | null;
  cost?: number | null; currency?: string | null; steps?: number | null;
  models?: { [name: string]: Usage };
}
export interface QueueEntry { id: string; content: Block[]; paused?: boolean; _cut?: Cuts }

export interface Turn {
  id: string; origin: "user" | "agent"; outcome?: Outcome | null;
  by?: "user" | "caller" | "agent" | "budget" | null; stop_reason?: string | null; usage?: Usage | null;
  error?: Failure | null; structured_output?: unknown; _cut?: Cuts;
}
export interface State {
  phase: Phase;
  turn: null | { id: string; origin: "user" | "agent"; since: number; deadline?: number | null;
                 cancel_deadline?: number | null; waits_until?: number };
  agent: { name: string; protocol: "acp" | "claude"; version?: string | null; pid?: number | null;
           alive?: boolean };
  error?: Failure | null;
}

export type Event =
  | { kind: "state"; state: State }
  | { kind: "turn.started"; turn: string; origin: "user" | "agent"; prompt?: Block[] | null }
  | ({ kind: "turn.ended"; turn: string } & Omit<Turn, "id" | "origin">)
  | { kind: "item.opened"; item: Item }
  | { kind: "item.delta"; item: string; text: string }
  | { kind: "item.updated"; item: string; patch: Partial<Item> }
  | { kind: "item.closed"; item: string; status: ItemStatus }
  | (Permission & { kind: "permission.opened" })
  | { kind: "permission.closed"; request: string; outcome: "selected" | "cancelled" | "expired";
      option?: string | null; by?: string; reason?: string; who?: string; via?: string;
      rule?: string }
  | { kind: "queue"; queue: QueueEntry[]; paused?: boolean }
  | { kind: "plan"; plan: PlanEntry[] }
  | { kind: "usage"; usage: Usage }
  | { kind: "modes"; modes: Modes }
  | { kind: "commands"; commands: Command[] }
  | { kind: "title"; title: string | null }
  | { kind: "task"; task: Task }
  | { kind: "notice"; level: "info" | "warning" | "error"; code: string; message: string;
      data?: unknown };

export interface Snapshot {
  session: string; epoch: string; seq: number; state: State; turns: Turn[]; items: Item[];
  permissions: Permission[]; queue: QueueEntry[]; paused?: boolean; plan: PlanEntry[];
  tasks: Task[]; usage: Usage | null; modes: Modes | null; commands: Command[];
  title?: string | null; earlier?: string | null;
}

/** What was shown before the item `before`, at event `seq`. */
export interface History {
  session: string; epoch: string; seq: number; before: string; turns: Turn[]; items: Item[];
  earlier: string | null;
}

export interface Summary {
  session: string; agent: string; cwd: string; title?: string | null; phase: Phase | "stored";
  created: number; prompt?: string; updated?: number | null; forks?: "turn" | "end" | "no" | null; steers?: boolean;
  checkpoints?: boolean; budget?: string; sandbox?: string; roots?: string[];
}
export interface Checkpoint { number: number; when: "before" | "after" | "restore"; session: string; turn: string }
export interface Found { session: Summary; snippet: string }
export interface AgentInfo { name: string; title?: string; available: boolean; unasked_modes?: string[] }
export interface WireRow {
  t: number; kind: string; what: string; detail: string; count: number; took: number | null;
  answer: string; odd: string[];
}
export interface Ack {
  type: "ack"; id: string | null; ok: boolean; error?: Failure; session?: string; turn?: string;
  queued?: number; entry?: string; seq?: number; cancelled?: number; sessions?: unknown;
  at?: string; start?: number; text?: string; next?: number | null; chars?: number; json?: boolean;
  rows?: WireRow[]; checkpoints?: Checkpoint[]; files?: string[]; complete?: boolean; before?: string; found?: Found[]; more?: boolean;
}

export type Frame =
  | { type: "ready"; server: string; protocol: string; role: "controller" | "viewer";
      sessions: Summary[]; agents: AgentInfo[]; beat_s: number; limits: { frame: number } }
  | ({ type: "snapshot" } & Snapshot)
  | { type: "event"; session: string; epoch: string; seq: number; since?: number; event: Event }
  | Ack
  | (Ack & History)
  | { type: "sessions"; sessions: Summary[] }
  | { type: "store"; state: "ok" | "slow" | "failing"; since: number; message?: string }
  | { type: "beat"; sessions: Record<string, { epoch: string; seq: number; phase: Phase }> }
  | { type: "closing"; reason: string };
