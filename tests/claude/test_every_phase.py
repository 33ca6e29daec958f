"""`open_session` cancelled in every phase of its life: nothing is left (the suite's own check looks
for processes and descriptors, Trio for tasks).

Each is tried with a CLI that does what it is told, where no limit may be met at all, and with a
stubborn one, which ignores interrupts, goodbyes, the end of its input and SIGTERM: it may cost what
the limits say.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

import agentrt

from .test_fakecli import FAKE

PATIENCE = 60.0
NO_LIMIT = agentrt.Limits(
    cancel_grace_s=500,
    cancel_resend_s=500,
    end_silence_s=500,
    stdin_close_grace_s=500,
    drain_timeout_s=500,
    request_timeout_s=500,
)
SHORT = agentrt.Limits(
    cancel_grace_s=0.3,
    cancel_resend_s=0.1,
    stdin_close_grace_s=0.3,
    terminate_grace_s=0.3,
    kill_wait_s=1,
    drain_timeout_s=500,
)
LADDER = 0.3 + 0.3 + 0.3 + 1
BUSY = 8.0
"""How much longer anything may take on a machine that does other things, too."""

Block = Callable[[agentrt.Session], Awaitable[Any]]


class Visit:
    """One session, whose caller gives up as soon as `now` is called."""

    def __init__(self, *, stubborn: bool) -> None:
        self.stubborn = stubborn
        self.scope = trio.CancelScope()
        self.began = 0.0
        self.session: agentrt.Session | None = None

        @agentrt.tool
        async def record(summary: str) -> str:
            """Persist the outcome."""
            await self.now()
            return ""

        @agentrt.hook("PreToolUse")
        async def look(input: dict[str, Any]) -> None:
            await self.now()

        self.tool, self.hook = record, look

    async def now(self) -> None:
        self.cancel()
        await trio.sleep_forever()

    def cancel(self, data: bytes = b"now") -> None:
        """As `on_stderr`, it takes the CLI's mark for it."""
        if b"now" in data:
            self.began = trio.current_time()
            self.scope.cancel()

    async def run(self, scenario: str, block: Block, **options: Any) -> None:
        agent = agentrt.agents.claude(
            [sys.executable, FAKE, scenario], env={"FAKECLI_STUBBORN": "1"} if self.stubborn else {}
        )
        limits = SHORT if self.stubborn else NO_LIMIT
        with self.scope:
            async with agentrt.open_session(
                agent, limits=limits, on_stderr=self.cancel, **options
            ) as self.session:
                await block(self.session)


def nobody(session: agentrt.Session) -> Awaitable[Any]:
    raise AssertionError("it was opened")


async def before_spawn(visit: Visit) -> None:
    visit.cancel()
    await visit.run("plain", nobody)


async def during_initialize(visit: Visit) -> None:
    await visit.run("never_starts", nobody)


async def at_rest(visit: Visit) -> None:
    async def block(session: agentrt.Session) -> None:
        await session.run("hello")
        await visit.now()

    await visit.run("plain", block)


async def streaming(visit: Visit) -> None:
    async def block(session: agentrt.Session) -> None:
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, agentrt.TextDelta):
                    await visit.now()

    await visit.run("slow", block)


async def in_silence(visit: Visit) -> None:
    async def block(session: agentrt.Session) -> None:
        async with session.prompt("go"):
            await visit.now()

    await visit.run("silent", block)


async def while_a_second_prompt_waits(visit: Visit) -> None:
    async def block(session: agentrt.Session) -> None:
        async with trio.open_nursery() as nursery, session.prompt("go"):
            nursery.start_soon(session.run, "second")
            await trio.testing.wait_all_tasks_blocked()
            await visit.now()

    await visit.run("silent", block)


async def in_a_hook(visit: Visit) -> None:
    await visit.run("hook", lambda s: s.run("go"), hooks=[visit.hook])


async def in_a_tool(visit: Visit) -> None:
    await visit.run("tool", lambda s: s.run("go"), tools=[visit.tool])


async def in_a_permission(visit: Visit) -> None:
    async def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        await visit.now()
        return agentrt.Allow()

    await visit.run("permission", lambda s: s.run("go"), permissions=policy)


async def at_an_open_question(visit: Visit) -> None:
    async def block(session: agentrt.Session) -> None:
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, agentrt.PermissionOpened):
                    await visit.now()

    await visit.run("permission", block)


async def with_background_work(visit: Visit) -> None:
    async def block(session: agentrt.Session) -> None:
        await session.run("go")
        assert session.background_tasks
        await visit.now()

    await visit.run("endless_shell", block)


async def waiting_for_background_work(visit: Visit) -> None:
    """The block has been left; now its end is waited for."""

    async def give_up(session: agentrt.Session) -> None:
        await session.run("go")
        nursery.start_soon(visit.now)

    async with trio.open_nursery() as nursery:
        await visit.run("endless_shell", give_up)
        nursery.cancel_scope.cancel()


async def while_closing(visit: Visit) -> None:
    async def block(session: agentrt.Session) -> None:
        await session.run("go")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.aclose)
            await trio.testing.wait_all_tasks_blocked()
            await visit.now()

    await visit.run("plain", block)


PHASES = [
    before_spawn,
    during_initialize,
    at_rest,
    streaming,
    in_silence,
    while_a_second_prompt_waits,
    in_a_hook,
    in_a_tool,
    in_a_permission,
    at_an_open_question,
    with_background_work,
    waiting_for_background_work,
    while_closing,
]


@pytest.mark.parametrize(
    ("phase", "stubborn"),
    [
        pytest.param(
            phase,
            stubborn,
            id=f"{phase.__name__}-{'stubborn' if stubborn else 'obedient'}",
            marks=[pytest.mark.slow] if stubborn and number % 4 else [],
        )
        for number, phase in enumerate(PHASES)
        for stubborn in (False, True)
    ],
)
async def test_a_session_that_is_cancelled_leaves_nothing(
    phase: Callable[[Visit], Awaitable[None]], stubborn: bool
) -> None:
    visit = Visit(stubborn=stubborn)
    with trio.fail_after(PATIENCE):
        await phase(visit)
    assert visit.began
    if stubborn:
        assert trio.current_time() - visit.began < BUSY * LADDER
    if visit.session is not None:
        assert visit.session.state.phase == "closed"
        assert all(turn.outcome is not None for turn in visit.session.snapshot().turns)


@pytest.mark.slow
async def test_a_session_that_is_cancelled_while_it_starts_leaves_nothing() -> None:
    """At any time: the guard program's start, the CLI's, the handshake."""
    agent = agentrt.agents.claude([sys.executable, FAKE, "plain"])
    with trio.fail_after(PATIENCE):
        for delay in (0.0, 0.001, 0.003, 0.006, 0.01, 0.02, 0.04, 0.08):
            with trio.move_on_after(delay):
                async with agentrt.open_session(agent, limits=NO_LIMIT):
                    await trio.sleep_forever()
