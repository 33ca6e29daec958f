"""Slash commands, which codex's server has calls for, and reviews."""

from __future__ import annotations

import pytest

from agentrt.effects import CommandsSet, TaskSet, TextReceived, TurnFinished
from agentrt.events import Text

from .codex_kit import THREAD, Peer, only, opened


def send(peer: Peer, text: str, turn: str = "p-1") -> list[object]:
    return list(peer.do(peer.driver.prompt(turn, [Text(text)])))


def test_the_commands_are_offered_when_a_thread_is_open() -> None:
    peer = Peer()
    names = [command.name for command in only(peer.open(), CommandsSet).commands]
    assert names == ["compact", "review", "init", "status"]


def test_compact_is_a_turn_that_is_named_when_it_begins() -> None:
    peer = opened()
    send(peer, "/compact")
    assert peer.last("thread/compact/start")["params"] == {"threadId": THREAD}
    assert peer.answers("thread/compact/start", {}) == []
    peer.begins("u-7")
    assert only(peer.ends("u-7"), TurnFinished).turn == "p-1"


def test_a_cancel_reaches_a_compaction() -> None:
    peer = opened()
    send(peer, "/compact")
    peer.answers("thread/compact/start", {})
    peer.do(peer.driver.cancel())
    peer.begins("u-7")
    assert peer.last("turn/interrupt")["params"] == {"threadId": THREAD, "turnId": "u-7"}


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("/review", {"type": "uncommittedChanges"}),
        ("/review the tests", {"type": "custom", "instructions": "the tests"}),
    ],
)
def test_review_reviews_the_changes_or_what_is_asked(text: str, target: object) -> None:
    peer = opened()
    send(peer, text)
    assert peer.last("review/start")["params"] == {
        "threadId": THREAD,
        "target": target,
        "delivery": "inline",
    }


def test_a_review_that_works_in_a_turn_below_its_own_is_one_turn() -> None:
    """As codex 0.169 does it: its items and its end name the turn of the answer."""
    peer = opened()
    send(peer, "/review")
    peer.answers("review/start", {"turn": {"id": "u-7", "status": "inProgress", "items": []}})
    below = {"id": "u-8", "rootTurnId": "u-7", "status": "inProgress", "items": []}
    assert peer.tells("turn/started", turn=below) == []
    entered = {"type": "enteredReviewMode", "id": "i-1", "review": "current changes"}
    task = only(peer.item("started", entered, "u-7"), TaskSet).task
    assert (task.kind, task.title, task.status) == ("review", "current changes", "running")
    left = {"type": "exitedReviewMode", "id": "i-2", "review": "All is well."}
    task = only(peer.item("completed", left, "u-7"), TaskSet).task
    assert (task.id, task.status, task.detail) == ("i-1", "completed", "All is well.")
    peer.do(peer.driver.cancel())
    assert peer.last("turn/interrupt")["params"]["turnId"] == "u-7"
    assert only(peer.ends("u-7"), TurnFinished).turn == "p-1"
    assert peer.driver.idle


def test_init_is_a_prompt() -> None:
    peer = opened()
    send(peer, "/init in German")
    [block] = peer.last("turn/start")["params"]["input"]
    assert "AGENTS.md" in block["text"]
    assert block["text"].endswith("in German")


def test_status_is_answered_without_the_agent() -> None:
    peer = opened()
    before = len(peer.sent)
    said, _, ended = send(peer, "/status")
    assert isinstance(said, TextReceived)
    assert "m-1" in said.text
    assert ended == TurnFinished(turn="p-1", outcome="completed")
    assert len(peer.sent) == before
    send(peer, "hello", "p-2")
    assert peer.last("turn/start")


@pytest.mark.parametrize("text", ["/unknown", "/", "say /compact", " /compact"])
def test_other_text_goes_to_the_model(text: str) -> None:
    peer = opened()
    send(peer, text)
    assert peer.last("turn/start")["params"]["input"] == [{"type": "text", "text": text}]
