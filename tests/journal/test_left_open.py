"""What a process that died has left open is closed by whoever looks at it."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.events import (
    AgentState,
    Event,
    QueueChanged,
    QueueEntry,
    State,
    StateChanged,
    Text,
    TurnEnded,
    TurnStarted,
)
from agentrt.lowlevel import Flush, FlushPart
from agentrt.storage import address_of, backend_of
from agentrt.store import SessionDescription, SessionRow, open_store
from agentrt.testing import open_fake_runtime
from runtime.fakes import Incarnations, echo

ABOUT = SessionDescription(agent="fake", protocol="acp", cwd="/")
DEAD = State("dead", None, AgentState("fake", "acp"))


@pytest.mark.every_store
async def test_a_prompt_that_waited_for_a_dead_agent_is_paused(path: Any) -> None:
    """The process ended before it began the agent again, or said what becomes of the prompt."""
    waits = QueueChanged([QueueEntry("q1", [Text("hello")])])
    turn = [TurnStarted("t1", "user", []), TurnEnded(turn="t1", outcome="completed")]
    events: list[Event] = [*turn, StateChanged(DEAD), waits]
    backend = backend_of(address_of(path))
    backend.open()
    row = SessionRow(title=None, prompt="", phase="dead", turns=1, about=ABOUT)
    backend.commit(Flush([FlushPart(backend.create("s1", "e", ABOUT), 1, events, row)], fsync=True))
    backend.close()
    async with (
        open_store(path) as store,
        open_fake_runtime({"fake": Incarnations(echo).start}, store=store) as runtime,
    ):
        left = await store.events("s1")
        log = await runtime.read("s1")
        [entry] = log.state.queue
        assert (entry.id, entry.paused, log.state.paused) == ("q1", True, True)
        closed = await store.events("s1")
        assert closed[: len(left)] == left
        assert len(closed) > len(left)
    async with (
        open_store(path) as store,
        open_fake_runtime({"fake": Incarnations(echo).start}, store=store) as runtime,
    ):
        [entry] = (await runtime.read("s1")).state.queue
        assert (entry.id, entry.paused) == ("q1", True)
        assert await store.events("s1") == closed
