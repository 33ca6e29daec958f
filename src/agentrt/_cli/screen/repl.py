"""An interactive session on a screen: the effects of keys, and the frames.

Two threads are involved. prompt_toolkit edits and draws in the terminal's thread (`terminal`,
`interface`, `keys`); this module and everything else runs in Trio's. A key calls a method of
`KeyListener` here (`…_key`), and `Screen.do` calls back. The terminal's thread never waits for
Trio's, so a busy session never delays a key.

Output is collected in a page and shown with the next frame (`draw`): at most one frame in
`FRAME_INTERVAL_S`, and no animation while nothing runs. `room` stops the session's events while too
much output waits, so that a slow terminal does not fill the memory.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Final

import trio

from ..._base.nesting import bare_errors
from ...errors import AgentrtError
from ...events import Command as AgentCommand
from ...events import Modes
from ..clipboard import pasted_image
from ..command_output import Run
from ..console import LAST_OUTPUT_S, quoted
from ..output import encoding_of
from ..repl.asking import QuestionScreen, at_terminal
from ..repl.conversation import DOUBLE_PRESS_S, Repl, SlashCommand
from ..repl.slash_commands import agent_commands
from ..repl.sources import SessionSource
from ..repl.view import Display
from ..session_view import SessionView
from ..setup import Setup
from ..signals import received_signals
from ..state import save_pasted_image
from ..text import one_line, plain, safe, wrapped
from .cards import OnScreen, kept_answer
from .completion import PromptCompleter
from .drawing import UNFINISHED_LINES, Drawing, greet, unfolded
from .interface import Interface, Live, open_history
from .keys import described_keys
from .pictures import picture_protocol
from .programs import edit, page
from .status import last_lines, queue_lines, status_line
from .style import Fragments, Painter, ScrollingText, chosen_looks, rendered, rows_of
from .terminal import Screen, open_screen

FRAME_INTERVAL_S: Final = 0.03
"""The minimum number of seconds between two frames."""
ANIMATION_INTERVAL_S: Final = 0.12
"""Seconds between two frames during an animation."""
PROMPT_LINES: Final = 4
"""Lines of the window that a longer text leaves for the prompt; else it is shown in a pager."""
UNFOLDED_ITEMS: Final = 2000
"""Items of the conversation that are shown in full."""
UPCOMING: Final = 3
"""Questions after the current one whose titles are shown."""
FRAME_BUFFER_CHARS: Final = 64 * 1024
"""Characters that may wait for the next frame."""


async def converse(
    setup: Setup,
    source: SessionSource,
    commands: Mapping[str, SlashCommand],
    *,
    colour: bool,
    pick: bool = False,
) -> int:
    """Run an interactive session until the user leaves; returns the exit status."""
    with received_signals() as signals:
        repl = ScreenRepl(setup, source, commands, colour=colour, pick=pick)
        return await repl.run_on_terminal(signals)


class ScreenRepl(Repl):
    """An interactive session on a `Screen`. It implements the keys of `Listener`."""

    def __init__(
        self,
        setup: Setup,
        source: SessionSource,
        commands: Mapping[str, SlashCommand],
        *,
        colour: bool,
        pick: bool = False,
    ) -> None:
        super().__init__(commands, source)
        self.early += ["/resume"] * pick
        self.screen: Screen
        self.nursery: trio.Nursery
        self._setup = setup
        self._colour = colour
        terminal = setup.config.terminal
        self.keys = described_keys(terminal.keys)
        painter = Painter(colour=colour, looks=chosen_looks(terminal.colors))
        self.page = ScrollingText(painter, self._width)
        self._words = PromptCompleter(setup.cwd)
        self.interface = Interface(self, open_history(setup.cwd), self._words)
        self._drawing = Drawing(self.page)
        self._dirty = trio.Event()
        self._taken = trio.Event()
        self._hint = ""
        self._hint_until = 0.0
        self._learned: tuple[Modes | None, list[AgentCommand]] = None, []
        self._leave_when_done = False
        self._newest: Callable[[], str] | None = None
        self._unfolded = 0
        """The number of shortened texts, from `_newest` on, that were shown in full."""

    def _width(self) -> int:
        return self.screen.size.columns

    # --- display

    def say(self, text: str) -> None:
        self.page.say(text, "ours")
        self._dirty.set()

    def say_long(self, lines: Sequence[str]) -> None:
        """Show lines of agentrt's own, in a pager if the window is too small for them."""
        width = self.page.width()
        self._show_long("".join(f"{wrapped(safe(line), width)}\n" for line in lines))

    def report(self, text: str, stderr: str = "") -> None:
        self.page.line(("bad", "agentrt: "), ("", plain(text)), kind="error")
        for line in quoted(stderr):
            self.page.line(("dim", line), kind="error")
        self._dirty.set()

    def hint(self, text: str) -> None:
        """Show a short-lived message in the line below the prompt."""
        self._hint = text
        self._hint_until = trio.current_time() + DOUBLE_PRESS_S
        self._dirty.set()

    def began(self, setup: Setup) -> tuple[Display, QuestionScreen]:
        """Prepare the drawing and the completions for another session."""
        pictures = picture_protocol(os.environ) if setup.config.terminal.images else None
        self._drawing = Drawing(self.page, pictures)
        self._learned = None, []
        self._words.commands = self._own_commands()
        self._dirty.set()
        return self._drawing, OnScreen(
            self.screen,
            self.interface,
            self.page,
            single_keys=setup.config.terminal.answer_with_key,
        )

    def opened(self, session: SessionView, nursery: trio.Nursery) -> None:
        """Show the greeting and the end of the history."""
        greet(self._drawing, session, self.setup, self.earlier, self._width())

    def _own_commands(self) -> list[tuple[str, str]]:
        """Return agentrt's commands for completion."""
        return [(f"/{c.name}", c.description) for c in self.commands.values()]

    def _learn_words(self) -> None:
        """Update the possible completions."""
        modes = self.view.modes
        self._learned = modes, self.view.commands
        self._words.commands = self._own_commands() + agent_commands(self)
        for name, choices in (
            ("/mode", modes.modes if modes is not None else []),
            ("/model", modes.models if modes is not None else []),
        ):
            self._words.arguments[name] = [
                (one_line(c.id), one_line(c.description or c.name)) for c in choices
            ]

    def refresh(self) -> None:
        """Draw the changed state, update the completions, and leave if that was waited for."""
        self._dirty.set()
        if (self.view.modes, self.view.commands) != self._learned:
            self._learn_words()
        if self._leave_when_done and not self.busy:
            self.leave()

    def closed(self) -> None:
        """Remove an open question from the screen."""
        self.screen.do(self.interface.stop_asking)

    async def run_on_terminal(self, signals: AsyncIterator[int]) -> int:
        """Run the session on the terminal until the user leaves; returns the exit status."""
        opened = open_screen(
            self.interface,
            colour=self._colour,
            looks=self.page.paint.looks,
            keys=self._setup.config.terminal.keys,
        )
        async with bare_errors(), opened as self.screen:
            async with bare_errors(), trio.open_nursery() as self.nursery:
                self.nursery.start_soon(self.obey, signals)
                self.nursery.start_soon(self.screen.serve)
                self.nursery.start_soon(self.watch_terminal)
                self.nursery.start_soon(self.draw)
                status = await self.run(self._setup)
                self.nursery.cancel_scope.cancel(reason="left")
            with trio.move_on_after(LAST_OUTPUT_S):
                await self.screen.paint(self.page.take(), Live())
        return status

    async def room(self) -> None:
        """Wait until the collected output has been taken by a frame."""
        while self.page.size > FRAME_BUFFER_CHARS:
            await self._taken.wait()

    def restore(self) -> None:
        self.screen.restore()

    async def watch_terminal(self) -> None:
        """Leave when the terminal has disappeared."""
        await self.screen.gone.wait()
        self.leave(128 + signal.SIGHUP, by_signal=True)

    def choose(self, command: str, rows: list[tuple[str, str]], current: str | None = None) -> None:
        """Show a menu below the prompt, to choose from with the arrow keys."""
        self._words.arguments[command] = [
            (name, f"{description}  (current)" if name == current else description)
            for name, description in rows
        ]
        self.screen.do(self.interface.offer, f"{command} ")

    # --- frames

    async def draw(self) -> None:
        """Draw frames. Runs until cancelled."""
        while True:
            hint = self._hint_until - trio.current_time()
            still = min(DOUBLE_PRESS_S, hint) if hint > 0 else DOUBLE_PRESS_S
            with trio.move_on_after(ANIMATION_INTERVAL_S if self._moving else still):
                await self._dirty.wait()
            self._dirty = trio.Event()
            text = self.page.take()
            taken, self._taken = self._taken, trio.Event()
            taken.set()
            await self.screen.paint(text, self._live())
            await trio.sleep(FRAME_INTERVAL_S)

    @property
    def _moving(self) -> bool:
        """True if something on the screen changes without an event, such as a spinner."""
        working = self.view.phase in ("starting", "running", "cancelling")
        return working or self.shell is not None

    def _live(self) -> Live:
        """Return the rows that are drawn again and again: the running work, and the status line."""
        view, now, size = self.view, trio.current_time(), self.screen.size
        above = self._work(now)
        above = last_lines(above, size.lines - 8, size.columns)
        offline = bool(self.source.trouble)
        running = not offline and view.phase not in ("idle", "dead", "closed")
        # While a question is open, the time that it has been waiting is shown.
        since = view.asked_since if view.phase == "waiting" else None
        since = view.since if since is None else since
        status = status_line(
            view,
            now - since if running else None,
            agent=self.session.agent.name if self.session is not None else self.setup.agent.name,
            permissions=self.setup.config.permissions.mode,
            queue=len(self.waiting),
            hint=self._hint if now < self._hint_until else self._standing_hint(),
            now=now,
            width=size.columns,
            offline=offline,
        )
        return Live(
            above=[("", "\n"), *above] if above else [("", "")], status=status, busy=running
        )

    def _work(self, now: float) -> Fragments:
        """Return the ongoing work, and everything that waits for its turn."""
        size = self.screen.size
        above = self._drawing.live(self.view, now, size.lines)
        if self.shell is not None:
            rows = [row for line in self.shell.tail for row in rows_of(line, size.columns)]
            for row in rows[-UNFINISHED_LINES:]:
                above += [*rendered(self.page.paint(*row)), ("", "\n")]
            words = one_line(self.shell.command, size.columns - 30)
            above += [("busy", "$ "), ("", words), ("dim", "   ctrl-c ends it\n")]
        if self.asker is not None and (others := self.asker.upcoming):
            above.append(
                ("ask", f"  {len(others)} more to answer after this one · nn rejects all\n")
            )
            titles = [one_line(title, max(10, size.columns - 6)) for title in others]
            above += [("dim", f"  · {title}\n") for title in titles[:UPCOMING]]
        above += queue_lines(self.waiting, paused=self.paused, width=size.columns)
        return above

    def _standing_hint(self) -> str:
        """Return the hint below the prompt for the present state."""
        if self._leave_when_done:
            return "quits when this is done"
        if self.left.is_set():
            return "leaving …"
        if self.asker is not None and self.asker.asking:
            return "ctrl-d rejects · ctrl-c stops the agent"
        if self.source.trouble:
            return "reconnecting … · ctrl-d quits"
        if self.view.phase == "cancelling":
            return "ctrl-c ends the agent"
        if self.view.phase == "dead":
            return "the next message restarts it"
        return "esc stops it" if self.view.phase == "running" else ""

    # --- keys

    def entered(self, text: str) -> None:
        """Take a prompt or a command. Commands are shown, because nothing else shows them."""
        text = text.strip()
        self._leave_when_done = False
        if text.startswith("!") and text != "!":
            self.page.line(("you", f"! {one_line(text[1:].strip())}"), kind="shell")
        elif text.startswith("/") and text[1:].partition(" ")[0] in self.commands:
            self.page.line(("you", f"❯ {one_line(text)}"), kind="you")
        self.typed(text, self.nursery)
        self._dirty.set()

    def answered(self, text: str | None) -> None:
        """Take an answer to the open question. Text that cannot be an answer is added to
        the draft.
        """
        asker = self.asker
        if asker is None or not asker.asking:
            if text:
                self.screen.do(self.interface.add_to_draft, text)
            return
        if text is not None and not asker.expects(text):
            if not text.strip():
                return  # Enter at a question that is completely visible
            self.screen.do(self.interface.add_to_draft, text)
            self.page.line(("warn", kept_answer(text)), kind="ask")
        asker.answer(text)
        self._dirty.set()

    def interrupted(self) -> None:
        """Handle a SIGINT, unless another program uses the terminal: it is meant for that one."""
        if not self.screen.is_lent:
            self.interrupt_key(cleared=False)

    def interrupt_key(self, cleared: bool) -> None:
        """Handle Ctrl-C: end the user's shell command, or else stop the agent, and leave
        at last.
        """
        if self.shell is not None:
            self.shell.stop()
            return
        match self.interrupt(draft=cleared):
            case "stopping":
                self._dirty.set()
            case "ending":
                self.hint("ending the agent; ctrl-d quits")
            case "idle":
                self.hint("ctrl-c again quits")
            case "leaving":
                self.hint("leaving …")

    def escape_key(self) -> None:
        """Stop the running turn."""
        if self.session is not None and self.view.phase in ("running", "waiting"):
            with at_terminal():
                self.session.cancel()

    def end_key(self) -> None:
        """Leave: after the running turn, or immediately if pressed again.

        Sessions of a server are left immediately, because they continue there.
        """
        stays = self.busy and not self._leave_when_done and not self.source.lasting
        if stays and self.session is not None:
            self._leave_when_done = True
            if self.asker is not None:
                self.asker.stop_asking()
            self.hint("quits when this is done; ctrl-d again quits now")
        else:
            self.leave()

    def mode_key(self) -> None:
        """Switch to the agent's next mode."""
        session = self.session
        modes = session.modes if session is not None else None
        if session is None or modes is None or not modes.modes:
            self.hint("the agent has no modes")
            return
        ids = [choice.id for choice in modes.modes]
        place = ids.index(modes.mode) + 1 if modes.mode in ids else 0
        self.nursery.start_soon(self._set_mode, session, ids[place % len(ids)])

    async def _set_mode(self, session: SessionView, mode: str) -> None:
        """Change the mode, and report the agent's error."""
        try:
            with at_terminal():
                await session.set_mode(mode)
        except AgentrtError as error:
            self.report_error(error)

    def expand_key(self) -> None:
        """Show the last shortened text; pressed again, the one before it."""
        shortened = self._drawing.shortened
        if not shortened:
            self.hint("nothing to expand")
            return
        newest = shortened[-1]
        self._unfolded = self._unfolded + 1 if newest is self._newest else 1
        self._newest = newest
        if self._unfolded > len(shortened):
            self._unfolded = 0
            self.hint("nothing before that was shortened")
            return
        self._show_long(shortened[-self._unfolded](), at_end=True)

    def transcript_key(self) -> None:
        self.nursery.start_soon(self._show_transcript)

    async def _show_transcript(self) -> None:
        """Show the whole conversation in a pager. It is drawn in a thread, because that can take
        long.
        """
        if (session := self.session) is None:
            return
        try:
            items = (await session.full_snapshot()).items
        except AgentrtError as error:
            self.report_error(error)
            return
        drawn = partial(unfolded, items[-UNFOLDED_ITEMS:], self.page.paint, self._width())
        text = await trio.to_thread.run_sync(drawn)
        if left := len(items) - UNFOLDED_ITEMS:
            if left > 0:
                text = f"… {left:,} items before these; /export FILE writes them all\n\n{text}"
        if text:
            self._show_long(text, at_end=True, pager=True)
        else:
            self.hint("there is no conversation yet")

    def paste_image_key(self) -> None:
        self.nursery.start_soon(self._paste_image)

    async def _paste_image(self) -> None:
        """Save the image in the clipboard, and refer to it in the prompt."""
        data = await pasted_image()
        if data is None:
            self.hint("no image in the clipboard, or no wl-paste or xclip to read it")
            return
        try:
            path = await trio.to_thread.run_sync(save_pasted_image, data)
        except OSError as error:
            self.report(f"the pasted image: {error.strerror}")
        else:
            self.screen.do(self.interface.add_to_draft, f'@"{path}" ', " ")

    def edit_earlier_key(self) -> None:
        """Run `/edit`."""
        self.typed("/edit", self.nursery)

    def take_back_key(self) -> None:
        """Take the last queued prompt back into the draft."""
        if (text := self.take_back()) is not None:
            self.screen.do(self.interface.add_to_draft, text, "\n")
            self._dirty.set()

    def edit_key(self, draft: str) -> None:
        self.nursery.start_soon(self._edit, draft)

    def show(self, lines: Sequence[list[Run]]) -> None:
        """Show lines, in a pager if the window is too small for them."""
        self._show_long("".join(self.page.paint(*line) + "\n" for line in lines))

    def _show_long(self, text: str, *, at_end: bool = False, pager: bool = False) -> None:
        """Show complete lines: above the prompt if the window has room for them, else in a pager.

        With `pager` always in a pager.
        """
        size = self.screen.size
        columns = max(1, size.columns)
        rows = sum(1 + len(line) // columns for line in text.split("\n"))
        if rows <= size.lines - PROMPT_LINES and not pager:
            self.page.write(text, "full", apart=True)
            self._dirty.set()
        else:
            self.nursery.start_soon(self._run_pager, text, at_end)

    async def _run_pager(self, text: str, at_end: bool) -> None:
        """Show text in the user's pager, which uses the terminal in the meantime; without one,
        print it.
        """
        try:
            async with self.screen.lent():
                shown = await page(text, encoding_of(sys.stdout), at_end=at_end)
        except (OSError, ValueError) as error:
            self.report(f"the pager: {error}")
            shown = False
        if not shown:
            self.page.write(text, "full", apart=True)
            self._dirty.set()

    def send_to_terminal(self, sequence: str) -> None:
        self.screen.do(self.screen.send, sequence)

    def set_draft(self, text: str) -> None:
        self.screen.do(self.interface.set_draft, text)

    def suspend_key(self) -> None:
        self.nursery.start_soon(self._suspend)

    # --- other programs

    async def _suspend(self) -> None:
        """Stop this process as a shell job, until the shell continues it."""
        async with self.screen.lent():
            os.kill(0, signal.SIGTSTP)  # from the main thread: it stops right here

    async def run_shell(self, command: str) -> None:
        """Run the user's shell command, and suggest sending its output to the agent."""
        await super().run_shell(command)
        if self.last_output is not None and self.last_output.text:
            self.hint("/send sends this output to the agent")

    def show_output(self, lines: Sequence[list[Run]]) -> None:
        self.page.write("".join(self.page.paint(*line) + "\n" for line in lines), "shell")
        self._dirty.set()

    async def _edit(self, draft: str) -> None:
        """Let the user edit the draft in their editor."""
        try:
            async with self.screen.lent():
                text = await edit(draft)
        except (OSError, ValueError) as error:
            self.report(f"the editor: {error}")
        else:
            self.screen.do(self.interface.set_draft, text)
