"""A session interrupted at every moment of its life, by its caller's cancel scope and by an error
in its block: that is what comes out, in bounded time, and nothing is left (the suite's own check
looks for processes and descriptors, Trio for tasks).

Each moment is tried on an agent that does what it is told, which must cost next to no time, and on
a stubborn one, which ignores the cancel, the end of its input and SIGTERM: it may cost what the
limits say.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import agentrt

from .bad_agent import Agent, Message, Tools
from .kit import LADDER, PATIENT, SHORT, bad_agent

AT_ONCE = 3.0
"""What an obedient agent may cost on a machine that is busy: less than any limit that it has."""

REACHED = 10.0
"""Within this the moment must have come."""

by_whom = pytest.mark.parametrize("how", ["cancel", pytest.param("error", marks=pytest.mark.slow)])
of_each_kind = pytest.mark.parametrize("stubborn", [False, True], ids=["obedient", "stubborn"])


class InTheMiddleError(Exception):
    """The block's own."""


class Visit:
    """One session and its interruption, which comes when `now` is called: its scope is cancelled
    or, if it is to be an `error`, `moment` raises in its block."""

    def __init__(self, how: str, *, stubborn: bool) -> None:
        self._how = how
        self._stubborn = stubborn
        self._scope = trio.CancelScope()
        self._bound = trio.CancelScope()
        self._now = trio.Event()
        self.came_out = ""
        """What left the session's block in the end."""

    def now(self, data: bytes = b"now") -> None:
        """As `on_stderr`, it takes the agent's mark for it."""
        if b"now" in data:
            self._now.set()
            limits = SHORT.cancel_grace_s + LADDER + 2
            self._bound.deadline = trio.current_time() + (limits if self._stubborn else AT_ONCE)
            if self._how == "cancel":
                self._scope.cancel()

    async def moment(self) -> None:
        await self._now.wait()
        if self._how == "error":
            raise InTheMiddleError
        await trio.sleep_forever()

    async def prompt(self, session: agentrt.Session) -> None:
        """What most blocks do."""
        async with session.prompt("misbehave"):
            await self.moment()

    async def run(
        self,
        block: Callable[[agentrt.Session], Awaitable[None]],
        methods: dict[str, Callable[..., None]],
        **options: Any,
    ) -> agentrt.Session | None:
        """Open a session with such an agent, do what the block does, and be interrupted. Returns
        what is left of the session, None if it never opened."""
        if self._stubborn:
            methods = {"start": ignore_sigterm, "eof": stay, **methods}
        agent = bad_agent(arg=self._stubborn, **methods)
        limits = SHORT if self._stubborn else PATIENT
        session = None
        self._bound.deadline = trio.current_time() + REACHED
        with self._bound:
            try:
                with self._scope:
                    async with agentrt.open_session(
                        agent, limits=limits, on_stderr=self.now, **options
                    ) as session:
                        await block(session)
            except InTheMiddleError:
                self.came_out = "error"
            except ExceptionGroup as group:  # of a nursery in the block, which keeps its group
                [error] = group.exceptions
                assert isinstance(error, InTheMiddleError)
                self.came_out = "error"
            if self._scope.cancelled_caught:
                self.came_out = "cancel"
            await trio.lowlevel.checkpoint()
        assert not self._bound.cancelled_caught, "too slow"
        assert self._now.is_set()
        if session is not None:
            assert session.state.phase == "closed"
            assert session.state.turn is None
            assert all(turn.outcome is not None for turn in session.snapshot().turns)
        return session


# --- what a stubborn agent does


def ignore_sigterm(agent: Agent) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def stay(agent: Agent) -> None:
    while True:
        time.sleep(60)


# --- before there is a session


async def test_before_it_is_spawned() -> None:
    with trio.fail_after(AT_ONCE), trio.CancelScope() as scope:
        scope.cancel()
        async with agentrt.open_session(bad_agent(), limits=PATIENT):
            raise AssertionError("it was opened")
    assert scope.cancelled_caught


@pytest.mark.slow
async def test_at_any_time_while_it_is_being_spawned() -> None:
    """The delays cover the guard program's start, the agent's, and the handshake."""
    with trio.fail_after(8 * AT_ONCE):
        for delay in (0.0, 0.001, 0.003, 0.006, 0.01, 0.02, 0.04, 0.08):
            with trio.move_on_after(delay):
                async with agentrt.open_session(bad_agent(), limits=PATIENT):
                    await trio.sleep_forever()


@of_each_kind
@pytest.mark.parametrize("step", ["initialize", "new_session"])
async def test_during_the_handshake(step: str, stubborn: bool) -> None:
    def never_answers(agent: Agent, request: Message) -> None:
        agent.mark("now")

    async def block(session: agentrt.Session) -> None:
        raise AssertionError("it was opened")

    visit = Visit("cancel", stubborn=stubborn)
    assert await visit.run(block, {step: never_answers}) is None
    assert visit.came_out == "cancel"


# --- in a turn


@pytest.mark.slow
@by_whom
@of_each_kind
async def test_while_a_prompt_streams(how: str, stubborn: bool) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        for number in range(1_000_000):
            if not agent.arg and agent.pending():
                agent.wait_for("session/cancel")
                agent.end(prompt, "cancelled")
                return
            agent.say("." * 200)
            if number == 100:
                agent.mark("now")

    visit = Visit(how, stubborn=stubborn)
    session = await visit.run(visit.prompt, {"misbehave": misbehave})
    assert visit.came_out == how
    assert session is not None
    assert [turn.outcome for turn in session.snapshot().turns] == ["cancelled"]


@pytest.mark.slow
@by_whom
@of_each_kind
async def test_in_a_permission_policy(how: str, stubborn: bool) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.ask()
        while agent.arg:
            agent.receive()
        agent.end(prompt, "cancelled")

    stopped = []

    async def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        try:
            visit.now()
            await trio.sleep_forever()
        finally:
            stopped.append(True)

    visit = Visit(how, stubborn=stubborn)
    await visit.run(visit.prompt, {"misbehave": misbehave}, permissions=policy)
    assert stopped
    assert visit.came_out == how


@by_whom
@of_each_kind
async def test_in_a_call_of_an_in_process_tool(how: str, stubborn: bool) -> None:
    def new_session(agent: Agent, request: Message) -> None:
        agent.tools = Tools(request)
        agent.answer(request, {"sessionId": agent.session})

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.tools.call("wait")
        while agent.arg:
            agent.receive()
        agent.end(prompt, "cancelled")

    stopped = []

    @agentrt.tool
    async def wait() -> str:
        """Wait for ever."""
        try:
            visit.now()
            await trio.sleep_forever()
        finally:
            stopped.append(True)

    visit = Visit(how, stubborn=stubborn)
    methods = {"new_session": new_session, "misbehave": misbehave}
    await visit.run(visit.prompt, methods, tools=(wait,))
    assert stopped
    assert visit.came_out == how


@pytest.mark.slow
@by_whom
@of_each_kind
async def test_in_a_request_for_a_file(how: str, stubborn: bool, tmp_path: Path) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        path = os.path.join(os.getcwd(), "large")
        agent.begin_request("fs/read_text_file", {"path": path})
        agent.mark("now")
        while agent.receive().get("method") != "session/cancel" or agent.arg:
            pass
        agent.end(prompt, "cancelled")

    (tmp_path / "large").write_bytes(b"x" * (8 << 20))
    visit = Visit(how, stubborn=stubborn)
    await visit.run(visit.prompt, {"misbehave": misbehave}, cwd=tmp_path)
    assert visit.came_out == how


@pytest.mark.slow
@by_whom
@of_each_kind
async def test_while_a_second_prompt_waits(how: str, stubborn: bool) -> None:
    async def block(session: agentrt.Session) -> None:
        async with session.prompt("misbehave"), trio.open_nursery() as nursery:
            nursery.start_soon(session.run, "second")
            await visit.moment()

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.mark("now")
        while agent.receive().get("method") != "session/cancel" or agent.arg:
            pass
        agent.end(prompt, "cancelled")

    visit = Visit(how, stubborn=stubborn)
    session = await visit.run(block, {"misbehave": misbehave})
    assert visit.came_out == how
    assert session is not None
    assert len(session.snapshot().turns) == 1


# --- between processes


@by_whom
@of_each_kind
async def test_while_a_dead_agent_is_being_replaced(
    how: str, stubborn: bool, tmp_path: Path
) -> None:
    def initialize(agent: Agent, request: Message) -> None:
        if os.path.exists("second"):
            agent.mark("now")
        else:
            agent.greet(request)
        open("second", "w").close()

    def misbehave(agent: Agent, prompt: Message) -> None:
        sys.exit(1)

    async def block(session: agentrt.Session) -> None:
        await session.run("misbehave", check=False)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run, "again")
            await visit.moment()

    visit = Visit(how, stubborn=stubborn)
    methods = {"initialize": initialize, "misbehave": misbehave}
    await visit.run(block, methods, cwd=tmp_path)
    assert visit.came_out == how


# --- at the end


@of_each_kind
@pytest.mark.parametrize(
    "leaving",
    [
        "normally",
        *(pytest.param(how, marks=pytest.mark.slow) for how in ("by an error", "by aclose")),
    ],
)
async def test_cancelled_while_it_closes(leaving: str, stubborn: bool) -> None:
    def eof(agent: Agent) -> None:
        agent.mark("now")
        time.sleep(60 if agent.arg else 0.2)
        sys.exit(0)

    async def block(session: agentrt.Session) -> None:
        await session.run("hello")
        if leaving == "by an error":
            raise InTheMiddleError
        if leaving == "by aclose":
            await session.aclose()

    visit = Visit("cancel", stubborn=stubborn)
    await visit.run(block, {"eof": eof})
    if leaving == "by an error":
        assert visit.came_out == "error"
