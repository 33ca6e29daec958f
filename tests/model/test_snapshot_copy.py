"""A snapshot that is made in steps; `test_any_order.py` makes some in any course of events."""

from __future__ import annotations

import pytest

from agentrt._core.model.snapshot_copy import SnapshotCopy
from agentrt.effects import TextReceived
from agentrt.events import Item, Text, TurnRecord
from agentrt.store import StoredHistory

from .talk import Talk

TURNS = 20


def talk_of(turns: int) -> Talk:
    talk = Talk()
    for number in range(turns):
        talk.begin([Text(f"prompt {number}")])
        talk.tell(TextReceived(f"answer {number}"))
        talk.conversation.end("completed")
        talk.step()
    return talk


@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_it_includes_what_happened_between_its_steps(piece: int) -> None:
    talk = talk_of(TURNS)
    talk.begin([Text("now")])
    copy = SnapshotCopy(talk.log, piece=piece)
    steps = 0
    while (found := copy.step()) is None:
        steps += 1
        if steps < TURNS:
            talk.tell(TextReceived(f"word {steps} "))
        elif steps == TURNS:
            talk.conversation.end("completed")
        talk.step()
    assert found == talk.log.snapshot()
    assert steps == 0 if piece == 1000 else steps > TURNS / piece
    copy.close()


def test_a_later_event_does_not_change_it() -> None:
    talk = talk_of(2)
    talk.begin([Text("now")])
    copy = SnapshotCopy(talk.log)
    found, same = copy.step(), talk.log.snapshot()
    talk.tell(TextReceived("more"))
    talk.conversation.end("completed")
    talk.step()
    assert found == same


def test_it_includes_history_that_is_loaded_in_the_meantime() -> None:
    talk = talk_of(TURNS)
    talk.state.ahead = StoredHistory(2, 2, "first")
    copy = SnapshotCopy(talk.log, piece=2)
    left: StoredHistory | None = StoredHistory(1, 1, "first")
    for number in (1, 0):
        for _ in range(3):
            assert copy.step() is None
        turn = TurnRecord(id=f"old{number}", origin="user", outcome="completed")
        item = Item(id=f"older{number}", type="user", turn=turn.id, status="completed")
        talk.state.prepend_history([turn], [item], left)
        left = None
    while (found := copy.step()) is None:
        pass
    assert found == talk.log.snapshot()
    assert [item.id for item in found.items[:2]] == ["older0", "older1"]
