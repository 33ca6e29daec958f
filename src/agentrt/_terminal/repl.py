"""A conversation in the terminal, line by line.

What is typed while the agent works waits for its turn. Ctrl-C cancels the turn, twice it leaves;
Ctrl-D leaves. The lines stay the terminal's own: it edits them, it echoes them, and whatever the
agent writes meanwhile appears between them.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import trio
from msgspec import structs

from .. import __version__
from .._errors import AgentrtError, SessionClosed
from .._model.content import plain_text
from .._model.events import Item, Phase, StateChanged, TurnEnded, TurnStarted
from .._runtime.scopes import bare_errors
from .._runtime.session import Session, Subscription
from .asking import Asker
from .commands import COMMANDS, Command
from .console import PARTING, Console, open_console, quoted, stderr_of
from .lines import LineReader
from .setup import Setup, exit_code
from .signals import INTERRUPTED, ending_signals, let_the_next_one_kill
from .text import one_line, safe
from .transcript import Transcript, how_it_ended, tool_title

PROMPT: Final = "> "
MORE: Final = "… "
TWICE: Final = 2.0
"""Seconds in which a second Ctrl-C means to leave."""
HISTORY: Final = 20
"""Items of a resumed conversation that are shown."""


async def converse(setup: Setup) -> int:
    """Talk until it is left; returns the exit status."""
    status = 128 + signal.SIGHUP  # unless it ends otherwise than by a terminal that is gone
    with trio.open_signal_receiver(*ending_signals()) as signals:
        async with bare_errors(), trio.open_nursery() as nursery:
            scope = nursery.cancel_scope
            async with open_console(lambda error: scope.cancel(reason=str(error))) as console:
                repl = Repl(console)
                nursery.start_soon(repl.obey, signals)
                status = await repl.run(setup)
            scope.cancel(reason="left")
    return status


class Typed(NamedTuple):
    """A prompt, and whether it was typed while the agent was busy."""

    text: str
    ahead: bool


class Repl:
    """The conversation: one session after the other, if the agent is changed."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.setup: Setup
        self.session: Session | None = None
        self.waiting: deque[Typed] = deque()
        """Prompts that were typed ahead."""
        self.held: deque[Typed] = deque()
        """Those that a cancel held back."""
        self._reader = LineReader(0)
        self._story = Transcript(console.out)
        self._asker: Asker | None = None
        self._phase: Phase = "starting"
        self._running = False
        self._status = 0
        self._next: Setup | None = None
        self._echo = False
        self._left, self._shown = trio.Event(), trio.Event()
        self._leave_when_done = False
        self._opening = trio.CancelScope()
        self._work = trio.Event()
        self._sending = trio.CancelScope()
        self._prompt_at = -1
        self._interrupted_at = float("-inf")

    async def run(self, setup: Setup) -> int:
        """Talk; returns the exit status."""
        before: Setup | None = None
        while True:
            self.setup = setup
            try:
                await self._talk(setup)
            except AgentrtError as error:
                self.console.tell_error(error)
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
        self.session, self._asker, self._phase = None, None, "starting"
        self._left, self._shown = trio.Event(), trio.Event()
        self._story.line(f"agentrt {__version__} · starting {setup.agent.name} …")
        policy = setup.policy(setup.config.permissions.mode or "ask", attended=True)
        with trio.CancelScope() as self._opening:
            async with setup.open(policy, limits=setup.limits, replay=True) as session:
                self.session = session
                self._asker = Asker(session, self._story)
                self._greet(session)
                async with bare_errors(), trio.open_nursery() as nursery:
                    nursery.start_soon(self._show, session.subscribe_all(), self._asker)
                    nursery.start_soon(self._prompt, session)
                    nursery.start_soon(self._read, nursery, self._asker)
                    await self._left.wait()
                    await session.aclose()
                    with trio.move_on_after(PARTING):
                        await self._shown.wait()
                    nursery.cancel_scope.cancel(reason="left")
        self.console.end()

    def _greet(self, session: Session) -> None:
        agent, modes = session.agent, session.modes
        parts = [f"{one_line(agent.name)} {one_line(agent.version or '')}".strip()]
        if modes is not None and modes.mode is not None:
            parts.append(f"mode {one_line(modes.mode)}")
        if modes is not None and modes.model is not None:
            parts.append(f"model {one_line(modes.model)}")
        self._story.line(" · ".join(parts))
        if self.setup.note:
            self.console.tell(self.setup.note)
        self._story.line("/help says what can be typed. Ctrl-C stops the agent, Ctrl-D leaves.")
        self._show_history(session.snapshot().items)

    def _show_history(self, items: list[Item]) -> None:
        """The end of the conversation that is gone on with."""
        told = [item for item in items if item.replay and item.parent is None]
        if len(told) > HISTORY:
            self._story.line(f"… {len(told) - HISTORY} more")
        for item in told[-HISTORY:]:
            if item.type == "user":
                self._story.line(f"{PROMPT}{safe(plain_text(item.content))}")
            elif item.type == "tool":
                self._story.line(f"→ {tool_title(item)}")
            elif item.type == "text":
                self._story.line(safe(item.text or plain_text(item.content)).rstrip("\n"))

    # --- what happens

    async def _show(self, events: Subscription, asker: Asker) -> None:
        async for event in events:
            self._story.take(event)
            asker.take(event)
            match event:
                case StateChanged(state=state):
                    self._phase = state.phase
                case TurnStarted(prompt=prompt):
                    self._phase = "running"
                    if prompt is not None and self._echo:
                        self.say(PROMPT + safe(plain_text(prompt)))
                case TurnEnded():
                    self._tell_end(event)
                case _:
                    pass
            self._ask_for_prompt()
            if self.console.out.full:
                await self.console.out.room()
        self._shown.set()

    def _tell_end(self, event: TurnEnded) -> None:
        words = how_it_ended(event)
        if words is not None:
            self.say(f"— {one_line(words, 1000)}")
            for line in quoted(stderr_of(event.error.data if event.error is not None else None)):
                self.say(line)

    def _ask_for_prompt(self) -> None:
        """Show that it is the person's turn, if it is."""
        out = self.console.out
        if self.busy or self._left.is_set() or self._asker is None or self._asker.asking:
            return
        if self._leave_when_done:
            self.leave()
        elif out.count != self._prompt_at:
            self._story.ask(PROMPT)
            self._prompt_at = out.count

    @property
    def busy(self) -> bool:
        """Whether a prompt that is typed now has to wait."""
        return self._running or bool(self.waiting) or self._phase not in ("idle", "dead")

    def say(self, text: str) -> None:
        """A line of ours."""
        self._story.line(text)

    # --- prompts

    def submit(self, text: str) -> None:
        """Send a prompt, as soon as its turn has come."""
        if self.busy:
            self.say(f"(waits for its turn, see /queue: {one_line(text, 60)})")
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
            self._echo = self.waiting[0].ahead
            self._running = True
            try:
                with trio.CancelScope() as self._sending:
                    await session.run(self.waiting.popleft().text, check=False)
            except SessionClosed:
                return
            except AgentrtError as error:
                self.console.tell_error(error)
            finally:
                self._running = False
            self._ask_for_prompt()

    # --- what is typed

    async def _read(self, nursery: trio.Nursery, asker: Asker) -> None:
        text = ""
        while True:
            line = await self._reader.readline()
            if line is None:
                if asker.answer(None):
                    continue
                if not self.busy:
                    self.leave()
                    return
                self.say("(leaving when this is done; Ctrl-C stops it)")
                self._leave_when_done = True
                asker.stop_asking()
                return
            self.console.out.at_line_start = True  # the terminal echoed the Enter
            self._interrupted_at = float("-inf")
            if asker.answer(line):
                continue
            if line.endswith("\\"):
                text += line[:-1] + "\n"
                self._story.ask(MORE)
                continue
            text, line = "", text + line
            self._typed(line.strip(), nursery)
            self._ask_for_prompt()

    def _typed(self, line: str, nursery: trio.Nursery) -> None:
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
            self.console.tell_error(error)
        self._ask_for_prompt()

    # --- stopping and leaving

    def leave(self, status: int = 0, next: Setup | None = None) -> None:
        """End the session: for good, or for another one."""
        self._status, self._next = status, next
        self._left.set()
        if self.session is None:
            self._opening.cancel(reason="left")

    async def obey(self, signals: AsyncIterator[int]) -> None:
        """Take the signals that end things."""
        async for number in signals:
            if self._left.is_set():
                let_the_next_one_kill()
            elif number == signal.SIGINT:
                self.console.interrupted()
                self._interrupt()
            else:
                self.leave(128 + number)

    def _interrupt(self) -> None:
        session, now = self.session, trio.current_time()
        again = now - self._interrupted_at < TWICE
        self._interrupted_at = now
        state = session.state if session is not None else None
        if session is None or state is None or again or state.phase == "cancelling":
            self.leave(INTERRUPTED)
        elif state.turn is not None or self._running:
            self.held.extendleft(reversed(self.waiting))
            self.waiting.clear()
            if state.turn is None or state.turn.origin == "agent":
                self._sending.cancel(reason="Ctrl-C")  # it has not been sent yet
            session.cancel()
            held = f"; {len(self.held)} waiting, Enter goes on with them" if self.held else ""
            self.say(f"(stopping; Ctrl-C again leaves{held})")
        else:
            self.say("(Ctrl-C again leaves)")
            self._ask_for_prompt()
