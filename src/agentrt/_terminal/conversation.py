"""A conversation at a terminal, whatever shows it: one session after the other, the prompts that
wait for their turn, stopping and leaving.

`repl.py` shows it line by line, `screen/` with a prompt that stays where it is.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from typing import Final, Literal, NamedTuple

import trio
from msgspec import structs

from .._errors import AgentrtError, AgentStartError, SessionClosed
from .._model.events import Event, Phase, StateChanged, TurnStarted
from .._runtime.permissions import Decision, PermissionRequest
from .._runtime.scopes import bare_errors
from .._runtime.session import Session, Subscription
from .commands import COMMANDS, Command
from .console import PARTING
from .past import Note
from .sessions import Stored
from .setup import Setup, exit_code
from .signals import INTERRUPTED, let_the_next_one_kill

TWICE: Final = 2.0
"""Seconds in which a second Ctrl-C means to leave."""
STDERR: Final = 8192
"""Bytes of the agent's standard error that are kept."""
HISTORY: Final = 20
"""Items of a resumed conversation that are shown."""


class Typed(NamedTuple):
    """A prompt, and whether it was typed while the agent was busy."""

    text: str
    ahead: bool


class Conversation(ABC):
    """What all ways to show a conversation share. Theirs are the methods of the first part."""

    def __init__(self) -> None:
        self.setup: Setup
        self.session: Session | None = None
        self.waiting: deque[Typed] = deque()
        """Prompts that were typed ahead."""
        self.held: deque[Typed] = deque()
        """Those that a cancel held back."""
        self.offered: list[Stored] = []
        """The earlier sessions that were shown last."""
        self._stderr = bytearray()
        self.phase: Phase = "starting"
        self.left = trio.Event()
        """The session that is open is to be left."""
        self._running = False
        self._sent_ahead = False
        self._status = 0
        self._next: Setup | None = None
        self._shown = trio.Event()
        self._opening = trio.CancelScope()
        self._work = trio.Event()
        self._sending = trio.CancelScope()
        self._interrupted_at = float("-inf")

    # --- how it is shown

    @abstractmethod
    def say(self, text: str) -> None:
        """A line of ours."""

    @abstractmethod
    def tell(self, text: str, stderr: str = "") -> None:
        """Something that went wrong, with the end of what an agent wrote to its stderr."""

    @abstractmethod
    def began(self, setup: Setup) -> None:
        """An agent is being started."""

    @abstractmethod
    def opened(self, session: Session, nursery: trio.Nursery) -> None:
        """It has started; tasks that live as long as the session go into the nursery."""

    @abstractmethod
    def take(self, event: Event) -> None:
        """Something happened in the session."""

    @abstractmethod
    def settled(self) -> None:
        """Something came to its end: it may be the person's turn now."""

    @abstractmethod
    def closed(self) -> None:
        """The session is over, and everything that was in it was given to `take`."""

    async def room(self) -> None:
        """Wait until what was given to `take` has been shown, more or less."""
        await trio.lowlevel.checkpoint()

    def restore(self) -> None:  # noqa: B027 - nothing, unless it matters to the form
        """Leave the terminal as it was: the next signal ends the process."""

    def choose(self, command: str, rows: list[tuple[str, str]], current: str | None = None) -> None:
        """Offer what the command can be given, each with what it is."""
        width = max(len(name) for name, _ in rows)
        for name, description in rows:
            mark = "*" if name == current else " "
            self.say(f"{mark} {name.ljust(width)}  {description}".rstrip())
        self.say(f"{command} and what stands in front chooses one.")

    # --- one session after the other

    async def run(self, setup: Setup) -> int:
        """Talk; returns the exit status."""
        before: Setup | None = None
        while True:
            self.setup = setup
            try:
                await self._talk(setup)
            except AgentrtError as error:
                self.tell_error(error)
                if before is None:
                    return exit_code(error)
                self._next, before = before, None
            else:
                before = self._as_it_was(setup)
            if self._next is None:
                return self._status
            setup, self._next = self._next, None

    def _as_it_was(self, setup: Setup) -> Setup:
        """How to go on with the session that was left."""
        session = self.session
        resumable = session is not None and session.capabilities.get("resume")
        resume = session.agent_session if session is not None and resumable else None
        return structs.replace(setup, resume=resume, note="")

    async def _talk(self, setup: Setup) -> None:
        """One session, until it is left. Raises `AgentrtError` if it cannot be opened."""
        self.session, self.phase = None, "starting"
        self._stderr.clear()
        self.left, self._shown = trio.Event(), trio.Event()
        self._decide = setup.policy(setup.config.permissions.mode or "ask", attended=True)
        self.began(setup)
        try:
            with trio.CancelScope() as self._opening:
                opening = setup.open(
                    self._policy, limits=setup.limits, replay=True, on_stderr=self._keep_stderr
                )
                async with opening as session:
                    self.session = session
                    async with bare_errors(), trio.open_nursery() as nursery:
                        self.opened(session, nursery)
                        note = Note(session, setup.agent.name, setup.cwd)
                        nursery.start_soon(self._show, session.subscribe_all(), note)
                        nursery.start_soon(self._prompt, session)
                        await self.left.wait()
                        await session.aclose()
                        with trio.move_on_after(PARTING):
                            await self._shown.wait()
                        nursery.cancel_scope.cancel(reason="left")
        finally:
            self.closed()

    async def _show(self, events: Subscription, note: Note) -> None:
        async for event in events:
            match event:
                case StateChanged(state=state):
                    self.phase = state.phase
                case TurnStarted():
                    self.phase = "running"
                case _:
                    pass
            self.take(event)
            note.take(event)
            self.settled()
            await self.room()
        self._shown.set()

    def _policy(self, request: PermissionRequest) -> Decision | Awaitable[Decision]:
        """The rules as they are now: they may change in the middle of a session."""
        return self._decide(request)

    @property
    def stderr(self) -> str:
        """The end of what the agent has written to its standard error."""
        return self._stderr.decode(errors="replace")

    def _keep_stderr(self, data: bytes) -> None:
        self._stderr += data
        del self._stderr[:-STDERR]

    def permit(self, setup: Setup) -> None:
        """Go on by the rules of another setup. Raises `UsageError` for one that is none."""
        self._decide = setup.policy(setup.config.permissions.mode or "ask", attended=True)
        self.setup = setup

    def tell_error(self, error: AgentrtError) -> None:
        """An error in one line, and what the agent said."""
        if isinstance(error, AgentStartError):
            self.tell(str(error).partition("\n---")[0], error.stderr)
        else:
            self.tell(str(error))

    # --- prompts

    @property
    def busy(self) -> bool:
        """Whether a prompt that is typed now has to wait."""
        return self._running or bool(self.waiting) or self.phase not in ("idle", "dead")

    @property
    def sent_ahead(self) -> bool:
        """Whether the prompt that runs had to wait."""
        return self._sent_ahead

    def submit(self, text: str) -> None:
        """Send a prompt, as soon as its turn has come."""
        self.waiting.append(Typed(text, ahead=self.busy))
        self._work.set()

    def go_on(self) -> None:
        """Let the prompts go on that a cancel held back."""
        self.waiting.extend(self.held)
        self.held.clear()
        self._work.set()

    async def _prompt(self, session: Session) -> None:
        """Send what was typed, one prompt after the other."""
        while True:
            while not self.waiting:
                self._work = trio.Event()
                await self._work.wait()
            typed = self.waiting.popleft()
            self._sent_ahead = typed.ahead
            self._running = True
            try:
                with trio.CancelScope() as self._sending:
                    await session.run(typed.text, check=False)
            except SessionClosed:
                return
            except AgentrtError as error:
                self.tell_error(error)
            finally:
                self._running = False
            self.settled()

    def typed(self, line: str, nursery: trio.Nursery) -> None:
        """Something was typed that answers nothing: a command, or a prompt."""
        self._interrupted_at = float("-inf")
        name, _, argument = line.removeprefix("/").partition(" ")
        if not line:
            self.go_on()
        elif line.startswith("//"):
            self.submit(line[1:])
        elif line.startswith("/") and name in COMMANDS:
            nursery.start_soon(self._obey_command, COMMANDS[name], argument.strip())
        else:
            self.submit(line)

    async def _obey_command(self, command: Command, argument: str) -> None:
        try:
            await command.run(self, argument)
        except AgentrtError as error:
            self.tell_error(error)
        self.settled()

    # --- stopping and leaving

    def leave(self, status: int = 0, next: Setup | None = None) -> None:
        """End the session: for good, or for another one."""
        self._status, self._next = status, next
        self.left.set()
        if self.session is None:
            self._opening.cancel(reason="left")

    async def obey(self, signals: AsyncIterator[int]) -> None:
        """Take the signals that end things."""
        async for number in signals:
            if self.left.is_set():
                if number != signal.SIGHUP:  # which comes twice when a terminal is closed
                    self.restore()
                    let_the_next_one_kill()
            elif number == signal.SIGINT:
                self.interrupted()
            else:
                self.leave(128 + number)

    def interrupted(self) -> None:
        """Ctrl-C, as a signal."""
        self.interrupt()

    def interrupt(self, *, draft: bool = False) -> Literal["leaving", "stopping", "idle"]:
        """Stop what runs; leave, if it is the second time. `draft`: something is typed, which goes
        first where nothing runs."""
        session, now = self.session, trio.current_time()
        again = now - self._interrupted_at < TWICE
        self._interrupted_at = now
        state = session.state if session is not None else None
        idle = state is not None and state.turn is None and not self._running
        if idle and (draft or not again):
            return "idle"
        if session is None or state is None or again or state.phase == "cancelling":
            self.leave(INTERRUPTED)
            return "leaving"
        self.stop()
        return "stopping"

    def stop(self) -> None:
        """Cancel what runs; what waits is held back."""
        session = self.session
        if session is None:
            return
        self.held.extendleft(reversed(self.waiting))
        self.waiting.clear()
        turn = session.state.turn
        if turn is None or turn.origin == "agent":
            self._sending.cancel(reason="stopped")  # it has not been sent yet
        session.cancel()
