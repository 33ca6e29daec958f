// What the page keeps, and what its modules hand to each other: known in all of them, as are the
// shapes of the protocol, which are in wire.d.ts and called `w.Item` and so on.

import type { ComponentChildren } from "preact";
import type { Env } from "markdown-it";
import type * as client from "./client.js";

declare global {
  /** What a session looks like. */
  type View = client.View;

  /** What a component may draw. */
  type Shown = ComponentChildren;

  type Handler = (event: any) => void;

  /** When something of an item was seen: seconds since the epoch, of this browser's clock. */
  interface Times {
    opened: number;
    heard: number;
    closed?: number;
  }

  /** A question that is closed, as far as it is worth saying. */
  interface Answered {
    request: string;
    title: string;
    words: string;
    by: string;
    from?: string;
  }

  /** The page's own values of a session. */
  interface Extra {
    times: ReadonlyMap<string, Times>;
    answered: Answered | null;
    /** The agent was started again, and does not remember the conversation. */
    forgot: boolean;
    /** The checkpoints before the turns that changed files, by turn. */
    undo: ReadonlyMap<string, number>;
    /** The checkpoint that was restored last, and the one of the files before; null after a turn has changed files. */
    restored: { checkpoint: number; undo: number } | null;
  }

  /** The checkpoints that undo a turn's changes of files or, after an undo, restore them. */
  interface Undo {
    checkpoint: number;
    isUndone: boolean;
  }

  /** A session that is, or was, attached. */
  type Seat = client.AttachedSession<Extra>;

  interface Note {
    id: number;
    level: "info" | "warning" | "error";
    text: string;
  }

  /** The page's own part of the model. */
  interface PageModel {
    /** Sessions that have finished something unseen. */
    unread: ReadonlySet<string>;
    /** The newest last. */
    notes: readonly Note[];
    /** The number of notes so far. */
    noted: number;
  }

  /** All that the server has sent. */
  interface Model extends client.Model<Extra>, PageModel {}

  type Link = client.Link;

  /** The answer to a command, with the fields of any result. */
  type Answer = w.AckFrame &
    Partial<
      w.PromptResult &
        w.SessionResult &
        w.CheckpointsResult &
        w.ContentResult &
        w.FilesResult &
        w.WireResult &
        w.StopAllResult &
        w.ListResult
    >;

  /** A frame as it went over the wire. */
  interface Raw {
    id: number;
    at: number;
    direction: "in" | "out";
    text: string;
  }

  /** A file that will go with the next prompt. */
  interface Attachment {
    name: string;
    size: number;
    block: w.Block;
  }

  /** What is offered for the words that begin at `start`. */
  interface Completion {
    words: string;
    start: number;
    end: number;
    options: readonly { insert: string; label: string; about: string }[];
  }

  /** What this person has opened, chosen and typed here. */
  interface Ui {
    link: Link;
    /** The session that is shown. */
    session: string | null;
    /** The one that is shown next to it, in a frame. */
    beside: string | null;
    /** The one that was closed here, and takes a moment to end. */
    left: string | null;
    /** What was folded or unfolded by hand. */
    open: ReadonlyMap<string, boolean>;
    /** What is typed, by session. */
    drafts: ReadonlyMap<string, string>;
    attached: ReadonlyMap<string, readonly Attachment[]>;
    /** The waiting prompt that is being edited. */
    editing: ReadonlyMap<string, string>;
    /** The session whose message field gets the focus when it is drawn. */
    writing: string | null;
    panel: "sessions" | "settings" | "frames" | "shortcuts" | "files" | "palette" | "outline" | "changes" | null;
    /** The file that is shown, relative to the session's folder, and its line. */
    viewing: { path: string; line: number | null } | null;
    /** Whether the form for a new session is open. */
    creating: boolean;
    /** Why it did not start. */
    refused: string;
    /** The session whose name is being changed. */
    renaming: string | null;
    /** The numbers of the notes that were dismissed. */
    dismissed: ReadonlySet<number>;
    /** The number of the newest note that has been there for a while. */
    faded: number;
    /** Since when a question is in sight, in milliseconds of `performance.now`. */
    asked: { request: string; since: number } | null;
    /** Prompts that were sent here, and not heard of yet. */
    sending: readonly Sending[];
    /** The turn that was stopped here; without one, that of the prompt which is being sent. */
    stopping: (Place & { turn: string | null }) | null;
    /** The sessions of which earlier turns were asked for, and have not come. */
    looking: ReadonlySet<string>;
    /** The question that was answered here, until it is closed. */
    answering: string | null;
    /** The files of a session that the server has found for what was typed last. */
    found: { session: string; files: readonly string[] } | null;
    /** The stored conversations in which the words are that somebody looks for. */
    searched: { words: string; found: readonly w.FoundSession[] } | null;
    /** Stored conversations that were asked for because they rest for longer than those in the list,
     * the newest last; and whether there are still earlier ones. */
    older: { sessions: readonly w.SessionInfo[]; more: boolean } | null;
    /** The folder of whose stored conversations the list is; none: of all. */
    folder: string;
    /** Which completion is chosen; -1: none is wanted for these words. */
    completing: { at: number; words: string } | null;
    /** The branches of the sessions' folders. */
    branches: ReadonlyMap<string, string>;
    /** What happened in sessions while nobody looked. */
    away: ReadonlyMap<string, string>;
    /** The item that is to be scrolled to. */
    goal: string | null;
    /** Stored conversations that are out of the list. */
    archived: ReadonlySet<string>;
    /** Texts that are kept for later messages. */
    templates: readonly string[];
    /** Where in the message field one writes. */
    caret: number;
    /** Whether the newest is in sight. */
    atEnd: boolean;
    /** Seconds since the epoch; moves only while something is being timed. */
    now: number;
  }

  /** From which event on something is known, once that was answered. */
  interface Place {
    session: string;
    epoch: string;
    seq: number | null;
  }

  /** A prompt that was sent here. `before`: the items that were there. */
  interface Sending extends Place {
    key: number;
    text: string;
    content: w.Block[];
    before: ReadonlySet<string>;
  }

  type When = "queue" | "interrupt" | "steer";

  type Decision = { option: string } | { content: object } | { cancel: true };

  /** What a text of Markdown defines for its other parts. */
  interface ParserEnv extends Env {
    /** Its footnotes, by their names behind a colon, and those that were referred to. */
    footnotes?: { refs: Record<string, number>; list: unknown[] };
    /** In how many folded parts we are. */
    folds?: number;
  }

  /** What a program wrote in one style: the names of classes, and colours as CSS writes them. */
  interface Piece {
    text: string;
    style: string;
    color?: string;
    background?: string;
  }

  /** One thing that a question shows. A diff has its path as `label`, the new text as `text` and the old
   *  one as `old` (null: a new file); `block` is a picture or a sound. */
  interface RequestPart {
    label: string;
    text: string;
    kind: "text" | "command" | "diff" | "media" | "link" | "value" | "same";
    old?: string | null;
    block?: w.Block;
  }

  /** Some code: words, or words in a colour, which is the name of a class. */
  type Coloured = string | { style: string; inner: Coloured[] };

  /** A part of a formula, as MathML. */
  interface Formula {
    tag: string;
    looks: Record<string, string>;
    children: (Formula | string)[];
  }

  /** A part of a line in one colour; `differs`: from the line that it has replaced, or that has replaced it. */
  interface LinePiece {
    text: string;
    style: string;
    differs: boolean;
  }

  interface ReviewedLine extends Line {
    pieces: LinePiece[];
  }

  /** A line of a diff, with its numbers before and after. */
  interface Line {
    sign: " " | "+" | "-";
    text: string;
    before: number | null;
    after: number | null;
  }
}
