// Files that go with a prompt.

import { say } from "./actions.js";
import { size } from "./format.js";
import { iconButton } from "./html.js";
import { oneLine } from "./safe.js";
import { model, setUi, ui } from "./store.js";

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** Bytes of a frame that are not content. */
const ROOM = 4_096;

/** What the server takes at once */
const largest = (): number => (model().server?.limits.frame ?? 0) - ROOM;

/** Whether it goes into one frame */
export const fits = (content: readonly w.Block[]): boolean =>
  new TextEncoder().encode(JSON.stringify(content)).length <= largest();

export async function addFiles(files: Iterable<File> | undefined) {
  const session = ui().session ?? "";
  for (const file of files ?? []) {
    const before = ui().attached.get(session) ?? [];
    const used = before.reduce((sum, each) => sum + each.size, 0);
    if ((used + file.size) * 1.4 > largest()) {
      say(`${oneLine(file.name)} is too large (limit ${size(largest() / 1.4)} per message).`, "error");
      continue;
    }
    const block = await blockOf(file);
    const now = ui().attached.get(session) ?? [];
    const all = [...now, { name: file.name, size: file.size, block }];
    setUi({ attached: new Map(ui().attached).set(session, all) });
  }
}

async function blockOf(file: File): Promise<w.Block> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (PICTURES.has(file.type)) return { type: "image", data: base64(bytes), mimeType: file.type };
  const uri = `attachment:${encodeURIComponent(file.name)}`;
  const mimeType = file.type || undefined;
  const known = mimeType ? { mimeType } : {};
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    if (!text.includes("\0")) return { type: "resource", resource: { uri, text, ...known } };
  } catch {
    // no text
  }
  return { type: "resource", resource: { uri, blob: base64(bytes), ...known } };
}

function base64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(text);
}

export function Attached({ files }: { files: readonly Attachment[] }) {
  const remove = (file: Attachment) =>
    setUi({
      attached: new Map(ui().attached).set(
        ui().session ?? "",
        files.filter((each) => each !== file),
      ),
    });
  return (
    <ul class="attached" aria-label="attached files">
      {files.map((file) => (
        <li>
          {file.block.type === "image" && <img src={`data:${file.block.mimeType};base64,${file.block.data}`} alt="" />}
          <span>{oneLine(file.name, 60)}</span> <small>{size(file.size)}</small>
          {iconButton("close", `Remove ${oneLine(file.name, 60)}`, () => remove(file))}
        </li>
      ))}
    </ul>
  );
}
