// A terminal without a window: loaded with the first output that moves a cursor or sets a colour.

import headless from "@xterm/headless";

export const { Terminal } = headless;
