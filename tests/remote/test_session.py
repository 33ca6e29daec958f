"""A session of a server, by what its line brings and in which order."""

from __future__ import annotations

from typing import Any, cast

from agentrt.events import AgentState, State, StateChanged, Text, TurnEnded, TurnStarted
from agentrt.lowlevel import SessionState
from inside.remote import RemoteSession, ServerLine


class Lines:
    """Keeps what is to be done with the answers to what was sent."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def send(self, command: object, done: object, fail: object, *, again: bool = True) -> None:
        self.done.append(done)


def test_an_answer_behind_the_end_of_its_turn_is_noticed() -> None:
    # Another server carries it out: what it logs may be here sooner than its answer.
    lines = Lines()
    waiting: list[int] = []
    session = RemoteSession(
        cast("ServerLine", lines),
        "s",
        prompt_answered=lambda: waiting.append(len(session.queue)),
    )
    agent = AgentState("a", "acp")
    session.take_snapshot(SessionState(agent).snapshot("s", "e", 0))
    session.submit("hello")
    for seq, event in enumerate(
        [
            TurnStarted("t1", "user", [Text("hello")]),
            TurnEnded(turn="t1", outcome="completed"),
            StateChanged(State("idle", None, agent, None)),
        ],
        start=1,
    ):
        session.take_event("e", seq, event, seq - 1)
    assert len(session.queue) == 1
    lines.done[0]({"turn": "t1", "seq": 1})
    assert waiting == [0]
