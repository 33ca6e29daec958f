"""The reverse-engineered protocol, for programs that implement it."""

from __future__ import annotations

import json

import pytest

from agentrt.claude import ClaudeOptions
from agentrt.effects import (
    CallReturned,
    DecisionRequested,
    RequestWithdrawn,
    Signal,
    Started,
    TextEnded,
    TextReceived,
    ToolCalled,
    TurnFinished,
)
from agentrt.errors import LocalProtocolError
from agentrt.events import Image, Notice
from agentrt.lowlevel import DecisionAnswer, Driver, EndsBySilence

from .rig import Rig, assistant, only, result, system, text, thinking, tool_result, tool_use


@pytest.fixture
def rig() -> Rig:
    """In the middle of a turn."""
    rig = Rig(legacy=True)
    rig.do(rig.driver.start(rig.opening))
    rig.prompt("go")
    return rig


def test_it_keeps_the_contract() -> None:
    driver: Driver = Rig(legacy=True).driver
    assert driver.idle


def test_a_session_starts_without_a_handshake(rig: Rig) -> None:
    assert rig.of(Started)
    assert rig.written == [{"type": "user", "message": {"role": "user", "content": "go"}}]


def test_a_turn_ends_with_its_result(rig: Rig) -> None:
    rig.feed(system("init", session_id="s", model="m"))
    finished = only(rig.feed(assistant(text("hi")), result(terminal_reason=None)), TurnFinished)
    assert (finished.turn, finished.outcome) == ("t1", "completed")
    assert rig.driver.idle


def test_an_older_result_is_a_system_line(rig: Rig) -> None:
    line = system("result", result=json.dumps("done"), is_error=False)
    assert only(rig.feed(line), TurnFinished).outcome == "completed"


def test_an_older_error_is_decoded_twice(rig: Rig) -> None:
    line = system("result", result=json.dumps("no money"), is_error=True)
    error = only(rig.feed(line), TurnFinished).error
    assert error is not None
    assert error.message == "no money"


def test_snapshots_report_only_what_is_new(rig: Rig) -> None:
    told = rig.feed(
        assistant(thinking("hm")),
        assistant(thinking("hmm")),
        assistant(thinking("hmm"), text("so")),
        assistant(thinking("hmm"), text("so it is"), tool_use("c1", "Bash", command="ls")),
        tool_result("c1"),
        assistant(text("next"), id="m2"),
        result(),
    )
    spoken = [
        ("|" if isinstance(e, TextEnded) else e.text)
        for e in told
        if isinstance(e, TextReceived | TextEnded)
    ]
    assert spoken == ["hm", "m", "|", "so", " it is", "|", "next", "|"]
    assert [e.status for e in told if isinstance(e, ToolCalled)] == ["running", "completed"]


def test_snapshots_without_ids_are_distinguished_by_what_they_say(rig: Rig) -> None:
    def snapshot(*blocks: dict) -> dict:
        return {"type": "assistant", "message": {"role": "assistant", "content": list(blocks)}}

    told = rig.feed(snapshot(text("one")), snapshot(text("two")), snapshot(text("two more")))
    assert "".join(e.text for e in told if isinstance(e, TextReceived)) == "onetwo more"


def test_thoughts_may_be_called_texts(rig: Rig) -> None:
    told = rig.feed(assistant({"type": "thinking", "text": "hmm"}))
    assert only(told, TextReceived) == TextReceived("hmm", True, "m1")


@pytest.mark.parametrize(
    ("option", "line", "status"),
    [("allow_once", "approve", "completed"), ("reject_once", "deny", "denied")],
)
def test_every_tool_call_is_asked_about(rig: Rig, option: str, line: str, status: str) -> None:
    asked = only(rig.feed(assistant(tool_use("c1", "Bash", command="ls"))), DecisionRequested)
    assert (asked.kind, asked.tool_call, asked.title) == ("permission", "c1", "ls")
    rig.answer(asked.key, option)
    assert rig.written[-1] == {"type": line, "tool_use_id": "c1"}
    told = rig.feed(tool_result("c1", error=option != "allow_once"))
    assert only(told, ToolCalled).status == status


def test_a_refusal_to_decide_is_a_denial(rig: Rig) -> None:
    rig.feed(assistant(tool_use("c1", "Bash", command="ls")))
    rig.answer("k1")
    assert rig.written[-1]["type"] == "deny"


def test_answers_to_questions_are_the_tools_result(rig: Rig) -> None:
    questions = [{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]
    asked = only(
        rig.feed(assistant(tool_use("c1", "AskUserQuestion", questions=questions))),
        DecisionRequested,
    )
    rig.answer(asked.key, "accept", content={"Which?": "B"})
    assert rig.written[-1] == {"type": "tool_result", "tool_use_id": "c1", "content": "B"}


def test_a_call_that_runs_unasked_withdraws_the_question(rig: Rig) -> None:
    rig.feed(assistant(tool_use("c1", "Read", file_path="/a")))
    assert only(rig.feed(tool_result("c1")), RequestWithdrawn).key == "k1"
    before = len(rig.written)
    rig.answer("k1", "allow_once")
    assert len(rig.written) == before


def test_a_program_that_may_do_everything_is_not_asked() -> None:
    options = ClaudeOptions(legacy=True, permission_mode="bypassPermissions")
    rig = Rig(options, legacy=True)
    rig.do(rig.driver.start(rig.opening))
    rig.prompt()
    assert not [
        e
        for e in rig.feed(assistant(tool_use("c1", "Bash", command="ls")))
        if isinstance(e, DecisionRequested)
    ]


def test_a_turn_is_aborted_by_a_signal_and_the_process_lives_on(rig: Rig) -> None:
    assert rig.do(rig.driver.cancel()) == [Signal("interrupt")]
    aborted = result(subtype="error_during_execution", is_error=True, terminal_reason=None)
    assert only(rig.feed(aborted), TurnFinished).outcome == "cancelled"
    assert rig.driver.cancel() == []
    rig.prompt(turn="t2")


def test_nothing_is_answered_after_the_signal(rig: Rig) -> None:
    rig.feed(assistant(tool_use("c1", "Bash", command="ls")))
    rig.do(rig.driver.cancel())
    before = len(rig.written)
    rig.answer("k1")
    assert len(rig.written) == before


def test_a_result_without_a_turn_is_stale(rig: Rig) -> None:
    rig.feed(result())
    assert only(rig.feed(result()), Notice).code == "stale"


def test_only_text_can_be_sent(rig: Rig) -> None:
    rig.feed(result())
    with pytest.raises(LocalProtocolError):
        rig.driver.prompt("t2", [Image("aGk=", "image/png")])


def test_nothing_can_be_called(rig: Rig) -> None:
    error = only(rig.do(rig.driver.call("x", "set_mode", {"mode": "plan"})), CallReturned).error
    assert error is not None
    assert error.code == "unsupported"
    assert rig.driver.shutdown_message() == []


# --- what is over


def test_silence_behind_the_signal_ends_the_turn(rig: Rig) -> None:
    assert isinstance(rig.driver, EndsBySilence)
    assert not rig.driver.awaits_silence
    rig.do(rig.driver.cancel())
    assert rig.driver.awaits_silence
    assert only(rig.do(rig.driver.end_by_silence()), TurnFinished).outcome == "cancelled"
    assert rig.driver.idle
    assert not rig.driver.awaits_silence


def test_one_signal_is_enough(rig: Rig) -> None:
    rig.do(rig.driver.cancel())
    assert rig.driver.cancel() == []


def test_a_late_result_of_an_aborted_turn_is_not_the_next_ones(rig: Rig) -> None:
    rig.do([*rig.driver.cancel(), *rig.driver.end_by_silence()])
    rig.prompt("and?", "t2")
    aborted = result(subtype="error_during_execution", is_error=True, terminal_reason=None)
    assert only(rig.feed(aborted), Notice).code == "stale"
    rig.feed(assistant(text("yes"), id="m2"), result(is_error=True, result="no money"))
    assert [(e.turn, e.outcome) for e in rig.of(TurnFinished)] == [
        ("t1", "cancelled"),
        ("t2", "failed"),
    ]


def test_what_comes_late_of_an_aborted_message_is_not_shown(rig: Rig) -> None:
    rig.feed(assistant(text("one")))
    rig.do([*rig.driver.cancel(), *rig.driver.end_by_silence()])
    rig.prompt("and?", "t2")
    rig.feed(assistant(text("one two")), assistant(text("three"), id="m2"))
    assert "".join(e.text for e in rig.of(TextReceived)) == "onethree"


def test_nothing_is_asked_for_a_turn_that_was_aborted_or_is_over(rig: Rig) -> None:
    rig.do(rig.driver.cancel())
    rig.feed(assistant(tool_use("c1", "Bash", command="ls")))
    rig.feed(result(is_error=True), assistant(tool_use("c2", "Bash", command="ls"), id="m2"))
    assert not rig.of(DecisionRequested)


def test_a_call_is_over_when_the_next_message_begins(rig: Rig) -> None:
    rig.feed(assistant(tool_use("c1", "Read", file_path="/a")))
    assert only(rig.feed(assistant(text("I read it."), id="m2")), RequestWithdrawn).key == "k1"
    before = len(rig.written)
    rig.answer("k1", "allow_once")
    assert len(rig.written) == before


def test_a_call_that_is_asked_about_stays_open_while_its_message_grows(rig: Rig) -> None:
    call = tool_use("c1", "Bash", command="ls")
    rig.feed(assistant(call), assistant(call, text("and")), assistant(call, text("and so")))
    assert not rig.of(RequestWithdrawn)


# --- what it cannot do


def test_another_input_than_the_models_is_denied_rather_than_forgotten(rig: Rig) -> None:
    rig.feed(assistant(tool_use("c1", "Bash", command="rm -rf /")))
    answer = DecisionAnswer(option="allow_once", updated_input={"command": "ls"})
    told = rig.do(rig.driver.answer("k1", answer))
    assert only(told, Notice).code == "unsupported"
    assert rig.written[-1] == {"type": "deny", "tool_use_id": "c1"}


def test_claude_code_itself_is_refused_by_its_init(rig: Rig) -> None:
    told = rig.feed(system("init", session_id="s", claude_code_version="2.1.330"))
    error = only(told, TurnFinished).error
    assert error is not None
    assert error.code == "wrong_dialect"
    assert "2.1.330" in error.message
    assert Signal("interrupt") in told
    with pytest.raises(LocalProtocolError, match="leave out `legacy`"):
        rig.prompt("again", "t2")
