"""Sessions on agents that do one thing wrong, through the public API and on real processes."""

from __future__ import annotations

import inspect
import json
import py_compile
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

import trio

import agentrt

PROGRAM = py_compile.compile(str(Path(__file__).with_name("bad_agent.py")), doraise=True)
"""Compiled, as hundreds of processes run it."""

SHORT = agentrt.Limits(
    startup_timeout_s=10,
    cancel_grace_s=0.5,
    cancel_resend_s=0.2,
    end_silence_s=0.3,
    stdin_close_grace_s=0.25,
    terminate_grace_s=0.25,
    kill_wait_s=1,
    stdout_drain_s=0.1,
    write_timeout_s=1,
    drain_timeout_s=10,
)
"""Bounds short enough to be used up. Only what an agent does wrong uses them up."""

PATIENT = agentrt.Limits(stdin_close_grace_s=5, end_silence_s=0.3, stdout_drain_s=0.1)
"""For agents that do in time what they are told, on a machine that may be busy."""

LADDER = SHORT.stdin_close_grace_s + SHORT.terminate_grace_s + SHORT.kill_wait_s
"""What the end of a process may take at the longest."""

BOUND = 15.0
"""Within this a test's waits are over, with a machine's business on top."""


VERSION: ContextVar[Literal[1, 2]] = ContextVar("VERSION", default=1)
"""The version of ACP that agents speak where a test names none (see `conftest.py`)."""


def bad_agent(
    *,
    arg: Any = None,
    once: Path | None = None,
    capabilities: dict[str, Any] | None = None,
    **methods: Callable[..., Any],
) -> agentrt.Agent:
    """An agent of `bad_agent.py` in which these methods are replaced. `once`: a file by which a
    second process knows that it is one; it does everything right. `arg` is for the methods."""
    version = VERSION.get()
    order = {
        "version": version,
        "arg": arg,
        "once": None if once is None else str(once),
        "capabilities": capabilities or {},
        "methods": {
            name: textwrap.dedent(inspect.getsource(method)) for name, method in methods.items()
        },
    }
    command = [sys.executable, "-I", "-S", PROGRAM, json.dumps(order)]
    return agentrt.agents.acp(command, name="bad", version=version)


@asynccontextmanager
async def bad_session(
    *,
    limits: agentrt.Limits = SHORT,
    permissions: agentrt.Policy | None = None,
    tools: tuple[agentrt.Tool, ...] = (),
    on_stderr: Callable[[bytes], None] | None = None,
    resume: str | None = None,
    cwd: Path | str = ".",
    trace: Path | None = None,
    bound: float = BOUND,
    **order: Any,
) -> AsyncIterator[agentrt.Session]:
    """A session with `bad_agent(**order)`, whose whole life is bounded."""
    with trio.fail_after(bound):
        async with agentrt.open_session(
            bad_agent(**order),
            cwd=cwd,
            limits=limits,
            permissions=permissions,
            tools=tools,
            on_stderr=on_stderr,
            resume=resume,
            trace=trace,
        ) as session:
            yield session


async def told(session: agentrt.Session) -> list[agentrt.Event]:
    """Everything in the session's log."""
    with session.subscribe(after=0) as events:
        events.finish()
        return [event async for event in events]


async def notices(session: agentrt.Session) -> list[str]:
    """The codes of what was told beside the conversation."""
    return [event.code for event in await told(session) if isinstance(event, agentrt.Notice)]


async def outcomes(session: agentrt.Session) -> list[str]:
    """How the session's turns ended, in order."""
    return [e.outcome for e in await told(session) if isinstance(e, agentrt.TurnEnded)]


async def works(session: agentrt.Session) -> None:
    """The next turn is answered, by its own answer alone."""
    result = await session.run("still there?")
    assert (result.outcome, result.text) == ("completed", "still there?")


async def until(session: agentrt.Session, condition: Callable[[], bool]) -> None:
    """Wait for something that the session's log will tell."""
    with trio.fail_after(30), session.subscribe() as events:
        while not condition():
            await anext(events)


class Marks:
    """What an agent tells with `mark`: to be given to a session as its `on_stderr`."""

    def __init__(self) -> None:
        self.seen = ""
        self._news = trio.Event()

    def __call__(self, data: bytes) -> None:
        self.seen += data.decode()
        self._news.set()
        self._news = trio.Event()

    async def wait(self, word: str) -> None:
        while word not in self.seen.split():
            await self._news.wait()
