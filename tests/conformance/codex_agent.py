"""A `codex app-server` in memory without a fault: each subclass in the tests has one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import trio

from agentrt.testing import MemoryAgent

from .agent import Refused


class Turn:
    def __init__(self, id: str, thread: str, text: str) -> None:
        self.id = id
        self.thread = thread
        self.text = text
        self.scope = trio.CancelScope()
        self.interrupts: list[Any] = []
        """Requests that are answered when it is over."""


class GoodCodex:
    """One process of it."""

    ignores: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.ready = False
        self.threads: dict[str, str] = {}
        """Their folders."""
        self.running: dict[str, Turn] = {}
        self.turns = 0
        self.waiting: dict[Any, tuple[trio.Event, list[Any]]] = {}
        self.process: MemoryAgent
        self.nursery: trio.Nursery

    @classmethod
    def start(cls) -> MemoryAgent:
        return MemoryAgent(cls().run, ignores=cls.ignores)

    async def run(self, process: MemoryAgent) -> None:
        self.process = process
        async with trio.open_nursery() as self.nursery:
            while (line := await process.receive_line()) is not None:
                self.line(line)
            self.nursery.cancel_scope.cancel()

    # --- messages

    def line(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        if "method" not in message:
            self.answered(message)
        elif "id" in message:
            self.request(message["id"], message["method"], message.get("params") or {})

    def answered(self, message: dict[str, Any]) -> None:
        event, box = self.waiting.pop(message.get("id"), (None, []))
        if event is not None:
            box.append(message)
            event.set()

    def request(self, id: Any, method: str, params: dict[str, Any]) -> None:
        handler = getattr(self, "on_" + method.replace("/", "_"), None)
        try:
            if handler is None:
                raise Refused(-32601, f"no method {method}")
            if not self.ready and method != "initialize":
                raise Refused(-32600, "Not initialized")
            handler(id, params)
        except Refused as refused:
            self.send({"id": id, "error": refused.error})

    def send(self, message: dict[str, Any]) -> None:
        self.process.send(json.dumps(message).encode() + b"\n")

    def result(self, id: Any, result: Any) -> None:
        self.send({"id": id, "result": result})

    def tell(self, method: str, thread: str, **params: Any) -> None:
        self.send({"method": method, "params": {"threadId": thread, **params}})

    # --- requests

    def on_initialize(self, id: Any, params: dict[str, Any]) -> None:
        if self.ready:
            raise Refused(-32600, "Already initialized")
        self.ready = True
        self.result(id, {"userAgent": "agentrt/1.2.3 (memory)"})

    def on_thread_start(self, id: Any, params: dict[str, Any]) -> None:
        thread = self.new_id()
        self.threads[thread] = params["cwd"]
        self.result(id, {"thread": {"id": thread}})

    def new_id(self) -> str:
        return f"thread-{len(self.threads)}"

    def known(self, params: dict[str, Any]) -> str:
        thread: str | None = params.get("threadId")
        if thread is None:
            raise Refused(-32602, "threadId is missing")
        if thread not in self.threads:
            raise Refused(-32600, f"thread not found: {thread}")
        return thread

    def on_thread_resume(self, id: Any, params: dict[str, Any]) -> None:
        self.result(id, {"thread": {"id": self.known(params)}})

    def on_thread_list(self, id: Any, params: dict[str, Any]) -> None:
        self.result(id, {"data": [{"id": thread} for thread in self.threads]})

    def on_turn_start(self, id: Any, params: dict[str, Any]) -> None:
        thread = self.known(params)
        if thread in self.running:
            raise Refused(-32600, "a turn runs")
        if "input" not in params:
            raise Refused(-32602, "input is missing")
        self.turns += 1
        turn = Turn(f"turn-{self.turns}", thread, params["input"][0]["text"])
        self.running[thread] = turn
        self.result(id, {"turn": {"id": turn.id}})
        self.tell("turn/started", thread, turn={"id": turn.id})
        self.nursery.start_soon(self.turn, turn)

    def on_turn_steer(self, id: Any, params: dict[str, Any]) -> None:
        turn = self.running.get(self.known(params))
        if turn is None or turn.id != params["expectedTurnId"]:
            raise Refused(-32600, "no such turn runs")
        self.result(id, {"turnId": turn.id})

    def on_turn_interrupt(self, id: Any, params: dict[str, Any]) -> None:
        turn = self.running.get(self.known(params))
        if turn is None or turn.id != params["turnId"]:
            raise Refused(-32600, "no such turn runs")
        turn.interrupts.append(id)
        turn.scope.cancel()

    # --- turns

    async def turn(self, turn: Turn) -> None:
        with turn.scope:
            await self.work(turn)
        del self.running[turn.thread]
        for id in turn.interrupts:
            self.result(id, {})
        self.end(turn, "interrupted" if turn.scope.cancelled_caught else "completed")

    def end(self, turn: Turn, status: str) -> None:
        self.tell("turn/completed", turn.thread, turn={"id": turn.id, "status": status})

    def say(self, turn: Turn, text: str) -> None:
        self.tell("item/agentMessage/delta", turn.thread, turnId=turn.id, itemId="m1", delta=text)

    async def work(self, turn: Turn) -> None:
        match turn.text:
            case "long":
                for _ in range(100):
                    self.say(turn, "word ")
                    await trio.sleep(0.1)
            case "permission":
                await self.permission(turn)
            case text:
                self.say(turn, text)
                await trio.sleep(0.01)

    async def permission(self, turn: Turn) -> None:
        id = f"q-{turn.id}"
        event, box = self.waiting[id] = trio.Event(), list[Any]()
        params = {"threadId": turn.thread, "turnId": turn.id, "itemId": "c1", "command": "touch"}
        method = "item/commandExecution/requestApproval"
        self.send({"id": id, "method": method, "params": params})
        try:
            await event.wait()
        finally:
            self.waiting.pop(id, None)
            self.tell("serverRequest/resolved", turn.thread, requestId=id)
        decision = box[0].get("result", {}).get("decision")
        if decision == "accept":
            (Path(self.threads[turn.thread]) / "agentrt-checked.txt").touch()
        elif decision == "cancel":
            turn.scope.cancel()
        await trio.sleep(0.01)
