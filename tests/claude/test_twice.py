"""What comes twice, comes in the other order, breaks off or is taken back."""

from __future__ import annotations

import pytest

from agentrt.effects import Retracted, TextEnded, TextReceived, ToolCalled
from agentrt.events import Notice

from .rig import Rig, assistant, delta, event, only, streamed, system, text, tool_use


def said(rig: Rig) -> str:
    return "".join(effect.text for effect in rig.of(TextReceived))


def begin(id: str = "m1") -> list[dict]:
    start = event("message_start", message={"id": id, "content": [], "role": "assistant"})
    return [start, event("content_block_start", index=0, content_block=text(""))]


END = [event("content_block_stop", index=0), event("message_stop")]


# --- twice


@pytest.mark.parametrize("parent", [None, "c1"])
def test_a_message_that_comes_again_says_nothing_new(rig: Rig, parent: str | None) -> None:
    rig.feed(assistant(tool_use("c1", "Task"), id="m0"))
    whole = assistant(text("once"), uuid="a", parent=parent)
    rig.feed(whole, whole)
    rig.feed(assistant(text(" more"), uuid="b", parent=parent), whole)
    assert said(rig) == "once more"


def test_a_streamed_message_that_comes_again_says_nothing_new(rig: Rig) -> None:
    whole = assistant(text("hello"), uuid="a")
    rig.feed(*begin(), delta("hel"), delta("lo"), whole, *END, whole)
    assert said(rig) == "hello"


def test_a_tool_call_that_comes_again_is_one_call(rig: Rig) -> None:
    whole = assistant(tool_use("c1", "Bash", command="ls"), uuid="a")
    rig.feed(whole, whole)
    assert len(rig.of(ToolCalled)) == 1


def test_messages_without_a_uuid_are_all_heard(rig: Rig) -> None:
    rig.feed(assistant(text("a")), assistant(text("b"), uuid=7), assistant(text("c"), uuid=7))
    assert said(rig) == "abc"


# --- in the other order


@pytest.mark.parametrize("pieces", [["hello"], ["hel", "lo"], ["h", "e", "l", "l", "o"]])
def test_pieces_behind_their_whole_are_not_shown_again(rig: Rig, pieces: list[str]) -> None:
    rig.feed(assistant(text("hello"), uuid="a"), *begin(), *map(delta, pieces), *END)
    assert said(rig) == "hello"
    rig.feed(*streamed(" and on", id="m2"))
    assert said(rig) == "hello and on"


def test_pieces_that_say_more_than_their_whole_are_shown_from_there(rig: Rig) -> None:
    rig.feed(assistant(text("hello"), uuid="a"), *begin(), delta("hel"), delta("lo, world"), *END)
    assert said(rig) == "hello, world"


def test_pieces_that_say_something_else_are_shown(rig: Rig) -> None:
    rig.feed(assistant(text("hello"), uuid="a"), *begin(), delta("other"), delta(" words"), *END)
    assert said(rig) == "helloother words"


def test_a_second_block_is_distinguished_from_the_first(rig: Rig) -> None:
    second = event("content_block_start", index=1, content_block=text(""))
    rig.feed(assistant(text("one."), uuid="a"), *begin(), delta("one."), END[0])
    rig.feed(second, delta("two.", 1), assistant(text("two."), uuid="b"))
    rig.feed(event("content_block_stop", index=1), event("message_stop"))
    assert said(rig) == "one.two."


def test_a_call_that_streams_behind_its_whole_does_not_begin_again(rig: Rig) -> None:
    call = {**tool_use("c1", "Bash", command="ls"), "input": {}}
    rig.feed(assistant(tool_use("c1", "Bash", command="ls"), uuid="a"), begin()[0])
    told = rig.feed(event("content_block_start", index=0, content_block=call), *END)
    assert [effect.status for effect in told if isinstance(effect, ToolCalled)] == []


# --- broken off, taken back


def test_a_block_that_was_never_finished_is_broken_off_by_the_next_message(rig: Rig) -> None:
    rig.feed(*begin("m1"), delta("half of"))
    told = rig.feed(*streamed("the whole", id="m2"))
    assert only(told[:1], TextEnded).broken
    assert [effect.broken for effect in rig.of(TextEnded)] == [True, False]


def test_a_block_is_broken_off_when_the_cli_gives_up_on_the_api(rig: Rig) -> None:
    rig.feed(*begin("m1"), delta("half of"))
    failed = assistant(text("API Error"), error="unknown", id="s1")
    failed["message"]["model"] = "<synthetic>"
    assert only(rig.feed(failed), TextEnded).broken


def test_a_finished_block_is_not_broken_off_though_its_whole_never_came(rig: Rig) -> None:
    rig.feed(*begin("m1"), delta("a long line"), *END)
    rig.feed(*streamed("next", id="m2"))
    assert [effect.broken for effect in rig.of(TextEnded)] == [False, False]


def test_what_claude_takes_back_is_known_by_its_message(rig: Rig) -> None:
    rig.feed(assistant(text("no"), id="m1", uuid="a"), assistant(text("yes"), id="m2", uuid="b"))
    fallback = system(
        "model_refusal_fallback", content="another model", retracted_message_uuids=["a", "z", 7]
    )
    told = rig.feed(fallback)
    assert only(told, Retracted).messages == {"m1"}
    assert only(told, Notice).code == "model_fallback"


@pytest.mark.parametrize("uuids", [None, [], ["z"], "a"])
def test_nothing_is_taken_back_that_is_not_known(rig: Rig, uuids: object) -> None:
    rig.feed(assistant(text("no"), uuid="a"))
    told = rig.feed(system("model_refusal_fallback", retracted_message_uuids=uuids))
    assert told == []
