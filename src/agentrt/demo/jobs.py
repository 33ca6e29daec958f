"""The useful work: listing, reading, searching, changing files and running commands."""

from __future__ import annotations

import base64
from functools import partial
from pathlib import Path
from typing import assert_never

import trio

from . import words
from .child import shell
from .files import FileRefused, list_folder, read_bytes, read_text, shown, size, write_text
from .search import as_markdown, search
from .turn import DemoTurn, fenced, text_content
from .wire import JsonObject

MAX_SHOWN_LINES = 400
COMMAND_TIMEOUT_S = 600.0
"""Maximum seconds of a command."""
IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif"}

UNDERSTOOD = """\
- `list`, `list FOLDER`: the entries of a folder
- `read FILE`, `read FILE:10-20`: show a file
- `search TEXT`, `search TEXT in FOLDER`: find text in files, or files by name
- `edit FILE replace OLD by NEW`: change a file, once you allow it
- `create FILE with TEXT`: make a new file, once you allow it
- `run COMMAND`: a shell command, once you allow it
"""


async def do(turn: DemoTurn, job: words.Job) -> None:
    """Do the work that a sentence requests. Raises `FileRefused` if it cannot be done."""
    match job:
        case words.HelpRequest():
            await say_what_i_can(turn)
        case words.ListRequest(path):
            await list_files(turn, path)
        case words.ReadRequest(path, first, last):
            await read(turn, path, first, last)
        case words.SearchRequest(text, path):
            await look_for(turn, text, path)
        case words.ReplaceRequest(path, old, new):
            await replace(turn, path, old, new)
        case words.CreateRequest(path, text):
            await create(turn, path, text)
        case words.RunRequest(command):
            await run(turn, command)
        case words.UnclearRequest(names):
            await help_out(turn, names)
        case _:
            assert_never(job)


async def say_what_i_can(turn: DemoTurn) -> None:
    """Introduce the agent and list the sentences that it understands."""
    await turn.say(
        "I am agentrt's built-in demo agent. I have no model, so I do not think or chat; I follow "
        "a few plain sentences about the folder you opened me in:\n\n"
        f"{UNDERSTOOD}\n"
        "I can also show what an agent may send to a viewer, one `/command` each: `/help` "
        "lists them."
    )


async def help_out(turn: DemoTurn, names: tuple[str, ...]) -> None:
    """Answer a prompt that was not understood: list related files and possible requests."""
    await turn.think("I do not understand this sentence.")
    await turn.say(
        "I have no model, so I cannot answer that in my own words."
        + (f" I can look where `{'`, `'.join(names)}` occurs, though." if names else "")
    )
    for name in names:
        await look_for(turn, name, ".")
    await turn.say(
        f"\n\nWhat I understand:\n\n{UNDERSTOOD}\n`/help` lists the features that I can show."
    )


async def list_files(turn: DemoTurn, name: str) -> None:
    """List a folder."""
    path = turn.session.folder.resolve(name)
    await turn.think(f"They want to see a folder: {name}.")
    with turn.tool(f"List {name}", "read", **_at(path), rawInput={"path": name}) as call:
        call.update(status="in_progress")
        listed = await trio.to_thread.run_sync(list_folder, path, name)
        call.add(listed)
    await turn.say(f"In `{name}`:\n\n{listed}" if name != "." else f"In this folder:\n\n{listed}")


async def read(turn: DemoTurn, name: str, first: int, last: int | None) -> None:
    """Show a file, or some of its lines."""
    path = turn.session.folder.resolve(name)
    await turn.think(f"They want to read a file: {name}.")
    if mime := IMAGES.get(path.suffix.lower()):
        await _show_image(turn, path, name, mime)
        return
    with turn.tool(f"Read {name}", "read", **_at(path, first), rawInput={"path": name}) as call:
        call.update(status="in_progress")
        lines = (await trio.to_thread.run_sync(read_text, path, name)).splitlines()
        if first > max(1, len(lines)):
            raise FileRefused(f"`{name}` has only {len(lines)} lines.")
        chosen = lines[first - 1 : min(last or len(lines), first - 1 + MAX_SHOWN_LINES)]
        text = fenced("\n".join(chosen), path.suffix.removeprefix("."))
        call.add(text)
    which = f"Lines {first} to {first - 1 + len(chosen)} of {len(lines)}"
    await turn.say(f"{which} in `{name}`:\n\n{text}" if lines else f"`{name}` is empty.")


async def _show_image(turn: DemoTurn, path: Path, name: str, mime: str) -> None:
    """Show an image, as content of the tool call and of the answer."""
    with turn.tool(f"Read {name}", "read", **_at(path), rawInput={"path": name}) as call:
        call.update(status="in_progress")
        data = await trio.to_thread.run_sync(read_bytes, path, name)
        image = {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": mime}
        call.update(content=[{"type": "content", "content": image}])
    await turn.say(f"`{name}` is an image of {size(len(data))}:")
    await turn.show(image)


async def look_for(turn: DemoTurn, text: str, name: str) -> None:
    """Search for a text in files."""
    folder = turn.session.folder
    path = folder.resolve(name)
    await turn.think(f"They want to find something: {text}.")
    details = {"locations": [{"path": shown(path)}], "rawInput": {"text": text, "path": name}}
    with turn.tool(f"Search for {text}", "search", **details) as call:
        call.update(status="in_progress")
        # The thread checks now and then if the turn was cancelled, and ends if so.
        job = partial(search, path, text, trio.from_thread.check_cancelled)
        found = await trio.to_thread.run_sync(job)
        listed = as_markdown(found, text, folder.relative)
        places = [{"path": shown(h.path), "line": h.line} for h in found.hits[:20] if h.line]
        call.update(content=[text_content(listed)], locations=places)
    await turn.say(listed)


async def replace(turn: DemoTurn, name: str, old: str, new: str) -> None:
    """Replace a text in a file, after permission."""
    path = turn.session.folder.resolve(name)
    await turn.think(f"They want to change a file: {name}.")
    before = await trio.to_thread.run_sync(read_text, path, name)
    count = before.count(old)
    if count == 0:
        raise FileRefused(f"`{old}` does not occur in `{name}`.")
    after = before.replace(old, new)
    await _write(turn, f"Edit {name}", path, name, before, after)
    await turn.say(f"I replaced {count} {'place' if count == 1 else 'places'} in `{name}`.")


async def create(turn: DemoTurn, name: str, text: str) -> None:
    """Create a file, after permission."""
    path = turn.session.folder.resolve(name)
    await turn.think(f"They want a new file: {name}.")
    if path.exists():
        raise FileRefused(f"`{name}` exists already; `edit` changes it.")
    await _write(turn, f"Create {name}", path, name, None, text.removesuffix("\n") + "\n")
    await turn.say(f"I created `{name}`.")


async def _write(
    turn: DemoTurn, title: str, path: Path, name: str, before: str | None, after: str
) -> None:
    """Write a file after permission, with the change as a diff in the tool call."""
    diff = {"type": "diff", "path": shown(path), "oldText": before, "newText": after}
    with turn.tool(title, "edit", **_at(path), content=[diff], rawInput={"path": name}) as call:
        await turn.permit(call)
        await trio.to_thread.run_sync(write_text, path, name, before, after)


async def run(turn: DemoTurn, command: str) -> None:
    """Run a command, after permission."""
    await turn.think(f"They want to run a command: {command}.")
    cwd = turn.session.folder.cwd
    raw = {"command": command, "cwd": str(cwd)}
    with turn.tool(f"Run {command}", "execute", rawInput=raw) as call:
        await turn.permit(call)

        def show(output: str) -> None:
            """Replace the content of the tool call by the output so far."""
            call.update(content=[text_content(fenced(output, "console"))])

        status, output = None, ""
        with trio.move_on_after(COMMAND_TIMEOUT_S):
            status, output = await shell(command, cwd=cwd, show=show)
        if status is None:
            raise FileRefused(f"I stopped the command after {COMMAND_TIMEOUT_S:.0f} s.")
        show(output)
        raw_output = {"exitCode": status, "output": output}
        call.update(status="completed" if status == 0 else "failed", rawOutput=raw_output)
    ended = f"ended with status {status}" if status >= 0 else f"was ended by signal {-status}"
    said = f", and said:\n\n{fenced(output, 'console')}" if output.strip() else " and said nothing."
    await turn.say(f"The command {ended}{said}")


def _at(path: Path, line: int | None = None) -> JsonObject:
    """Return the location of a tool call, with which a client can open the file."""
    return {"locations": [{"path": shown(path), **({"line": line} if line else {})}]}
