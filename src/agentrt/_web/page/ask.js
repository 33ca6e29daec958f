// The worker that reads what agents write. What takes it longer than a moment is given up on and
// shown as plain text: the worker is ended, and the next question starts another.

import * as parsers from "./parsers.js";

/** Milliseconds for one text, and for what a parser needs to be loaded. */
const DEADLINE = 1_500;
const LOADING = 20_000;

/** Characters of texts that were given up on, which are remembered. */
const REMEMBERED = 2_000_000;

/** @typedef {"screen" | "colours" | "whole" | "open"} Parser */
/** @typedef {{ name: Parser, given: any[], key: string, done: (found: any) => void }} Question */

/** @type {Question[]} */
const waiting = [];

/** @type {Map<string, number>} */
const hopeless = new Map();

/** @type {Worker | null} */
let worker = null;

/** @type {Question | null} */
let current = null;

let timer = 0;

/**
 * What a parser makes of some text; null if it fails or takes too long.
 * @template {Parser} Name
 * @param {Name} name
 * @param {Parameters<typeof parsers[Name]>} given
 * @returns {Promise<Awaited<ReturnType<typeof parsers[Name]>> | null>}
 */
export function ask(name, ...given) {
  if (typeof Worker === "undefined") return /** @type {any} */ (parsers)[name](...given);
  const key = `${name} ${given.filter((each) => typeof each === "string").join(" ")}`;
  if (hopeless.has(key)) return Promise.resolve(null);
  return new Promise((done) => {
    waiting.push({ name, given, key, done });
    next();
  });
}

function next() {
  if (current) return;
  current = waiting.shift() ?? null;
  if (!current) return;
  worker ??= start();
  timer = window.setTimeout(giveUp, LOADING, false);
  worker.postMessage({ name: current.name, given: current.given });
}

function start() {
  const made = new Worker(address(), { type: "module" });
  made.onmessage = ({ data }) => {
    clearTimeout(timer);
    if (data === "begun") timer = window.setTimeout(giveUp, DEADLINE, true);
    else answer(data.found);
  };
  // While the server is away its files cannot be had; the browser itself says so.
  made.onerror = () => giveUp(false);
  return made;
}

/** @param {boolean} [forGood] whether the same text is not to be tried again */
function giveUp(forGood = true) {
  clearTimeout(timer);
  worker?.terminate();
  worker = null;
  if (!current) return;
  if (!forGood) return answer(null);
  hopeless.set(current.key, current.key.length);
  let size = [...hopeless.values()].reduce((sum, length) => sum + length, 0);
  for (const [key, length] of hopeless) {
    if (size <= REMEMBERED) break;
    hopeless.delete(key);
    size -= length;
  }
  answer(null);
}

/** @param {any} found */
function answer(found) {
  const { done } = /** @type {Question} */ (current);
  current = null;
  done(found);
  next();
}

/** The worker's address, as the page's policy wants it: there is one, and it is never another. */
function address() {
  const url = new URL("worker.js", import.meta.url).href;
  const { trustedTypes } = /** @type {any} */ (window);
  policy ??= trustedTypes?.createPolicy("agentrt-worker", { createScriptURL: () => url });
  return policy ? policy.createScriptURL(url) : url;
}

/** @type {any} */
let policy = null;
