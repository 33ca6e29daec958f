"""An interactive session, independent of its display.

It opens one session after the other, sends the typed prompts, stops turns and leaves. Waiting
prompts are in the session's queue. `line_mode` displays it line by line, `screen/repl` with a
prompt that stays in place.

The rules of the keyboard are here, so that both displays obey the same ones. A line is an answer, a
prompt, a slash command, a shell command (`!`) or, if it is empty, the continuation of a paused
queue. Ctrl-C stops the running turn; a second one ends an agent that does not stop; and if nothing
runs, two within `DOUBLE_PRESS_S` leave.

A session is left by setting `left`: with the next setup, for another session, or with an exit
status. Lines that are typed while none is open are kept (`early`) and sent to the next one.
"""

from __future__ import annotations

import re
import signal
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias

import trio
from msgspec import Struct, structs

from ..._base.nesting import bare_errors
from ...display import difference
from ...errors import AgentrtError, AgentStartError
from ...events import (
    TERMINAL,
    Block,
    Event,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemUpdated,
    PermissionOpened,
    PlanChanged,
    ResourceLink,
    Snapshot,
    TaskChanged,
    TurnEnded,
    TurnRecord,
)
from ...hosting import ChangingPolicy
from ...lowlevel import SessionState
from ...permissions import Policy, ask
from ...tracing import RecentWire
from ..command_output import REACHABLE_ROWS, Run
from ..console import LAST_OUTPUT_S
from ..exit_status import exit_code
from ..last_signal import exit_at_next_signal
from ..session_view import SessionView, SubmittedPrompt, prompt_of, text_of
from ..setup import Setup
from ..signals import INTERRUPTED
from ..state import SessionRecorder
from ..stores import EarlierSession
from ..text import one_line
from .asking import Asker, QuestionScreen, at_terminal
from .shell import Shell, ShellOutput
from .sources import SessionSource
from .view import Display, View, how_it_ended

DOUBLE_PRESS_S: Final = 2.0
"""Seconds within which a second Ctrl-C means to leave."""
STDERR_BYTES: Final = 8192
"""Bytes of the agent's standard error that are kept."""
SHOWN_ITEMS: Final = 20
"""Items of a resumed conversation that are shown."""

_OPEN: Final = (
    ItemOpened,
    ItemDelta,
    ItemUpdated,
    ItemClosed,
    PermissionOpened,
    PlanChanged,
    TaskChanged,
)
"""Events about ongoing items, which are shown below the history."""

Interrupt: TypeAlias = Literal["leaving", "ending", "stopping", "idle"]
"""The effect of a Ctrl-C."""


class SlashCommand(Struct, frozen=True):
    """A slash command.

    `run` receives the text that follows the name. If it raises `AgentrtError`, the error is shown.
    """

    name: str
    description: str
    run: Callable[[Repl, str], Awaitable[None]]
    hint: str = ""


_COMMAND: Final = re.compile(r"[\w:.-]+")


def what_is_meant(ours: Collection[str], view: View, line: str) -> str | None:
    """Explain why a line that starts with a slash is not a command.

    Returns None if the line may be sent as it is: it looks like a path, or the agent does not list
    its commands and none of ours is similar.
    """
    name = line[1:].partition(" ")[0].partition("\n")[0]
    theirs = [command.name for command in view.commands]
    if name in theirs or not _COMMAND.fullmatch(name):
        return None
    near = get_close_matches(name.casefold(), [*ours, *theirs], 1)
    if not near and not theirs:
        return None
    meant = f"; did you mean /{one_line(near[0])}?" if near else ""
    return f"unknown command /{name}{meant} (//{name} sends it to the agent unchanged)"


def _over(now: Snapshot) -> SessionState:
    """Return the finished part of a session, which is shown as history."""
    state = SessionState()
    state.turns.update((turn.id, turn) for turn in now.turns)
    state.add_items(item for item in now.items if item.status in TERMINAL)
    state.tasks = {task.id: task for task in now.tasks if task.status in TERMINAL}
    if now.state.turn is None:
        state.plan = now.plan
    return state


class Repl(ABC):
    """The part of an interactive session that all displays share.

    Subclasses implement the methods of the first part.
    """

    keys: Sequence[tuple[str, str]]
    """The keys that have an effect, each with its description, for `/help`."""

    reachable: int = REACHABLE_ROWS
    """The last lines of a shell command's output that are drawn, and not printed yet."""

    def __init__(self, commands: Mapping[str, SlashCommand], source: SessionSource) -> None:
        """Create it for the sessions of `source`."""
        self.source = source
        self.commands = commands
        self.setup: Setup
        self.session: SessionView | None = None
        self.view: View
        """View of the open session, or of the last one."""
        self.asker: Asker | None = None
        self.early: list[str] = []
        """Lines that were typed before there was a session."""
        self.offered: list[EarlierSession] = []
        """The earlier sessions that were listed last."""
        self.session_nursery: trio.Nursery
        """Nursery for tasks that live as long as the session."""
        self.shell: Shell | None = None
        """The running shell command of the user."""
        self.last_output: ShellOutput | None = None
        """The last shell command that the user ran here."""
        self.wire: RecentWire | None = None
        """Recent protocol messages of the session; None until they are first requested."""
        self._stderr = bytearray()
        self._policy = ChangingPolicy(ask)
        """The current rules; they can change during a session."""
        self.left = trio.Event()
        """Set when the open session must be left."""
        self._at_once: SubmittedPrompt | None = None
        self._before: Snapshot | None = None
        self._status = 0
        self._by_user = True
        self._next: Setup | None = None
        self._shown = trio.Event()
        self._opening = trio.CancelScope()
        self._interrupted_at = float("-inf")

    # --- display

    @abstractmethod
    def say(self, text: str) -> None:
        """Show a line of agentrt's own."""

    @abstractmethod
    def say_long(self, lines: Sequence[str]) -> None:
        """Show lines of agentrt's own that are read from the first one on."""

    @abstractmethod
    def show_output(self, lines: Sequence[list[Run]]) -> None:
        """Show the next lines of the output of the user's shell command."""

    @abstractmethod
    def show(self, lines: Sequence[list[Run]]) -> None:
        """Show any number of lines, whose texts are safe to display."""

    @abstractmethod
    def send_to_terminal(self, sequence: str) -> None:
        """Write a control sequence that draws nothing.

        Raises `UsageError` if the output does not go to a terminal.
        """

    @abstractmethod
    def set_draft(self, text: str) -> None:
        """Let the user edit this text as the next prompt."""

    @abstractmethod
    def report(self, text: str, stderr: str = "") -> None:
        """Show an error, with the end of the agent's standard error."""

    @abstractmethod
    def began(self, setup: Setup) -> tuple[Display, QuestionScreen]:
        """Prepare the display for an agent that is being started.

        Returns where the session and where its questions are shown.
        """

    @abstractmethod
    def opened(self, session: SessionView, nursery: trio.Nursery) -> None:
        """Show that the session is open.

        `nursery` is for tasks that live as long as the session.
        """

    @abstractmethod
    def refresh(self) -> None:
        """Show the current state; something ended, and it may be the user's turn."""

    @abstractmethod
    def closed(self) -> None:
        """Clean up after the session has ended and all of it has been shown."""

    async def room(self) -> None:
        """Wait until the pending output has been shown, approximately."""
        await trio.lowlevel.checkpoint()

    def restore(self) -> None:  # noqa: B027 - optional for subclasses
        """Restore the terminal; the next signal ends the process."""

    def choose(self, command: str, rows: list[tuple[str, str]], current: str | None = None) -> None:
        """List the possible arguments of a command, each with its description."""
        width = max(len(name) for name, _ in rows)
        for name, description in rows:
            mark = "*" if name == current else " "
            self.say(f"{mark} {name.ljust(width)}  {description}".rstrip())
        self.say(f"{command} and a name from the first column chooses one.")

    # --- one session after the other

    async def run(self, setup: Setup) -> int:
        """Run until the user leaves; returns the exit status."""
        before: Setup | None = None
        while True:
            self.setup = setup
            try:
                await self._talk(setup)
            except AgentrtError as error:
                self.report_error(error)
                if before is None:
                    return exit_code(error)
                self._next, before = before, None
            else:
                before = structs.replace(setup, resume=None, note="")
                if self.session is not None:
                    before = self.source.resuming(self.session, setup)
            if self._next is None:
                return self._status
            setup, self._next = self._next, None

    def record_wire(self, wire: RecentWire) -> None:
        """Record the session's protocol messages from now on, until it ends."""
        self.wire = wire
        self.session_nursery.start_soon(wire.listen)

    async def _talk(self, setup: Setup) -> None:
        """Run one session until it is left.

        Raises `AgentrtError` if it cannot be opened.
        """
        self.session, self.asker, self._at_once = None, None, None
        self._before = self.wire = None
        self._stderr.clear()
        self.left, self._shown = trio.Event(), trio.Event()
        self._policy.policy = self._policy_of(setup)
        display, shows = self.began(setup)
        self.view = View(display)
        try:
            with trio.CancelScope() as self._opening:
                opening = self.source.open(
                    setup,
                    self._policy,
                    on_stderr=self._keep_stderr,
                    report=self.report,
                    refresh=self.refresh,
                )
                async with opening as (session, events, now):
                    self.session = session
                    self.asker = asker = Asker(session, self.view, shows)
                    self._before = now
                    missed = difference(_over(now), now) if now is not None else []
                    for event in missed:
                        if not isinstance(event, _OPEN):
                            self.view.take(event)  # needed by the greeting: modes, models, commands
                    async with bare_errors(), trio.open_nursery() as nursery:
                        self.session_nursery = nursery
                        self.opened(session, nursery)
                        for event in missed:
                            if isinstance(event, _OPEN):
                                self.view.take(event)
                                asker.take(event)
                        note = SessionRecorder(session, setup.agent.name, setup.cwd)
                        nursery.start_soon(self._show, events, asker, note)
                        early, self.early = self.early, []
                        for line in early:
                            self.typed(line, nursery)
                        self.refresh()  # a stored session has no events of its own at first
                        await self.left.wait()
                        with at_terminal() if self._by_user else nullcontext():
                            await session.aclose()
                        with trio.move_on_after(LAST_OUTPUT_S):
                            await self._shown.wait()
                        nursery.cancel_scope.cancel(reason="left")
        finally:
            self.closed()

    @property
    def earlier(self) -> list[Item | TurnRecord]:
        """The history of a resumed conversation.

        A turn that did not end as expected follows its last item.
        """
        if self.session is None:
            return []
        now, known = self._before or self.session.snapshot(), self._before is not None
        items = [
            item
            for item in now.items
            if (item.replay or known) and item.parent is None and item.status in TERMINAL
        ]
        last = {item.turn: item.id for item in items}
        ended = {last.get(turn.id): turn for turn in now.turns if how_it_ended(turn) is not None}
        shown: list[Item | TurnRecord] = []
        for item in items:
            shown.append(item)
            if item.id in ended:
                shown.append(ended[item.id])
        return shown

    async def _show(
        self, events: AsyncIterator[Event], asker: Asker, note: SessionRecorder
    ) -> None:
        """Show the events of the session until it ends.

        Reading pauses while too much output waits to be displayed.
        """
        own = self.source.own
        async for event in events:
            self.view.take(event)
            asker.take(event)
            if own is None and not self.source.lasting:
                note.take(event)
            if isinstance(event, TurnEnded):
                self._at_once = None
                if own is not None and self.session is not None:
                    own.last = self.session.id
            self.refresh()
            await self.room()
        self._shown.set()

    @staticmethod
    def _policy_of(setup: Setup) -> Policy:
        """Return the policy for a person at the terminal, who is asked unless the settings
        decide.
        """
        return setup.policy(setup.config.permissions.mode or "ask", attended=True)

    @property
    def stderr(self) -> str:
        """The end of the agent's standard error."""
        return self._stderr.decode(errors="replace")

    def _keep_stderr(self, data: bytes) -> None:
        """Keep the end of the agent's standard error, for an error message."""
        self._stderr += data
        del self._stderr[:-STDERR_BYTES]

    def permit(self, setup: Setup) -> None:
        """Continue with the rules of another setup.

        Raises `UsageError` if a rule is invalid.
        """
        self._policy.policy = self._policy_of(setup)
        self.setup = setup

    def report_error(self, error: AgentrtError) -> None:
        """Show an error in one line, with the agent's standard error if it did not start."""
        if isinstance(error, AgentStartError):
            self.report(str(error).partition("\n---")[0], error.stderr)
        else:
            self.report(str(error))

    # --- prompts

    @property
    def busy(self) -> bool:
        """True if a prompt typed now has to wait, or if an answer has not been shown completely."""
        session = self.session
        if session is None or session.state.turn is not None:
            return True
        waiting = any(not entry.paused for entry in session.queue)
        resting = {session.state.phase, self.view.phase} <= {"idle", "dead"}
        return waiting or not resting

    @property
    def waiting(self) -> list[str]:
        """The waiting prompts, including lines typed before there was a session."""
        queue = list(self.session.queue) if self.session is not None else []
        return [*(text_of(entry.content) for entry in queue), *self.early]

    @property
    def paused(self) -> int:
        """The number of waiting prompts that are paused."""
        return 0 if self.session is None else sum(entry.paused for entry in self.session.queue)

    def was_typed_now(self, turn: str) -> bool:
        """Return True if the prompt of this turn is already on the screen, directly above its
        answer.
        """
        return self._at_once is not None and self._at_once.id == turn

    def prompt_of(self, text: str) -> list[Block]:
        """Return the blocks of a typed prompt, with images if the agent takes them."""
        session = self.session
        images = session is not None and session.capabilities.get("image") is True
        return prompt_of(text, self.setup.cwd, images=images)

    def submit(self, text: str) -> None:
        """Send a prompt, or queue it until the agent is free."""
        session = self.session
        if session is None or self._next is not None:  # the next session is being opened
            self.early.append(text)
            return
        busy = self.busy
        try:
            with at_terminal():
                turn = session.submit(self.prompt_of(text))
        except AgentrtError as error:
            self.report_error(error)
        else:
            if not busy:
                self._at_once = turn

    def go_on(self) -> None:
        """Resume the paused prompts."""
        if self.session is not None and self.session.queue:
            with at_terminal():
                self.session.queue.resume()

    def take_back(self) -> str | None:
        """Take the last prompt out of the queue and return its text.

        A paused prompt is taken only if no other one waits. Returns None if the queue is empty.
        """
        if self.early:
            return self.early.pop()
        entries = list(self.session.queue) if self.session is not None else []
        if self.session is None or not entries:
            return None
        ready = [entry for entry in entries if not entry.paused]
        last = (ready or entries)[-1]
        if any(not isinstance(each, ResourceLink) and each.cut for each in last.content):
            self.report("the prompt is too long to be taken back; it was sent by another client")
            return None
        with at_terminal():
            self.session.queue.remove(last.id)
        return text_of(last.content)

    def typed(self, line: str, nursery: trio.Nursery) -> None:
        """Handle a typed line that is not an answer: run a command or send a prompt."""
        self._interrupted_at = float("-inf")
        name, _, argument = line.removeprefix("/").partition(" ")
        if not line:
            self.go_on()
        elif line.startswith("/") and name in self.commands:
            nursery.start_soon(self._obey_command, self.commands[name], argument.strip())
        elif line.startswith("!") and line != "!":
            nursery.start_soon(self.run_shell, line[1:].strip())
        elif self.session is None:
            self.early.append(line)
        elif line.startswith("//"):
            self.submit(line[1:])
        elif line.startswith("/") and (why := what_is_meant(self.commands, self.view, line)):
            self.report(why)
        else:
            self.submit(line)

    async def _obey_command(self, command: SlashCommand, argument: str) -> None:
        """Run a command, and report its error instead of ending the session."""
        try:
            with at_terminal():
                await command.run(self, argument)
        except AgentrtError as error:
            self.report_error(error)
        self.refresh()

    async def run_shell(self, command: str) -> None:
        """Run a shell command of the user, one at a time, and show its output."""
        if self.shell is not None:
            self.report("a command is running; Ctrl-C ends it")
            return
        self.shell = Shell(command, self.setup.cwd, self.show_output, self.room, self.reachable)
        try:
            self.last_output = await self.shell.run()
        except OSError as error:
            self.report(f"the shell: {error.strerror}")
        else:
            if self.last_output.status:
                self.show_output([[("bad", f"exit status {self.last_output.status}")]])
        finally:
            self.shell = None
            self.refresh()

    # --- stopping and leaving

    def leave(self, status: int = 0, next: Setup | None = None, *, by_signal: bool = False) -> None:
        """End the session and leave with `status`, or continue with the setup `next`.

        `by_signal`: a signal or the loss of the terminal ends the program; otherwise its user
        does.
        """
        self._status, self._next, self._by_user = status, next, not by_signal
        self.left.set()
        if self.session is None:
            self._opening.cancel(reason="left")

    def _before_exit(self) -> None:
        """Restore the terminal, on which a frame may have been drawn since, and kill the user's
        shell command, which has no guard.
        """
        self.restore()
        if self.shell is not None:
            self.shell.kill()

    async def obey(self, signals: AsyncIterator[int]) -> None:
        """Handle the signals that interrupt or end the program."""
        async for number in signals:
            if self.left.is_set():
                if number != signal.SIGHUP:  # which comes twice when a terminal is closed
                    self.restore()
                    exit_at_next_signal(self._before_exit)
            elif number == signal.SIGINT:
                self.interrupted()
            else:
                self.leave(128 + number, by_signal=True)

    def interrupted(self) -> None:
        """Handle Ctrl-C that arrived as a signal."""
        self.interrupt()

    def interrupt(self, *, draft: bool = False) -> Interrupt:
        """Stop the running turn, end an agent that is already being stopped, or leave.

        It leaves if nothing runs and this is the second time. `draft`: some text is typed; if
        nothing runs, this Ctrl-C only discards the text.
        """
        session, now = self.session, trio.current_time()
        again = now - self._interrupted_at < DOUBLE_PRESS_S
        self._interrupted_at = float("-inf")
        if session is None or self.left.is_set():
            self.leave(INTERRUPTED)
            return "leaving"
        if session.state.phase == "cancelling":
            with at_terminal():
                session.cancel(now=True)
            return "ending"
        waiting = any(not entry.paused for entry in session.queue)
        if session.state.turn is not None or waiting:
            with at_terminal():
                session.cancel()
            return "stopping"
        if draft or not again:
            self._interrupted_at = now
            return "idle"
        self.leave(INTERRUPTED)
        return "leaving"
