// The tool that this page runs for the agents of the sessions that it opens.

export const TOOL = {
  name: "page_info",
  description:
    "How the person sees this conversation just now: whether the browser's tab is in sight, the" +
    " size of its window, its language, its time zone and whether it is dark.",
  input_schema: { type: "object", properties: {} },
};

const run = () => ({
  visible: document.visibilityState === "visible",
  width: innerWidth,
  height: innerHeight,
  language: navigator.language,
  time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  dark: matchMedia("(prefers-color-scheme: dark)").matches,
});

/** The calls that have been answered, so that none is answered twice. */
const answered = new Set();

/**
 * Answer the calls that wait. One that waits for another client is refused by the server.
 * @param {Model} model
 * @param {(type: string, fields: object) => void} send
 */
export function answerCalls(model, send) {
  for (const [session, { view, gone }] of model.seats) {
    if (gone) continue;
    for (const { id, status, tool } of view.items.values()) {
      const key = `${session} ${id}`;
      if (status !== "waiting" || tool?.owner !== "client" || tool.name !== TOOL.name || answered.has(key)) continue;
      answered.add(key);
      send("tool_result", { session, item: id, content: [{ type: "text", text: JSON.stringify(run()) }] });
    }
  }
}
