// The tool that this page runs for the agents of the sessions that it opens.

export const TOOL = {
  name: "page_info",
  description:
    "Report how the user views this conversation: if the browser tab is visible, the size of its" +
    " window, its language and time zone, and if it is dark.",
  input_schema: { type: "object", properties: {} },
  run: () =>
    JSON.stringify({
      visible: document.visibilityState === "visible",
      width: innerWidth,
      height: innerHeight,
      language: navigator.language,
      time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
      dark: matchMedia("(prefers-color-scheme: dark)").matches,
    }),
};
