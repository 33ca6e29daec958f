"""An interactive session line by line, for simple terminals, pipes and screen readers.

Lines typed while the agent works are queued. Ctrl-C cancels the turn and, twice in a row, leaves;
Ctrl-D leaves. The terminal itself edits and echoes the lines; the agent's output appears between
them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import Final

import trio

from ..._base.nesting import bare_errors
from ..._version import __version__
from ...events import Item, TurnEnded, TurnRecord, TurnStarted, plain_text
from ..command_output import Run
from ..console import Console, LineReader, open_console, quoted
from ..exit_status import UsageError
from ..session_view import SessionView, text_of
from ..setup import Setup
from ..signals import received_signals
from ..text import folded, one_line, safe
from .asking import QuestionScreen
from .conversation import SHOWN_ITEMS, Repl, SlashCommand
from .sources import SessionSource
from .transcript import LineTranscript
from .view import Display, how_it_ended, how_it_failed, text_of_line, tool_title

PROMPT: Final = "> "
MORE: Final = "… "


async def converse_in_lines(
    setup: Setup, source: SessionSource, commands: Mapping[str, SlashCommand], *, pick: bool = False
) -> int:
    """Run a conversation line by line; returns the exit status."""
    status = 128 + signal.SIGHUP  # the status if the terminal disappears
    with received_signals() as signals:
        async with bare_errors(), trio.open_nursery() as nursery:
            scope = nursery.cancel_scope

            def gone(error: OSError) -> None:
                """End the session, because the terminal cannot be written."""
                scope.cancel(reason=str(error))

            async with open_console(gone, setup.config.terminal.color) as console:
                repl = LineRepl(console, source, commands)
                repl.early += ["/resume"] * pick
                nursery.start_soon(repl.obey, signals)
                status = await repl.run(setup)
            scope.cancel(reason="left")
    return status


class LineRepl(Repl):
    """An interactive session on a `Console`."""

    reachable = 1
    keys = (
        ("Enter", "send; with \\ at the end of the line, continue on the next line"),
        ("Ctrl-C", "stop the agent; twice in a row while nothing runs: leave"),
        ("Ctrl-D", "leave"),
    )

    def __init__(
        self, console: Console, source: SessionSource, commands: Mapping[str, SlashCommand]
    ) -> None:
        super().__init__(commands, source)
        self.console = console
        self._reader = LineReader(0)
        self._lines = _Lines(self)
        self._leave_when_done = False
        self._prompt_at = -1

    # --- display

    def say(self, text: str) -> None:
        self._lines.line(text)

    def say_long(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.say(line)

    def show_output(self, lines: Sequence[list[Run]]) -> None:
        """Show the next lines of the user's shell command; the prompt is shown again after them."""
        self._prompt_at = -1  # it follows also if there was no output
        self.show(lines)

    def show(self, lines: Sequence[list[Run]]) -> None:
        for line in lines:
            self.say(text_of_line(line))

    def send_to_terminal(self, sequence: str) -> None:
        """Write a control sequence. Raises `UsageError` if the output is not a capable terminal."""
        if not self.console.out.is_terminal or os.environ.get("TERM", "dumb") == "dumb":
            raise UsageError("the output does not go to a terminal with a clipboard")
        self.console.out.data(sequence.encode())

    def set_draft(self, text: str) -> None:
        """Show the text, as the terminal's own line editing cannot be filled."""
        self.say(f"The earlier prompt:\n{safe(text)}")

    def report(self, text: str, stderr: str = "") -> None:
        self.console.report(text, stderr)

    def began(self, setup: Setup) -> tuple[Display, QuestionScreen]:
        """Show that the agent is being started."""
        self._lines = _Lines(self)
        self.say(f"agentrt {__version__} · {self.source.opening(setup)}")
        return self._lines, self._lines

    def opened(self, session: SessionView, nursery: trio.Nursery) -> None:
        """Show the greeting and the history, and begin to read lines."""
        self._greet(session)
        nursery.start_soon(self._read, nursery)

    def closed(self) -> None:
        self.console.end()

    def _greet(self, session: SessionView) -> None:
        """Show the agent, its mode and model, and notes on the permissions."""
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
        self.say("/help · Ctrl-C stop · Ctrl-D quit · @ files · ! shell")
        self._show_history(self.earlier)

    def _show_history(self, earlier: list[Item | TurnRecord]) -> None:
        """Show the end of a resumed conversation."""
        if len(earlier) > SHOWN_ITEMS:
            self.say(f"… {len(earlier) - SHOWN_ITEMS} more")
        for each in earlier[-SHOWN_ITEMS:]:
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
        if self.shell is not None:
            return
        if self._leave_when_done:
            self.leave()
        elif out.count != self._prompt_at:
            self._lines.ask(PROMPT)
            self._prompt_at = out.count

    async def room(self) -> None:
        """Wait until the output has been written, if much of it waits."""
        if self.console.out.full:
            await self.console.out.room()

    # --- input

    def submit(self, text: str) -> None:
        """Send a prompt. While the agent works, it is queued, which is shown."""
        if self.busy:
            self.say(f"(queued, see /queue: {one_line(text, 60)})")
        super().submit(text)

    async def _read(self, nursery: trio.Nursery) -> None:
        """Read lines: each is an answer to the open question, a part of a prompt, or a prompt or
        command.

        A backslash at the end of a line continues it. The end of the input leaves immediately if
        nothing runs, and otherwise when the work is done; on a server, other clients can still
        answer. A terminal that has disappeared ends the program.
        """
        asker = self.asker
        assert asker is not None
        text = ""
        while True:
            line = await self._reader.readline()
            if line is None:
                if self._reader.gone:
                    self.leave(128 + signal.SIGHUP, by_signal=True)
                    return
                if not self.source.lasting and asker.answer(None):
                    continue
                if not self.busy or self.source.lasting:  # other clients can answer there
                    self.leave()
                    return
                self.say("(quitting when this is done; Ctrl-C stops it)")
                self._leave_when_done = True
                asker.stop_asking()
                return
            self.console.out.at_line_start = True  # the terminal echoed the Enter
            if not asker.is_prompt(line) and asker.answer(line):
                self.refresh()
                continue
            if line.endswith("\\"):
                text += line[:-1] + "\n"
                self._lines.ask(MORE)
                continue
            text, line = "", text + line
            self.typed(line.strip(), nursery)
            self._repeat_question()
            self.refresh()

    async def _obey_command(self, command: SlashCommand, argument: str) -> None:
        await super()._obey_command(command, argument)
        self._repeat_question()

    async def run_shell(self, command: str) -> None:
        await super().run_shell(command)
        self._repeat_question()

    def _repeat_question(self) -> None:
        """Show the prompt of an open question again, behind other output."""
        if self.asker is not None:
            self.asker.repeat()

    def interrupted(self) -> None:
        """Handle Ctrl-C: end the user's shell command, or else stop the agent, and leave
        at last.
        """
        self.console.interrupted()
        if self.shell is not None:
            self.shell.stop()
            return
        match self.interrupt():
            case "stopping":
                waiting = len(self.waiting)
                paused = f"; {waiting} queued, Enter resumes" if waiting else ""
                self.say(f"(stopping; Ctrl-C again ends the agent{paused})")
            case "ending":
                self.say("(ending the agent; Ctrl-D quits)")
            case "idle":
                self.say("(Ctrl-C again quits)")
                self.refresh()
            case "leaving":
                pass


class _Lines(LineTranscript):
    """A transcript between the typed lines."""

    def __init__(self, repl: LineRepl) -> None:
        super().__init__(repl.console.out, all_of_it="/export FILE writes them all")
        self._repl = repl

    def prompted(self, event: TurnStarted, text: str) -> None:
        """Show a prompt, unless it was typed here, where the terminal has echoed it."""
        if not self._repl.was_typed_now(event.turn):
            self.line(PROMPT + folded(safe(text), "/export FILE writes them all"))

    def ended(self, event: TurnEnded, words: str, stderr: str) -> None:
        """Show an unexpected end of a turn, with the agent's standard error."""
        self.line(f"— {words}")
        for line in quoted(stderr):
            self.line(line)
