"""The far end of a host's pipes, for the scripted CLI: what Claude Code reads and writes.

Standard library only: `fakecli.py` runs it as a program of its own.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

Json = dict[str, Any]
SESSION = "5e551011-0000-4000-8000-000000000001"


class Interrupted(Exception):
    """The host interrupts the turn."""


class Cli:
    """The far end of the host's pipes."""

    def __init__(self) -> None:
        self.inbox: queue.Queue[Json | None] = queue.Queue()
        self.prompts: list[Json] = []
        """Prompts that came while something else was awaited."""
        self.session = SESSION
        for flag in sys.argv:
            for name in ("--session-id=", "--resume="):
                if flag.startswith(name):
                    self.session = flag.removeprefix(name)
        self.stubborn = "FAKECLI_STUBBORN" in os.environ
        """Ignores interrupts, goodbyes, the end of its input and SIGTERM."""
        if self.stubborn:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.requests = 0
        self.results = 0
        self.reading = threading.Thread(target=self._read, daemon=True)

    # --- input

    def _read(self) -> None:
        log = os.environ.get("FAKECLI_LOG")
        for line in sys.stdin.buffer:
            if log:
                with open(log, "ab") as file:
                    file.write(line)
            self.inbox.put(json.loads(line))
        self.inbox.put(None)

    def next(self, timeout: float | None = None) -> Json | None:
        """The next message that is not answered by itself; None after `timeout` seconds."""
        while True:
            try:
                message = self.inbox.get(timeout=timeout)
            except queue.Empty:
                return None
            if message is None:
                self.ended()
            if not self._answered(message):
                return message

    def _answered(self, message: Json) -> bool:
        if message["type"] != "control_request":
            return False
        id, request = message["request_id"], message["request"]
        match request["subtype"]:
            case "interrupt" | "end_session" if self.stubborn:
                pass
            case "interrupt":
                dropped = [p["uuid"] for p in self.prompts]
                for uuid in dropped:
                    self.fate(uuid, "cancelled")
                self.prompts.clear()
                self.success(id, {"still_queued": [], "cancelled": dropped})
                raise Interrupted
            case "end_session":
                self.success(id, {})
                self.bye(0)
            case "set_permission_mode":
                self.success(id, {"mode": request["mode"]})
            case _:
                self.success(id, {})
        return True

    def prompt(self) -> Json:
        """The next prompt, with the signs that its turn begins."""
        message = self.prompts.pop(0) if self.prompts else None
        while message is None or message["type"] != "user":
            try:
                message = self.next()
            except Interrupted:
                continue
        self.state("running")
        self.fate(message["uuid"], "queued")
        self.fate(message["uuid"], "started")
        self.init()
        return message

    def wait(self, wanted: Callable[[Json], bool], timeout: float | None = None) -> Json | None:
        """A message of that kind; prompts that come before it are kept."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            message = self.next(left)
            if message is None or wanted(message):
                return message
            if message["type"] == "user":
                self.fate(message["uuid"], "queued")
                self.prompts.append(message)

    def answer(self, id: str, timeout: float | None = None) -> Any:
        """The host's answer to a request."""
        message = self.wait(
            lambda m: m["type"] == "control_response" and m["response"]["request_id"] == id,
            timeout,
        )
        return message and message["response"].get("response")

    # --- output

    def write(self, message: Json) -> None:
        self.raw(json.dumps(message).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def success(self, id: str, response: Any) -> None:
        body = {"subtype": "success", "request_id": id, "response": response}
        self.write({"type": "control_response", "response": body})

    def ask(self, subtype: str, **fields: Any) -> str:
        self.requests += 1
        id = f"cli-{self.requests}"
        body = {"subtype": subtype, **fields}
        self.write({"type": "control_request", "request_id": id, "request": body})
        return id

    def ask_tool(self, call: str, command: str) -> str:
        fields = {"tool_name": "Bash", "input": {"command": command}, "tool_use_id": call}
        self.state("requires_action")
        return self.ask("can_use_tool", **fields)

    def call_mcp(self, id: int, method: str, **params: Any) -> str:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        return self.ask("mcp_message", server_name="agentrt", message=message)

    def greet_mcp(self) -> None:
        client = {"name": "fakecli", "version": "0"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        self.answer(self.call_mcp(0, "initialize", **hello))
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        self.answer(self.ask("mcp_message", server_name="agentrt", message=done))

    def system(self, subtype: str, **fields: Any) -> None:
        self.write({"type": "system", "subtype": subtype, "session_id": self.session, **fields})

    def state(self, state: str) -> None:
        self.system("session_state_changed", state=state)

    def init(self) -> None:
        self.system("init", model="fake", permissionMode="default", slash_commands=["compact"])

    def fate(self, uuid: str, state: str) -> None:
        self.write({"type": "command_lifecycle", "command_uuid": uuid, "state": state})

    def assistant(self, *blocks: Json, parent: str | None = None) -> None:
        message = {"id": f"m{time.monotonic_ns()}", "role": "assistant", "content": list(blocks)}
        self.write({"type": "assistant", "message": message, "parent_tool_use_id": parent})

    def say(self, text: str) -> None:
        self.assistant({"type": "text", "text": text})

    def event(self, kind: str, **fields: Any) -> Json:
        return {
            "type": "stream_event",
            "event": {"type": kind, **fields},
            "parent_tool_use_id": None,
            "session_id": self.session,
        }

    def begin_text(self) -> Json:
        """The beginning of a message that streams one text; the message, still empty."""
        message = {"id": f"m{self.results}", "role": "assistant", "content": []}
        self.write(self.event("message_start", message=message))
        block = {"type": "text", "text": ""}
        self.write(self.event("content_block_start", index=0, content_block=block))
        return message

    def delta(self, text: str) -> Json:
        piece = {"type": "text_delta", "text": text}
        return self.event("content_block_delta", index=0, delta=piece)

    def use(self, call: str, name: str = "Bash", **arguments: Any) -> None:
        self.assistant({"type": "tool_use", "id": call, "name": name, "input": arguments})

    def used(
        self,
        call: str,
        text: str,
        *,
        error: bool = False,
        kind: str | None = None,
        parent: str | None = None,
    ) -> None:
        block = {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": error}
        line: Json = {"type": "user", "message": {"role": "user", "content": [block]}}
        line["parent_tool_use_id"] = parent
        line["tool_result_meta"] = [{"id": call, "non_execution_kind": kind}] if kind else []
        self.write(line)

    def result(self, *prompts: Json, **fields: Any) -> None:
        uuids = [prompt["uuid"] for prompt in prompts]
        listed = {"user_message_uuid": uuids[0], "user_message_uuids": uuids} if uuids else {}
        good = {
            "subtype": "success",
            "is_error": False,
            "terminal_reason": "completed",
            "stop_reason": "end_turn",
            "num_turns": 1,
            "result": "done",
            "total_cost_usd": 0.01 * (self.results + 1),
            "result_index": self.results,
            "session_id": self.session,
        }
        self.results += 1
        self.write({**good, **listed, **fields, "type": "result"})
        for uuid in uuids:
            self.fate(uuid, "cancelled" if fields.get("is_error") else "completed")

    def done(self, *prompts: Json, **fields: Any) -> None:
        self.result(*prompts, **fields)
        self.state("idle")

    def aborted(self, *prompts: Json, while_: str = "streaming") -> None:
        self.write({"type": "user", "message": {"content": "[Request interrupted by user]"}})
        self.done(
            *prompts,
            subtype="error_during_execution",
            is_error=True,
            terminal_reason=f"aborted_{while_}",
            stop_reason=None,
            errors=["[ede_diagnostic] internal"],
        )

    def notified(self, text: str, **fields: Any) -> None:
        """A turn of Claude's own."""
        self.init()
        self.say(text)
        self.done(origin={"kind": "task-notification"}, **fields)

    def ended(self) -> NoReturn:
        """Its input has ended."""
        while self.stubborn:
            time.sleep(60)
        self.bye(0)

    def bye(self, code: int) -> NoReturn:
        sys.stdout.buffer.flush()
        os._exit(code)
