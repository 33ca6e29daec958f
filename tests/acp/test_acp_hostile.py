"""What agents do that they should not: the turn goes on, the defect is told, nothing is raised."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from acp_kit import Peer, chunk, opened, update
from msgspec import UNSET

from agentrt.effects import StartFailed, TextReceived, ToolCalled, TurnFinished
from agentrt.events import Notice
from agentrt.lowlevel import Effect


class Turn:
    """A running prompt on which an agent misbehaves."""

    def __init__(self, **options: Any) -> None:
        self.peer = opened(**options)
        self.id = self.peer.prompt("t1")
        self.peer.sent.clear()

    def survives(self) -> list[Effect]:
        """Check that the turn still hears text and ends well, and that nothing was written in
        answer to noise. Returns what was told before."""
        before, self.peer.effects = self.peer.effects, []
        self.peer.say(chunk("still here"), {"id": self.id, "result": {"stopReason": "end_turn"}})
        assert self.peer.effects == [
            TextReceived("still here"),
            TurnFinished(turn="t1", outcome="completed", stop_reason="end_turn"),
        ]
        assert self.peer.sent == []
        return before


def codes(effects: list[Effect]) -> list[str]:
    return [effect.code for effect in effects if isinstance(effect, Notice)]


# --- lines that are no messages


@pytest.mark.parametrize(
    "noise",
    [
        b"Loaded cached credentials.\n",
        b"\x1b[2J\x1b[31mWelcome back\x1b[0m\n",
        b"42\n",
        b"null\n",
        b"[]\n",
        b'[{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}]\n',
        b'"quoted"\n',
        b"{}\n",
        b"{\n",
        b'{"id":3,"level":"info","msg":"a log object with a matching id"}\n',
        b'{"id":true,"result":{}}\n',
        b'{"method":7}\n',
        b'{"result":{"stopReason":"end_turn"}}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":\n',
    ],
)
def test_a_line_that_is_no_message_costs_one_notice(noise: bytes) -> None:
    turn = Turn()
    turn.peer.raw(noise)
    (notice,) = turn.survives()
    assert isinstance(notice, Notice)
    assert notice.code == "malformed"
    assert notice.data == {"line": noise.rstrip(b"\n")[:200].decode("utf-8", "replace")}


def test_text_noise_before_and_among_messages() -> None:
    peer = Peer()
    peer.start()
    peer.raw(b"Starting up\n")
    peer.answer(1, {"protocolVersion": 1})
    peer.raw(b'Migrating database\n{"id":2,"result":{"sessionId":"s1"}}\nReady.\n')
    id = peer.prompt()
    peer.raw(b"thinking...\n" + json.dumps(chunk("a")).encode() + b"\n...\n")
    peer.answer(id, {"stopReason": "end_turn"})
    assert peer.only(TextReceived).text == "a"
    assert peer.only(TurnFinished).outcome == "completed"
    assert peer.notices() == ["malformed"] * 5


@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b" \t\r\n\n\n"])
def test_blank_lines_are_nothing_at_all(blank: bytes) -> None:
    turn = Turn()
    turn.peer.raw(blank)
    assert turn.survives() == []


def test_lines_may_end_in_crlf() -> None:
    turn = Turn()
    turn.peer.raw(json.dumps(chunk("a")).encode() + b"\r\n" + json.dumps(chunk("b")).encode())
    turn.peer.raw(b"\r\n")
    assert turn.survives() == [TextReceived("a"), TextReceived("b")]


def test_a_long_line_is_taken_and_one_that_is_too_long_is_skipped() -> None:
    turn = Turn(line_limit=1000)
    turn.peer.say(chunk("x" * 700))
    turn.peer.say(chunk("y" * 2000))
    long, notice = turn.survives()
    assert isinstance(long, TextReceived)
    assert len(long.text) == 700
    assert isinstance(notice, Notice)
    assert (notice.code, notice.data["limit"]) == ("line_too_long", 1000)


@pytest.mark.slow
def test_a_line_of_40_mib_is_taken_in_linear_time_and_memory() -> None:
    line = json.dumps(chunk("z" * (40 << 20))).encode() + b"\n"
    turn = Turn()
    tracemalloc.start()
    for start in range(0, len(line), 65536):
        turn.peer.effects += turn.peer.driver.receive(line[start : start + 65536])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    (spoke,) = turn.survives()
    assert isinstance(spoke, TextReceived)
    assert len(spoke.text) == 40 << 20
    assert peak < 4 * len(line)


def test_a_last_line_without_its_newline_counts_at_end_of_file() -> None:
    turn = Turn()
    last = json.dumps({"id": turn.id, "result": {"stopReason": "end_turn"}}).encode()
    assert turn.peer.raw(last) == []
    turn.peer.do(turn.peer.driver.receive_eof())
    assert turn.peer.only(TurnFinished).outcome == "completed"


def test_an_agent_that_logs_to_stdout_for_hours_does_not_fill_the_log() -> None:
    turn = Turn()
    for _ in range(10_000):
        turn.peer.raw(b"INFO still working\n")
    told = turn.survives()
    assert len(told) == 16 + 9  # every one at first, then at every power of two up to 8192
    assert turn.peer.driver.statistics().notices == {"malformed": 10_000}


def test_noise_in_a_large_read_is_reported_once_behind_its_first_lines() -> None:
    turn = Turn()
    turn.peer.raw(b"y\n" * 10_000)
    told = turn.survives()
    assert [notice.message for notice in told if isinstance(notice, Notice)][16:] == [
        "not a message (9999 times so far)"  # the last line of a read is always looked at
    ]
    assert turn.peer.driver.statistics().notices == {"malformed": 10_000}


# --- broken text


def test_a_lone_surrogate_costs_one_character() -> None:
    turn = Turn()
    line = json.dumps(chunk("cut @")).replace("@", r"\ud83d").encode() + b"\n"
    turn.peer.raw(line)
    notice, spoke = turn.survives()
    assert spoke == TextReceived("cut \ufffd")
    assert codes([notice]) == ["repaired"]
    assert spoke.text.encode()


def test_invalid_utf8_costs_one_character() -> None:
    turn = Turn()
    turn.peer.raw(json.dumps(chunk("caf@ noir")).encode().replace(b"@", b"\xe9") + b"\n")
    notice, spoke = turn.survives()
    assert spoke == TextReceived("caf\ufffd noir")
    assert codes([notice]) == ["repaired"]


# --- answers


@pytest.mark.parametrize("echo", [str, float])
def test_an_id_echoed_as_a_string_still_ends_the_turn(echo: Any) -> None:
    peer = opened()
    id = peer.prompt()
    peer.answer(echo(id), {"stopReason": "end_turn"})
    assert peer.only(TurnFinished).outcome == "completed"
    assert peer.notices() == ["id_type"]


@pytest.mark.parametrize(
    ("error", "message"), [("it broke", "it broke"), (None, "failed without a reason")]
)
def test_an_error_that_is_a_string_or_null_fails_the_turn(error: Any, message: str) -> None:
    peer = opened()
    id = peer.prompt()
    peer.say({"jsonrpc": "2.0", "id": id, "error": error})
    finished = peer.only(TurnFinished)
    assert finished.outcome == "failed"
    assert finished.error is not None
    assert finished.error.message == message


def test_a_result_and_an_error_together_are_an_error_unless_it_is_null() -> None:
    peer = opened()
    result = {"stopReason": "end_turn"}
    error = {"code": -32603, "message": "broke"}
    peer.say({"id": peer.prompt("t1"), "result": result, "error": error})
    peer.say({"id": peer.prompt("t2"), "result": result, "error": None})
    assert [finished.outcome for finished in peer.of(TurnFinished)] == ["failed", "completed"]


def test_a_second_response_is_dropped_and_reported() -> None:
    peer = opened()
    id = peer.prompt()
    response = {"id": id, "result": {"stopReason": "end_turn"}}
    peer.say(response, response)
    assert len(peer.of(TurnFinished)) == 1
    assert peer.notices() == ["duplicate_response"]


@pytest.mark.parametrize("id", [0, 99, -1, "x", None, 2.5])
def test_a_response_with_an_unknown_id_is_dropped_and_reported(id: Any) -> None:
    turn = Turn()
    turn.peer.answer(id, {"stopReason": "end_turn"})
    assert codes(turn.survives()) == ["foreign_response"]


@pytest.mark.parametrize("error", [{"code": -32601, "message": "Method not found"}, "what?"])
def test_an_error_without_an_id_is_about_nothing_and_reported(error: Any) -> None:
    turn = Turn()
    turn.peer.say({"jsonrpc": "2.0", "error": error}, {"id": None, "error": error})
    assert codes(turn.survives()) == ["error_without_id"] * 2


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({}, None),
        (None, None),
        ([], None),
        ({"stopReason": 3}, None),
        ({"stopReason": "weird"}, "weird"),
    ],
)
def test_a_result_that_is_empty_null_or_has_an_unknown_stop_reason_ends_the_turn(
    result: Any, reason: str | None
) -> None:
    peer = opened()
    peer.answer(peer.prompt(), result)
    finished = peer.only(TurnFinished)
    assert (finished.outcome, finished.stop_reason) == ("completed", reason)
    assert peer.notices()[-1] == "stop_reason"


def test_version_two_in_answer_to_one_is_no_session() -> None:
    peer = Peer()
    peer.start()
    peer.answer(1, {"protocolVersion": 2})
    assert peer.only(StartFailed).error.code == "version"


# --- updates


def test_an_update_after_the_response_is_passed_on_as_the_agent_s_own() -> None:
    peer = opened()
    id = peer.prompt()
    peer.say({"id": id, "result": {"stopReason": "end_turn"}}, chunk("tail"))
    assert [type(effect) for effect in peer.effects] == [TurnFinished, TextReceived]


def test_an_update_for_another_session_is_dropped_and_reported() -> None:
    turn = Turn()
    turn.peer.say(chunk("foreign", "s2"))
    assert codes(turn.survives()) == ["foreign_session"]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"sessionUpdate": "telepathy", "x": 1}, "unknown_update"),
        ({"sessionUpdate": "plan_update", "plan": {"type": "file"}}, "unknown_update"),
        ({"sessionUpdate": "agent_message_chunk"}, "unusable_update"),
        ({"sessionUpdate": "agent_message_chunk", "content": {"type": "smell"}}, "unusable_update"),
        ({"sessionUpdate": "tool_call_update"}, "unusable_update"),
        ({"no": "kind"}, "unusable_update"),
        ("text", "unusable_update"),
        (None, "unusable_update"),
    ],
)
def test_an_unknown_update_or_a_bad_chunk_costs_one_notice(bad: Any, code: str) -> None:
    turn = Turn()
    turn.peer.say({"method": "session/update", "params": {"sessionId": "s1", "update": bad}})
    (notice,) = turn.survives()
    assert isinstance(notice, Notice)
    assert (notice.code, notice.data) == (code, bad)


def test_a_wrong_field_costs_that_field_and_one_notice() -> None:
    turn = Turn()
    turn.peer.say(chunk("a", messageId=7))
    notice, spoke = turn.survives()
    assert spoke == TextReceived("a")
    assert isinstance(notice, Notice)
    assert (notice.code, notice.data["fields"]) == ("wrong_fields", ["messageId"])


@pytest.mark.parametrize("params", [None, [], "x", {}, {"update": {}}])
def test_an_update_without_a_session_or_content_costs_one_notice(params: Any) -> None:
    turn = Turn()
    turn.peer.say({"method": "session/update", "params": params})
    assert len(codes(turn.survives())) == 1


@pytest.mark.parametrize("kind", ["tool_call", "tool_call_update"])
def test_a_status_that_acp_does_not_have_is_no_status_and_is_reported(kind: str) -> None:
    turn = Turn()
    call = {"sessionUpdate": kind, "toolCallId": "c", "title": "x", "status": "meditating"}
    turn.peer.say({"method": "session/update", "params": {"sessionId": "s1", "update": call}})
    notice, called = turn.survives()
    assert isinstance(notice, Notice)
    assert isinstance(called, ToolCalled)
    assert (notice.code, notice.data["status"]) == ("unknown_value", "meditating")
    assert called.status is UNSET


def test_an_update_sent_as_a_request_is_taken_and_answered() -> None:
    turn = Turn()
    turn.peer.say({**chunk("a"), "id": 9})
    (line,) = turn.peer.sent
    turn.peer.sent.clear()
    assert line == {"jsonrpc": "2.0", "id": 9, "result": {}}
    assert turn.survives() == [TextReceived("a")]


def test_a_burst_comes_in_order_and_before_the_end_of_its_turn() -> None:
    peer = opened()
    id = peer.prompt()
    burst = [chunk(f"{number} ") for number in range(300)]
    peer.say(*burst, {"id": id, "result": {"stopReason": "end_turn"}})
    told = "".join(spoke.text for spoke in peer.of(TextReceived))
    assert told.split() == [str(number) for number in range(300)]
    assert isinstance(peer.effects[-1], TurnFinished)


def test_unknown_updates_among_others_cost_nothing_but_themselves() -> None:
    turn = Turn()
    for _ in range(200):
        turn.peer.say(chunk("a"), update("telepathy"), chunk("b"))
    told = turn.survives()
    assert [spoke.text for spoke in told if isinstance(spoke, TextReceived)] == ["a", "b"] * 200
    assert turn.peer.driver.statistics().notices == {"unknown_update": 200}


def test_the_first_update_of_a_turn_may_come_in_the_same_read_as_its_permission() -> None:
    turn = Turn()
    params = {"sessionId": "s1", "toolCall": {"toolCallId": "c"}, "options": []}
    request = {"id": 0, "method": "session/request_permission", "params": params}
    turn.peer.say(chunk("a"), request, chunk("b"))
    kinds = [type(effect).__name__ for effect in turn.survives()]
    assert kinds == ["TextReceived", "ToolCalled", "DecisionRequested", "TextReceived"]
