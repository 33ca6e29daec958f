"""The model that `agentrt-client` makes of frames: its sessions, and which of them are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from page.kit import needs_node, running

pytestmark = needs_node

Take = Callable[..., list[dict[str, Any]]]

STATE = {"phase": "idle", "turn": None, "agent": {"name": "demo", "protocol": "acp"}}
WORKING = {**STATE, "phase": "running", "turn": {"id": "t1", "origin": "user", "since": 0}}
CLOSED = {**STATE, "phase": "closed"}
UNSEEN = "session_gone"
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def take() -> Iterator[Take]:
    with running("model.mjs", HERE) as node:
        yield lambda *lots: node.ask(list(lots))


def listed(*sessions: str) -> dict[str, Any]:
    found = [{"session": s, "agent": "demo", "phase": "idle", "created": 0} for s in sessions]
    return {"type": "sessions", "sessions": found}


def snapshot(session: str = "s1", seq: int = 5, *, epoch: str = "e1") -> dict[str, Any]:
    """In the middle of a turn."""
    lists = ("items", "permissions", "queue", "plan", "tasks", "commands")
    return {
        "type": "snapshot",
        "session": session,
        "epoch": epoch,
        "seq": seq,
        "state": WORKING,
        "turns": [{"id": "t1", "origin": "user"}],
        "usage": None,
        "modes": None,
        **dict.fromkeys(lists, ()),
    }


def event(seq: int, kind: str, **fields: Any) -> dict[str, Any]:
    told = {"kind": kind, **fields}
    return {"type": "event", "session": "s1", "epoch": "e1", "seq": seq, "event": told}


def beat(**sessions: Any) -> dict[str, Any]:
    return {"type": "beat", "sessions": sessions}


def test_a_session_that_the_list_does_not_name_has_ended(take: Take) -> None:
    before, after = take([listed("s1"), snapshot()], [listed()])
    assert before == {"s1": [5, False, False, "running", None, [None]]}
    assert after == {"s1": [5, True, False, "closed", UNSEEN, ["agent_died"]]}


def test_the_events_of_its_end_may_come_behind_the_list(take: Take) -> None:
    ended = event(6, "turn.ended", turn="t1", outcome="cancelled")
    _, half, whole = take(
        [listed("s1"), snapshot()], [listed(), ended], [event(7, "state", state=CLOSED)]
    )
    assert half == {"s1": [6, True, False, "closed", UNSEEN, ["cancelled"]]}
    assert whole == {"s1": [7, True, False, "closed", None, ["cancelled"]]}


def test_what_comes_behind_the_list_opens_nothing(take: Take) -> None:
    """If the connection ends there, it would stay open for ever."""
    opened = [
        event(6, "state", state=WORKING),
        event(7, "turn.started", turn="t2", origin="user"),
    ]
    _, after = take([listed("s1"), snapshot()], [listed(), *opened])
    assert after == {"s1": [7, True, False, "closed", UNSEEN, ["agent_died", "agent_died"]]}


def test_a_snapshot_behind_the_list_opens_nothing(take: Take) -> None:
    _, after = take([listed("s1"), snapshot()], [listed(), snapshot(seq=9)])
    assert after == {"s1": [9, True, False, "closed", UNSEEN, ["agent_died"]]}


def test_a_session_that_comes_back_is_attached_again(take: Take) -> None:
    *_, back, fresh = take([listed("s1"), snapshot()], [listed()], [listed("s1")], [snapshot()])
    assert back["s1"][1:3] == [False, True]
    assert fresh == {"s1": [5, False, False, "running", None, [None]]}


@pytest.mark.parametrize(
    ("told", "behind"),
    [
        ({"s1": {"epoch": "e1", "seq": 5, "phase": "running"}}, False),
        ({"s1": {"epoch": "e1", "seq": 6, "phase": "running"}}, True),
        ({"s1": {"epoch": "e2", "seq": 5, "phase": "running"}}, True),
        ({}, True),
    ],
    ids=["the same", "more", "another epoch", "not followed"],
)
def test_a_beat_says_whether_something_was_missed(
    take: Take, told: dict[str, Any], behind: bool
) -> None:
    [after] = take([listed("s1"), snapshot(), beat(**told)])
    assert after["s1"][1:3] == [False, behind]


def test_another_epoch_takes_the_place_of_all_that_was_known(take: Take) -> None:
    _, after = take([listed("s1"), snapshot(seq=50)], [listed("s1"), snapshot(seq=2, epoch="e2")])
    assert after == {"s1": [2, False, False, "running", None, [None]]}
