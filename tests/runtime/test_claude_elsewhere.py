"""Claude Code at the other end of a connection: a scripted one, behind a socket and a WebSocket."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec import structs
from websocket_bridge import bridge

import agentrt

PATIENCE = 60
FAKE = Path(__file__).parents[1] / "claude" / "fakecli.py"


@asynccontextmanager
async def claude(
    scenario: str,
) -> AsyncIterator[tuple[trio.abc.SendStream, trio.abc.ReceiveStream]]:
    """One that somebody else has started, at the other end of a socket."""
    ours, theirs = trio.socket.socketpair()
    os.set_blocking(theirs.fileno(), True)  # for a program that reads as from a pipe
    with theirs:
        process = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, FAKE, scenario], stdin=theirs.fileno(), stdout=theirs.fileno()
        )
    stream = trio.SocketStream(ours)
    try:
        yield stream, stream
    finally:
        await stream.aclose()  # noqa: ASYNC102 - it does not wait
        await trio.to_thread.run_sync(process.wait)  # noqa: ASYNC102 - its input has ended


def at(where: str) -> Any:
    return lambda: claude(where)


async def test_turns_over_a_socket_are_those_of_a_process(tmp_path: Path) -> None:
    with trio.fail_after(PATIENCE):
        async with agentrt.agents.connect(at("plain"), protocol="claude", cwd=tmp_path) as session:
            first = await session.run("one")
            second = await session.run("two")
    assert (first.outcome, first.text.strip()) == ("completed", "You said: one")
    assert second.text.strip() == "You said: two"


async def test_turns_over_a_websocket_are_those_of_a_process(tmp_path: Path) -> None:
    with trio.fail_after(PATIENCE):
        async with bridge((sys.executable, str(FAKE), "plain")) as there:
            far = agentrt.agents.websocket(there.url)
            async with agentrt.agents.connect(far, protocol="claude", cwd=tmp_path) as session:
                assert (await session.run("one")).text.strip() == "You said: one"


async def test_its_sessions_are_where_it_is_and_cannot_be_listed_from_here(tmp_path: Path) -> None:
    with trio.fail_after(PATIENCE):
        async with agentrt.agents.connect(
            at("plain"), name="far", protocol="claude", cwd=tmp_path
        ) as session:
            assert session.capabilities["list_sessions"] is False
            assert session.capabilities["delete_session"] is False
            with pytest.raises(agentrt.errors.RequestError, match="far keeps no list"):
                await session.list_sessions()
            with pytest.raises(agentrt.errors.RequestError, match="far cannot delete"):
                await session.delete_session("another")
    far = structs.replace(agentrt.agents.claude("claude"), name="far", connect=at("plain"))
    with pytest.raises(agentrt.errors.RequestError, match="in files where it is"):
        await agentrt.agents.list_sessions(far)
    with pytest.raises(agentrt.errors.RequestError, match="in files where it is"):
        await agentrt.agents.delete_session(far, "another")
