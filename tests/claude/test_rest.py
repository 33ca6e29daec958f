"""When Claude has nothing left to do: background work, and what it makes of its end.

The orders are those of the real CLI (2.1.329): a shell that ends makes it go `running` by itself
within 20 to 110 ms; an agent that ends keeps it `running` until the turn about it is over.
"""

from __future__ import annotations

from typing import Any

import pytest

from .rig import INIT, NOTIFIED, Json, Rig, fate, result, state, system


def begins(id: str = "b1", kind: str = "local_bash", **fields: Any) -> Json:
    task = {"task_id": id, "task_type": kind, "is_backgrounded": True}
    return system("task_started", **{**task, **fields})


def ends(id: str = "b1", status: str = "completed") -> list[Json]:
    """As the CLI tells it: both edges, then the level."""
    return [
        system("task_updated", task_id=id, patch={"status": status}),
        system("task_notification", task_id=id, status=status),
    ]


GOES_ON = [state("running"), INIT, result(origin=NOTIFIED)]
"""A turn of Claude's own about a task, up to its result."""


@pytest.mark.parametrize("kind", ["local_bash", "monitor", "local_agent", "local_workflow"])
def test_while_background_work_lives_there_is_something_left_to_do(rig: Rig, kind: str) -> None:
    rig.feed(begins(kind=kind), result("u1"), state("idle"))
    assert not rig.driver.idle
    assert not rig.driver.awaits_silence  # however long it takes


@pytest.mark.parametrize("quiet", ["ambient", "skip_transcript"])
def test_housekeeping_is_nothing_left_to_do(rig: Rig, quiet: str) -> None:
    rig.feed(begins(**{quiet: True}), result("u1"), state("idle"))
    assert rig.driver.idle


def test_a_shell_that_ends_while_claude_rests_makes_it_go_on(rig: Rig) -> None:
    rig.feed(begins(), result("u1"), state("idle"))
    rig.feed(*ends())
    assert not rig.driver.idle
    rig.feed(*GOES_ON)
    assert not rig.driver.idle
    rig.feed(state("idle"))
    assert rig.driver.idle


def test_two_shells_that_end_at_once_make_it_go_on_twice_before_it_rests(rig: Rig) -> None:
    rig.feed(begins("b1"), begins("b2"), result("u1"), state("idle"))
    rig.feed(*ends("b1"), state("running"), INIT, *ends("b2"), result(origin=NOTIFIED))
    assert not rig.driver.idle
    rig.feed(INIT, result(origin=NOTIFIED), state("idle"))
    assert rig.driver.idle


def test_a_shell_that_ends_in_a_turn_is_dealt_with_when_claude_rests(rig: Rig) -> None:
    """Its turn takes the news in, or another one follows: `idle` comes after either."""
    rig.feed(begins(), *ends(), result("u1"))
    assert not rig.driver.idle
    rig.feed(state("idle"))
    assert rig.driver.idle


def test_a_rest_that_was_on_its_way_when_the_shell_ended_says_nothing_about_it(rig: Rig) -> None:
    rig.feed(begins(), result("u1"), *ends(), state("idle"))
    assert not rig.driver.idle
    rig.feed(*GOES_ON, state("idle"))
    assert rig.driver.idle


def test_a_stopped_shell_after_which_claude_says_that_it_rests_is_all_there_is(rig: Rig) -> None:
    rig.feed(begins(), result("u1"), state("idle"))
    rig.feed(*ends(status="killed"))
    assert not rig.driver.idle
    rig.feed(state("idle"))  # it looked, and went back to rest
    assert rig.driver.idle


def test_a_turn_about_ended_work_that_never_comes_is_not_waited_for_for_ever(rig: Rig) -> None:
    rig.feed(begins(), result("u1"), state("idle"))
    rig.feed(*ends())
    assert rig.driver.awaits_silence
    rig.do(rig.driver.end_by_silence())
    assert rig.driver.idle
    assert not rig.driver.awaits_silence


def test_a_turn_about_ended_work_is_waited_for_however_long_it_takes(rig: Rig) -> None:
    rig.feed(begins(), result("u1"), state("idle"))
    rig.feed(*ends(), state("running"))
    assert not rig.driver.awaits_silence
    assert rig.do(rig.driver.end_by_silence()) == []
    assert not rig.driver.idle


def test_a_prompt_that_comes_first_has_its_turn_before_the_one_that_is_owed(rig: Rig) -> None:
    rig.feed(begins(), result("u1"), state("idle"), *ends())
    rig.prompt(turn="t2")
    assert not rig.driver.awaits_silence
    rig.feed(state("running"), fate("u2", "started"), INIT, result("u2"))
    assert not rig.driver.idle
    rig.feed(INIT, result(origin=NOTIFIED), state("idle"))
    assert rig.driver.idle


def test_without_state_frames_only_silence_says_that_nothing_more_comes() -> None:
    rig = Rig()
    rig.start()
    rig.prompt()
    rig.feed(INIT, begins(kind="local_agent"), *ends(), result())
    assert not rig.driver.idle
    rig.feed(INIT, result(origin=NOTIFIED))
    assert not rig.driver.idle
    assert rig.driver.awaits_silence
    rig.do(rig.driver.end_by_silence())
    assert rig.driver.idle


def test_a_call_that_ran_in_the_foreground_owes_nothing(rig: Rig) -> None:
    rig.feed(begins(is_backgrounded=False), *ends(), result("u1"), state("idle"))
    assert rig.driver.idle
    assert not rig.driver.awaits_silence
