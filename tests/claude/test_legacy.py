"""The reverse-engineered protocol, for programs that implement it."""

from __future__ import annotations

import itertools
import json

import pytest

from agentrt._claude.command import build_command
from agentrt._claude.legacy import LegacyDriver
from agentrt._claude.options import ClaudeOptions
from agentrt._errors import LocalProtocolError
from agentrt._model.content import Image
from agentrt._model.driver import (
    Asked,
    Driver,
    Opening,
    Returned,
    Settled,
    Signal,
    SpeechEnded,
    Spoke,
    Started,
    ToolCalled,
    TurnFinished,
    Withdrawn,
)
from agentrt._model.events import Notice

from .rig import Rig, assistant, only, result, system, text, thinking, tool_result, tool_use


@pytest.fixture
def rig() -> Rig:
    """In the middle of a turn."""
    keys = itertools.count(1)
    rig = Rig(driver=LegacyDriver(new_key=lambda: f"k{next(keys)}"))
    rig.do(rig.driver.start(rig.opening))
    rig.prompt("go")
    return rig


def test_it_keeps_the_contract() -> None:
    driver: Driver = LegacyDriver(new_key=lambda: "k")
    assert driver.idle


def test_the_command_line_is_the_pages() -> None:
    options = ClaudeOptions(legacy=True, session_id="11111111-2222-4333-8444-555555555555")
    assert build_command("claude", Opening(cwd="/"), options).argv == [
        "claude",
        "-p",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--verbose",
        "--permission-mode=default",
        "--session-id=11111111-2222-4333-8444-555555555555",
    ]


def test_a_session_starts_without_a_handshake(rig: Rig) -> None:
    assert rig.told(Started)
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


def test_snapshots_tell_only_what_is_new(rig: Rig) -> None:
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
        ("|" if isinstance(e, SpeechEnded) else e.text)
        for e in told
        if isinstance(e, Spoke | SpeechEnded)
    ]
    assert spoken == ["hm", "m", "|", "so", " it is", "|", "next", "|"]
    assert [e.status for e in told if isinstance(e, ToolCalled)] == ["running", "completed"]


def test_snapshots_without_ids_are_told_apart_by_what_they_say(rig: Rig) -> None:
    def snapshot(*blocks: dict) -> dict:
        return {"type": "assistant", "message": {"role": "assistant", "content": list(blocks)}}

    told = rig.feed(snapshot(text("one")), snapshot(text("two")), snapshot(text("two more")))
    assert "".join(e.text for e in told if isinstance(e, Spoke)) == "onetwo more"


def test_thoughts_may_be_called_texts(rig: Rig) -> None:
    told = rig.feed(assistant({"type": "thinking", "text": "hmm"}))
    assert only(told, Spoke) == Spoke("hmm", True, "m1")


@pytest.mark.parametrize(
    ("option", "line", "status"),
    [("allow_once", "approve", "completed"), ("reject_once", "deny", "denied")],
)
def test_every_tool_call_is_asked_about(rig: Rig, option: str, line: str, status: str) -> None:
    asked = only(rig.feed(assistant(tool_use("c1", "Bash", command="ls"))), Asked)
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
    asked = only(rig.feed(assistant(tool_use("c1", "AskUserQuestion", questions=questions))), Asked)
    rig.answer(asked.key, "accept", content={"Which?": "B"})
    assert rig.written[-1] == {"type": "tool_result", "tool_use_id": "c1", "content": "B"}


def test_a_call_that_runs_unasked_withdraws_the_question(rig: Rig) -> None:
    rig.feed(assistant(tool_use("c1", "Read", file_path="/a")))
    assert only(rig.feed(tool_result("c1")), Withdrawn).key == "k1"
    before = len(rig.written)
    rig.answer("k1", "allow_once")
    assert len(rig.written) == before


def test_a_program_that_may_do_everything_is_not_asked() -> None:
    options = ClaudeOptions(legacy=True, permission_mode="bypassPermissions")
    rig = Rig(driver=LegacyDriver(options, new_key=lambda: "k"))
    rig.do(rig.driver.start(rig.opening))
    rig.prompt()
    assert not [
        e for e in rig.feed(assistant(tool_use("c1", "Bash", command="ls"))) if isinstance(e, Asked)
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


def test_an_abandoned_prompt_is_settled_by_its_late_end(rig: Rig) -> None:
    rig.driver.abandon()
    assert only(rig.feed(result()), Settled).turn == "t1"


def test_a_result_without_a_turn_is_stale(rig: Rig) -> None:
    rig.feed(result())
    assert only(rig.feed(result()), Notice).code == "stale"


def test_only_text_can_be_sent(rig: Rig) -> None:
    rig.feed(result())
    with pytest.raises(LocalProtocolError):
        rig.driver.prompt("t2", [Image("aGk=", "image/png")])


def test_nothing_can_be_called(rig: Rig) -> None:
    error = only(rig.do(rig.driver.call("x", "set_mode", {"mode": "plan"})), Returned).error
    assert error is not None
    assert error.code == "unsupported"
    assert rig.driver.goodbye() == []
