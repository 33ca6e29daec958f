// What a question is about: all parts of the request, each with every character visible.

import { Diff } from "./diff.js";
import { formParts, requestParts } from "./request_parts.js";
import { reveal } from "./reveal.js";
import { revealed } from "./revealed.js";
import { dataUrl, link } from "./safe.js";

/** Characters of a text from which on the browser lays out only the parts in sight, of about so many. */
const MANY = 400_000;
const TOGETHER = 4_000;

export function Subject(ask: w.PermissionOpened, item: w.Item | undefined): Shown {
  const parts = [...requestParts(ask, item), ...(ask.form ? formParts(ask.form) : [])];
  return parts.map((part, index) => Part(part, index));
}

export function Part({ label, text, kind, old, block }: RequestPart, key: string | number): Shown {
  switch (kind) {
    case "diff":
      return <Diff key={key} diff={{ path: label, newText: text, oldText: old ?? null }} cwd="" all />;
    case "command":
      return (
        <pre class="command" key={key} role="group" aria-label="command">
          <code dir="ltr">{inChunks(text)}</code>
        </pre>
      );
    case "link": {
      const href = link(text);
      const words = <code dir="ltr">{revealed(text)}</code>;
      return (
        <p class="argument" key={key}>
          <b>{label}</b>{" "}
          {href ? (
            <a href={href} target="_blank" rel="noopener noreferrer">
              {words}
            </a>
          ) : (
            words
          )}
        </p>
      );
    }
    case "media": {
      const source = block && "data" in block ? dataUrl(block.mimeType ?? "", block.data) : null;
      return (
        <div class="argument" key={key}>
          <b>{label}</b> <span dir="ltr">{revealed(text)}</span>
          {source &&
            (block?.type === "audio" ? (
              <audio controls src={source}></audio>
            ) : (
              <img class="picture" src={source} alt="" />
            ))}
        </div>
      );
    }
    case "same":
      return (
        <p class="argument" key={key}>
          <b>{revealed(label)}</b> <i>as above</i>
        </p>
      );
    case "text":
      return (
        <div class="argument" key={key}>
          {label !== "text" && <b>{revealed(label)}</b>}
          <div class="verbatim said" dir="ltr">
            {inChunks(text)}
          </div>
        </div>
      );
    default:
      return (
        <div class="argument" key={key}>
          <b>{revealed(label)}</b>{" "}
          <span class="verbatim" dir="ltr">
            {inChunks(text)}
          </span>
        </div>
      );
  }
}

/** A long text in parts of whole lines, of which the browser lays out those in sight */
export function inChunks(text: string): Shown[] {
  if (text.length < MANY) return revealed(text);
  const out: Shown[] = [];
  for (let at = 0, end = 0; at < text.length; at = end) {
    const line = text.indexOf("\n", at + TOGETHER);
    // A line without an end is not cut inside of a character or a word.
    end = line < 0 ? text.length : line + 1;
    out.push(
      <span class="part" key={out.length}>
        {revealed(text.slice(at, end))}
      </span>,
    );
  }
  return out;
}

/** Words for the kinds of options. */
const KINDS: Record<string, string> = {
  allow_once: "allow once",
  allow_always: "allow always",
  reject_once: "reject",
  reject_always: "reject always",
};

/** Names that say what an option of a kind does. */
const PLAIN: Record<string, RegExp> = {
  allow_once: /^(?:allow|allow once|accept)$/i,
  allow_always: /^(?:always allow|allow always)$/i,
  reject_once: /^(?:reject|reject once|deny|decline)$/i,
  reject_always: /^(?:reject always|always reject)$/i,
};

/** What an option does, where its name does not say it in plain words */
export const effect = ({ kind, name }: w.PermissionOption): string =>
  PLAIN[kind]?.test(name) ? "" : (KINDS[kind] ?? `another answer${kind ? `: ${reveal(kind)}` : ""}`);
