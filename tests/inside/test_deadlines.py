"""The first deadline of a session, for each combination of a turn's state and limits.

A session is in one state at a time; the function is asked for every state and every set of limits.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from agentrt import Limits
from agentrt._core.model.deadlines import next_deadline
from inside.model import TurnMachine, TurnMachineState

RUNNING, WAITING, CANCELLING = (
    TurnMachineState.RUNNING,
    TurnMachineState.WAITING,
    TurnMachineState.CANCELLING,
)


def turn(state: TurnMachineState = RUNNING, **facts: Any) -> TurnMachine:
    """A turn with an idle limit of 30 s that has begun at 100 and may take until 400."""
    machine = TurnMachine("user", Limits(idle_timeout_s=facts.pop("idle", 30)))
    facts = {"state": state, "began_at": 100.0, "hard_at": 400.0, **facts}
    for name, value in facts.items():
        setattr(machine, name, value)
    return machine


def first(machine: TurnMachine | None, **facts: Any) -> tuple[float, str]:
    """The agent's last output came at 200; a turn without an end is over after 20 s of silence."""
    given = {
        "active_at": 200.0,
        "idle_report_s": None,
        "silence_s": 20.0,
        "tail_s": None,
        "serving": False,
    }
    at, deadline = next_deadline(machine, **(given | facts))
    return at, deadline.value


def test_a_session_without_a_turn_waits_only_for_a_missing_idle_report() -> None:
    assert first(None) == (math.inf, "nothing")
    assert first(None, idle_report_s=5.0) == (205, "idle_report")


@pytest.mark.parametrize(
    ("machine", "facts", "expected"),
    [
        # A missing idle report is waited for, within the turn's limits.
        (turn(), {"idle_report_s": 5.0}, (205, "idle_report")),
        (turn(hard_at=203.0, grace_at=201.0), {"idle_report_s": 5.0}, (203, "idle_report")),
        (
            turn(CANCELLING, hard_at=201.0, grace_at=203.0),
            {"idle_report_s": 5.0},
            (203, "idle_report"),
        ),
        (
            turn(CANCELLING, hard_at=201.0, grace_at=300.0),
            {"idle_report_s": 5.0},
            (205, "idle_report"),
        ),
        # A cancel is sent once more, before the agent is given up on.
        (turn(CANCELLING, resend_at=210.0, grace_at=220.0), {}, (210, "resend")),
        (turn(CANCELLING, resend_at=220.0, grace_at=220.0), {}, (220, "grace")),
        (turn(CANCELLING, grace_at=220.0), {}, (220, "grace")),
        # An agent that is silent, and the hard limit.
        (turn(), {}, (230, "idle")),
        (turn(hard_at=229.0), {}, (229, "hard")),
        (turn(hard_at=230.0), {}, (230, "idle")),
        (turn(idle=None), {}, (400, "hard")),
        # Time in which the agent waits does not count as silence.
        (turn(WAITING), {}, (400, "hard")),
        (turn(), {"serving": True}, (400, "hard")),
        # A turn without an end on the wire ends by silence …
        (turn(explicit=False), {}, (220, "silence")),
        (turn(explicit=False, hard_at=219.0), {}, (219, "hard")),
        (turn(explicit=False, hard_at=220.0), {}, (220, "silence")),
        (turn(WAITING, explicit=False), {}, (400, "hard")),
        (turn(explicit=False), {"serving": True}, (400, "hard")),
        # … and by a shorter one while a prompt is queued, however long the turn takes.
        (turn(explicit=False, began_at=195.0), {"tail_s": 2.0}, (202, "silence")),
        (turn(explicit=False, began_at=180.0), {"tail_s": 2.0}, (200, "silence")),
        (turn(explicit=False, began_at=195.0), {"tail_s": 2.0, "serving": True}, (202, "silence")),
    ],
)
def test_the_first_deadline(
    machine: TurnMachine, facts: dict[str, Any], expected: tuple[float, str]
) -> None:
    assert first(machine, **facts) == expected
