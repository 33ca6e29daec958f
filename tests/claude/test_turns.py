"""When a turn begins and ends."""

from __future__ import annotations

import pytest

from agentrt.claude import ClaudeOptions
from agentrt.effects import Started, StartFailed, TextReceived, TurnBegan, TurnFinished, Write
from agentrt.errors import LocalProtocolError
from agentrt.events import Notice, Text
from agentrt.lowlevel import Driver, Effect, EndsBySilence, Opening, Steers

from .rig import (
    INIT,
    NOTIFIED,
    Json,
    Rig,
    ask,
    assistant,
    fate,
    only,
    result,
    state,
    streamed,
    success,
    system,
    text,
)

AGENT: Json = {"task_id": "a1", "task_type": "local_agent", "description": "dig"}


def started(**fields: object) -> Json:
    return system("task_started", is_backgrounded=True, tool_use_id="c9", **AGENT, **fields)


def running(rig: Rig, turn: str = "t1") -> Rig:
    """A prompt whose turn has shown itself."""
    rig.prompt("go", turn)
    rig.feed(state("running"), INIT)
    return rig


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.start()
    return rig


def test_the_driver_keeps_the_contract(rig: Rig) -> None:
    driver: Driver = rig.driver
    assert isinstance(driver, EndsBySilence)
    assert isinstance(driver, Steers)


# --- the handshake


def test_the_handshake_ends_with_started() -> None:
    rig = Rig(ClaudeOptions(session_id="11111111-1111-4111-8111-111111111111"))
    told = rig.start({"claude_code_version": "2.1.329"})
    began = only(told, Started)
    assert began.session == "11111111-1111-4111-8111-111111111111"
    assert began.agent_version == "2.1.329"
    assert not began.capabilities["resume"]  # nothing is stored before the first turn


def test_requests_are_served_before_the_handshake_is_over() -> None:
    rig = Rig()
    rig.do(rig.driver.start(rig.opening))
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize"}
    message = {"subtype": "mcp_message", "server_name": "app", "message": hello}
    rig.feed({"type": "control_request", "request_id": "r1", "request": message})
    rig.do(rig.driver.reply("k1", {"jsonrpc": "2.0", "id": 0, "result": {}}))
    assert rig.last()["response"]["mcp_response"]["id"] == 0


def test_a_result_before_the_handshake_says_why_there_is_no_session() -> None:
    rig = Rig(opening=Opening(cwd="/", resume="gone"))
    rig.do(rig.driver.start(rig.opening))
    said = "No conversation found with session ID: gone"
    refusal = result(subtype="error_during_execution", is_error=True, errors=[said])
    failed = only(rig.feed(refusal), StartFailed)
    assert (failed.error.code, failed.error.message) == ("session_not_found", said)
    assert rig.do(rig.driver.receive_eof()) == []  # told once


def test_an_error_instead_of_the_reply_is_a_failed_start() -> None:
    rig = Rig()
    rig.do(rig.driver.start(rig.opening))
    body = {"subtype": "error", "request_id": rig.written[-1]["request_id"], "error": "no"}
    failed = only(rig.feed({"type": "control_response", "response": body}), StartFailed)
    assert (failed.error.code, failed.error.message) == ("rejected", "no")


def test_the_end_of_output_before_the_reply_says_nothing_by_itself() -> None:
    """How the process ended says more, and whoever waits for that tells it."""
    rig = Rig()
    rig.do(rig.driver.start(rig.opening))
    assert rig.do(rig.driver.receive_eof()) == []


@pytest.mark.parametrize(
    ("reason", "code"),
    [("cli_version_too_old", "version"), ("org_pin_mismatch", "auth_required"), (None, "rejected")],
)
def test_known_reasons_not_to_start_have_codes(reason: str | None, code: str) -> None:
    rig = Rig()
    rig.do(rig.driver.start(rig.opening))
    refusal = result(is_error=True, errors=["no"], startup_failure_reason=reason)
    assert only(rig.feed(refusal), StartFailed).error.code == code


def test_a_prompt_before_the_handshake_is_over_is_illegal() -> None:
    with pytest.raises(LocalProtocolError):
        Rig().prompt()


def test_pending_requests_of_an_earlier_host_are_taken_over() -> None:
    rig = Rig()
    rig.do(rig.driver.start(rig.opening))
    id = rig.written[-1]["request_id"]
    rig.feed(success(id, {}, pending_permission_requests=[ask("r7")]))
    rig.feed(ask("r7"))  # delivered once more
    rig.answer("k1", "allow_once")
    assert rig.last()["request_id"] == "r7"
    assert len([m for m in rig.written if m["type"] == "control_response"]) == 1


def test_the_session_can_be_resumed_once_a_turn_has_begun(rig: Rig) -> None:
    rig.prompt()
    again = only(rig.feed(state("running"), INIT), Started)
    assert (again.session, again.capabilities["resume"]) == ("s1", True)
    assert not [e for e in rig.feed(INIT) if isinstance(e, Started)]


def test_a_cleared_conversation_has_another_session(rig: Rig) -> None:
    running(rig)
    cleared = {"type": "conversation_reset", "new_conversation_id": "x", "trigger": "clear"}
    told = rig.feed(cleared, {**INIT, "session_id": "s2"}, result("u1", num_turns=0))
    assert only(told, Started).session == "s2"
    assert only(told, Notice).code == "conversation_reset"


# --- the end of a turn


def test_a_turn_ends_with_its_result_and_the_idle_state_after_it(rig: Rig) -> None:
    running(rig)
    assert not [e for e in rig.feed(result("u1")) if isinstance(e, TurnFinished)]
    assert rig.driver.awaits_silence
    assert only(rig.feed(state("idle")), TurnFinished) == TurnFinished(
        turn="t1", outcome="completed", stop_reason="end_turn"
    )
    assert rig.driver.idle


def test_idle_before_the_result_ends_the_turn_at_the_result(rig: Rig) -> None:
    running(rig)
    assert not rig.feed(state("idle"))
    assert only(rig.feed(result("u1")), TurnFinished).turn == "t1"


def test_a_stale_idle_state_ends_nothing(rig: Rig) -> None:
    rig.prompt()
    assert not rig.feed(state("idle"))  # of the turn before
    assert not rig.driver.awaits_silence


def test_a_result_that_is_never_followed_by_idle_can_be_settled(rig: Rig) -> None:
    running(rig)
    rig.feed(result("u1"))
    assert only(rig.do(rig.driver.end_by_silence()), TurnFinished).outcome == "completed"
    assert not rig.driver.awaits_silence


def test_a_result_that_was_lost_can_be_settled(rig: Rig) -> None:
    running(rig)
    rig.feed(state("idle"))
    assert rig.driver.awaits_silence
    finished = only(rig.do(rig.driver.end_by_silence()), TurnFinished)
    assert finished.outcome == "failed"
    assert finished.error is not None
    assert finished.error.code == "no_result"


def test_a_lost_result_is_known_by_the_lifecycle_of_its_prompt(rig: Rig) -> None:
    running(rig)
    rig.feed(fate("u1", "started"), fate("u1", "completed"), state("idle"))
    assert only(rig.do(rig.driver.end_by_silence()), TurnFinished).outcome == "completed"


def test_work_that_goes_on_is_not_settled(rig: Rig) -> None:
    running(rig)
    rig.feed(state("idle"), state("running"))
    assert not rig.driver.awaits_silence
    assert rig.do(rig.driver.end_by_silence()) == []


def test_the_end_of_output_ends_a_turn_that_has_its_result(rig: Rig) -> None:
    running(rig)
    rig.feed(result("u1"))
    assert only(rig.do(rig.driver.receive_eof()), TurnFinished).turn == "t1"


def test_a_last_line_without_its_newline_counts(rig: Rig) -> None:
    running(rig)
    rig.feed(b'{"user_message_uuids":["u1"],"terminal_reason":"completed","type":"result"}')
    assert only(rig.do(rig.driver.receive_eof()), TurnFinished).turn == "t1"


def test_an_older_cli_without_state_frames_ends_turns_with_results(rig: Rig) -> None:
    rig.prompt()
    assert only(rig.feed(INIT, result()), TurnFinished).turn == "t1"
    assert rig.driver.idle


def test_without_state_frames_a_live_background_agent_means_not_idle(rig: Rig) -> None:
    rig.prompt()
    rig.feed(INIT, started(), result())
    assert not rig.driver.idle
    rig.feed(system("task_notification", task_id="a1", status="completed"))
    rig.do(rig.driver.end_by_silence())
    assert rig.driver.idle


def test_only_one_prompt_is_in_flight(rig: Rig) -> None:
    rig.prompt()
    with pytest.raises(LocalProtocolError):
        rig.prompt(turn="t2")


def test_a_uuid_is_never_sent_twice() -> None:
    rig = Rig(uuids=["same", "same"])
    rig.start()
    running(rig)
    rig.feed(result("same"), state("idle"))
    sent = len(rig.written)
    with pytest.raises(LocalProtocolError):
        rig.prompt(turn="t2")
    assert len(rig.written) == sent


# --- results of others


def test_a_result_that_lists_another_prompt_does_not_end_the_turn(rig: Rig) -> None:
    running(rig)
    rig.feed(result("u1"), state("idle"))
    running(rig, "t2")
    told = rig.feed(result("u1"), state("idle"))
    assert only(told, Notice).code == "stale"
    assert not [e for e in told if isinstance(e, TurnFinished)]
    assert rig.driver.dropped["stale"] == 1


def test_work_that_claude_does_between_a_prompt_and_its_turn_does_not_end_it(rig: Rig) -> None:
    rig.prompt()
    rig.feed(state("running"), fate("u1", "queued"), INIT, assistant(text("by the way")))
    rig.feed(result(origin=NOTIFIED))
    assert not rig.of(TurnFinished)
    rig.feed(fate("u1", "started"), INIT, assistant(text("the answer")), result("u1"))
    assert only(rig.feed(state("idle")), TurnFinished).turn == "t1"
    assert not rig.of(TurnBegan)


def test_an_unlabelled_result_is_not_taken_for_that_of_a_prompt_that_waits(rig: Rig) -> None:
    rig.prompt()
    rig.feed(state("running"), fate("u1", "queued"), result(num_turns=0))
    assert not rig.of(TurnFinished)


def test_a_result_without_any_turn_is_a_notice(rig: Rig) -> None:
    assert only(rig.feed(result(num_turns=0)), Notice).code == "stale"


# --- turns of Claude's own


def test_claude_begins_a_turn_by_itself(rig: Rig) -> None:
    told = rig.feed(state("running"), INIT)
    assert only(told, TurnBegan).explicit
    assert not rig.driver.idle
    told = rig.feed(*streamed("I saw it."), result(origin=NOTIFIED), state("idle"))
    assert only(told, TurnFinished).turn is None
    assert rig.driver.idle


def test_what_claude_says_outside_a_turn_begins_one(rig: Rig) -> None:
    told = rig.feed(assistant(text("hi")))
    assert [type(e) for e in told[:2]] == [TurnBegan, TextReceived]


def test_an_init_alone_begins_no_turn(rig: Rig) -> None:
    assert not [e for e in rig.feed(INIT) if isinstance(e, TurnBegan)]


def test_a_turn_of_claudes_own_that_has_no_result_ends_with_idle(rig: Rig) -> None:
    rig.feed(state("running"), INIT)
    assert only(rig.feed(state("idle")), TurnFinished).turn is None


def test_a_prompt_may_follow_a_turn_of_claudes_own_without_idle_between(rig: Rig) -> None:
    rig.feed(state("running"), INIT)
    rig.prompt()
    rig.feed(fate("u1", "queued"), result(origin=NOTIFIED))
    told = rig.feed(fate("u1", "started"))
    assert only(told, TurnFinished).turn is None
    rig.feed(INIT, assistant(text("x")), result("u1"))
    assert only(rig.feed(state("idle")), TurnFinished).turn == "t1"


def test_a_prompt_taken_into_a_turn_of_claudes_own_ends_both(rig: Rig) -> None:
    rig.feed(state("running"), INIT)
    rig.prompt()
    told = rig.feed(result("u1", origin=NOTIFIED), state("idle"))
    assert [e.turn for e in told if isinstance(e, TurnFinished)] == [None, "t1"]


# --- background work


def test_a_live_background_agent_does_not_hold_the_turn_open(rig: Rig) -> None:
    running(rig)
    assert only(rig.feed(started(), result("u1")), TurnFinished).turn == "t1"
    assert not rig.driver.idle  # Claude will go on


def test_a_live_background_shell_lets_the_turn_wait_for_idle(rig: Rig) -> None:
    running(rig)
    shell = {"task_id": "b1", "task_type": "local_bash", "description": "serve"}
    rig.feed(system("task_started", is_backgrounded=True, **shell), result("u1"))
    assert rig.driver.awaits_silence
    rig.feed(state("idle"))
    assert rig.of(TurnFinished)[0].turn == "t1"


def test_a_prompt_works_while_a_background_agent_does(rig: Rig) -> None:
    running(rig)
    rig.feed(started(), result("u1"))
    running(rig, "t2")
    assert only(rig.feed(result("u2")), TurnFinished).turn == "t2"


def test_a_continuation_follows_without_idle_though_no_task_lives_any_more(rig: Rig) -> None:
    """The task is over before its turn's result; the ledger alone would call the agent idle."""
    running(rig)
    over = system("task_notification", task_id="a1", status="completed")
    rig.feed(started(), over, result("u1"))
    assert not rig.driver.idle
    told = rig.feed(INIT)
    assert [type(e) for e in told] == [TurnFinished, TurnBegan]
    told = rig.feed(assistant(text("and so")), result(origin=NOTIFIED), state("idle"))
    assert only(told, TurnFinished).turn is None
    assert rig.driver.idle


# --- several prompts in one turn


def test_a_prompt_steered_into_the_turn_is_folded_into_its_end(rig: Rig) -> None:
    running(rig)
    rig.do(rig.driver.steer("t2", [Text("also")]))
    rig.feed(fate("u2", "queued"), fate("u2", "started"), fate("u2", "completed"))
    rig.feed(result("u1", "u2"))
    assert only(rig.feed(state("idle")), TurnFinished).folded == ("t2",)


def test_a_steered_prompt_that_was_not_taken_runs_as_the_next_turn(rig: Rig) -> None:
    running(rig)
    rig.do(rig.driver.steer("t2", [Text("also")]))
    rig.feed(result("u1"))
    told = rig.feed(fate("u2", "started"), INIT)
    assert [type(e) for e in told] == [TurnFinished, TurnBegan]
    finished = only(rig.feed(result("u2"), state("idle")), TurnFinished)
    assert (finished.turn, finished.folded) == (None, ("t2",))


def test_a_steered_prompt_that_was_dropped_says_so(rig: Rig) -> None:
    running(rig)
    rig.do(rig.driver.steer("t2", [Text("also")]))
    finished = only(rig.feed(fate("u2", "cancelled")), TurnFinished)
    assert (finished.turn, finished.outcome) == ("t2", "cancelled")


def test_steering_needs_a_turn(rig: Rig) -> None:
    with pytest.raises(LocalProtocolError):
        rig.driver.steer("t2", [Text("also")])


# --- cancel


def test_cancel_interrupts_and_takes_waiting_prompts_along(rig: Rig) -> None:
    running(rig)
    rig.do(rig.driver.cancel())
    assert rig.written[-1]["request"] == {"subtype": "interrupt", "cancel_queued": True}


def test_cancel_may_be_repeated(rig: Rig) -> None:
    running(rig)
    rig.do(rig.driver.cancel())
    rig.do(rig.driver.cancel())
    ids = [m["request_id"] for m in rig.written if m.get("request", {}).get("cancel_queued")]
    assert len(set(ids)) == 2


def test_an_interrupt_does_not_overtake_the_prompt_that_it_is_about(rig: Rig) -> None:
    rig.prompt()
    assert only(rig.driver.cancel(), Write).urgent is False
    rig.feed(state("running"))  # may be of what Claude does by itself
    assert only(rig.driver.cancel(), Write).urgent is False


def test_cancel_without_a_turn_sends_nothing(rig: Rig) -> None:
    assert rig.driver.cancel() == []
    running(rig)
    rig.feed(result("u1"))
    assert rig.driver.cancel() == []  # its result is there: an interrupt would hit the next one


def test_an_interrupted_turn_is_cancelled_and_its_diagnostics_hidden(rig: Rig) -> None:
    running(rig)
    rig.do(rig.driver.cancel())
    aborted = result(
        "u1",
        subtype="error_during_execution",
        is_error=True,
        terminal_reason="aborted_streaming",
        errors=["[ede_diagnostic] internal"],
    )
    finished = only(rig.feed(aborted, fate("u1", "cancelled"), state("idle")), TurnFinished)
    assert (finished.outcome, finished.stop_reason) == ("cancelled", "aborted_streaming")
    assert finished.error is None


def test_a_prompt_that_was_cancelled_before_it_ran_has_no_result(rig: Rig) -> None:
    rig.feed(state("running"), INIT)
    rig.prompt()
    rig.feed(fate("u1", "queued"))
    rig.do(rig.driver.cancel())
    told = rig.feed(fate("u1", "cancelled"))
    assert only(told, TurnFinished) == TurnFinished(turn="t1", outcome="cancelled")


def test_goodbye_ends_the_session(rig: Rig) -> None:
    rig.do(rig.driver.shutdown_message())
    assert rig.written[-1]["request"] == {"subtype": "end_session"}


def test_there_is_no_goodbye_without_a_session() -> None:
    assert Rig().driver.shutdown_message() == []


# --- a cancel right behind the prompt: its result may come before anything else of its turn

ABORTED = {
    "subtype": "error_during_execution",
    "is_error": True,
    "terminal_reason": "aborted_streaming",
}


def cancelled_early(rig: Rig) -> list[Effect]:
    running(rig)
    rig.feed(result("u1"), state("idle"))
    rig.prompt(turn="t2")
    rig.do(rig.driver.cancel())
    return rig.feed(result("u2", **ABORTED))


def test_what_an_aborted_prompt_still_says_behind_its_result_is_of_its_own_turn(rig: Rig) -> None:
    assert not any(isinstance(effect, TurnFinished) for effect in cancelled_early(rig))
    late = rig.feed(fate("u2", "started"), state("running"), INIT, assistant(text("late words")))
    assert [type(effect) for effect in late if isinstance(effect, TurnFinished | TurnBegan)] == []
    ended = only(rig.feed(state("idle")), TurnFinished)
    assert (ended.turn, ended.outcome) == ("t2", "cancelled")


def test_an_aborted_prompt_that_never_runs_ends_after_a_silence(rig: Rig) -> None:
    cancelled_early(rig)
    assert rig.driver.awaits_silence
    assert only(rig.do(rig.driver.end_by_silence()), TurnFinished).outcome == "cancelled"
    assert rig.driver.idle


def test_an_aborted_prompt_ends_at_once_when_it_is_told_that_it_will_not_run(rig: Rig) -> None:
    cancelled_early(rig)
    assert only(rig.feed(fate("u2", "cancelled")), TurnFinished).outcome == "cancelled"
