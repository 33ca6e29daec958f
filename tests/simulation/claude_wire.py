"""What Claude Code writes in stream-json, one method a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .agent import Agent, Json
from .book import Ask


class ClaudeWire(Agent):
    """The writing half of `ClaudeAgent`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.session = f"5e551011-0000-4000-8000-{self.process.number:012}"
        self.state = "idle"
        self.messages = 0
        self.owes_idle = False
        """It has written a result and not that it rests."""

    def success(self, id: str, response: Any) -> None:
        body = {"subtype": "success", "request_id": id, "response": response}
        self.send({"type": "control_response", "response": body})

    def system(
        self, subtype: str, *, when_read: Callable[[], None] | None = None, **fields: Any
    ) -> None:
        line = {"type": "system", "subtype": subtype, "session_id": self.session, **fields}
        self.send(line, when_read)

    def go(self, state: str, when_read: Callable[[], None] | None = None) -> None:
        if state != self.state:
            self.state = state
            if self.temper.states:
                self.system("session_state_changed", state=state, when_read=when_read)
        if state == "idle":
            self.owes_idle = False

    def fate(self, uuid: str, state: str, when_read: Callable[[], None] | None = None) -> None:
        if self.temper.fates:
            line = {"type": "command_lifecycle", "command_uuid": uuid, "state": state}
            self.send(line, when_read)

    def event(self, kind: str, **fields: Any) -> None:
        event = {"type": kind, **fields}
        self.send({"type": "stream_event", "event": event, "parent_tool_use_id": None})

    def assistant(self, block: Json) -> None:
        message = {"id": f"m{self.messages}", "role": "assistant", "content": [block]}
        self.send({"type": "assistant", "message": message, "parent_tool_use_id": None})

    def init(self) -> None:
        self.system("init", model="sim", permissionMode="default", slash_commands=[])

    def tool_result(self, call: str, *, error: bool = False, kind: str | None = None) -> None:
        block = {"type": "tool_result", "tool_use_id": call, "content": "ok", "is_error": error}
        line: Json = {"type": "user", "message": {"role": "user", "content": [block]}}
        line["tool_result_meta"] = [{"id": call, "non_execution_kind": kind}] if kind else []
        self.send(line)

    def control(self, ask: Ask, subtype: str, **fields: Any) -> None:
        body = {"subtype": subtype, **fields}
        line = {"type": "control_request", "request_id": ask.id, "request": body}
        self.send(line, self.is_read(ask))

    def new_id(self) -> str:
        self.requests += 1
        return f"cli-{self.process.number}-{self.requests}"

    def withdraw(self, ask: Ask) -> None:
        ask.withdrawn = True
        self.send({"type": "control_cancel_request", "request_id": ask.id})
