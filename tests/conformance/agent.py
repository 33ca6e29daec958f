"""An ACP agent in memory without a fault: each subclass in the tests has one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import trio

from agentrt.testing import ConformancePrompts, MemoryAgent

PROMPTS = ConformancePrompts(text="text", long="long", permission="permission")
OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]
CAPABILITIES = {
    "loadSession": True,
    "sessionCapabilities": {"list": {}, "close": {}, "resume": {}, "delete": {}},
}


class Refused(Exception):
    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "data": data}


class Session:
    def __init__(self, id: str, cwd: str) -> None:
        self.id = id
        self.cwd = cwd
        self.turn: trio.CancelScope | None = None
        self.cancelled = False
        self.told: list[dict[str, Any]] = []


class GoodAgent:
    """One process of it."""

    ignores: frozenset[str] = frozenset()
    capabilities: dict[str, Any] = CAPABILITIES

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.open: dict[Any, list[Any]] = {}
        self.waiting: dict[Any, trio.Event] = {}
        self.asked = 0
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
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except ValueError as error:
            self.send({"id": None, "error": {"code": -32700, "message": str(error)}})
            return
        if not isinstance(message, dict):
            self.send({"id": None, "error": {"code": -32600, "message": "no request"}})
        elif "method" not in message:
            self.answered(message)
        elif "id" in message:
            self.request(message["id"], message["method"], message.get("params") or {})
        else:
            self.notified(message["method"], message.get("params") or {})

    def answered(self, message: dict[str, Any]) -> None:
        waiting = self.waiting.pop(message.get("id"), None)
        if waiting is not None:
            self.open[message["id"]] = [message]
            waiting.set()

    def request(self, id: Any, method: str, params: dict[str, Any]) -> None:
        handler = getattr(self, "on_" + method.replace("/", "_"), None)
        try:
            if handler is None:
                raise Refused(-32601, f"no method {method}")
            if method == "session/prompt":
                self.begin(id, self.known(params), params["prompt"][0]["text"])
                return
            self.result(id, handler(params))
        except Refused as refused:
            self.send({"id": id, "error": refused.error})

    def notified(self, method: str, params: dict[str, Any]) -> None:
        session = self.sessions.get(params.get("sessionId", ""))
        if method == "session/cancel" and session is not None:
            self.cancel(session)

    def send(self, message: dict[str, Any]) -> None:
        self.process.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def result(self, id: Any, result: Any) -> None:
        self.send({"id": id, "result": result})

    def update(self, session: Session, kind: str, **fields: Any) -> None:
        update = {"sessionUpdate": kind, **fields}
        self.send(
            {"method": "session/update", "params": {"sessionId": session.id, "update": update}}
        )

    def say(self, session: Session, text: str) -> None:
        content = {"type": "text", "text": text}
        session.told.append(content)
        self.update(session, "agent_message_chunk", content=content)

    # --- requests

    def on_initialize(self, params: dict[str, Any]) -> Any:
        if not isinstance(params.get("protocolVersion"), int):
            raise Refused(-32602, "protocolVersion is a number")
        return {"protocolVersion": 1, "agentCapabilities": self.capabilities}

    def on_session_new(self, params: dict[str, Any]) -> Any:
        if "cwd" not in params:
            raise Refused(-32602, "cwd is missing")
        session = Session(self.new_id(), params["cwd"])
        self.sessions[session.id] = session
        return {"sessionId": session.id}

    def new_id(self) -> str:
        return f"s{len(self.sessions)}"

    def known(self, params: dict[str, Any]) -> Session:
        try:
            return self.sessions[params["sessionId"]]
        except KeyError:
            raise Refused(-32002, "no such session") from None

    def on_session_load(self, params: dict[str, Any]) -> Any:
        session = self.known(params)
        for content in session.told:
            self.update(session, "agent_message_chunk", content=content)
        return {}

    def on_session_resume(self, params: dict[str, Any]) -> Any:
        self.known(params)
        return {}

    def on_session_list(self, params: dict[str, Any]) -> Any:
        if "cursor" in params:
            raise Refused(-32602, "no cursor of mine")
        return {"sessions": [{"sessionId": s.id, "cwd": s.cwd} for s in self.sessions.values()]}

    def on_session_close(self, params: dict[str, Any]) -> Any:
        self.cancel(self.known(params))
        return {}

    def on_session_delete(self, params: dict[str, Any]) -> Any:
        self.sessions.pop(params["sessionId"], None)
        return {}

    # --- turns

    def on_session_prompt(self, params: dict[str, Any]) -> None:
        """Is begun, and answered later."""

    def cancel(self, session: Session) -> None:
        if session.turn is not None:
            session.cancelled = True
            session.turn.cancel()

    def begin(self, id: Any, session: Session, text: str) -> None:
        if session.turn is not None:
            raise Refused(-32600, "a prompt runs")
        session.cancelled = False
        session.turn = trio.CancelScope()
        self.nursery.start_soon(self.prompt, id, session, session.turn, text)

    async def prompt(self, id: Any, session: Session, scope: trio.CancelScope, text: str) -> None:
        with scope:
            await self.turn(session, text)
        session.turn = None
        self.end(id, session, "cancelled" if session.cancelled else "end_turn")

    def end(self, id: Any, session: Session, stop: str) -> None:
        self.result(id, {"stopReason": stop})

    async def turn(self, session: Session, text: str) -> None:
        match text:
            case "long":
                await self.long(session)
            case "permission":
                await self.permission(session)
            case _:
                self.say(session, text)
                await trio.sleep(0.01)

    async def long(self, session: Session) -> None:
        for _ in range(100):
            self.say(session, "word ")
            await trio.sleep(0.1)

    async def permission(self, session: Session) -> None:
        answer = await self.ask(session)
        outcome = answer.get("result", {}).get("outcome", {})
        if outcome.get("optionId") == "yes":
            self.touch(session)
        self.say(session, "done")

    async def ask(self, session: Session) -> Any:
        self.asked += 1
        id = f"q{self.asked}"
        waiting = self.waiting[id] = trio.Event()
        self.send({"id": id, "method": "session/request_permission", "params": self.asks(session)})
        await waiting.wait()
        return self.open[id][0]

    def asks(self, session: Session) -> dict[str, Any]:
        call = {"toolCallId": "c1", "title": "touch"}
        return {"sessionId": session.id, "toolCall": call, "options": OPTIONS}

    def touch(self, session: Session) -> None:
        (Path(session.cwd) / "agentrt-checked.txt").touch()
