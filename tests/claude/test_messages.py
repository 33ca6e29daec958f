"""Lines into messages."""

from __future__ import annotations

import json

import pytest

from agentrt.effects import TextEnded, TextReceived, TurnFinished
from agentrt.events import Notice
from agentrt.lowlevel import ClaudeDriver, Effect

from .rig import INIT, TYPES, Json, Rig, assistant, only, result, state, system, text


def told(*lines: Json | bytes) -> list[Effect]:
    """What the driver reports of these lines in a turn, without the ends of texts."""
    rig = Rig()
    rig.start()
    rig.prompt()
    rig.feed(state("running"), INIT)
    return [effect for effect in rig.feed(*lines) if not isinstance(effect, TextEnded)]


def between(line: Json | bytes) -> list[Effect]:
    """What is reported of a line between two others, which are as they were."""
    first, *found, last = told(assistant(text("a")), line, assistant(text("b"), id="m2"))
    assert (first, last) == (TextReceived("a", message="m1"), TextReceived("b", message="m2"))
    return found


def test_the_type_may_be_the_last_key() -> None:
    rig = Rig()
    rig.start()
    rig.prompt()
    rig.feed(state("running"), INIT, b'{"is_error":true,"subtype":"x","type":"result"}\n')
    rig.feed(state("idle"))
    assert only(rig.effects, TurnFinished).outcome == "failed"


def test_unknown_fields_cost_nothing() -> None:
    assert told({"type": "keep_alive", "startup_mark": "x"}) == []
    assert between({**assistant(text("c"), id="m3"), "new": [1]}) == [
        TextReceived("c", message="m3")
    ]


def test_an_unknown_type_is_kept_whole_and_costs_only_itself() -> None:
    line = {"type": "new", "a": 1}
    [notice] = between(line)
    assert isinstance(notice, Notice)
    assert (notice.code, notice.data) == ("unknown_update", line)


def test_system_lines_keep_their_unknown_fields() -> None:
    line = system("new", extra=[1])
    assert only(told(line), Notice).data == line


@pytest.mark.parametrize(
    "line", [b"[SandboxDebug] x\n", b"7\n", b"[]\n", b'"s"\n', b"{}\n", b'{"type":7}\n', b"\xff\n"]
)
def test_a_line_that_is_no_message_costs_only_itself(line: bytes) -> None:
    [notice] = between(line)
    assert isinstance(notice, Notice)
    assert notice.code == "bad_line"


def test_a_broken_field_costs_only_its_line() -> None:
    [notice] = between({"type": "control_cancel_request", "request_id": 7})
    assert isinstance(notice, Notice)
    assert notice.code == "bad_line"
    assert notice.message == (
        "the agent wrote an invalid line: Expected `str`, got `int` - at `$.request_id`"
    )


def test_blank_lines_and_carriage_returns_are_white_space() -> None:
    one, two = (json.dumps(assistant(text(t), id=t)).encode() for t in ("one", "two"))
    assert told(b"\r\n\n" + one + b"\r\n  \n" + two + b"\r\n") == [
        TextReceived("one", message="one"),
        TextReceived("two", message="two"),
    ]


@pytest.mark.parametrize("first", [b"", b'{"type":"keep_alive"}\n', b'{"type":"new"}\n'])
def test_half_an_emoji_is_repaired(first: bytes) -> None:
    cut = b'{"type":"assistant","message":{"content":[{"type":"text","text":"\\ud83d"}]}}\n'
    assert only(told(first + cut), TextReceived).text == "\ufffd"


def test_half_an_emoji_in_a_system_line_is_repaired() -> None:
    line = b'{"type":"system","subtype":"notification","text":"\\ud83d"}\n'
    assert only(told(line), Notice).message == "\ufffd"


def test_lines_after_an_unknown_type_are_messages_too() -> None:
    lines = [assistant(text(str(number)), id=str(number)) for number in range(3)]
    found = told({"type": "new"}, *lines, b"no message\n", *lines)
    assert [effect.text for effect in found if isinstance(effect, TextReceived)] == list("012012")


@pytest.mark.parametrize("kind", TYPES)
def test_the_types_of_the_program_are_known(kind: str) -> None:
    found = told({"type": kind})
    assert [effect for effect in found if getattr(effect, "data", None) == {"type": kind}] == (
        [] if kind != "system" else found
    )


def test_a_result_with_surprising_fields_still_ends_its_turn() -> None:
    rig = Rig()
    rig.start()
    rig.prompt()
    odd = result("u1", usage=7, modelUsage=[1], total_cost_usd="free", errors={}, origin="x")
    rig.feed(state("running"), INIT, odd, state("idle"))
    assert only(rig.effects, TurnFinished).outcome == "completed"


def test_a_line_of_ten_megabytes_is_a_message() -> None:
    rig = Rig()
    rig.start()
    rig.prompt()
    data = json.dumps(assistant(text("x" * 10_000_000))).encode() + b"\n"
    told = []
    for start in range(0, len(data), 1 << 16):
        told += rig.do(rig.driver.receive(data[start : start + (1 << 16)]))
    assert len(only(told, TextReceived).text) == 10_000_000


def test_a_line_over_the_limit_costs_only_itself() -> None:
    rig = Rig(driver=ClaudeDriver(new_key=lambda: "k", line_limit=1000))
    rig.start()
    rig.prompt()
    told = rig.feed(assistant(text("x" * 2000)), assistant(text("short"), id="m2"))
    assert only(told, Notice).code == "line_too_long"
    assert only(told, TextReceived).text == "short"
