// What a tool gave back, as what it is: a file, the output of a command, words. Which of them, its
// kind says and the file that it names; Markdown is only what says that it is.

import { BlockView, Markdown, Terminal } from "./content.js";
import { code } from "./code.js";
import { ending, within } from "./format.js";
import { running } from "./safe.js";

/** A text, and how it is to be shown. `first` is the number of its first line. */
type Reading =
  | { as: "markdown" | "terminal" | "words"; text: string }
  | { as: "code"; text: string; language: string; first?: number; behind?: string };

/** Kinds whose words are an agent's own, which writes Markdown. */
const WRITTEN = new Set(["think", "switch_mode"]);

/** Kinds whose text is that of the file which they name. */
const FILES = new Set(["read", "edit", "delete", "move"]);

export function reading(tool: w.ToolCall | null | undefined, given: string): Reading {
  const fenced = unfenced(given);
  const text = (fenced?.text ?? given).replace(/\n$/, "");
  const language = fenced?.language.toLowerCase() ?? "";
  const { kind = "", name = "", locations = [] } = tool ?? {};
  if (/^(md|markdown)$/.test(language) && kind !== "read") return { as: "markdown", text };
  const [file] = locations;
  if (FILES.has(kind) && file) {
    const numbered = kind === "read" ? unnumbered(text, name === "Read") : null;
    const end = language || ending(file.path);
    if (numbered) return { as: "code", language: end, ...numbered };
    return { as: "code", text, language: end, ...(kind === "read" && { first: Math.max(1, file.line ?? 1) }) };
  }
  if (kind === "execute" || kind === "read") return { as: "terminal", text };
  if (fenced) return { as: "code", text, language };
  if (kind === "search") return { as: "code", text, language: "" };
  return { as: WRITTEN.has(kind) ? "markdown" : "words", text };
}

const FENCE = /^(?:`{3,}|~{3,})/;

/** Whether a line ends what a fence begins */
const closes = (line: string, fence: string): boolean => {
  const mark = line.trim();
  return mark.length >= fence.length && mark === fence[0].repeat(mark.length);
};

/** Of a text that is all of one fence */
function unfenced(text: string): { text: string; language: string } | null {
  const lines = text.trim().split("\n");
  if (lines.length < 2) return null;
  const fence = lines[0].match(FENCE)?.[0];
  const info = lines[0].slice(fence?.length).trim();
  if (!fence || info.includes("`") || !closes(lines[lines.length - 1], fence)) return null;
  const inner = lines.slice(1, -1);
  if (inner.some((line) => line.search(/\S/) < 4 && closes(line, fence))) return null;
  return { text: inner.join("\n"), language: info.split(/\s/)[0] };
}

/**
 * Without the numbers that Claude Code writes before each line of a file: with an arrow or, in newer
 * versions, a tab behind them.
 * @param tabs whether the tool is known to number with tabs
 * @returns `behind`: what it says about the file
 */
function unnumbered(text: string, tabs: boolean): { text: string; first: number; behind?: string } | null {
  const lines = text.split("\n");
  const form = tabs ? /^ *(\d+)(?:→|\t)/ : /^ *(\d+)→/;
  const first = Number(lines[0].match(form)?.[1]);
  if (!first && first !== 0) return null;
  const file: string[] = [];
  for (const line of lines) {
    const number = line.match(form);
    if (!number || Number(number[1]) !== first + file.length) break;
    file.push(line.slice(number[0].length));
  }
  const behind = lines.slice(file.length).join("\n").trim();
  return { text: file.join("\n"), first, ...(behind && { behind }) };
}

export function Output(tool: w.ToolCall | null | undefined, block: w.Block, cwd: string, key?: string | number): Shown {
  if (block.type !== "text") return <BlockView key={key} block={block} />;
  const read = reading(tool, block.text);
  switch (read.as) {
    case "terminal":
      return <Terminal key={key} text={read.text} />;
    case "markdown":
      return <Markdown key={key} text={read.text} over />;
    case "words":
      return (
        <p class="verbatim" dir="auto" key={key}>
          {running(read.text)}
        </p>
      );
    case "code": {
      const path = tool?.locations?.[0]?.path;
      return (
        <div key={key}>
          {code({ text: read.text, language: read.language, first: read.first, name: path && within(path, cwd) })}
          {read.behind && <p class="verbatim hint">{running(read.behind)}</p>}
        </div>
      );
    }
  }
}
