"""An interactive session line by line, for simple terminals, pipes and screen readers.

Lines typed while the agent works are queued. Ctrl-C cancels the turn and, twice in a row, leaves;
Ctrl-D leaves. The terminal itself edits and echoes the lines; the agent's output appears between
them.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from ..._errors import AgentrtError
from ..._model.content import plain_text
from ..._model.events import Item, TurnEnded, TurnStarted
from ..._model.state import TurnRecord
from ..._nesting import bare_errors
from ..._version import __version__
from ..commands.sessions import failed
from ..console import PARTING, Console, open_console, quoted
from ..held import HeldSession
from ..lines import LineReader
from ..output import encoding_of, open_output, wants_colour
from ..own import OwnStore, open_own
from ..setup import Setup
from ..signals import ending_signals
from ..text import folded, one_line, safe
from .asking import Shows
from .attaching import text_of
from .conversation import HISTORY, Command, Repl
from .past import pick_session
from .place import Here, Place
from .slash_commands import COMMANDS
from .transcript import Transcript
from .view import Display, how_it_ended, how_it_failed, tool_title

if TYPE_CHECKING:
    from .sharing import Share

PROMPT: Final = "> "
MORE: Final = "… "


async def converse(setup: Setup, *, pick: bool = False, serve: bool = False) -> int:
    """Run an interactive session until the user leaves; returns the exit status.

    `pick` offers the earlier sessions before an agent is started, `serve` lets browsers in. On a
    capable terminal, and with the libraries of the extra `repl`, the prompt stays at the bottom
    (`screen/`).
    """
    try:
        async with (
            bare_errors(),
            open_own(setup.config.terminal.store) as own,
            _open_share(setup, own, serve=serve) as share,
        ):
            chosen = await pick_session(setup, own) if pick else setup
            if chosen is None:
                return 0
            status = await show(chosen, Here(own, share), COMMANDS)
    except AgentrtError as error:
        return failed(error)
    if own is not None and own.hint and os.isatty(1):
        with trio.move_on_after(PARTING):  # the terminal may be gone or blocked
            async with open_output(1, encoding=encoding_of(sys.stdout)) as out:
                out.write(f"{own.hint}\n")
    return status


async def show(
    setup: Setup, place: Place, commands: Mapping[str, Command], *, pick: bool = False
) -> int:
    """Run a conversation in `place` until the user leaves; returns the exit status.

    It uses the full screen interface if the terminal and the installed libraries allow it.
    """
    terminal = setup.config.terminal
    if not terminal.plain and _has_screen():
        from ..screen.repl import converse as converse_on_screen

        colour = wants_colour(1, terminal.color)
        return await converse_on_screen(setup, place, commands, colour=colour, pick=pick)
    return await converse_in_lines(setup, place, commands, pick=pick)


@asynccontextmanager
async def _open_share(
    setup: Setup, own: OwnStore | None, *, serve: bool
) -> AsyncIterator[Share | None]:
    if not serve:
        yield None
        return
    from .sharing import open_share

    async with open_share(setup, own) as share:
        yield share


def _has_screen() -> bool:
    if not (os.isatty(0) and os.isatty(1)) or os.environ.get("TERM", "dumb") == "dumb":
        return False
    try:
        return all(importlib.util.find_spec(name) for name in ("prompt_toolkit", "rich"))
    except ModuleNotFoundError:
        return False


async def converse_in_lines(
    setup: Setup, place: Place, commands: Mapping[str, Command], *, pick: bool = False
) -> int:
    """Run a conversation line by line; returns the exit status."""
    status = 128 + signal.SIGHUP  # the status if the terminal disappears
    with trio.open_signal_receiver(*ending_signals()) as signals:
        async with bare_errors(), trio.open_nursery() as nursery:
            scope = nursery.cancel_scope

            def gone(error: OSError) -> None:
                scope.cancel(reason=str(error))

            async with open_console(gone, setup.config.terminal.color) as console:
                repl = LineRepl(console, place, commands)
                repl.early += ["/resume"] * pick
                nursery.start_soon(repl.obey, signals)
                status = await repl.run(setup)
            scope.cancel(reason="left")
    return status


class LineRepl(Repl):
    """An interactive session on a `Console`."""

    keys = (
        ("Enter", "send; with \\ at the end of the line, continue on the next line"),
        ("Ctrl-C", "stop the agent; twice in a row while nothing runs: leave"),
        ("Ctrl-D", "leave"),
    )

    def __init__(self, console: Console, place: Place, commands: Mapping[str, Command]) -> None:
        super().__init__(commands, place)
        self.console = console
        self._reader = LineReader(0)
        self._lines = _Lines(self)
        self._leave_when_done = False
        self._prompt_at = -1

    # --- display

    def say(self, text: str) -> None:
        self._lines.line(text)

    def report(self, text: str, stderr: str = "") -> None:
        self.console.report(text, stderr)

    def began(self, setup: Setup) -> tuple[Display, Shows]:
        self._lines = _Lines(self)
        self.say(f"agentrt {__version__} · {self.place.opening(setup)}")
        return self._lines, self._lines

    def opened(self, session: HeldSession, nursery: trio.Nursery) -> None:
        self._greet(session)
        nursery.start_soon(self._read, nursery)

    def closed(self) -> None:
        self.console.end()

    def _greet(self, session: HeldSession) -> None:
        agent, modes = session.agent, session.modes
        parts = [f"{one_line(agent.name)} {one_line(agent.version or '')}".strip()]
        if modes is not None and modes.mode is not None:
            parts.append(f"mode {one_line(modes.mode)}")
        if modes is not None and modes.model is not None:
            parts.append(f"model {one_line(modes.model)}")
        if self.setup.config.permissions.mode == "allow-all":
            parts.append("allow-all: nothing is asked")
        self.say(" · ".join(parts))
        if self.setup.note:
            self.console.report(self.setup.note)
        self.say("/help for commands · Ctrl-C stops the agent · Ctrl-D leaves")
        self._show_history(self.earlier)

    def _show_history(self, earlier: list[Item | TurnRecord]) -> None:
        """Show the end of a resumed conversation."""
        if len(earlier) > HISTORY:
            self.say(f"… {len(earlier) - HISTORY} more")
        for each in earlier[-HISTORY:]:
            if isinstance(each, TurnRecord):
                self.say(f"— {one_line(how_it_ended(each) or '', 1000)}")
            elif each.type == "user":
                self.say(f"{PROMPT}{safe(text_of(each.content))}")
            elif each.type == "tool":
                failed = how_it_failed(each)
                title = tool_title(each)
                self.say(f"✗ {title}: {failed}" if failed else f"→ {title}")
            elif each.type == "text":
                self.say(safe(each.text or plain_text(each.content)).rstrip("\n"))

    def refresh(self) -> None:
        """Show the prompt if it is the user's turn."""
        out, asker = self.console.out, self.asker
        if self.busy or self.left.is_set() or asker is None or asker.asking:
            return
        if self._leave_when_done:
            self.leave()
        elif out.count != self._prompt_at:
            self._lines.ask(PROMPT)
            self._prompt_at = out.count

    async def room(self) -> None:
        if self.console.out.full:
            await self.console.out.room()

    # --- input

    def submit(self, text: str) -> None:
        if self.busy:
            self.say(f"(waits for its turn, see /queue: {one_line(text, 60)})")
        super().submit(text)

    async def _read(self, nursery: trio.Nursery) -> None:
        asker = self.asker
        assert asker is not None
        text = ""
        while True:
            line = await self._reader.readline()
            if line is None:
                if not self.place.lasting and asker.answer(None):
                    continue
                if not self.busy or self.place.lasting:  # other clients can answer there
                    self.leave()
                    return
                self.say("(leaving when this is done; Ctrl-C stops it)")
                self._leave_when_done = True
                asker.stop_asking()
                return
            self.console.out.at_line_start = True  # the terminal echoed the Enter
            if asker.answer(line):
                continue
            if line.endswith("\\"):
                text += line[:-1] + "\n"
                self._lines.ask(MORE)
                continue
            text, line = "", text + line
            self.typed(line.strip(), nursery)
            self.refresh()

    def interrupted(self) -> None:
        self.console.interrupted()
        match self.interrupt():
            case "stopping":
                waiting = len(self.waiting)
                paused = f"; {waiting} queued, Enter resumes" if waiting else ""
                self.say(f"(stopping; Ctrl-C again ends the agent{paused})")
            case "ending":
                self.say("(ending the agent; Ctrl-D leaves)")
            case "idle":
                self.say("(Ctrl-C again leaves)")
                self.refresh()
            case "leaving":
                pass


class _Lines(Transcript):
    """A transcript between the typed lines."""

    def __init__(self, repl: LineRepl) -> None:
        super().__init__(repl.console.out, all_of_it="/export FILE writes them all")
        self._repl = repl

    def prompted(self, event: TurnStarted, text: str) -> None:
        if not self._repl.was_typed_now(event.turn):
            self.line(PROMPT + folded(safe(text), "/export FILE writes them all"))

    def ended(self, event: TurnEnded, words: str, stderr: str) -> None:
        self.line(f"— {words}")
        for line in quoted(stderr):
            self.line(line)
