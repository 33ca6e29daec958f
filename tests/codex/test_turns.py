"""Which of codex's turns is the prompt's, when its answer and its beginning come in any order."""

from __future__ import annotations

import pytest

from agentrt.effects import TextReceived, TurnBegan, TurnFinished
from agentrt.lowlevel import Effect

from .codex_kit import Peer, only, opened


def named(peer: Peer, id: str) -> list[Effect]:
    """The answer to a prompt names its turn."""
    return peer.answers("turn/start", {"turn": {"id": id, "status": "inProgress", "items": []}})


def late(peer: Peer, turn: str) -> list[Effect]:
    """Words of a turn come."""
    return peer.tells("item/agentMessage/delta", turnId=turn, itemId="m", delta="late")


def interrupted(peer: Peer) -> list[str]:
    return [
        each["params"]["turnId"] for each in peer.sent if each.get("method") == "turn/interrupt"
    ]


def test_a_name_without_a_prompt_interrupts_nothing() -> None:
    peer = opened()
    peer.prompt(begins=False)
    peer.do(peer.driver.cancel())
    peer.driver.discard_prompt("p-1")
    named(peer, "a")
    peer.begins("a")
    assert interrupted(peer) == []


def test_a_turn_that_began_ahead_of_the_prompt_s_name_is_codex_s_own() -> None:
    peer = opened()
    assert only(peer.begins("o"), TurnBegan).explicit  # an earlier one is reported
    peer.ends("o")
    peer.prompt(begins=False)
    assert peer.begins("a") == []
    named(peer, "b")
    assert peer.ends("a") == []
    peer.begins("b")
    assert only(peer.ends("b"), TurnFinished).turn == "p-1"


def test_a_cancel_reaches_the_prompt_s_turn_also_where_another_one_began_first() -> None:
    peer = opened()
    peer.prompt(begins=False)
    peer.begins("a")
    peer.do(peer.driver.cancel())
    named(peer, "b")
    peer.begins("b")
    assert interrupted(peer)[-1] == "b"


def test_codex_s_own_turn_is_known_when_it_is_named_again_and_not_interrupted() -> None:
    peer = opened()
    assert only(peer.begins("a"), TurnBegan).explicit
    assert peer.begins("a") == []
    assert only(peer.begins("b"), TurnBegan).explicit
    assert interrupted(peer) == []


@pytest.mark.parametrize("more", [0, 64])
def test_the_oldest_of_the_turns_that_are_over_is_forgotten(more: int) -> None:
    peer = opened()
    ids = [str(number) for number in range(64 + more)]
    for id in ids:
        peer.begins(id)
        peer.ends(id)
    assert [late(peer, id) for id in ids[more:]] == [[]] * 64
    assert [type(effect) for effect in late(peer, ids[0])] == [TurnBegan, TextReceived] * bool(more)


def test_a_turn_s_end_forgets_it() -> None:
    peer = opened()
    peer.prompt(begins=False)
    named(peer, "a")
    peer.begins("a")
    assert only(peer.ends("a"), TurnFinished).turn == "p-1"
    assert peer.driver.idle
    peer.begins("b")
    peer.ends("b")
    assert peer.driver.idle
    assert peer.begins("b") == []
    assert peer.driver.idle
