"""Programs of the user: the editor for longer prompts, and the pager."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Final

import trio

EDITORS: Final = ("/usr/bin/editor", "/usr/bin/nano", "/usr/bin/vi")
"""Tried in order if neither `$VISUAL` nor `$EDITOR` is set."""


async def edit(text: str) -> str:
    """Let the user edit a text in the terminal.

    Returns the edited text, or the original one if the editor fails. Raises `OSError` if the editor
    cannot be started, `ValueError` if there is none.

    Cancelling this ends the editor.
    """
    with tempfile.TemporaryDirectory(prefix="agentrt-") as folder:
        file = trio.Path(folder, "prompt.md")
        await file.write_text(text)
        done = await trio.run_process([*_editor(), str(file)], stdin=None, check=False)
        if done.returncode:
            return text
        return (await file.read_text(errors="replace")).removesuffix("\n")


def _editor() -> list[str]:
    """Return the command of the user's editor. Raises `ValueError` if none is found."""
    wanted = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if wanted:
        return shlex.split(wanted)
    for editor in EDITORS:
        if Path(editor).exists():
            return [editor]
    raise ValueError("no editor was found; set $EDITOR")


async def page(text: str, encoding: str, *, at_end: bool = False) -> bool:
    """Show a text in `$PAGER`, or in `less` or `more`; returns False if there is none.

    `at_end`: start at the end of the text, if the pager is `less`. Raises `OSError` if the pager
    cannot be started, `ValueError` if `$PAGER` cannot be parsed. Cancelling this ends the pager.
    """
    command = shlex.split(os.environ.get("PAGER") or "")
    if not command:
        command = next(([name] for name in ("less", "more") if shutil.which(name)), [])
    if not command:
        return False
    env = dict(os.environ)
    if os.path.basename(command[0]) == "less":
        command += ["+G"] if at_end else []
        if "R" not in env.get("LESS", "").upper():
            env["LESS"] = f"{env.get('LESS', '')} -R".strip()
    data = text.encode(encoding, "replace")
    await trio.run_process(command, stdin=data, check=False, env=env)
    return True
