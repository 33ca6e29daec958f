"""Which clock of a session rings first: every one that can, beside those that it goes before."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agentrt import Limits
from agentrt._model.clocks import next_alarm
from agentrt._model.turn import TurnMachine, TurnState

RUNNING, WAITING, CANCELLING = TurnState.RUNNING, TurnState.WAITING, TurnState.CANCELLING


def turn(state: TurnState = RUNNING, **facts: Any) -> TurnMachine:
    """A turn with an idle limit of 30 s that has begun at 100 and may take until 400."""
    machine = TurnMachine("user", Limits(idle=facts.pop("idle", 30)))
    facts = {"state": state, "began_at": 100.0, "hard_at": 400.0, **facts}
    for name, value in facts.items():
        setattr(machine, name, value)
    return machine


def alarm(machine: TurnMachine | None, **facts: Any) -> tuple[float, str]:
    """The agent was last heard at 200; a turn without an end is over after 20 s of silence."""
    given = {"active_at": 200.0, "rest": None, "silence": 20.0, "tail": None, "serving": False}
    at, ring = next_alarm(machine, **(given | facts))
    return at, ring.value


def test_a_session_without_a_turn_waits_for_nothing_but_a_missing_word_of_rest() -> None:
    assert alarm(None) == (math.inf, "nothing")
    assert alarm(None, rest=5.0) == (205, "rest")


@pytest.mark.parametrize(
    ("machine", "facts", "expected"),
    [
        # A word of rest that does not come is waited for, within the turn's limits.
        (turn(), {"rest": 5.0}, (205, "rest")),
        (turn(hard_at=203.0, grace_at=201.0), {"rest": 5.0}, (203, "rest")),
        (turn(CANCELLING, hard_at=201.0, grace_at=203.0), {"rest": 5.0}, (203, "rest")),
        (turn(CANCELLING, hard_at=201.0, grace_at=300.0), {"rest": 5.0}, (205, "rest")),
        # A cancel is sent once more, before the agent is given up.
        (turn(CANCELLING, resend_at=210.0, grace_at=220.0), {}, (210, "resend")),
        (turn(CANCELLING, resend_at=220.0, grace_at=220.0), {}, (220, "grace")),
        (turn(CANCELLING, grace_at=220.0), {}, (220, "grace")),
        # An agent that is silent, and the hard limit.
        (turn(), {}, (230, "idle")),
        (turn(hard_at=229.0), {}, (229, "hard")),
        (turn(hard_at=230.0), {}, (230, "idle")),
        (turn(idle=None), {}, (400, "hard")),
        # What the agent waits for is no silence of its own.
        (turn(WAITING), {}, (400, "hard")),
        (turn(), {"serving": True}, (400, "hard")),
        # A turn without an end on the wire ends by silence …
        (turn(explicit=False), {}, (220, "silence")),
        (turn(explicit=False, hard_at=219.0), {}, (219, "hard")),
        (turn(explicit=False, hard_at=220.0), {}, (220, "silence")),
        (turn(WAITING, explicit=False), {}, (400, "hard")),
        (turn(explicit=False), {"serving": True}, (400, "hard")),
        # … and by a shorter one when a prompt waits behind it, however long it goes on.
        (turn(explicit=False, began_at=195.0), {"tail": 2.0}, (202, "silence")),
        (turn(explicit=False, began_at=180.0), {"tail": 2.0}, (200, "silence")),
        (turn(explicit=False, began_at=195.0), {"tail": 2.0, "serving": True}, (202, "silence")),
    ],
)
def test_the_clock_that_rings_first(
    machine: TurnMachine, facts: dict[str, Any], expected: tuple[float, str]
) -> None:
    assert alarm(machine, **facts) == expected
