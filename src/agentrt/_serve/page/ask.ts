// The worker that parses the text of agents. A text that takes it longer than a moment is given up on
// and shown as plain text: the worker is ended, and the next question starts another. If the worker
// or a parser cannot be loaded, because the network or the server is away, the questions wait and
// their texts are plain until it can.

import type * as parsers from "./parsers.js";

/** Milliseconds for one text, and for loading a parser. */
const DEADLINE = 1_500;
const LOADING = 20_000;

/** Milliseconds before the first and before the later attempts to load after one that failed. */
const RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 10_000;

/** Characters of texts that were given up on, which are remembered. */
const REMEMBERED = 2_000_000;

type Parser = "screen" | "colours" | "review" | "math" | "whole" | "open";
type Question = { name: Parser; given: any[]; key: string; done: (found: any) => void };

const waiting: Question[] = [];

const hopeless: Map<string, number> = new Map();

let worker: Worker | null = null;

let current: Question | null = null;

let timer = 0;

/** Whether the parser of the current question is loaded. */
let begun = false;

let delay = RETRY_MS;

/** The timer of the next attempt to load; 0 if the last one did not fail. */
let retry = 0;

/** Whether the parsers could not be loaded, so that answers may take long. */
export const unloaded = () => delay > RETRY_MS;

/** The result of a parser for some text; null if it fails or takes too long. */
export function ask<Name extends Parser>(
  name: Name,
  ...given: Parameters<(typeof parsers)[Name]>
): Promise<Awaited<ReturnType<(typeof parsers)[Name]>> | null> {
  if (typeof Worker === "undefined") return direct(name, given);
  const key = `${name} ${given.filter((each) => typeof each === "string").join(" ")}`;
  if (hopeless.has(key)) return Promise.resolve(null);
  return new Promise((done) => {
    waiting.push({ name, given, key, done });
    next();
  });
}

/** The answer where there are no workers. */
async function direct(name: Parser, given: any[]) {
  const found: Record<Parser, (...given: any[]) => any> = await import("./parsers.js");
  return found[name](...given);
}

function next() {
  if (current || retry) return;
  current = waiting.shift() ?? null;
  if (!current) return;
  begun = false;
  timer = window.setTimeout(putOff, LOADING);
  try {
    worker ??= start();
  } catch (error) {
    console.info(error);
    return putOff();
  }
  worker.postMessage({ name: current.name, given: current.given });
}

function start() {
  const made = new Worker(address(), { type: "module" });
  made.onmessage = ({ data }) => {
    if (made !== worker) return;
    clearTimeout(timer);
    if (data === "not loaded") return putOff();
    if (data !== "begun") return answer(data.found);
    begun = true;
    delay = RETRY_MS;
    timer = window.setTimeout(giveUp, DEADLINE);
  };
  made.onerror = () => {
    if (made !== worker) return;
    if (!begun) return putOff();
    end();
    if (current) answer(null);
  };
  return made;
}

function end() {
  clearTimeout(timer);
  worker?.terminate();
  worker = null;
}

/** Ask the current question again later, with another worker. */
function putOff() {
  end();
  if (current) waiting.unshift(current);
  current = null;
  retry = window.setTimeout(() => {
    retry = 0;
    next();
  }, delay);
  delay = Math.min(2 * delay, LONGEST_RETRY_MS);
}

/** Do not ask the current question again. */
function giveUp() {
  end();
  if (!current) return;
  hopeless.set(current.key, current.key.length);
  let size = [...hopeless.values()].reduce((sum, length) => sum + length, 0);
  for (const [key, length] of hopeless) {
    if (size <= REMEMBERED) break;
    hopeless.delete(key);
    size -= length;
  }
  answer(null);
}

function answer(found: any) {
  const { done } = current as Question;
  current = null;
  done(found);
  next();
}

/** The worker's address, as a trusted type; the page's policy allows no other. */
function address() {
  const url = new URL("worker.js", import.meta.url).href;
  const { trustedTypes } = window as any;
  policy ??= trustedTypes?.createPolicy("agentrt-worker", { createScriptURL: () => url });
  return policy ? policy.createScriptURL(url) : url;
}

let policy: any = null;
