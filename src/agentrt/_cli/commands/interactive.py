"""An interactive session, on the full screen if the terminal allows it, else line by line."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio
from msgspec import structs

from ..._base.nesting import bare_errors
from ...errors import AgentrtError
from ..console import LAST_OUTPUT_S
from ..output import encoding_of, open_output, wants_colour
from ..printing import print_error
from ..repl.conversation import SlashCommand
from ..repl.earlier_sessions import pick_session
from ..repl.slash_commands import COMMANDS
from ..repl.sources import LocalSource, SessionSource
from ..setup import Setup
from ..stores import OwnStore, open_own_store

if TYPE_CHECKING:
    from ..repl.sharing import Share

from ..repl.line_mode import converse_in_lines

NO_LIBRARIES: Final = (
    'line by line; for a fixed prompt, completion and colours: pip install "agentrt[repl]"'
)


async def converse(setup: Setup, *, pick: bool = False, serve: bool = False) -> int:
    """Run an interactive session until the user leaves; returns the exit status.

    `pick` offers the earlier sessions before an agent is started, `serve` lets browsers in. On a
    capable terminal, and with the libraries of the extra `repl`, the prompt stays at the bottom
    (`screen/`).
    """
    try:
        async with (
            bare_errors(),
            open_own_store(setup.config.terminal.store) as own,
            _open_share(setup, own, serve=serve) as share,
        ):
            chosen = await pick_session(setup, own) if pick else setup
            if chosen is None:
                return 0
            status = await show(chosen, LocalSource(own, share), COMMANDS)
    except AgentrtError as error:
        return print_error(error)
    if own is not None and own.hint and os.isatty(1):
        with trio.move_on_after(LAST_OUTPUT_S):  # the terminal may be gone or blocked
            async with open_output(1, encoding=encoding_of(sys.stdout)) as out:
                out.write(f"{own.hint}\n")
    return status


async def show(
    setup: Setup, source: SessionSource, commands: Mapping[str, SlashCommand], *, pick: bool = False
) -> int:
    """Run a conversation in `source` until the user leaves; returns the exit status.

    It uses the full screen interface if the terminal and the installed libraries allow it.
    """
    terminal = setup.config.terminal
    wants_screen = not terminal.plain and _can_move_cursor()
    if wants_screen and _has_libraries():
        from ..screen.repl import converse as converse_on_screen

        colour = wants_colour(1, terminal.color)
        return await converse_on_screen(setup, source, commands, colour=colour, pick=pick)
    if wants_screen:
        note = " · ".join(filter(None, (setup.note, NO_LIBRARIES)))
        setup = structs.replace(setup, note=note)
    return await converse_in_lines(setup, source, commands, pick=pick)


@asynccontextmanager
async def _open_share(
    setup: Setup, own: OwnStore | None, *, serve: bool
) -> AsyncIterator[Share | None]:
    """Start a web server for the session with `--serve`; otherwise yield None."""
    if not serve:
        yield None
        return
    from ..repl.sharing import open_share

    async with open_share(setup, own) as share:
        yield share


def _can_move_cursor() -> bool:
    return os.isatty(0) and os.isatty(1) and os.environ.get("TERM", "dumb") != "dumb"


def _has_libraries() -> bool:
    """True if the libraries for the screen are installed; they are an optional part of agentrt."""
    try:
        return all(importlib.util.find_spec(name) for name in ("prompt_toolkit", "rich"))
    except ModuleNotFoundError:
        return False
