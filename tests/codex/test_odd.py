"""`agentrt.testing.odd --protocol codex` under agentrt: no shape holds up a session, or takes the
next prompt's answer away."""

from __future__ import annotations

import sys
from contextlib import suppress

import pytest
import trio

import agentrt
from agentrt.testing.odd import SHAPES

DIED, NEXT = ("agent_died", "hello"), ("completed", "next")
ENDS = {
    "plain": (("completed", "hello"), NEXT),
    "unknown-update": (("completed", "hel\n\nlo"), NEXT),
    "answered-twice": (("completed", "hello"), NEXT),
    "late-answer": (("cancelled", "hello"), NEXT),
    "permission-in-cancel": (("cancelled", "hello"), NEXT),
    "dies": (DIED, DIED),
    "closes-output": (DIED, DIED),
    "long-line": (("completed", "x" * 20), NEXT),
    "noise": (("completed", "hello"), NEXT),
    "silent": (("timed_out", ""), ("timed_out", "")),
}
"""How the prompt ends, and the one behind it. A process that is started for that meets the shape
again."""
QUICK = ("plain", "unknown-update", "answered-twice")


async def met(shape: str) -> list[tuple[str, str]]:
    command = (sys.executable, "-m", "agentrt.testing.odd", "--protocol", "codex", shape)
    agent = agentrt.Agent(name="odd", protocol="codex", command=command)
    cancels = shape in ("late-answer", "permission-in-cancel")
    ends: list[tuple[str, str]] = []
    limits = agentrt.Limits(
        turn_timeout_s=1.0 if shape == "silent" else None,
        cancel_grace_s=3.0,
        cancel_resend_s=0.5,
        stdin_close_grace_s=0.5,
        terminate_grace_s=0.5,
    )
    async with agentrt.open_session(
        agent, cwd="/", limits=limits, permissions=agentrt.allow_all
    ) as session:
        for _ in range(2):
            turn = session.prompt("go")
            with suppress(agentrt.errors.AgentDied, agentrt.errors.TurnTimedOut):
                async with turn:
                    async for event in turn:
                        if cancels and not ends and isinstance(event, agentrt.TextDelta):
                            turn.cancel()
            ends.append((turn.result.outcome, turn.result.text[:20]))
    return ends


def test_each_shape_is_held() -> None:
    assert ENDS.keys() == SHAPES.keys()


@pytest.mark.parametrize(
    "shape", [pytest.param(s, marks=() if s in QUICK else pytest.mark.slow) for s in SHAPES]
)
@pytest.mark.slow
async def test_it_comes_through(shape: str) -> None:
    with trio.fail_after(60):
        assert tuple(await met(shape)) == ENDS[shape]
