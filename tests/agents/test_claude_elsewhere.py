"""The real Claude Code at the other end of a socket, started with its options by somebody else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

import agentrt

from .lab import Lab

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", ["claude"])]

PATIENCE = 120.0
OPTIONS = (
    *("-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"),
    *("--permission-prompt-tool", "stdio"),
)


@asynccontextmanager
async def claude(lab: Lab) -> AsyncIterator[tuple[trio.abc.SendStream, trio.abc.ReceiveStream]]:
    ours, theirs = trio.socket.socketpair()
    os.set_blocking(theirs.fileno(), True)  # for a program that reads as from a pipe
    with theirs:
        process = subprocess.Popen(  # noqa: ASYNC220
            [*lab.argv, *OPTIONS],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            cwd=lab.work,
            env=lab.env,
        )
    stream = trio.SocketStream(ours)
    try:
        yield stream, stream
    finally:
        await stream.aclose()  # noqa: ASYNC102 - it does not wait
        await trio.to_thread.run_sync(process.wait)  # noqa: ASYNC102 - its input has ended


async def test_it_answers_asks_calls_tools_and_is_cancelled_over_a_socket(lab: Lab) -> None:
    recorded: list[str] = []

    @agentrt.tool
    async def record_result(summary: str) -> str:
        """Persist the final outcome of a job."""
        recorded.append(summary)
        return f"recorded: {summary}"

    with trio.fail_after(PATIENCE):
        async with agentrt.agents.connect(
            lambda: claude(lab),
            protocol="claude",
            name="far",
            cwd=lab.work,
            tools=[record_result],
            permissions=agentrt.ask,
        ) as session:
            assert not session.capabilities["list_sessions"]
            assert (await session.run("Please [[text]]")).outcome == "completed"
            async with session.prompt("Please [[record]]") as turn:
                async for event in turn:
                    if isinstance(event, agentrt.PermissionOpened):
                        turn.answer(event.request, "allow_once")
            assert turn.result.outcome == "completed"
            assert recorded == ["done"]
            async with session.prompt("Please [[slow]]", check=False) as turn:
                async for event in turn:
                    if isinstance(event, agentrt.TextDelta):
                        turn.cancel()
            assert turn.result.outcome == "cancelled"
            again = await session.run("Please [[again]]")
            assert again.text == "Another answer."
