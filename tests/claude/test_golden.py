"""Traces of the real CLI (2.1.329), recorded against a scripted model, replayed.

`dir` of a line: `<` the CLI wrote it, `>` the host did, `!` a remark of the recorder (it left out
lines of the same kind, or says what happened to the process).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentrt.claude import ClaudeOptions
from agentrt.effects import (
    CallReturned,
    DecisionRequested,
    RequestWithdrawn,
    ServiceRequested,
    TaskSet,
    TextEnded,
    TextReceived,
    ToolCalled,
    TurnBegan,
    TurnFinished,
)
from agentrt.errors import LocalProtocolError
from agentrt.events import Notice, Text

from .rig import Json, Rig

FOLDER = Path(__file__).parent / "transcripts"


def replay(name: str) -> Rig:
    """Let a driver live through a recorded trace; it does what the recording host did."""
    lines = [json.loads(line) for line in (FOLDER / f"{name}.ndjson").read_text().splitlines()]
    said = [line["msg"] for line in lines if line["dir"] == ">"]
    rig = Rig(ClaudeOptions(session_id="s0"), uuids=[m["uuid"] for m in said if m.get("uuid")])
    ours: dict[str, str] = {}  # the recording host's request ids, as the driver's
    keys: dict[str, str] = {}  # the CLI's request ids, as the driver's keys
    if not any(m.get("request", {}).get("subtype") == "initialize" for m in said):
        rig.start()
    for line in lines:
        m: Json = line["msg"]
        if line["dir"] == "<":
            if m["type"] == "control_response":
                id = m["response"]["request_id"]
                m["response"]["request_id"] = ours.get(id, id)
            for effect in rig.feed(m):
                if isinstance(effect, DecisionRequested | ServiceRequested):
                    keys[m["request_id"]] = effect.key
        elif line["dir"] == ">" and m["type"] == "control_response":
            key = keys.get(m["response"]["request_id"])
            if key is not None:  # the driver acknowledges notifications by itself
                _respond(rig, key, m["response"]["response"])
        elif line["dir"] == ">":
            before = len(rig.written)
            _say(rig, m)
            if m["type"] == "control_request" and len(rig.written) > before:
                ours[m["request_id"]] = rig.written[-1]["request_id"]
    rig.do(rig.driver.receive_eof())
    return rig


def _say(rig: Rig, m: Json) -> None:
    """What the recording host said of its own accord."""
    match m:
        case {"type": "user", "message": {"content": content}}:
            rig.do(rig.driver.end_by_silence())  # it did not wait for `idle` between two prompts
            turn = f"t{1 + sum(line['type'] == 'user' for line in rig.written)}"
            try:
                rig.prompt(content, turn)
            except LocalProtocolError:
                rig.do(rig.driver.steer(turn, [Text(content)]))
        case {"type": "control_request", "request": {"subtype": "initialize"}}:
            rig.do(rig.driver.start(rig.opening))
        case {"type": "control_request", "request": {"subtype": "interrupt"}}:
            rig.do(rig.driver.cancel())
        case {"type": "control_request", "request": {"subtype": subtype, **params}}:
            rig.do(rig.driver.call("call", subtype, params))


def _respond(rig: Rig, key: str, body: Json) -> None:
    """The recording host's answer to a request of the CLI."""
    if "behavior" in body:
        answers = body.get("updatedInput", {}).get("answers")
        allowed = "accept" if answers else "allow_once"
        rig.answer(
            key,
            allowed if body["behavior"] == "allow" else "reject_once",
            content=answers,
            message=body.get("message", ""),
            interrupt=body.get("interrupt", False),
        )
    else:
        rig.do(rig.driver.reply(key, body["mcp_response"]))


def endings(rig: Rig) -> list[tuple[str | None, str, str | None]]:
    return [(e.turn, e.outcome, e.stop_reason) for e in rig.of(TurnFinished)]


def spoken(rig: Rig) -> list[str]:
    """The texts of the main agent, one per item."""
    texts = [""]
    for effect in rig.effects:
        if isinstance(effect, TextReceived) and not effect.thought and effect.parent is None:
            texts[-1] += effect.text
        elif isinstance(effect, TextEnded) and effect.parent is None and texts[-1]:
            texts.append("")
    return [t for t in texts if t]


def calls(rig: Rig) -> dict[str, list[str]]:
    """The states that each tool call went through."""
    states: dict[str, list[str]] = {}
    for effect in rig.of(ToolCalled):
        states.setdefault(effect.id, []).append(str(effect.status))
    return states


@pytest.mark.parametrize("name", sorted(p.stem for p in FOLDER.glob("*.ndjson")))
def test_every_trace_is_understood_line_by_line(name: str) -> None:
    rig = replay(name)
    assert not rig.driver.dropped["bad"]
    assert not rig.driver.dropped["unknown"]
    assert not [n for n in rig.of(Notice) if n.code == "bad_line"]


def test_text_and_thought_are_reported_once_though_they_arrive_twice() -> None:
    rig = replay("text")
    assert spoken(rig) == ["Hello after thinking.", "Hello from the scripted model."]
    assert "".join(e.text for e in rig.of(TextReceived) if e.thought) == "I should greet."
    assert endings(rig) == [("t1", "completed", "end_turn"), ("t2", "completed", "end_turn")]
    assert rig.driver.idle


def test_an_allowed_tool_runs_and_completes() -> None:
    rig = replay("tool_allow")
    (asked,) = rig.of(DecisionRequested)
    assert (asked.name, asked.tool_call, asked.kind) == ("Bash", "toolu_00000002", "permission")
    assert calls(rig) == {"toolu_00000002": ["running", "completed"]}
    assert endings(rig)[0][1] == "completed"


def test_a_denied_tool_is_denied_and_its_turn_completes() -> None:
    rig = replay("tool_deny")
    assert next(iter(calls(rig).values())) == ["running", "denied"]
    assert endings(rig)[0] == ("t1", "completed", "end_turn")


def test_a_denial_that_interrupts_cancels_the_turn() -> None:
    rig = replay("tool_deny_interrupt")
    assert calls(rig) == {"toolu_00000002": ["running", "denied"]}
    assert endings(rig) == [("t1", "cancelled", "aborted_tools"), ("t2", "completed", "end_turn")]


def test_an_interrupted_text_is_reported_once_and_its_diagnostics_are_not() -> None:
    rig = replay("interrupt_stream")
    assert endings(rig) == [
        ("t1", "cancelled", "aborted_streaming"),
        ("t2", "completed", "end_turn"),
    ]
    assert spoken(rig) == ["word " * 10, "Hello from the scripted model."]
    assert all(e.error is None for e in rig.of(TurnFinished))


def test_an_interrupted_shell_command_is_cancelled_not_denied() -> None:
    rig = replay("interrupt_sleep")
    assert next(iter(calls(rig).values())) == ["running", "cancelled"]
    assert endings(rig)[0] == ("t1", "cancelled", "aborted_tools")


def test_an_interrupt_takes_back_the_open_permission_request() -> None:
    rig = replay("interrupt_permission")
    (asked,) = rig.of(DecisionRequested)
    assert rig.of(RequestWithdrawn) == [RequestWithdrawn(asked.key)]
    assert endings(rig) == [("t1", "cancelled", "aborted_tools"), ("t2", "completed", "end_turn")]
    # The recording host answered too late; the driver did not.
    answers = [m for m in rig.written if m["type"] == "control_response"]
    assert answers == []


def test_an_interrupt_takes_back_the_running_call_of_an_in_process_tool() -> None:
    rig = replay("interrupt_mcp")
    call = next(
        r for r in rig.of(ServiceRequested) if r.params["message"].get("method") == "tools/call"
    )
    assert rig.of(RequestWithdrawn) == [RequestWithdrawn(call.key)]
    assert endings(rig)[0] == ("t1", "cancelled", "aborted_tools")


def test_an_in_process_tool_is_asked_for_list_and_call() -> None:
    rig = replay("mcp_tool")
    methods = [r.params["message"]["method"] for r in rig.of(ServiceRequested)]
    assert methods == ["initialize", "notifications/initialized", "tools/list", "tools/call"]
    assert {r.params["server"] for r in rig.of(ServiceRequested)} == {"app"}
    assert endings(rig)[0][1] == "completed"


def test_a_question_is_an_elicitation_with_a_form() -> None:
    rig = replay("ask_user")
    (asked,) = rig.of(DecisionRequested)
    assert asked.kind == "elicitation"
    assert asked.form is not None
    assert asked.form["properties"]["Which?"]["oneOf"][1]["const"] == "B"
    assert endings(rig)[0][1] == "completed"


def test_a_background_shell_ends_later_and_claude_goes_on_by_itself() -> None:
    rig = replay("background")
    assert endings(rig) == [("t1", "completed", "end_turn"), (None, "completed", "end_turn")]
    assert len(rig.of(TurnBegan)) == 1
    assert spoken(rig) == ["Started it.", "I saw the notification."]
    assert rig.of(TaskSet)[0].task.kind == "local_bash"
    assert not rig.driver.idle  # the recorder left out the lines that tell the shell's end


def test_a_continuation_after_an_empty_ledger_is_a_turn_of_its_own() -> None:
    """A background agent settles before its turn's result; Claude goes on without `idle`."""
    rig = replay("subagent_bg")
    assert endings(rig) == [("t1", "completed", "end_turn"), (None, "completed", "end_turn")]
    said = [(e.parent is None, e.text) for e in rig.of(TextReceived)]
    assert said == [
        (True, "Agent started."),
        (False, "Calling the app."),
        (False, "The app has answered."),
        (True, "Agent finished."),
    ]
    report = rig.of(TaskSet)[-1]
    assert (report.task.status, report.task.detail) == ("completed", "The app has answered.")
    methods = [r.params["message"].get("method") for r in rig.of(ServiceRequested)]
    assert "tools/call" in methods  # but its calls of our tools arrive


def test_an_interrupt_without_a_turn_is_not_sent() -> None:
    rig = replay("background_interrupt")
    requests = [m["request"]["subtype"] for m in rig.written if m["type"] == "control_request"]
    assert requests == ["initialize", "stop_task"]
    assert rig.of(TaskSet)[-1].task.status == "cancelled"
    assert [r.error for r in rig.of(CallReturned)] == [None]


def test_a_prompt_sent_into_a_running_turn_shares_its_end() -> None:
    rig = replay("replay_queue")
    first = rig.of(TurnFinished)[0]
    assert (first.turn, first.outcome, first.folded) == ("t1", "completed", ("t2",))


def test_a_prompt_that_outlives_an_interrupt_runs_as_the_next_turn() -> None:
    rig = replay("replay_queue")
    ends = rig.of(TurnFinished)[1:]
    assert [(e.turn, e.outcome, e.folded) for e in ends] == [
        ("t3", "cancelled", ()),
        (None, "completed", ("t4",)),
    ]


def test_retries_of_the_api_are_notices() -> None:
    rig = replay("err_429")
    (notice,) = rig.of(Notice)
    assert (notice.level, notice.code) == ("warning", "api_retry")
    assert "rate_limit (429); retry 2 of 10 in 1.1 s" in notice.message
    assert endings(rig)[0][1] == "completed"


def test_a_process_that_ends_in_a_turn_says_nothing_about_the_turn() -> None:
    rig = replay("sigterm_sleep")
    assert endings(rig) == []
