"""Background work."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from agentrt.effects import TaskSet, TextReceived
from agentrt.events import Task, Usage
from agentrt.lowlevel import Effect

from .rig import Json, Rig, assistant, only, streamed, system, tool_use


def begins(kind: str = "local_bash", background: bool = True, **fields: Any) -> Json:
    task = {"task_id": "b1", "task_type": kind, "description": "serve", "tool_use_id": "c1"}
    return system("task_started", **{**task, "is_backgrounded": background, **fields})


COMPLETED = {"status": "completed"}


def level(*ids: str, kind: str = "local_bash") -> Json:
    tasks = [{"task_id": id, "task_type": kind, "description": "serve"} for id in ids]
    return system("background_tasks_changed", tasks=tasks)


def statuses(effects: list[Effect]) -> list[str]:
    return [e.task.status for e in effects if isinstance(e, TaskSet)]


def test_a_task_begins_gets_on_and_ends(rig: Rig) -> None:
    told = rig.feed(begins())
    assert only(told, TaskSet).task == Task(
        id="b1", title="serve", status="running", turn="t1", kind="local_bash"
    )
    told = rig.feed(system("task_progress", task_id="b1", summary="half way"))
    assert only(told, TaskSet).task.detail == "half way"
    told = rig.feed(system("task_notification", task_id="b1", status="completed", summary="done"))
    assert only(told, TaskSet).task.status == "completed"


def test_a_tasks_tokens_and_steps_are_shown(rig: Rig) -> None:
    rig.feed(begins())
    counts = {"total_tokens": 120, "tool_uses": 3, "duration_ms": 9}
    told = rig.feed(system("task_progress", task_id="b1", summary="half way", usage=counts))
    assert only(told, TaskSet).task.usage == Usage(total_tokens=120, steps=3)


def test_either_end_of_a_task_is_enough_and_the_second_says_nothing_new(rig: Rig) -> None:
    rig.feed(begins())
    update = system("task_updated", task_id="b1", patch={"status": "killed"})
    notification = system("task_notification", task_id="b1", status="stopped")
    assert statuses(rig.feed(update, notification)) == ["cancelled"]


@pytest.mark.parametrize("end", [system("task_updated", task_id="b1", patch=COMPLETED), level()])
def test_the_report_of_a_task_is_kept_though_its_end_came_first(rig: Rig, end: Json) -> None:
    rig.feed(begins("local_agent"), end)
    done = system("task_notification", task_id="b1", status="failed", summary="all is well")
    task = only(rig.feed(done), TaskSet).task
    assert task.detail == "all is well"
    # The level only says that it is over: how it ended is known from the notification.
    guessed = end["subtype"] == "background_tasks_changed"
    assert task.status == ("failed" if guessed else "completed")


@pytest.mark.parametrize("level_names_end", [False, True], ids=["edges", "edges and level"])
@pytest.mark.parametrize("status", ["completed", "failed", "killed"])
@pytest.mark.parametrize("notified", [False, True], ids=["updated", "notified"])
def test_an_end_is_the_same_whatever_order_it_is_reported_in(
    rig: Rig, level_names_end: bool, status: str, notified: bool
) -> None:
    """The level says only that a task is over: what an edge says holds before and after it."""
    told = {"status": status, "error": "no space left"}
    edges = [system("task_updated", task_id="b1", patch=told)]
    if notified:
        said = "stopped" if status == "killed" else status
        edges.append(system("task_notification", task_id="b1", status=said, summary="a report"))
    for number, order in enumerate(permutations([*edges, *[level()] * level_names_end])):
        id = f"b{number}"
        rig.feed({**begins("local_agent"), "task_id": id})
        rig.feed(*({**each, "task_id": id} if "task_id" in each else each for each in order))
        task = rig.of(TaskSet)[-1].task
        assert (task.id, task.status) == (id, "cancelled" if status == "killed" else status)
        assert task.detail == ("a report" if notified else "no space left")


def test_the_level_may_come_before_its_edge_which_names_the_call(rig: Rig) -> None:
    told = rig.feed(level("b1", kind="local_agent"), begins("local_agent"), begins("local_agent"))
    reports = [e for e in told if isinstance(e, TaskSet)]
    assert [(e.call, e.detaches) for e in reports] == [(None, False), ("c1", True)]
    assert reports[0].task == reports[1].task


def test_a_task_that_left_the_level_unheard_is_over(rig: Rig) -> None:
    rig.feed(begins())
    assert statuses(rig.feed(level())) == ["completed"]


def test_a_resumed_task_lives_again(rig: Rig) -> None:
    rig.feed(begins(), level())
    assert statuses(rig.feed(level("b1"))) == ["running"]


def test_work_in_the_foreground_is_no_background_task(rig: Rig) -> None:
    ended = system("task_notification", task_id="b1", status="completed")
    assert rig.feed(begins(background=False), ended) == []


def test_work_that_is_moved_to_the_background_becomes_a_task(rig: Rig) -> None:
    rig.feed(assistant(tool_use("c1", "Task", description="dig")))
    rig.feed(begins("local_agent", background=False))
    moved = system("task_updated", task_id="b1", patch={"is_backgrounded": True})
    assert statuses(rig.feed(moved)) == ["running"]
    assert rig.of(TaskSet)[-1].detaches
    rig.feed(*streamed("digging", parent="c1"))
    assert [(e.parent, e.text) for e in rig.of(TextReceived)] == [("c1", "digging")]


@pytest.mark.parametrize("quiet", ["ambient", "skip_transcript"])
def test_housekeeping_is_not_shown(rig: Rig, quiet: str) -> None:
    assert rig.feed(begins(**{quiet: True})) == []


@pytest.mark.parametrize(
    "broken",
    [
        system("task_started"),
        system("task_started", task_id=7),
        system("task_updated", task_id="b1", patch=7),
        system("task_updated", task_id="nobody", patch={"status": "killed"}),
        system("task_notification", task_id="b1", status=["x"]),
        system("background_tasks_changed", tasks=7),
        system("background_tasks_changed", tasks=[7, {}, {"task_id": 7}]),
    ],
)
def test_broken_reports_cost_nothing(rig: Rig, broken: Json) -> None:
    assert rig.feed(broken) == []
