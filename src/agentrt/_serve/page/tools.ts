// The tool that this page runs for the agents of the sessions that it opens.

export const TOOL = {
  name: "page_info",
  description:
    "How the person sees this conversation just now: whether the browser's tab is in sight, the" +
    " size of its window, its language, its time zone and whether it is dark.",
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
