"""The numbers of a session's items, which a long one gets piece by piece."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentrt import Limits
from agentrt.events import Item, ItemClosed, ItemOpened, TurnEnded, TurnStarted
from agentrt.lowlevel import Log, SessionState
from clients.random_turns import changes_of, in_small_steps, numbers_of


@pytest.fixture(autouse=True)
def small_steps() -> Iterator[None]:
    with in_small_steps():
        yield


def grown(log: Log, turns: range) -> None:
    """Turns of three items each."""
    for number in turns:
        log.append(TurnStarted(f"t{number}", "user", []))
        for item in range(3 * number, 3 * number + 3):
            log.append(ItemOpened(Item(id=f"i{item}", type="text", turn=f"t{number}")))
            log.append(ItemClosed(f"i{item}", "completed"))
        log.append(TurnEnded(turn=f"t{number}", outcome="completed"))
    log.publish()


def session(turns: int) -> Log:
    log = Log("s1", "e1", Limits(), SessionState())
    grown(log, range(turns))
    return log


def test_all_pieces_together_are_all_items_in_their_order_however_it_grows_meanwhile() -> None:
    log = session(5)
    transcript = numbers_of(log)
    shown: list[str] = []
    for turns in (5, 5, 7, 7, 12, 12):
        grown(log, range(len(log.state.turns), turns))
        shown += transcript.piece(len(shown), 4)
    while new := transcript.piece(len(shown), 4):
        shown += new
    assert shown == list(log.state.items)


def test_where_an_item_and_a_turn_are_is_known_without_all_having_been_shown() -> None:
    transcript = numbers_of(session(10))
    assert transcript.is_before("i3", 4)
    assert not transcript.is_before("i4", 4)
    assert not transcript.is_before("i29", 4)
    assert transcript.is_before("i29", 30)
    assert [transcript.start(f"t{number}") for number in (0, 1, 9)] == [0, 3, 27]
    assert transcript.start("t10") == 30  # it has none yet


def test_a_reader_is_shown_what_changes_of_what_it_knows_and_then_what_is_new() -> None:
    log = session(2)
    log.append(ItemOpened(Item(id="i6", type="text")))
    shown = changes_of(log)
    assert [(item.id, new) for item, new in shown()] == [(f"i{n}", True) for n in range(7)]
    log.append(ItemClosed("i6", "completed"))
    log.append(ItemOpened(Item(id="i7", type="text")))
    assert [(item.id, new) for item, new in shown()] == [("i6", False), ("i7", True)]
