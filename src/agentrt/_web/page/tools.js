// The tools that this page runs for the agents of the sessions that it opens.

/** @type {{ name: string, description: string, input_schema: object, run: () => unknown }[]} */
const OFFERED = [
  {
    name: "page_info",
    description:
      "How the person sees this conversation just now: whether the browser's tab is in sight, the" +
      " size of its window, its language, its time zone and whether it is dark.",
    input_schema: { type: "object", properties: {} },
    run: () => ({
      visible: document.visibilityState === "visible",
      width: innerWidth,
      height: innerHeight,
      language: navigator.language,
      time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
      dark: matchMedia("(prefers-color-scheme: dark)").matches,
    }),
  },
];

export const TOOLS = OFFERED.map(({ name, description, input_schema }) => ({ name, description, input_schema }));

/** The calls that have been answered, so that none is answered twice. */
const answered = new Set();

/**
 * Run the calls that some frames ask for. A call that is another client's is refused there.
 * @param {readonly w.Frame[]} frames
 * @param {Model} model as it is behind these frames
 * @param {(type: string, fields: object) => void} send
 */
export function answerCalls(frames, model, send) {
  for (const frame of frames) {
    if (frame.type === "event" && frame.event.kind === "item.opened") {
      answerCall(frame.session, frame.event.item, send);
    } else if (frame.type === "event" && frame.event.kind === "item.updated") {
      // What was told as the agent's may turn out to be a call of a client's tool.
      const item = model.seats.get(frame.session)?.view.items.get(frame.event.item);
      if (item) answerCall(frame.session, item, send);
    } else if (frame.type === "snapshot") {
      for (const item of frame.items) answerCall(frame.session, item, send);
    }
  }
}

/**
 * @param {string} session
 * @param {w.Item} item
 * @param {(type: string, fields: object) => void} send
 */
function answerCall(session, item, send) {
  if (item.tool?.owner !== "client" || item.status !== "waiting") return;
  const tool = OFFERED.find(({ name }) => name === item.tool?.name);
  const key = `${session} ${item.id}`;
  if (!tool || answered.has(key)) return;
  answered.add(key);
  const text = JSON.stringify(tool.run());
  send("tool_result", { session, item: item.id, content: [{ type: "text", text }] });
}
