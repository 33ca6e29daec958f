// Runs the parsers of parsers.js outside the page: see ask.js, which ends it when it takes too long.

(globalThis as any).window = globalThis; // xterm.js asks it for timers

onmessage = async ({ data: { name, given } }) => {
  let parsers: Record<string, (...given: any[]) => any>;
  try {
    parsers = await import("./parsers.js");
    await parsers.load(name);
  } catch (error) {
    console.info(error); // the network or the server is away
    return postMessage("not loaded");
  }
  postMessage("begun");
  try {
    postMessage({ found: await parsers[name](...given) });
  } catch (error) {
    const deep = error instanceof RangeError; // nested too deeply, as hostile text may be
    (deep ? console.info : console.error)(error);
    postMessage({ found: null });
  }
};

export {};
