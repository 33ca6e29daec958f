"""The reducer of `agentrt-client` with snapshots of the last turns, and `history`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.effects import TextReceived, ToolCalled, UserContentReceived
from agentrt.events import Text
from model.talk import Talk
from page.kit import Answering, needs_node, running
from simulation.fold import Fold, as_json

pytestmark = needs_node
HERE = Path(__file__).parent


class Reader:
    """A page that looks at a conversation."""

    def __init__(self, node: Answering, talk: Talk, turns: int, items: int) -> None:
        self._node = node
        self._talk = talk
        self._size = {"turns": turns, "items": items}
        self.view: dict[str, Any] = {}
        self.seq = talk.log.seq
        self._give(start=self._snapshot())

    def _give(self, **what: Any) -> None:
        self.seq = self._talk.log.seq
        self.view = {**self._node.ask(what), "seq": self.seq}

    def _snapshot(self) -> Any:
        talk = self._talk
        return talk.state.snapshot("s1", "e1", talk.log.seq, **self._size)

    def read(self) -> None:
        if self.seq != self._talk.log.seq:
            self._give(events=self._talk.log.since(self.seq))

    def come_back(self) -> None:
        """What has come meanwhile was missed, and another snapshot comes for it."""
        self._give(again=self._snapshot())

    def look_back(self) -> None:
        self.read()
        if self.view["earlier"] is not None:
            self._give(history=self._talk.state.history(self.view["earlier"], **self._size))

    def check(self) -> None:
        """Behind the oldest item that it has, it shows what there is."""
        truth = Fold(as_json(self._talk.log.snapshot()))
        shown, earlier = Fold(self.view), self.view["earlier"]
        assert shown.shown_from(earlier).differs_from(truth.shown_from(earlier)) == ""


@pytest.fixture(scope="module")
def node() -> Iterator[Answering]:
    with running("history.mjs", HERE) as node:
        yield node


def run(talk: Talk, *names: str) -> None:
    """Turns that are over."""
    for name in names:
        talk.begin([Text(name)])
        talk.tell(ToolCalled(id=f"{name}-call", title=name, status="completed"), TextReceived(name))
        talk.conversation.end("completed")
        talk.step()


def prompts(reader: Reader) -> list[str]:
    items = [item for item in reader.view["items"] if item["type"] == "user"]
    return [item["content"][0]["text"] for item in items]


def test_what_was_asked_for_stays_when_another_snapshot_comes(node: Answering) -> None:
    talk = Talk()
    run(talk, *"abcdef")
    reader = Reader(node, talk, 2, 99)
    reader.look_back()
    assert prompts(reader) == [*"cdef"]
    run(talk, "g")
    reader.come_back()
    assert prompts(reader) == [*"cdefg"]
    reader.look_back()
    assert prompts(reader) == [*"abcdefg"]
    reader.check()


def test_with_a_gap_before_the_snapshot_only_that_is_shown(node: Answering) -> None:
    talk = Talk()
    run(talk, *"abc")
    reader = Reader(node, talk, 2, 99)
    run(talk, *"defg")
    reader.come_back()
    assert prompts(reader) == [*"fg"]
    reader.check()


def test_what_may_have_changed_unseen_is_not_kept(node: Answering) -> None:
    talk = Talk()
    run(talk, "a")
    talk.begin([Text("b")])
    talk.tell(ToolCalled(id="call", title="a call", status="running"))
    talk.step()
    reader = Reader(node, talk, 50, 99)
    talk.tell(ToolCalled(id="call", status="failed"))
    talk.conversation.end("completed")
    run(talk, "c", "d")
    reader._size["turns"] = 2
    reader.come_back()
    assert prompts(reader) == [*"cd"]
    reader.check()


step = st.one_of(
    st.sampled_from(["begin", "end", "say", "said", "read", "look back", "come back"]),
    st.tuples(
        st.sampled_from(["c1", "c2"]),
        st.booleans(),
        st.sampled_from(["running", "running", "completed"]),
    ),
)


@pytest.mark.slow
@given(
    steps=st.lists(step, min_size=5, max_size=60),
    replayed=st.integers(0, 3),
    turns=st.integers(1, 3),
    items=st.integers(1, 8),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_comes_and_is_missed_the_page_shows_what_there_is(
    node: Answering, steps: list[Any], replayed: int, turns: int, items: int
) -> None:
    talk = Talk()
    for _ in range(replayed):
        talk.tell(
            UserContentReceived(content=[Text("before")], replay=True),
            TextReceived("answer", replay=True),
        )
    talk.items.replayed()
    talk.step()
    reader = Reader(node, talk, turns, items)
    for number, each in enumerate(steps):
        act(talk, reader, each, number)
        if reader.seq == talk.log.seq:
            reader.check()
    reader.read()
    while reader.view["earlier"] is not None:
        reader.look_back()
    reader.check()


def act(talk: Talk, reader: Reader, step: Any, number: int) -> None:
    runs = talk.conversation.turn is not None
    match step:
        case "begin" if not runs:
            talk.begin([Text(f"prompt {number}")])
        case "end" if runs:
            talk.conversation.end("completed")
        case "say" if runs:
            talk.tell(TextReceived(f"word {number} ", message=f"m{number // 4}"))
        case "said" if not runs:
            talk.tell(UserContentReceived(content=[Text("between")]))
        case "read":
            reader.read()
        case "look back":
            reader.look_back()
        case "come back":
            reader.come_back()
        case (id, opens, status) if runs:
            title = f"call {number}"
            talk.tell(ToolCalled(id=id, opens=opens, title=title, status=status))
    talk.step()


@pytest.fixture(scope="module")
def walker() -> Iterator[Answering]:
    with running("pages.mjs", HERE) as node:
        yield node


def test_all_pages_of_history_cost_as_much_as_they_hold(walker: Answering) -> None:
    few, many = (walker.ask({"pages": pages}) for pages in (50, 800))
    assert many <= 16 * few


@pytest.mark.parametrize("seed", range(100))
def test_views_that_share_pages_are_like_views_that_do_not(walker: Answering, seed: int) -> None:
    assert walker.ask({"seed": seed}) == 41
