"""The agent's plan, from the tools with which Claude maintains it.

Older versions replace the whole list with `TodoWrite`; newer ones maintain single entries with
`TaskCreate` and `TaskUpdate`, which get their ids with their results.
"""

from __future__ import annotations

from typing import Any

from ..model.content import JsonObject
from ..model.events import PlanEntry


class ClaudePlan:
    """The entries, by id. Each method returns the new plan, or None if nothing changed."""

    def __init__(self) -> None:
        self._entries: dict[str, PlanEntry] = {}
        self._calls: dict[str, tuple[str, JsonObject]] = {}

    def called(self, call: str, name: str, arguments: Any) -> list[PlanEntry] | None:
        """Take a tool call with its whole input."""
        if not isinstance(arguments, dict):
            return None
        if name == "TodoWrite":
            return self._replace(arguments.get("todos"))
        if name in ("TaskCreate", "TaskUpdate", "TaskList"):
            self._calls[call] = (name, arguments)
        return None

    def answered(self, call: str, failed: bool, result: Any) -> list[PlanEntry] | None:
        """Take a tool's result in the CLI's structured form."""
        name, arguments = self._calls.pop(call, ("", {}))
        if failed or not name or not isinstance(result, dict):
            return None
        match name:
            case "TaskCreate":
                created = result.get("task")
                if not isinstance(created, dict) or "id" not in created:
                    return None
                entry = PlanEntry(str(created.get("subject") or arguments.get("subject") or ""))
                self._entries[str(created["id"])] = entry
            case "TaskUpdate":
                return self._update(str(arguments.get("taskId")), arguments)
            case _:
                return self._replace(result.get("tasks"))
        return self._list()

    def _update(self, id: str, arguments: JsonObject) -> list[PlanEntry] | None:
        entry = self._entries.get(id)
        if entry is None:
            return None
        status = arguments.get("status")
        if status == "deleted":
            del self._entries[id]
        else:
            subject = str(arguments.get("subject") or entry.content)
            self._entries[id] = PlanEntry(subject, str(status or entry.status))
        return self._list()

    def _replace(self, entries: Any) -> list[PlanEntry] | None:
        if not isinstance(entries, list):
            return None
        self._entries = {
            str(entry.get("id", number)): PlanEntry(
                str(entry.get("content") or entry.get("subject") or ""),
                str(entry.get("status") or "pending"),
                str(entry.get("priority") or "medium"),
            )
            for number, entry in enumerate(entries)
            if isinstance(entry, dict)
        }
        return self._list()

    def _list(self) -> list[PlanEntry]:
        return list(self._entries.values())
