"""What an agent has started in sessions of their own ends with it, and does not finish what it was
told to do: a file that is to be written some seconds later is never written.

The agents ignore the end of their input and SIGTERM; so do their children.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

import agentrt
from faults.quick import mostly_slow
from faults.real import MARK, carriers, wait_until_none
from hostile.kit import bad_agent

from .kit import LIMITS, ignore_signals, plant, stay

BOUND = 30.0


async def planted(session: agentrt.Session) -> agentrt.Turn:
    """A turn that has begun its mischief."""
    turn = session.submit("misbehave")
    with session.subscribe_all() as events:
        async for event in events:
            if isinstance(event, agentrt.TextDelta):
                break
    return turn


async def close(session: agentrt.Session) -> None:
    await session.aclose()


async def cancel(session: agentrt.Session) -> None:
    """The agent does not hear it, is given up on, and replaced by the next prompt."""
    session.cancel()
    assert (await session.run("hello")).text == "hello"


async def kill(session: agentrt.Session) -> None:
    assert session.agent.pid is not None
    os.kill(session.agent.pid, signal.SIGKILL)
    assert (await session.run("hello")).text == "hello"


async def kill_and_leave(session: agentrt.Session) -> None:
    assert session.agent.pid is not None
    os.kill(session.agent.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.linux_only("processes are found even if they have left their session")
@pytest.mark.parametrize("end", mostly_slow([close, cancel, kill, kill_and_leave], one_in=4))
async def test_what_an_agent_hid_ends_with_it_and_its_work_is_never_done(
    end: Callable[[agentrt.Session], Awaitable[None]], tmp_path: Path
) -> None:
    file = tmp_path / "late"
    agent = bad_agent(
        start=ignore_signals,
        eof=stay,
        misbehave=plant,
        arg=[str(file), True],
        once=tmp_path / "second",
        capabilities={"loadSession": True},
    )
    env = {**os.environ, MARK: str(tmp_path)}
    with trio.fail_after(BOUND):
        async with agentrt.open_session(agent, limits=LIMITS, env=env) as session:
            await planted(session)
            before = carriers(str(tmp_path))
            assert len(before) >= 2
            await end(session)
            if end is not kill_and_leave:
                assert not set(before) & set(carriers(str(tmp_path)))
            await session.aclose()
    wait_until_none(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["late.begun", "second"]
