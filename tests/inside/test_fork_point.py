"""Where a copy of a conversation ends.

Agents name the end of a copy by different means; the function gets logs that mix all of them.
"""

from __future__ import annotations

import pytest

from agentrt._core.model.fork_point import fork_point
from agentrt._core.model.repeats import history_effects
from agentrt.effects import TextEnded, TextReceived, ToolCalled, UserContentReceived
from agentrt.errors import LocalProtocolError
from agentrt.events import ForkPoint, Item, ItemOpened, Text, ToolCall, TurnEnded, TurnStarted
from agentrt.hosting import shown_until
from agentrt.lowlevel import Effect, SessionState


def state_of(*items: Item) -> SessionState:
    state = SessionState()
    for turn in dict.fromkeys(item.turn for item in items if item.turn):
        state.apply(TurnStarted(turn, "user"))
        if turn != "running":
            state.apply(TurnEnded(turn=turn, outcome="completed"))
    for item in items:
        state.apply(ItemOpened(item))
    return state


def said(id: str, text: str, message: str | None, turn: str | None = "t1", **more: bool) -> Item:
    return Item(
        id=id,
        type="text",
        text=text,
        message=message,
        turn=turn,
        status="completed",
        replay=turn is None,
        **more,
    )


def prompt(id: str, turn: str | None = "t1") -> Item:
    words = [Text(id)]
    return Item(
        id=id, type="user", content=words, turn=turn, status="completed", replay=turn is None
    )


def call(id: str, turn: str = "t1", parent: str | None = None) -> Item:
    tool = ToolCall(call=f"call-{id}", title="Run it")
    return Item(id=id, type="tool", tool=tool, turn=turn, parent=parent, status="completed")


def test_a_turn_ends_with_its_last_answer_whatever_of_it_is_named() -> None:
    state = state_of(
        prompt("i1"), said("i2", "I look.", "m1"), call("i3"), said("i4", "Done.", "m2"), call("i5")
    )
    ends = ForkPoint(messages=("m2", "m1", "call-i5", "call-i3"), text="Done.")
    for named in ("t1", "i1", "i2", "i3", "i5"):
        assert fork_point(state, named) == ends


def test_words_that_were_said_before_are_counted() -> None:
    state = state_of(
        *(prompt("i1"), said("i2", "Done.", "m1")),
        *(prompt("i3", "t2"), said("i4", "Done.", "m2", "t2")),
        *(prompt("i5", "t3"), said("i6", "Done.", "m3", "t3")),
    )
    assert fork_point(state, "t2").occurrence == 2
    assert [item.id for item in shown_until(state, "t2")] == ["i1", "i2", "i3", "i4"]
    assert len(shown_until(state, None)) == 6


def test_what_was_repeated_of_another_process_ends_where_the_next_prompt_begins() -> None:
    state = state_of(
        *(prompt("i1", None), said("i2", "One.", "m1", None)),
        *(prompt("i3", None), said("i4", "Two.", "m2", None), said("i5", "And.", "m3", None)),
        *(prompt("i6"), said("i7", "Three.", "m4")),
    )
    assert fork_point(state, "i1").messages == ("m1",)
    for named in ("i3", "i4", "i5"):
        assert fork_point(state, named).messages == ("m3", "m2")
    assert fork_point(state, "i6").messages == ("m4",)


def test_a_turn_that_only_did_something_is_named_by_its_calls() -> None:
    state = state_of(prompt("i1"), call("i2"), call("i3", parent="i2"))
    assert fork_point(state, "t1") == ForkPoint(messages=("call-i2",))


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("nobody", "no turn and no message 'nobody'"),
        ("running", "still runs"),
        ("i3", "still runs"),
        ("t1", "has given no id to the messages"),
    ],
)
def test_where_no_copy_can_end_is_said(named: str, why: str) -> None:
    state = state_of(
        *(prompt("i1"), said("i2", "Nameless.", None)),
        *(prompt("i3", "running"), said("i4", "So", "m1", "running")),
    )
    with pytest.raises(LocalProtocolError, match=why):
        fork_point(state, named)


def test_items_are_repeated_as_an_agent_would() -> None:
    items = [prompt("i1"), said("i2", "Done.", "m1"), call("i3")]
    effects: list[Effect] = list(history_effects(items))
    assert effects[:3] == [
        UserContentReceived(content=[Text("i1")], replay=True),
        TextReceived("Done.", message="m1", replay=True),
        TextEnded(),
    ]
    [called] = [effect for effect in effects if isinstance(effect, ToolCalled)]
    assert (called.id, called.title, called.status) == ("call-i3", "Run it", "completed")
