// Runs what parsers.js has, away from the page: see ask.js, which ends it when it takes too long.

import * as parsers from "./parsers.js";

/** @type {any} */ (globalThis).window = globalThis; // xterm.js asks it for timers

onmessage = async ({ data: { name, given } }) => {
  const parser = /** @type {any} */ (parsers)[name];
  try {
    await parsers.load(name);
    postMessage("begun");
    postMessage({ found: await parser(...given) });
  } catch (error) {
    console.error(error);
    postMessage({ found: null });
  }
};
