"""How a turn ended."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.claude import ClaudeOptions
from agentrt.effects import TextReceived, TurnFinished

from .rig import INIT, NOTIFIED, Json, Rig, assistant, only, result, state, system, text

SCHEMA = ClaudeOptions(json_schema={"type": "object"})


def end(*lines: Json, options: ClaudeOptions | None = None, **fields: Any) -> TurnFinished:
    """The end of a turn whose result has these fields."""
    rig = Rig(options)
    rig.start()
    rig.prompt()
    rig.feed(state("running"), INIT, *lines, result("u1", **fields), state("idle"))
    return only(rig.effects, TurnFinished)


@pytest.mark.parametrize(
    ("fields", "outcome", "stop_reason"),
    [
        ({}, "completed", "end_turn"),
        ({"terminal_reason": "aborted_tools", "is_error": True}, "cancelled", "aborted_tools"),
        ({"terminal_reason": "aborted_streaming"}, "cancelled", "aborted_streaming"),
        (
            {"subtype": "error_max_turns", "terminal_reason": "max_turns", "is_error": True},
            "limit",
            "max_turns",
        ),
        (
            {"subtype": "error_max_budget_usd", "terminal_reason": None, "is_error": True},
            "limit",
            "end_turn",
        ),
        ({"terminal_reason": "budget_exhausted", "is_error": True}, "limit", "budget_exhausted"),
        ({"stop_reason": "max_tokens"}, "limit", "max_tokens"),
        ({"stop_reason": "refusal"}, "refused", "refusal"),
        ({"terminal_reason": "hook_stopped"}, "completed", "hook_stopped"),
        ({"num_turns": 0, "terminal_reason": None, "stop_reason": None}, "completed", None),
        ({"terminal_reason": "prompt_too_long", "is_error": True}, "failed", "prompt_too_long"),
    ],
)
def test_the_outcome_comes_from_the_terminal_reason_and_the_error_flag(
    fields: Json, outcome: str, stop_reason: str | None
) -> None:
    finished = end(**fields)
    assert (finished.outcome, finished.stop_reason) == (outcome, stop_reason)
    assert (finished.error is not None) == (outcome == "failed")


def test_an_api_error_is_a_failure_though_it_is_called_a_success() -> None:
    said = assistant(
        text("API Error: 529 overloaded"), error="overloaded", api_error_status=529, id="x"
    )
    said["message"]["model"] = "<synthetic>"
    finished = end(
        said,
        is_error=True,
        terminal_reason="api_error",
        result="API Error: 529 overloaded",
        api_error_status=529,
    )
    assert finished.outcome == "failed"
    assert finished.error is not None
    assert finished.error.code == "overloaded"
    assert finished.error.message == "API Error: 529 overloaded"
    assert finished.error.data == {"reason": "api_error", "status": 529}


def test_the_clis_words_about_an_api_error_are_not_the_models() -> None:
    rig = Rig()
    rig.start()
    rig.prompt()
    said = assistant(text("Invalid API key"), error="authentication_failed")
    said["message"]["model"] = "<synthetic>"
    rig.feed(state("running"), INIT, said)
    assert not rig.of(TextReceived)


def test_internal_diagnostics_are_never_shown() -> None:
    finished = end(
        subtype="error_during_execution",
        is_error=True,
        terminal_reason=None,
        result=None,
        errors=["[ede_diagnostic] internal", "the disk is full"],
    )
    assert finished.error is not None
    assert finished.error.message == "the disk is full"


def test_an_error_without_words_still_has_a_message() -> None:
    finished = end(is_error=True, terminal_reason="model_error", result=None)
    assert finished.error is not None
    assert finished.error.message == "the turn ended with model_error"


def test_structured_output_is_handed_over() -> None:
    assert end(options=SCHEMA, structured_output={"a": 1}).structured_output == {"a": 1}


def test_structured_output_that_is_missing_is_a_failure() -> None:
    finished = end(options=SCHEMA)
    assert finished.outcome == "failed"
    assert finished.error is not None
    assert finished.error.code == "structured_output_missing"


def test_a_slash_command_owes_no_structured_output() -> None:
    assert end(options=SCHEMA, num_turns=0).outcome == "completed"


def test_a_turn_of_claudes_own_owes_no_structured_output() -> None:
    rig = Rig(SCHEMA)
    rig.start()
    told = rig.feed(state("running"), INIT, result(origin=NOTIFIED), state("idle"))
    assert only(told, TurnFinished).outcome == "completed"


def test_a_prompt_that_a_hook_blocked_is_refused() -> None:
    blocked = system("informational", content="not on Sundays", prevent_continuation=True)
    finished = end(blocked, num_turns=0, terminal_reason=None, stop_reason=None)
    assert (finished.outcome, finished.stop_reason) == ("refused", "hook_blocked")
    assert finished.error is not None
    assert finished.error.message == "not on Sundays"


def test_an_interrupt_of_an_older_cli_is_known_because_we_sent_it() -> None:
    rig = Rig()
    rig.start()
    rig.prompt()
    rig.feed(INIT)
    rig.do(rig.driver.cancel())
    old = result(subtype="error_during_execution", is_error=True, terminal_reason=None)
    assert only(rig.feed(old), TurnFinished).outcome == "cancelled"


def test_the_time_of_the_api_and_of_the_first_token_are_part_of_the_usage() -> None:
    rig = Rig()
    rig.start()
    rig.prompt()
    ended = only(
        rig.feed(INIT, result("u1", duration_api_ms=1500, ttft_ms=250, usage={"input_tokens": 1})),
        TurnFinished,
    )
    assert ended.usage is not None
    assert (ended.usage.api_s, ended.usage.first_token_s) == (1.5, 0.25)
