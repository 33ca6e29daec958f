"""The user's editor, for longer prompts."""

from __future__ import annotations

import os
import shlex
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
    wanted = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if wanted:
        return shlex.split(wanted)
    for editor in EDITORS:
        if Path(editor).exists():
            return [editor]
    raise ValueError("there is none; set $EDITOR")
