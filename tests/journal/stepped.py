"""A store whose commits happen when a test says so, in the test's own thread; and an agent, of
either protocol, that does nothing by itself."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import trio
import trio.lowlevel

import agentrt
from agentrt import Limits
from agentrt.permissions import Policy
from agentrt.testing import MemoryAgent
from inside.store import (
    Batch,
    SqliteBackend,
    SqliteReader,
    StoreService,
    StoreWriter,
    WriterJob,
    gathered,
)

from .composed import composed

T = TypeVar("T")


class PassingWriter(StoreWriter):
    """Passes what it is given to a function, instead of a thread."""

    def __init__(self, put: Callable[[Batch | WriterJob], None]) -> None:
        self.put = put  # type: ignore[assignment,method-assign]


class SteppedStore(StoreService):
    """Commits as soon as it is given something, unless it is `stalled`."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.backend = SqliteBackend(path)
        self.backend.open()
        self._database = SqliteReader(path)
        super().__init__(str(path), self._database, PassingWriter(self._put), limits)
        self.stalled = False
        self._waiting: deque[Batch | WriterJob] = deque()
        self._token = trio.lowlevel.current_trio_token()

    async def _read(self, read: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        return read()

    def _put(self, item: Batch | WriterJob) -> None:
        self._waiting.append(item)
        self._token.run_sync_soon(self.work, idempotent=True)

    def work(self) -> None:
        """What the writer's thread does with all that it has been given."""
        while self._waiting and not self.stalled:
            self.step()

    def step(self) -> None:
        """What it does with the next thing."""
        item = self._waiting.popleft()
        if isinstance(item, WriterJob):
            item.done(item.job(self.backend), None)
        else:
            self.backend.commit(gathered([item]))
            item.source.committed(item.first + len(item.events) - 1)

    def go_on(self) -> None:
        """Behind a stall."""
        self.stalled = False
        self.work()

    def close(self) -> None:
        self._database.close()
        self.backend.close()


@contextmanager
def stepped(path: Path, limits: Limits | None = None) -> Iterator[SteppedStore]:
    store = SteppedStore(path, limits or Limits())
    try:
        yield store
    finally:
        store.close()


class Puppet:
    """An agent that only shakes hands; what else it does, a test does."""

    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol
        self.received: list[dict[str, Any]] = []
        self.starts = 0
        self._process: MemoryAgent
        self._turn: Any = None

    def start(self) -> MemoryAgent:
        self.starts += 1
        self._process = MemoryAgent(self._run)
        return self._process

    async def _run(self, process: MemoryAgent) -> None:
        while (line := await process.receive_line()) is not None:
            message = json.loads(line)
            self.received.append(message)
            match message:
                case {"method": "initialize", "id": id}:
                    can = {"loadSession": True}
                    result = {"protocolVersion": 1, "agentCapabilities": can}
                    self._send(jsonrpc="2.0", id=id, result=result)
                case {"method": "session/new", "id": id}:
                    self._send(jsonrpc="2.0", id=id, result={"sessionId": "s"})
                case {"method": "session/load" | "session/resume", "id": id}:
                    self._send(jsonrpc="2.0", id=id, result={})
                case {"method": "session/prompt", "id": id}:
                    self._turn = id
                case {"type": "control_request", "request_id": id}:
                    response = {"subtype": "success", "request_id": id, "response": {}}
                    self._send(type="control_response", response=response)
                case {"type": "user", "uuid": uuid}:
                    self._turn = uuid

    def _send(self, **message: Any) -> None:
        self._process.send(json.dumps(message).encode() + b"\n")

    def exit(self) -> None:
        self._process.exit(1)

    # --- what it was told

    @property
    def prompts(self) -> list[str]:
        """The texts of the prompts that it got."""
        if self.protocol == "acp":
            found = [m["params"]["prompt"] for m in self.received if "session/prompt" in m.values()]
        else:
            found = [m["message"]["content"] for m in self.received if m.get("type") == "user"]
        return [blocks if isinstance(blocks, str) else blocks[0]["text"] for blocks in found]

    @property
    def cancels(self) -> int:
        if self.protocol == "acp":
            return sum(m.get("method") == "session/cancel" for m in self.received)
        return sum(m.get("request", {}).get("subtype") == "interrupt" for m in self.received)

    @property
    def answers(self) -> list[str]:
        """The answers to its questions: `allow` or `deny`."""
        if self.protocol == "acp":
            outcomes = [m["result"]["outcome"] for m in self.received if m.get("id") == "ask"]
            return ["allow" if o.get("optionId") == "yes" else "deny" for o in outcomes]
        return [each["response"]["behavior"] for each in self._responses("ask")]

    @property
    def forms(self) -> list[str]:
        """The answers to its forms: `accept` or `decline`."""
        if self.protocol == "acp":
            return [m["result"]["action"] for m in self.received if m.get("id") == "form"]
        return [each["response"]["action"] for each in self._responses("form")]

    @property
    def hook_answers(self) -> list[Any]:
        """What its hooks answered; None for an error."""
        return [each.get("response") for each in self._responses("hook")]

    def _responses(self, id: str) -> list[dict[str, Any]]:
        found = [m["response"] for m in self.received if m.get("type") == "control_response"]
        return [each for each in found if each["request_id"] == id]

    # --- what it does

    def ask(self) -> None:
        if self.protocol == "acp":
            options = [
                {"optionId": id, "name": id, "kind": kind}
                for id, kind in (("yes", "allow_once"), ("no", "reject_once"))
            ]
            call = {"toolCallId": "c1", "title": "Run ls"}
            params = {"sessionId": "s", "toolCall": call, "options": options}
            self._send(jsonrpc="2.0", id="ask", method="session/request_permission", params=params)
        else:
            request = {
                "subtype": "can_use_tool",
                "tool_name": "Bash",
                "input": {"command": "ls"},
                "tool_use_id": "c1",
            }
            self._send(type="control_request", request_id="ask", request=request)

    def ask_form(self) -> None:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        if self.protocol == "acp":
            params = {
                "mode": "form",
                "message": "Who?",
                "requestedSchema": schema,
                "sessionId": "s",
            }
            self._send(jsonrpc="2.0", id="form", method="elicitation/create", params=params)
        else:
            request = {
                "subtype": "elicitation",
                "mcp_server_name": "elsewhere",
                "message": "Who?",
                "mode": "form",
                "requested_schema": schema,
            }
            self._send(type="control_request", request_id="form", request=request)

    def ask_hook(self) -> None:
        """Ask the session's first hook. In Claude's protocol."""
        request = {"subtype": "hook_callback", "callback_id": "hook1", "input": {}}
        self._send(type="control_request", request_id="hook", request=request)

    def say(self, text: str) -> None:
        """In ACP."""
        content = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        params = {"sessionId": "s", "update": update}
        self._send(jsonrpc="2.0", method="session/update", params=params)

    def end(self, *, cancelled: bool = False) -> None:
        if self.protocol == "acp":
            reason = "cancelled" if cancelled else "end_turn"
            self._send(jsonrpc="2.0", id=self._turn, result={"stopReason": reason})
        else:
            how = {"terminal_reason": "aborted_streaming"} if cancelled else {}
            self._send(
                type="result",
                subtype="error_during_execution" if cancelled else "success",
                is_error=False,
                user_message_uuids=[self._turn],
                usage={"input_tokens": 1, "output_tokens": 1},
                **how,
            )


@asynccontextmanager
async def kept(
    store: StoreService | None,
    puppet: Puppet,
    *,
    permissions: Policy | None = None,
    limits: Limits | None = None,
    hooks: tuple[agentrt.tools.Hook, ...] = (),
    first: int = 1,
) -> AsyncIterator[agentrt.Session]:
    """A session on a puppet, which the store keeps. `first`: the number of its id."""
    limits = limits or Limits(cancel_grace_s=5)
    ids = count(first)
    async with composed(
        lambda: puppet.start().connect(),
        name="puppet",
        protocol=puppet.protocol,
        limits=limits,
        permissions=permissions,
        ids=lambda: f"id{next(ids)}",
        store=store,
        hooks=hooks,
    ) as session:
        yield session
