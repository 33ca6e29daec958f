// The contents of a permission request, as an ordered list of labelled parts. The terminal has the
// same rules (`_core/model/request_parts.py`, where they are explained); the tests compare both.

import { reveal } from "./reveal.js";

/** Characters of a title that the heading shows; a longer one is a part as well. */
export const TITLE = 200;

/** Characters of an argument from which on it is not shown again when another part has it. */
const REPEATED = 20;

/** Levels of nesting that are taken apart; deeper values are shown as JSON. */
const DEEPEST = 32;

/** Kinds of tools that every interface shows in its own way. */
const KINDS = new Set(["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other", ""]);

const NAME = /^[A-Za-z_][A-Za-z0-9_-]*$/;
const BASE64 = /^[A-Za-z0-9+/_ \t\r\n-]*=*$/;
const UNEVEN = /^ | $|[\n\t]| {2}/;

/** @type {(ask: w.PermissionOpened, item: w.Item | undefined) => RequestPart[]} */
export function requestParts(ask, item) {
  const parts = new Parts();
  parts.take(ask, ask.tool ?? item?.tool ?? {}); // the item may be a preview
  return parts.all;
}

const FORM = new Set(["type", "properties", "required", "$schema"]);
const FIELD = new Set([
  ...["type", "title", "description", "default", "enum", "enumNames", "oneOf", "anyOf", "items"],
  ...["format", "minimum", "maximum", "minLength", "maxLength"],
]);

/** @type {(form: w.FormSchema) => RequestPart[]} the parts of a form that its fields do not show */
export function formParts(form) {
  const parts = new Parts();
  for (const [name, value] of Object.entries(form)) if (!FORM.has(name)) parts.leaves(key(name), value);
  for (const [name, schema] of Object.entries(form.properties ?? {})) {
    for (const [each, value] of Object.entries(schema ?? {})) if (!FIELD.has(each)) parts.leaves(key(name) + dotted(each), value);
  }
  return parts.all;
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @type {(text: string) => number} */
const length = (text) => [...text].length;

class Parts {
  /** @type {RequestPart[]} */
  all = [];
  /** @type {Set<string>} */
  shown = new Set();

  /** @param {w.PermissionOpened} ask @param {w.ToolCall} tool */
  take(ask, tool) {
    const { title, detail } = ask;
    if (ask.url != null) this.add("page", ask.url, "link");
    if (tool.name) this.add("tool", tool.name);
    if (!KINDS.has(tool.kind ?? "")) this.add("kind", String(tool.kind));
    if (tool.title && tool.title !== title) this.add("call", tool.title);
    let given = tool.input ?? (isObject(detail) ? detail.input : null) ?? null;
    if (isObject(given) && typeof given.command === "string") {
      const { command, ...rest } = given;
      this.add("command", String(command), "command");
      given = Object.keys(rest).length ? rest : null;
    }
    const own = tool.content ?? [];
    const known = new Set(own.map(canonical));
    const told = Array.isArray(detail) ? detail.filter((part) => !known.has(canonical(part))) : [];
    for (const part of [...own, ...told]) this.content(part);
    if (isObject(given)) for (const [name, value] of Object.entries(given)) this.leaves(key(name), value);
    else if (given !== null) this.leaves("arguments", given);
    for (const place of tool.locations ?? []) this.location(place);
    this.detail(detail, tool);
    if (tool.output != null) this.leaves("output", tool.output);
    const heading = reveal(title);
    if ((length(heading) > TITLE || UNEVEN.test(heading)) && !this.shown.has(title)) this.all.unshift({ label: "title", text: title, kind: "text" });
  }

  /** @param {string} label @param {string} text @param {RequestPart["kind"]} [kind] @param {object} [more] */
  add(label, text, kind = "value", more = {}) {
    this.shown.add(text);
    this.all.push({ label, text, kind, ...more });
  }

  /** @param {any} part */
  content(part) {
    if (!isObject(part) || typeof part.type !== "string") return this.leaves("content", part);
    const { type, ...rest } = part;
    if (type === "diff" && typeof rest.path === "string" && typeof rest.newText === "string") {
      const { path, newText, oldText, ...more } = rest;
      const old = typeof oldText === "string" ? oldText : null;
      this.shown.add(path);
      if (old !== null) this.shown.add(old);
      this.add(path, newText, "diff", { old });
      this.rest("diff", old === null ? { ...more, oldText } : more);
    } else if (type === "content" && isObject(rest.content)) {
      const { content, ...more } = rest;
      this.block(/** @type {any} */ (content));
      this.rest("content", more);
    } else this.block(part);
  }

  /** @param {Record<string, any>} block */
  block(block) {
    const { type, ...rest } = block;
    if (type === "text" && typeof rest.text === "string") {
      const { text, ...more } = rest;
      this.add("text", text, "text");
      this.rest("text", more);
    } else if ((type === "image" || type === "audio") && typeof rest.data === "string" && BASE64.test(rest.data)) {
      const { data, mimeType = "", ...more } = rest;
      this.add(type, `${mimeType}, ${bytes(data)} bytes`, "media", { block });
      this.rest(type, more);
    } else if (type === "resource" && isObject(rest.resource)) {
      const { resource, ...others } = rest;
      const { text, ...more } = /** @type {Record<string, unknown>} */ (resource);
      if (typeof more.blob === "string" && BASE64.test(more.blob)) more.blob = `${bytes(more.blob)} bytes`;
      this.rest("resource", more);
      if (typeof text === "string") this.add("resource.text", text, "text");
      else if (text != null) this.leaves("resource.text", text);
      this.rest("resource", others);
    } else this.rest(key(String(type ?? "content")), rest);
  }

  /** @param {any} place */
  location(place) {
    if (!isObject(place) || typeof place.path !== "string") return this.leaves("file", place);
    const { path, line, ...rest } = place;
    if (line != null) this.add("file", `${path}:${scalar(line)}`);
    else if (!this.shown.has(String(path))) this.add("file", String(path));
    this.rest("file", rest);
  }

  /** @param {unknown} detail @param {w.ToolCall} tool */
  detail(detail, tool) {
    if (detail == null || Array.isArray(detail)) return;
    if (typeof detail === "string") this.add("detail", detail, "text");
    else if (!isObject(detail)) this.leaves("detail", detail);
    else {
      for (const [name, value] of Object.entries(detail)) {
        const known = isObject(tool.input) && Object.hasOwn(tool.input, name) && canonical(tool.input[name]) === canonical(value);
        const whole = name === "input" && (tool.input == null || canonical(tool.input) === canonical(value));
        if (!known && !whole) this.leaves(key(name), value);
      }
    }
  }

  /** @param {string} label @param {Record<string, unknown>} values */
  rest(label, values) {
    for (const [name, value] of Object.entries(values)) if (value != null) this.leaves(label + dotted(name), value);
  }

  /**
   * Each string in a value, and each other thing, with the way to it as its label.
   * @param {string} label
   * @param {unknown} value
   */
  leaves(label, value, depth = 0) {
    if (typeof value === "string") {
      if (this.shown.has(value) && length(value) > REPEATED) this.all.push({ label, text: value, kind: "same" });
      else this.add(label, value);
    } else if (typeof value !== "object" || value === null) this.add(label, scalar(value));
    else if (depth === DEEPEST) this.add(label, JSON.stringify(value));
    else if (!Array.isArray(value)) {
      const entries = Object.entries(value);
      if (!entries.length) this.add(label, "{}");
      for (const [name, each] of entries) this.leaves(label + dotted(name), each, depth + 1);
    } else if (value.some((each) => typeof each === "string" || (typeof each === "object" && each !== null))) {
      value.forEach((each, place) => this.leaves(`${label}[${place}]`, each, depth + 1));
    } else this.add(label, `[${value.map(scalar).join(", ")}]`);
  }
}

/** @type {(value: unknown) => string} the same text for equal values, whatever the order of their names */
const canonical = (value) =>
  JSON.stringify(value, (_, each) => (isObject(each) ? Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1))) : each));

/** @type {(data: string) => number} of base64 */
const bytes = (data) => Math.floor((data.length * 3) / 4);

/** @type {(value: unknown) => string} a number, a truth value or nothing, as JSON has it */
const scalar = (value) => JSON.stringify(value) ?? "null";

/** @type {(name: string) => string} the name of an argument at the start of a label */
const key = (name) => (NAME.test(name) ? name : JSON.stringify(name));

/** @type {(name: string) => string} */
const dotted = (name) => (NAME.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`);
