"""One session as the `session/update` notifications of ACP version 2.

It differs from version 1 in the frame of a turn. Version 1 ends a turn with the answer to its
prompt, version 2 with a state, so turns that another client has begun end visibly, too. `Updates2`
therefore wraps the updates of its base class: a new item of another turn is preceded by the state
that ends the turn before it and the state `running`. The other differences are renamed fields, and
diffs as git patches.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from .. import jsonrpc as rpc
from ..events import (
    TERMINAL,
    Command,
    Diff,
    Item,
    JsonObject,
    Modes,
    PermissionOpened,
    PlanEntry,
    Task,
)
from ..lowlevel import SessionState
from .acpupdates import (
    PLAN_STATUS,
    PRIORITIES,
    STATUS,
    TASK,
    Updates,
    option_list,
    request_content,
)

STATES: Final = {
    "running": "running",
    "cancelling": "running",
    "starting": "running",
    "waiting": "requires_action",
}
"""The phases of a session as states; all others are `idle`."""

STATUS_2: Final = {**STATUS, "cancelled": "cancelled"}
"""Statuses in terms of version 2; all others are failures."""

STOP_REASONS: Final = {
    "completed": "end_turn",
    "limit": "max_tokens",
    "refused": "refusal",
    "cancelled": "cancelled",
}
"""Outcomes as stop reasons; all other outcomes are errors."""


def stop_reason(outcome: str | None, reason: str | None) -> str | None:
    """Return the stop reason for the outcome of a turn, or None if it is an error."""
    if outcome == "limit" and reason == "max_turn_requests":
        return reason
    return STOP_REASONS.get(outcome or "")


class Updates2(Updates):
    """One client's knowledge of one session, in version 2.

    The client gets the beginning and the end of each turn as states. While the history is repeated
    there are none; one state follows it.
    """

    def __init__(self, *args: Any, fresh: bool = False, **more: Any) -> None:
        """Create it as `Updates`. `fresh`: the client knows that the session is idle."""
        super().__init__(*args, **more)
        self._replays = True
        """True until the client knows the session's state."""
        self._turn: str | None = None
        """The turn that the client has seen beginning, and not ending."""
        self._last: tuple[str, list[JsonObject]] | None = ("idle", []) if fresh else None
        """The last state, with the background work."""
        if fresh:
            self._replays = False

    def updates(self, repeat: Callable[[], bool]) -> Iterator[JsonObject]:
        """Yield the updates that are due, then the state of the session if it has changed."""
        yield from super().updates(lambda: True)
        self._replays = False
        yield from self._now()

    def _now(self) -> Iterator[JsonObject]:
        """Yield the session's state, if the client does not know it."""
        state = self._state
        running = state.state.turn
        if self._turn is not None and (running is None or running.id != self._turn):
            yield self._ended()
        if running is not None:
            self._turn = running.id
        work = _background(state, self._reading.tools)
        now = STATES.get(state.state.phase, "idle")
        if running is None and now == "running":
            now = "idle"  # the agent starts
        if (now, work) != self._last:
            self._last = now, work
            yield {"sessionUpdate": "state_update", "state": now, "background": work}

    def _ended(self) -> JsonObject:
        """Return the state that ends the turn of which the client has seen the beginning."""
        record = self._state.turns.get(self._turn or "")
        self._turn = None
        work = _background(self._state, self._reading.tools)
        self._last = "idle", work
        idle: JsonObject = {"sessionUpdate": "state_update", "state": "idle", "background": work}
        if record is None:
            return idle
        if record.usage is not None:
            idle["_meta"] = {"agentrt": {"usage": record.usage}}
        reason = stop_reason(record.outcome, record.stop_reason)
        if reason is not None:
            return {**idle, "stopReason": reason}
        message = record.error.message if record.error is not None else str(record.outcome)
        data = {"agentrt": {"outcome": record.outcome, "error": record.error}}
        error = {"code": rpc.INTERNAL_ERROR, "message": message, "data": data}
        return {**idle, "stopReason": "error", "error": error}

    def _item(self, item: Item, new: bool, repeat: Callable[[], bool]) -> list[JsonObject]:
        """Return the updates for an item, after the states that end one turn and begin the next."""
        shown = super()._item(item, new, repeat)
        if self._replays or item.turn is None or item.turn == self._turn or not shown:
            return shown
        before = [] if self._turn is None else [self._ended()]
        if not new:
            return [*before, *shown]  # a late change of an earlier turn's item begins nothing
        self._turn = item.turn
        work = _background(self._state, self._reading.tools)
        self._last = "running", work
        running = {"sessionUpdate": "state_update", "state": "running", "background": work}
        return [*before, running, *shown]

    def asked(self, ask: PermissionOpened) -> JsonObject:
        """Return the title and the subject of a permission request."""
        item = self._state.items.get(ask.item or "")
        if item is not None and item.tool is not None:
            call = super().asked(ask)
            call["content"] = _content(call.get("content", []))
            return {"title": ask.title, "subject": {"type": "tool_call", "toolCall": call}}
        about: JsonObject = {"title": ask.title}
        if content := request_content(ask):
            about["description"] = "\n".join(map(_as_text, content))
        return about

    def _text(self, item: Item, repeat: bool) -> list[JsonObject]:
        """Return a user's message in one piece, as version 2 requires; other texts are sent in
        chunks.
        """
        updates = super()._text(item, repeat)
        if item.type == "user" and updates:
            whole = [each["content"] for each in updates]
            return [{"sessionUpdate": "user_message", "messageId": item.id, "content": whole}]
        return updates

    def _tool(self, item: Item, new: bool) -> list[JsonObject]:
        """Return a tool call as an update: version 2 has no separate message for a new one."""
        updates = super()._tool(item, new)
        for update in updates:
            update["sessionUpdate"] = "tool_call_update"
            if "content" in update:
                update["content"] = _content(update["content"])
            if "status" in update:
                update["status"] = STATUS_2.get(item.status, "failed")
        return updates

    def _task(self, task: Task) -> JsonObject:
        """Return background work, with the capability to stop it while it runs."""
        update = {**super()._task(task), "sessionUpdate": "tool_call_update"}
        update["content"] = _content(update["content"])
        update["capabilities"] = None if task.status in TERMINAL else {"cancel": {}}
        return update

    def _changed(self, what: str) -> list[JsonObject]:
        """Return the updates for a changed value, in the form of version 2.

        Modes are one of the options there, so they are sent only if the options have changed.
        """
        known, now = self._whole.get(what), getattr(self._state, what)
        updates = super()._changed(what)
        match what:
            case "plan" if updates:
                entries = list(map(_plan_entry, now))
                plan = {"type": "items", "planId": "plan", "entries": entries}
                return [{"sessionUpdate": "plan_update", "plan": plan}]
            case "commands" if updates:
                return [
                    {
                        "sessionUpdate": "available_commands_update",
                        "availableCommands": command_list(now),
                    }
                ]
            case "modes" if now is not known:
                options = config_options(now)
                if options == config_options(known if isinstance(known, Modes) else None):
                    return []
                return [{"sessionUpdate": "config_option_update", "configOptions": options}]
        return updates


def is_stopped_by(task: Task, call: str) -> bool:
    """Return true if the work runs and a tool call with this id shows it."""
    return task.status not in TERMINAL and call in (task.item, f"{TASK}{task.id}")


def command_list(commands: list[Command]) -> list[JsonObject]:
    """Return the slash commands."""
    return [
        {
            "type": "command",
            "name": each.name,
            "description": each.description,
            **({"input": {"type": "text", "hint": each.hint}} if each.hint else {}),
        }
        for each in commands
    ]


def config_options(modes: Modes | None) -> list[JsonObject]:
    """Return mode, model and all options."""
    options = option_list(modes, switches=True)
    for option in options:
        option["configId"] = option.pop("id")
    return options


def _plan_entry(entry: PlanEntry) -> JsonObject:
    """Return an entry of the plan; version 2 also knows cancelled ones."""
    known = PLAN_STATUS | {"cancelled"}
    return {
        "content": entry.content,
        "status": entry.status if entry.status in known else "pending",
        "priority": entry.priority if entry.priority in PRIORITIES else "medium",
    }


def _background(state: SessionState, shown: dict[str, Any]) -> list[JsonObject]:
    """Return the background work that began with a tool call which the client knows."""
    return [
        {"type": "tool_call", "toolCallId": task.item}
        for task in state.open_tasks()
        if task.item in shown
    ]


def _content(parts: list[Any]) -> list[Any]:
    """Return the content of a tool call with its diffs in the form of version 2."""
    return [_diff(part) if part.get("type") == "diff" else part for part in parts]


def _diff(part: JsonObject) -> JsonObject:
    """Return a diff as a list of changed files with a git patch."""
    diff = msgspec.convert(part, Diff)
    path, old = diff.path, diff.old_text
    change = {"operation": "modify" if old is not None else "add", "path": path, "fileType": "text"}
    lines = difflib.unified_diff(
        (old or "").splitlines(keepends=True),
        diff.new_text.splitlines(keepends=True),
        "/dev/null" if old is None else f"a{path}",
        f"b{path}",
    )
    text = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
    head = f"diff --git a{path} b{path}\n" + ("new file mode 100644\n" if old is None else "")
    return {
        "type": "diff",
        "changes": [change],
        "patch": {"format": "git_patch", "text": head + text},
    }


def _as_text(part: JsonObject) -> str:
    """Return a part of a request as lines of text."""
    if part["type"] == "diff":
        return str(_diff(part)["patch"]["text"])
    return str(part["content"]["text"])
