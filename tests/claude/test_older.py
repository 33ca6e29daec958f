"""CLIs that say less: up to 2.1.165 neither rest, nor the fate of prompts, nor whose a result is;
up to 2.1.270 no rest.

While a background agent lives, the oldest ones hold every result back, and write only the last.
"""

from __future__ import annotations

import json

import pytest

from agentrt.claude import ClaudeOptions
from agentrt.effects import (
    DecisionRequested,
    TaskSet,
    TextReceived,
    ToolCalled,
    TurnBegan,
    TurnFinished,
)
from agentrt.events import Notice

from .rig import (
    INIT,
    NOTIFIED,
    Json,
    Rig,
    ask,
    assistant,
    event,
    fate,
    only,
    result,
    streamed,
    system,
    text,
    tool_result,
    tool_use,
)

ENDED = system("task_notification", task_id="a1", status="completed")


@pytest.fixture
def rig() -> Rig:
    """In the middle of a prompt's turn."""
    rig = Rig()
    rig.start()
    rig.prompt("go")
    rig.feed(INIT)
    return rig


def launches(call: str = "c1") -> list[Json]:
    """An agent begins to work in the background, as 2.1.165 tells it."""
    task = {"task_id": "a1", "task_type": "local_agent", "description": "dig"}
    return [
        assistant(tool_use(call, "Agent", description="dig")),
        system("task_started", tool_use_id=call, **task),
        tool_result(call, "Async agent launched successfully."),
    ]


def says(words: str, id: str) -> list[Json]:
    return streamed(words, id=id)


def finished(rig: Rig) -> list[tuple[str | None, str]]:
    return [(e.turn, e.outcome) for e in rig.of(TurnFinished)]


# --- results that are held back


def test_silence_ends_a_prompt_whose_result_is_held_back(rig: Rig) -> None:
    rig.feed(*launches(), *says("Started.", "m2"))
    assert finished(rig) == []
    assert rig.driver.awaits_silence
    assert only(rig.do(rig.driver.end_by_silence()), TurnFinished).outcome == "completed"
    assert not rig.driver.idle  # the agent works on
    assert not rig.driver.awaits_silence


def test_the_next_turn_ends_a_prompt_whose_result_is_held_back(rig: Rig) -> None:
    rig.feed(*launches(), *says("Started.", "m2"), ENDED)
    told = rig.feed(INIT, *says("It looked.", "m3"), result(origin=NOTIFIED))
    kinds = [type(e) for e in told if isinstance(e, TurnFinished | TurnBegan)]
    assert kinds == [TurnFinished, TurnBegan, TurnFinished]
    assert finished(rig) == [("t1", "completed"), (None, "completed")]
    assert not rig.of(Notice)


def test_silence_ends_a_turn_of_claudes_own_whose_result_is_held_back(rig: Rig) -> None:
    two = [system("task_started", task_id="a2", task_type="local_agent", description="dig")]
    rig.feed(*launches(), *two, *says("Both began.", "m2"), ENDED)
    rig.feed(INIT, *says("One is over.", "m3"))
    assert rig.driver.awaits_silence
    assert only(rig.do(rig.driver.end_by_silence()), TurnFinished).turn is None


@pytest.mark.parametrize("reason", ["tool_use", "pause_turn", None])
def test_silence_in_the_middle_of_a_turn_ends_nothing(rig: Rig, reason: str | None) -> None:
    stop = event("message_delta", delta={"stop_reason": reason})
    rig.feed(*launches(), *says("Now", "m2")[:-2], stop, event("message_stop"))
    assert not rig.driver.awaits_silence
    assert rig.do(rig.driver.end_by_silence()) == []


def test_a_turn_that_goes_on_behind_its_last_word_is_not_ended_by_silence(rig: Rig) -> None:
    """A hook may have sent it back to work."""
    rig.feed(*launches(), *says("Started.", "m2"))
    rig.feed(event("message_start", message={"id": "m3", "content": [], "role": "assistant"}))
    assert not rig.driver.awaits_silence
    assert rig.do(rig.driver.end_by_silence()) == []


def test_without_work_in_the_background_no_result_is_held_back(rig: Rig) -> None:
    rig.feed(*says("Done.", "m2"))
    assert not rig.driver.awaits_silence  # however long a hook takes


def test_whole_messages_may_be_all_there_is() -> None:
    rig = Rig(ClaudeOptions(partial_messages=False))
    rig.start()
    rig.prompt()
    rig.feed(INIT, *launches())
    assert not rig.driver.awaits_silence
    rig.feed(assistant(text("Started."), id="m2"))
    assert rig.driver.awaits_silence
    rig.feed(INIT, assistant(text("It looked."), id="m3"))
    assert finished(rig) == [("t1", "completed")]


def test_a_newer_cli_holds_nothing_back(rig: Rig) -> None:
    rig.feed(fate("u1", "queued"), fate("u1", "started"), INIT)
    rig.feed(*launches(), *says("Started.", "m2"))
    assert not rig.driver.awaits_silence


def test_a_result_that_was_held_back_says_nothing_when_its_turn_is_over(rig: Rig) -> None:
    rig.feed(*launches(), *says("Started.", "m2"))
    rig.do(rig.driver.end_by_silence())
    rig.feed(ENDED, result())
    assert not rig.of(Notice)
    assert finished(rig) == [("t1", "completed")]


def test_a_result_that_was_held_back_is_not_the_next_prompts(rig: Rig) -> None:
    rig.feed(*launches(), *says("Started.", "m2"))
    rig.do(rig.driver.end_by_silence())
    rig.prompt("and?", "t2")
    rig.feed(ENDED, result())
    assert finished(rig) == [("t1", "completed")]
    rig.feed(INIT, *says("Yes.", "m3"), result())
    assert finished(rig) == [("t1", "completed"), ("t2", "completed")]


def test_a_prompt_behind_one_whose_result_is_held_back_has_its_own_end(rig: Rig) -> None:
    rig.feed(*launches(), *says("Started.", "m2"))
    rig.do(rig.driver.end_by_silence())
    rig.prompt("and?", "t2")
    rig.feed(INIT, *says("Another answer.", "m3"))
    rig.do(rig.driver.end_by_silence())
    rig.feed(ENDED, INIT, *says("It looked.", "m4"), result(origin=NOTIFIED))
    assert finished(rig) == [("t1", "completed"), ("t2", "completed"), (None, "completed")]


# --- results that nobody is sure of


def test_silence_behind_a_result_that_somebody_else_began_ends_the_prompt(rig: Rig) -> None:
    rig.feed(result(origin=NOTIFIED, terminal_reason="max_turns"))
    assert finished(rig) == []
    assert rig.driver.awaits_silence
    assert only(rig.do(rig.driver.end_by_silence()), TurnFinished).outcome == "limit"


def test_a_prompt_that_runs_behind_such_a_result_has_its_own(rig: Rig) -> None:
    rig.feed(result(origin=NOTIFIED), INIT)
    assert not rig.driver.awaits_silence
    rig.feed(assistant(text("x")), result())
    assert finished(rig) == [("t1", "completed")]


def test_where_results_list_their_prompts_one_that_lists_none_ends_none(rig: Rig) -> None:
    rig.feed(result("u1"))
    rig.prompt("again", "t2")
    rig.feed(INIT, result(origin=NOTIFIED, terminal_reason="aborted_streaming"))
    assert not rig.driver.awaits_silence
    rig.feed(INIT, result("u2"))
    assert finished(rig) == [("t1", "completed"), ("t2", "completed")]


def test_half_a_line_behind_such_a_result_is_no_silence(rig: Rig) -> None:
    rig.feed(result(origin=NOTIFIED))
    line = json.dumps(INIT).encode() + b"\n"
    rig.driver.receive(line[:20])
    assert not rig.driver.awaits_silence
    rig.driver.receive(line[20:])
    assert not rig.driver.awaits_silence
    rig.feed(assistant(text("x")), result())
    assert finished(rig) == [("t1", "completed")]


def test_a_lost_result_is_known_by_the_lifecycle_of_its_prompt_where_no_rest_is_reported() -> None:
    rig = Rig()
    rig.start()
    rig.prompt()
    rig.feed(fate("u1", "queued"), fate("u1", "started"), INIT, fate("u1", "completed"))
    assert rig.driver.awaits_silence
    assert only(rig.do(rig.driver.end_by_silence()), TurnFinished).outcome == "completed"


def test_a_prompt_that_was_taken_into_another_turn_waits_for_its_result() -> None:
    """Its fate is told while that turn goes on."""
    rig = Rig()
    rig.start()
    rig.prompt()
    rig.feed(INIT, fate("u1", "queued"), fate("u1", "started"), fate("u1", "completed"))
    assert not rig.driver.awaits_silence


def test_a_prompt_taken_into_a_turn_about_ended_work_ends_with_silence(rig: Rig) -> None:
    """Its only result says that something else began it."""
    rig.feed(*launches(), *says("Started.", "m2"), ENDED, INIT)
    rig.prompt("and?", "t2")
    rig.feed(*says("It looked, and yes.", "m3"), result(origin=NOTIFIED))
    assert finished(rig) == [("t1", "completed")]
    rig.do(rig.driver.end_by_silence())
    assert finished(rig) == [("t1", "completed"), ("t2", "completed")]


# --- what comes without end


@pytest.mark.parametrize("legacy", [False, True])
def test_noise_is_reported_ever_more_rarely(legacy: bool) -> None:
    rig = Rig(legacy=legacy)
    if not legacy:
        rig.start()
    for _ in range(1000):
        rig.feed(b"Debugger attached.\n", result("nobody"))
    codes = [notice.code for notice in rig.of(Notice)]
    assert 16 < codes.count("bad_line") < 30
    assert 16 < codes.count("stale") < 30


# --- tasks that do not say where they run


def statuses(rig: Rig) -> list[str]:
    return [e.task.status for e in rig.of(TaskSet)]


def test_a_call_that_returns_while_its_task_lives_runs_in_the_background(rig: Rig) -> None:
    rig.feed(*launches(), *says("digging", "m2")[:3])
    assert statuses(rig) == ["running"]
    assert rig.of(TaskSet)[-1].detaches
    rig.feed(assistant(text("deep down"), parent="c1", id="m9"))
    assert ("c1", "deep down") in [(e.parent, e.text) for e in rig.of(TextReceived)]


def test_a_call_that_returns_behind_its_task_ran_in_the_foreground(rig: Rig) -> None:
    use, began, returned = launches()
    rig.feed(use, began, assistant(text("shown"), parent="c1", id="m9"), ENDED, returned)
    assert statuses(rig) == []
    assert [e.text for e in rig.of(TextReceived)] == ["shown"]


def test_a_question_before_its_call_is_shown_below_the_agent_that_asks(rig: Rig) -> None:
    use, began, _ = launches()
    rig.feed(use, began, ask("r1", call="c2", agent_id="a1"))
    called = rig.of(ToolCalled)[-1]
    assert (called.id, called.parent, called.name) == ("c2", "c1", "Bash")
    assert only(rig.feed(assistant(tool_use("c2", "Bash"), parent="c1")), ToolCalled).opens is False


def test_a_question_of_an_agent_in_the_background_shows_its_call(rig: Rig) -> None:
    rig.feed(*launches(), ask("r1", call="c2", agent_id="a1"))
    assert [called.id for called in rig.of(ToolCalled)] == ["c1", "c1", "c2"]
    assert rig.of(DecisionRequested)[0].background


def test_a_call_that_was_interrupted_moves_nothing_to_the_background(rig: Rig) -> None:
    use, began, _ = launches()
    rig.feed(use, began, tool_result("c1", "interrupted", error=True))
    assert statuses(rig) == []
    assert rig.driver.awaits_silence is False
