"""Lines into messages."""

from __future__ import annotations

import json

import msgspec
import pytest

from agentrt._core.claude import messages as wire
from agentrt.effects import TextReceived, TurnFinished
from agentrt.events import Notice
from agentrt.lowlevel import ClaudeDriver

from .rig import INIT, Json, Rig, assistant, only, result, state, text


def read(*lines: Json | bytes) -> list[wire.Message]:
    data = [m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in lines]
    return wire.ClaudeReader().read(b"".join(data))


def test_the_type_may_be_the_last_key() -> None:
    (message,) = read(b'{"is_error":true,"subtype":"x","type":"result"}\n')
    assert message == wire.Result(subtype="x", is_error=True)


def test_unknown_fields_cost_nothing() -> None:
    assert read({"type": "keep_alive", "startup_mark": "x"}) == [wire.KeepAlive()]


def test_an_unknown_type_is_kept_whole_and_costs_only_itself() -> None:
    told = read({"type": "keep_alive"}, {"type": "new", "a": 1}, {"type": "keep_alive"})
    new = wire.UnknownClaudeLine("new", {"type": "new", "a": 1})
    assert told == [wire.KeepAlive(), new, wire.KeepAlive()]


def test_system_lines_keep_their_unknown_fields() -> None:
    (message,) = read({"type": "system", "subtype": "new", "extra": [1]})
    assert message == wire.System("new", {"type": "system", "subtype": "new", "extra": [1]})


@pytest.mark.parametrize(
    "line", [b"[SandboxDebug] x\n", b"7\n", b"[]\n", b'"s"\n', b"{}\n", b'{"type":7}\n', b"\xff\n"]
)
def test_a_line_that_is_no_message_costs_only_itself(line: bytes) -> None:
    told = read({"type": "keep_alive"}, line, {"type": "keep_alive"})
    assert [type(m) for m in told] == [wire.KeepAlive, wire.BadClaudeLine, wire.KeepAlive]


def test_a_broken_field_costs_only_its_line() -> None:
    told = read({"type": "control_cancel_request", "request_id": 7}, {"type": "keep_alive"})
    assert [type(m) for m in told] == [wire.BadClaudeLine, wire.KeepAlive]


def test_blank_lines_and_carriage_returns_are_white_space() -> None:
    lines = b'\r\n\n{"type":"keep_alive"}\r\n  \n{"type":"system","subtype":"x"}\r\n'
    assert [type(m) for m in read(lines)] == [wire.KeepAlive, wire.System]


@pytest.mark.parametrize("first", [b"", b'{"type":"system","subtype":"x"}\n'])
def test_half_an_emoji_is_repaired(first: bytes) -> None:
    cut = b'{"type":"assistant","message":{"content":[{"type":"text","text":"\\ud83d"}]}}\n'
    message = read(first, cut)[-1]
    assert isinstance(message, wire.Assistant)
    assert message.message.content[0].text == "\ufffd"  # type: ignore[union-attr]


def test_half_an_emoji_in_a_system_line_is_repaired() -> None:
    (message,) = read(b'{"type":"system","subtype":"notification","text":"\\ud83d"}\n')
    assert isinstance(message, wire.System)
    assert message.fields["text"] == "\ufffd"


def test_after_an_unknown_type_lines_are_decoded_one_by_one() -> None:
    reader = wire.ClaudeReader()
    reader.read(b'{"type":"new"}\n')
    assert reader._by_line
    assert reader.read(b'{"type":"keep_alive"}\n') == [wire.KeepAlive()]


def test_every_declared_type_is_decoded_with_its_batch() -> None:
    for tag in wire.DECLARED:
        reader = wire.ClaudeReader()
        reader.read(msgspec.json.encode({"type": tag}) + b"\n")
        assert not reader._by_line


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
