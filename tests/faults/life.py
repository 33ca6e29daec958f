"""A session's whole life, on an agent in memory: everything that a program does with a session, so
that it can be interrupted, or let fail, at every step of it.

Opening, a turn with a permission request, a tool of the host's and a hook, streamed text that is
cancelled, a caller's deadline, one more turn, the agent's death in a turn, a turn on the next
process, the end.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Literal, TypeAlias

import trio

import agentrt
from agentrt.agents import Transport
from agentrt.lowlevel import Opening
from agentrt.testing import MemoryAgent
from journal.composed import composed

from .programs import ANSWER, PROGRAMS

Protocol: TypeAlias = Literal["acp", "claude"]
Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[Transport]]

LIMITS = agentrt.Limits(
    startup_timeout_s=20, cancel_grace_s=2, cancel_resend_s=0.5, end_silence_s=0.5
)


class Life:
    """One life. `live` leads it; what it leaves is seen here."""

    def __init__(
        self,
        protocol: Protocol,
        *,
        limits: agentrt.Limits = LIMITS,
        ignores: frozenset[str] = frozenset(),
    ) -> None:
        """`ignores`: what its agents survive, as a `MemoryAgent` does; and `"cancel"`."""
        self.protocol: Protocol = protocol
        self.limits = limits
        self.ignores = ignores
        self.session: agentrt.Session | None = None
        self.done: list[str] = []
        """What it has lived through."""
        self.results: dict[str, agentrt.TurnResult] = {}
        self.patience = 1.0
        """The caller's, in the turn that it gives up on."""
        self.processes: list[MemoryAgent] = []
        self.tools_called = 0
        self.hooks_called = 0
        self.whole = trio.CancelScope()
        """Around all of it."""
        self.turn = trio.CancelScope()
        """Around the present turn alone; another one for each."""
        self.in_turn = False

    # --- what it is lived on

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Transport]:
        """The next process."""
        process = MemoryAgent(PROGRAMS[self.protocol], ignores=self.ignores)
        self.processes.append(process)
        async with process.connect() as transport:
            yield transport

    @asynccontextmanager
    async def open(self) -> AsyncIterator[agentrt.Session]:
        @agentrt.tool
        async def record(n: int) -> str:
            """Write a number down."""
            self.tools_called += 1
            await trio.lowlevel.checkpoint()
            return f"recorded {n}"

        @agentrt.hook("PreToolUse")
        async def look(given: Any) -> None:
            self.hooks_called += 1
            await trio.lowlevel.checkpoint()

        async with composed(
            self.connect,
            protocol=self.protocol,
            opening=Opening(cwd=os.getcwd()),
            limits=self.limits,
            now=trio.current_time,
            tools=(record,),
            hooks=(look,) if self.protocol == "claude" else (),
        ) as session:
            yield session

    # --- living it

    async def live(self) -> None:
        with self.whole:
            async with self.open() as self.session:
                self._done("open")
                await self.turns(self.session)
            self._done("close")
            await trio.lowlevel.checkpoint()  # a cancel that was not felt yet is felt here

    async def turns(self, session: agentrt.Session) -> None:
        with self._turn("work"):
            async with session.prompt("work") as turn:
                async for event in turn:
                    if isinstance(event, agentrt.PermissionOpened):
                        turn.answer(event.request, "allow_once")
            self.results["work"] = turn.result
        with self._turn("stream"):
            async with session.prompt("stream") as turn:
                async for event in turn:
                    if isinstance(event, agentrt.TextDelta):
                        turn.cancel()
            self.results["stream"] = turn.result
        with self._turn("deadline"):
            with trio.move_on_after(self.patience):
                await session.run("stream")
        with self._turn("again"):
            self.results["again"] = await session.run("again")
        with self._turn("die"):
            self.results["die"] = await session.run("die", check=False)
        with self._turn("resumed"):
            self.results["resumed"] = await session.run("resumed")

    @contextmanager
    def _turn(self, name: str) -> Iterator[None]:
        with trio.CancelScope() as self.turn:
            self.in_turn = True
            try:
                yield
                self._done(name)
            finally:
                self.in_turn = False

    def _done(self, name: str) -> None:
        self.done.append(name)

    # --- what is left of it

    @property
    def events(self) -> list[agentrt.Event]:
        """Everything in the session's log."""
        return [] if self.session is None else self.session.log.since(0)

    def check_whole(self) -> None:
        """Nothing has disturbed it: it went as it should."""
        assert self.done == [
            *("open", "work", "stream", "deadline", "again", "die", "resumed", "close")
        ]
        assert {name: result.outcome for name, result in self.results.items()} == {
            "work": "completed",
            "stream": "cancelled",
            "again": "completed",
            "die": "agent_died",
            "resumed": "completed",
        }
        assert self.results["work"].text.endswith(f"{ANSWER[4:]} recorded 1")
        assert self.results["resumed"].text == "resumed"
        assert self.tools_called == 1
        assert self.hooks_called == (self.protocol == "claude")
        if "cancel" in self.ignores:
            assert len(self.processes) > 2  # replaced, as well
        else:
            assert len(self.processes) == 2

    def check_left(self) -> None:
        """However it ended: nothing of it is left."""
        assert all(process.returncode is not None for process in self.processes)
        if self.session is not None:
            assert self.session.state.phase == "closed"
            assert self.session.state.turn is None
            assert not self.session.queue
            assert not self.session._host.handlers.running
