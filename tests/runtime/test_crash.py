"""An agent that dies and leaves something behind, with real processes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
import trio

import agentrt

LEAVES_A_CHILD = ("/bin/sh", "-c", f"sleep 297 & exec {sys.executable} -m agentrt.demo")


@pytest.mark.slow
async def test_a_turn_ends_with_its_agent_not_with_what_the_agent_left_behind(
    tmp_path: Path,
) -> None:
    with trio.fail_after(30):
        agent = agentrt.agents.acp(LEAVES_A_CHILD)
        async with agentrt.open_session(agent, cwd=tmp_path) as session:
            pid = session.agent.pid
            assert pid is not None
            [child] = psutil.Process(pid).children()
            os.kill(pid, signal.SIGSTOP)  # so that it is in the middle of its turn
            async with session.prompt("/help", check=False) as turn:
                os.kill(pid, signal.SIGKILL)
            assert turn.result.outcome == "agent_died"
            assert _alive(child)
            assert (await session.run("/help")).outcome == "completed"
            assert not _alive(child)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
