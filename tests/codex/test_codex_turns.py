"""Prompts, cancels, steering, and the ends of turns."""

from __future__ import annotations

import pytest

from agentrt.effects import (
    CallReturned,
    ModesSet,
    TextReceived,
    ToolCalled,
    TurnBegan,
    TurnFinished,
)
from agentrt.errors import LocalProtocolError
from agentrt.events import Audio, Notice, Text

from .codex_kit import COMMAND, only, opened, prompted


def test_a_turn_ends_with_the_word_that_names_it() -> None:
    peer = prompted()
    end = only(peer.ends(), TurnFinished)
    assert (end.turn, end.outcome, end.stop_reason) == ("p-1", "completed", "completed")
    assert peer.driver.idle


def test_the_end_of_another_turn_ends_nothing() -> None:
    peer = prompted()
    effects = peer.ends("u-0")
    assert only(effects, Notice).code == "stale"
    assert not peer.driver.idle


def test_a_prompt_that_is_refused_fails_its_turn() -> None:
    peer = opened()
    peer.prompt(begins=False)
    end = only(peer.refuses("turn/start", "no"), TurnFinished)
    assert (end.outcome, end.error and end.error.message) == ("failed", "no")


@pytest.mark.parametrize(
    ("info", "outcome", "code"),
    [
        ("usageLimitExceeded", "failed", "usage_limit_exceeded"),
        ("unauthorized", "failed", "auth_required"),
        ("cyberPolicy", "refused", "cyber_policy"),
        ({"httpConnectionFailed": {"httpStatusCode": 500}}, "failed", "http_connection_failed"),
        (None, "failed", "failed"),
    ],
)
def test_a_failed_turn_says_why(info: object, outcome: str, code: str) -> None:
    error = {"message": "broken", "codexErrorInfo": info}
    end = only(prompted().ends(status="failed", error=error), TurnFinished)
    assert end.outcome == outcome
    assert end.error is not None
    assert (end.error.code, end.error.message) == (code, "broken")


def test_a_cancel_interrupts_the_turn_that_runs() -> None:
    peer = prompted()
    peer.do(peer.driver.cancel())
    asked = peer.last("turn/interrupt")["params"]
    assert asked == {"threadId": "t-1", "turnId": "u-1"}
    assert only(peer.ends(status="interrupted"), TurnFinished).outcome == "cancelled"


def test_a_cancel_right_behind_its_prompt_waits_until_the_turn_runs() -> None:
    peer = opened()
    peer.prompt(begins=False)
    peer.do(peer.driver.cancel())
    peer.answers("turn/start", {"turn": {"id": "u-1", "status": "inProgress", "items": []}})
    assert "turn/interrupt" not in peer.methods()
    peer.begins()
    assert peer.methods()[-1] == "turn/interrupt"


def test_a_repeated_cancel_is_said_again() -> None:
    peer = prompted()
    peer.do(peer.driver.cancel())
    peer.do(peer.driver.cancel())
    assert peer.methods().count("turn/interrupt") == 2


def test_without_a_turn_a_cancel_says_nothing() -> None:
    assert opened().driver.cancel() == []


def test_a_cancel_ends_the_command_of_its_turn_and_no_other() -> None:
    peer = prompted()
    peer.item("started", COMMAND)
    peer.do(peer.driver.cancel())
    running = [
        {"itemId": "c-0", "processId": "100"},
        {"itemId": "c-1", "processId": "101"},
    ]
    peer.answers("thread/backgroundTerminals/list", {"data": running})
    ended = [
        each["params"]["processId"]
        for each in peer.sent
        if each.get("method") == "thread/backgroundTerminals/terminate"
    ]
    assert ended == ["101"]


def test_a_cancel_without_a_command_looks_for_none() -> None:
    peer = prompted()
    peer.item("started", COMMAND)
    peer.item("completed", {**COMMAND, "status": "completed", "exitCode": 0})
    peer.do(peer.driver.cancel())
    peer.ends(status="interrupted")
    assert "thread/backgroundTerminals/list" not in peer.methods()


def test_words_of_a_turn_that_is_over_are_dropped() -> None:
    peer = prompted()
    peer.ends()
    peer.prompt("p-2", "u-2")
    late = peer.tells("item/agentMessage/delta", turnId="u-1", itemId="m", delta="late")
    assert late == []
    now = peer.tells("item/agentMessage/delta", turnId="u-2", itemId="m", delta="now")
    assert only(now, TextReceived).text == "now"


def test_codex_begins_a_turn_of_its_own() -> None:
    peer = opened()
    assert only(peer.begins("u-9"), TurnBegan).explicit
    assert not peer.driver.idle
    peer.do(peer.driver.cancel())
    assert peer.last("turn/interrupt")["params"]["turnId"] == "u-9"
    end = only(peer.ends("u-9", "interrupted"), TurnFinished)
    assert end.turn is None


def test_words_of_a_turn_that_was_not_announced_begin_it() -> None:
    peer = opened()
    effects = peer.tells("item/agentMessage/delta", turnId="u-9", itemId="m", delta="by myself")
    assert [type(effect) for effect in effects] == [TurnBegan, TextReceived]


def test_its_own_turn_within_a_prompt_is_not_taken_for_the_prompts() -> None:
    peer = opened()
    peer.prompt(begins=False)
    peer.begins("u-9")
    peer.answers("turn/start", {"turn": {"id": "u-1", "status": "inProgress", "items": []}})
    assert peer.ends("u-9") == []
    peer.begins("u-1")
    assert only(peer.ends("u-1"), TurnFinished).turn == "p-1"


def test_a_steered_prompt_belongs_to_the_end_of_the_turn_that_took_it() -> None:
    peer = prompted()
    peer.do(peer.driver.steer("s-1", [Text("also this")]))
    asked = peer.last("turn/steer")["params"]
    assert (asked["expectedTurnId"], asked["clientUserMessageId"]) == ("u-1", "s-1")
    peer.answers("turn/steer", {"turnId": "u-1"})
    assert only(peer.ends(), TurnFinished).folded == ("s-1",)


def test_a_steered_prompt_that_is_refused_is_dropped() -> None:
    peer = prompted()
    peer.do(peer.driver.steer("s-1", [Text("also this")]))
    end = only(peer.refuses("turn/steer", "no active turn to steer"), TurnFinished)
    assert (end.turn, end.outcome) == ("s-1", "cancelled")


def test_a_turn_that_does_not_run_yet_is_not_steered() -> None:
    peer = opened()
    peer.prompt(begins=False)
    with pytest.raises(LocalProtocolError, match="no turn is running"):
        peer.driver.steer("s-1", [Text("also this")])


def test_a_prompt_that_was_never_written_is_forgotten() -> None:
    peer = opened()
    peer.prompt(begins=False)
    peer.driver.discard_prompt("p-1")
    assert peer.driver.idle


def test_a_second_prompt_in_flight_is_refused_here() -> None:
    peer = prompted()
    with pytest.raises(LocalProtocolError, match="another prompt"):
        peer.driver.prompt("p-2", [Text("x")])


def test_what_codex_cannot_take_is_refused_here() -> None:
    with pytest.raises(LocalProtocolError, match="audio"):
        opened().driver.prompt("p-1", [Audio(data="", mime_type="audio/wav")])


def test_a_turn_says_what_it_took_beyond_those_before_it() -> None:
    peer = prompted()

    def used(total: int) -> None:
        numbers = dict.fromkeys(("cachedInputTokens", "reasoningOutputTokens"), 0)
        whole = {**numbers, "totalTokens": total, "inputTokens": total - 5, "outputTokens": 5}
        usage = {"total": whole, "last": whole, "modelContextWindow": 1000}
        peer.tells("thread/tokenUsage/updated", turnId="u-1", tokenUsage=usage)

    used(20)
    peer.ends()
    peer.prompt("p-2", "u-2")
    used(50)
    usage = only(peer.ends("u-2"), TurnFinished).usage
    assert usage is not None
    assert (usage.total_tokens, usage.input_tokens, usage.output_tokens) == (30, 30, 0)


@pytest.mark.parametrize(
    ("method", "params", "changed", "now"),
    [
        ("set_mode", {"mode": "Read only"}, {"approvalPolicy": "on-request"}, "read-only"),
        ("set_model", {"model": "Two"}, {"model": "m-2"}, "m-2"),
        ("set_option", {"option": "effort", "value": "high"}, {"effort": "high"}, "high"),
    ],
)
def test_a_setting_is_changed_and_known_before_codex_tells_it(
    method: str, params: dict[str, str], changed: dict[str, str], now: str
) -> None:
    peer = opened()
    peer.do(peer.driver.call("k", method, params))
    asked = peer.last("thread/settings/update")["params"]
    assert asked.items() >= changed.items()
    said = peer.answers("thread/settings/update", {})
    assert only(said, CallReturned).error is None
    modes = only(said, ModesSet).modes
    assert now in (modes.mode, modes.model, *(option.value for option in modes.options))


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("set_mode", {"mode": "x"}),
        ("set_model", {"model": "x"}),
        ("set_option", {"option": "x", "value": "y"}),
        ("set_option", {"option": "effort", "value": "x"}),
        ("stop_task", {"task": "x"}),
    ],
)
def test_what_is_not_offered_is_answered_at_once(method: str, params: dict[str, str]) -> None:
    peer = opened()
    error = only(peer.do(peer.driver.call("k", method, params)), CallReturned).error
    assert error is not None
    assert error.code == "unsupported"


def test_a_method_with_a_command_of_its_own_is_not_called() -> None:
    with pytest.raises(LocalProtocolError, match="use prompt"):
        opened().driver.call("k", "turn/start", {})


def test_threads_are_listed_as_sessions_are() -> None:
    peer = opened()
    peer.do(peer.driver.call("k", "list_sessions", {"cwd": "/shop"}))
    row = {"id": "t-0", "preview": "hello", "cwd": "/shop", "updatedAt": 0, "name": None}
    value = only(peer.answers("thread/list", {"data": [row]}), CallReturned).value
    assert value["sessions"][0] == {
        "sessionId": "t-0",
        "title": "hello",
        "cwd": "/shop",
        "updatedAt": "1970-01-01T00:00:00+00:00",
    }


def test_another_threads_words_are_not_shown() -> None:
    peer = prompted()
    params = {"threadId": "child", "turnId": "u-1", "itemId": "m", "delta": "not ours"}
    assert peer.says({"method": "item/agentMessage/delta", "params": params}) == []
    assert peer.says({"method": "item/started", "params": {**params, "item": COMMAND}}) == []


def test_a_command_shows_what_the_shell_runs() -> None:
    called = only(prompted().item("started", COMMAND), ToolCalled)
    assert (called.title, called.kind, called.status) == ("rm -rf build; ls", "execute", "running")
    words = ["/bin/bash", "-lc", "rm -rf build; ls"]
    assert called.input == {"command": words, "cwd": "/shop"}
