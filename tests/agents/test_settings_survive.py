"""What was set in a real agent's session holds when its process is replaced."""

from __future__ import annotations

import os
import signal

import pytest
import trio

from .expectations import EXPECTATIONS
from .lab import Lab
from .story import session_with, until
from .test_scenarios import PATIENCE

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", EXPECTATIONS)]

WITHOUT_MODES = {"fast-agent"}


async def test_a_mode_holds_when_the_process_is_replaced(lab: Lab) -> None:
    with trio.fail_after(2 * PATIENCE):
        async with session_with(lab) as (session, _):
            modes = session.modes
            if lab.agent in WITHOUT_MODES:
                assert modes is None or len(modes.modes) < 2
                return
            assert modes is not None
            await session.run("Please [[text]]")
            other = next(m.id for m in modes.modes if m.id not in (modes.mode, "bypassPermissions"))
            await session.set_mode(other)
            assert session.modes is not None
            assert session.modes.mode == other
            assert session.agent.pid is not None
            os.kill(session.agent.pid, signal.SIGKILL)
            await until(lambda: session.state.phase == "dead")
            result = await session.run("Please [[again]]")
            assert "Another answer." in result.text
            assert session.modes.mode == other
