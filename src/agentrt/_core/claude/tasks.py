"""Background work: agents, shells and workflows that continue after the end of the turn.

Claude reports a task by edges (`task_started`, `task_updated`, `task_notification`), of which any
may be missing, and by the level (`background_tasks_changed`, the whole set). Both count: a task is
over when one of them reports its end. The level does not contain the outcome of a task, and
`task_updated` does not contain the report: a `task_notification` after either adds the missing
parts. Work in the foreground is announced by the same messages (any shell command of more than 3 s
is) and is not a background task, unless it becomes one. Up to 2.1.165 no message reports if a task
runs in the background: the work of a call that returns before the work is over continues there.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..model.content import JsonObject
from ..model.driver import Effect, TaskSet
from ..model.events import Task, Usage
from .messages import text, whole_number

STATUS = {
    "pending": "pending",
    "running": "running",
    "paused": "pending",
    "completed": "completed",
    "failed": "failed",
    "killed": "cancelled",
    "stopped": "cancelled",
}
"""Item statuses by Claude's statuses, two of which mean the same end."""

OVER = frozenset({"completed", "failed", "cancelled"})

AGENTS = frozenset({"local_agent", "local_workflow"})
"""Kinds that work in Claude's own process and make it continue by itself when they are done."""


class _KnownTask(Struct):
    """A task as far as the CLI has reported it, in the background or not."""

    task: Task
    background: bool
    call: str | None = None
    """The tool call that began it."""
    shown: Task | None = None
    """The task as last reported, or None."""
    shown_call: str | None = None
    """`call` at the last report."""
    guessed: bool = False
    """True if the task is over but how it ended was not reported."""


class ClaudeTasks:
    """The tasks of one process. Changes are appended to `out` as `TaskSet`."""

    def __init__(self) -> None:
        """Begin without tasks."""
        self._tasks: dict[str, _KnownTask] = {}
        self.unplaced: dict[str, _KnownTask] = {}
        """Tasks, by tool call, that may run in the foreground or the background."""

    def _live(self) -> list[Task]:
        """Return the background tasks that are not over."""
        return [k.task for k in self._tasks.values() if k.background and k.task.status not in OVER]

    @property
    def hold(self) -> bool:
        """True if background work other than shells runs: such work keeps Claude from becoming
        idle.
        """
        return bool(self._tasks) and any(task.kind != "local_bash" for task in self._live())

    @property
    def live(self) -> bool:
        """True if background work runs. When it ends, Claude continues by itself."""
        return bool(self._live())

    def in_background(self, id: Any) -> bool:
        """True if `id` is the id of a task, such as an agent, that works in the background."""
        known = self._tasks.get(id) if isinstance(id, str) else None
        return known is not None and known.background

    def call_of(self, id: str) -> str | None:
        """Return the tool call that began a task, or None."""
        known = self._tasks.get(id)
        return known.call if known is not None else None

    def received(
        self, m: JsonObject, turn: str | None, background: set[str], out: list[Effect]
    ) -> bool:
        """Take a `system` message about tasks.

        Adds the tool call of an agent that works in the background to `background`. Returns True
        if the message ended background work.
        """
        if m.get("subtype") == "background_tasks_changed":
            return self._level(m.get("tasks"), turn, background, out)
        id = m.get("task_id")
        if not isinstance(id, str):
            return False
        match m.get("subtype"):
            case "task_started":
                self._started(id, m, turn)
            case "task_progress":
                detail = m.get("summary") or m.get("description") or m.get("last_tool_name")
                self._change(id, detail=detail)
                self._used(id, m.get("usage"))
            case "task_updated":
                patch = m.get("patch")
                if isinstance(patch, dict):
                    self._patch(id, patch)
            case "task_notification":
                self._notified(id, STATUS.get(str(m.get("status"))), text(m.get("summary")))
                self._used(id, m.get("usage"))
            case _:
                return False
        known = self._tasks.get(id)
        return known is not None and self._report(known, background, out)

    def _started(self, id: str, m: JsonObject, turn: str | None) -> None:
        """Begin a task, or begin one again that was resumed under its old id.

        Whether it runs in the background depends on `is_backgrounded`; a task of a call without
        this field waits for the call's result (`unplaced`). Tasks that the CLI marks as ambient are
        not shown.
        """
        known = self._tasks.get(id)
        task = Task(
            id=id,
            title=str(m.get("description") or m.get("workflow_name") or ""),
            turn=known.task.turn if known is not None else turn,
            kind=text(m.get("task_type")),
        )
        quiet = bool(m.get("ambient") or m.get("skip_transcript"))
        call = text(m.get("tool_use_id"))
        unplaced = call is not None and "is_backgrounded" not in m
        if known is not None:
            call = call if call is not None else known.call  # the level does not name it
            unplaced = unplaced and not known.background
        background = m.get("is_backgrounded") is not False and not quiet and not unplaced
        shown, shown_call = (None, None) if known is None else (known.shown, known.shown_call)
        new = self._tasks[id] = _KnownTask(task, background, call, shown, shown_call)
        if unplaced and not quiet:
            assert call is not None
            self.unplaced[call] = new

    def returned(self, call: str, failed: bool, background: set[str], out: list[Effect]) -> None:
        """Note the result of a tool call. If its task still runs, it runs in the background."""
        known = self.unplaced.pop(call, None)
        if known is not None and not failed and known.task.status not in OVER:
            known.background = True
            self._report(known, background, out)

    def _patch(self, id: str, patch: JsonObject) -> None:
        """Apply the changed fields of `task_updated`."""
        known = self._tasks.get(id)
        if known is not None and patch.get("is_backgrounded") is True:
            known.background = True
        self._change(
            id,
            status=STATUS.get(str(patch.get("status"))),
            title=patch.get("description"),
            detail=patch.get("error"),
        )

    def _change(self, id: str, **fields: Any) -> None:
        """Change texts of a task. Values that are not text are ignored.

        Of a task that is over, nothing changes but an end that was guessed.
        """
        known = self._tasks.get(id)
        if known is None:
            return
        if known.task.status in OVER:
            if not known.guessed or fields.get("status") not in OVER:
                return
            known.guessed = False
        new = {name: value for name, value in fields.items() if isinstance(value, str)}
        known.task = replace(known.task, **new)

    def _used(self, id: str, usage: Any) -> None:
        """Note the tokens and tool calls of a task so far."""
        known = self._tasks.get(id)
        if known is None or not isinstance(usage, dict):
            return
        tokens, steps = (
            whole_number(usage.get("total_tokens")),
            whole_number(usage.get("tool_uses")),
        )
        if tokens is not None or steps is not None:
            known.task = replace(known.task, usage=Usage(total_tokens=tokens, steps=steps))

    def _notified(self, id: str, status: str | None, report: str | None) -> None:
        """Take the last message about a task. Its end may have been reported before."""
        known = self._tasks.get(id)
        if known is None:
            return
        self._change(id, status=status if status in OVER else None)
        if report is not None:
            known.task = replace(known.task, detail=report)

    def _level(self, tasks: Any, turn: str | None, background: set[str], out: list[Effect]) -> bool:
        """Take the whole set of live tasks.

        Adds tasks that began without a report, and ends those that ended without one. Returns
        True if one has ended.
        """
        ended = False
        if not isinstance(tasks, list):
            return ended
        live = {t["task_id"]: t for t in tasks if isinstance(t, dict) and _id(t)}
        for id, m in live.items():
            known = self._tasks.get(id)
            if known is None or known.task.status in OVER:  # a resumed task keeps its id
                self._started(id, {"is_backgrounded": True, **m}, turn)
            elif not m.get("ambient"):
                known.background = True
            self._report(self._tasks[id], background, out)
        for id, known in self._tasks.items():
            if known.background and id not in live:
                if known.task.status not in OVER:
                    self._change(id, status="completed")
                    known.guessed = True
                ended |= self._report(known, background, out)
        return ended

    def _report(self, known: _KnownTask, background: set[str], out: list[Effect]) -> bool:
        """Report a background task if it has changed. Returns True if this report ended it."""
        if not known.background:
            return False
        task, shown, call = known.task, known.shown, known.call
        detaches = task.kind in AGENTS and call is not None
        if detaches:
            assert call is not None
            background.add(call)
        if task == shown and call == known.shown_call:
            return False
        known.shown, known.shown_call = task, call
        out.append(TaskSet(task, call, detaches=detaches))
        return task.status in OVER and (shown is None or shown.status not in OVER)


def _id(m: JsonObject) -> bool:
    """Return True if an entry of the level has an id."""
    return isinstance(m.get("task_id"), str)
