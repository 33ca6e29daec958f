// Runs the parsers of parsers.js outside the page: see ask.js, which ends it when it takes too long.

import * as parsers from "./parsers.js";

/** @type {any} */ (globalThis).window = globalThis; // xterm.js asks it for timers

onmessage = async ({ data: { name, given } }) => {
  const parser = /** @type {any} */ (parsers)[name];
  try {
    await parsers.load(name);
  } catch (error) {
    console.info(error); // the network or the server is away
    return postMessage("not loaded");
  }
  postMessage("begun");
  try {
    postMessage({ found: await parser(...given) });
  } catch (error) {
    console.error(error);
    postMessage({ found: null });
  }
};
