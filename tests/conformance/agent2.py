"""An agent in memory that speaks version 2 of ACP without a fault."""

from __future__ import annotations

from typing import Any

import trio

from .agent import GoodAgent, Refused, Session


class GoodAgent2(GoodAgent):
    """One process of it. It lets a prompt wait until the one before has ended."""

    capabilities: dict[str, Any] = {"session": {"delete": {}}}
    options: list[dict[str, Any]] = [
        {"configId": "mode", "name": "Mode", "type": "select", "currentValue": "a", "options": []}
    ]

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[tuple[Any, Session, str]] = []
        self.messages = 0
        self.over: dict[str, trio.Event] = {}

    # --- messages

    def request(self, id: Any, method: str, params: dict[str, Any]) -> None:
        if id is None:
            self.send({"id": None, "error": {"code": -32600, "message": "an id is not null"}})
        elif method == "session/load":
            self.send({"id": id, "error": {"code": -32601, "message": "not in version 2"}})
        elif method == "session/prompt" and not params["prompt"]:
            self.send({"id": id, "error": {"code": -32602, "message": "the prompt is empty"}})
        elif method == "session/close" and params["sessionId"] in self.sessions:
            self.on_session_close(params)
            self.nursery.start_soon(self.close, id, self.sessions[params["sessionId"]])
        else:
            super().request(id, method, params)

    def say(self, session: Session, text: str) -> None:
        content = {"type": "text", "text": text}
        session.told.append(content)
        self.update(session, "agent_message_chunk", content=content, messageId=f"m{session.id}")

    def state(self, session: Session, state: str, **more: Any) -> None:
        self.update(session, "state_update", state=state, **more)

    # --- requests

    def on_initialize(self, params: dict[str, Any]) -> Any:
        if not isinstance(params.get("protocolVersion"), int):
            raise Refused(-32602, "protocolVersion is a number")
        if (asked := params["protocolVersion"]) < 2:
            raise Refused(-32022, "no such version", {"requested": asked, "supported": [2]})
        info = {"name": "good", "version": "2"}
        return {"protocolVersion": 2, "info": info, "capabilities": self.capabilities}

    def on_session_new(self, params: dict[str, Any]) -> Any:
        return {**super().on_session_new(params), "configOptions": self.options}

    def on_session_set_config_option(self, params: dict[str, Any]) -> Any:
        self.known(params)
        if params["configId"] != "mode":
            raise Refused(-32602, "no such option")
        return {"configOptions": self.options}

    def on_session_resume(self, params: dict[str, Any]) -> Any:
        session = self.known(params)
        match params.get("replayFrom"):
            case None:
                pass
            case {"type": "start"}:
                self.replay(session)
            case _:
                raise Refused(-32602, "no such place")
        self.state(session, "idle")
        return {}

    def replay(self, session: Session) -> None:
        for content in session.told:
            self.update(session, "agent_message", content=[content], messageId=f"m{session.id}")

    async def close(self, id: Any, session: Session) -> None:
        """Answer a close when the cancelled turn is over."""
        if session.turn is not None:
            await self.over[session.id].wait()
        self.result(id, {})

    # --- turns

    def cancel(self, session: Session) -> None:
        mine = [each for each in self.waits if each[1] is session]
        self.waits = [each for each in self.waits if each[1] is not session]
        for id, _, _ in mine:
            self.send({"id": id, "error": {"code": -32800, "message": "cancelled"}})
        super().cancel(session)

    def begin(self, id: Any, session: Session, text: str) -> None:
        if session.turn is not None:
            self.waits.append((id, session, text))
        else:
            super().begin(id, session, text)

    async def prompt(self, id: Any, session: Session, scope: trio.CancelScope, text: str) -> None:
        over = self.over[session.id] = trio.Event()
        self.insert(id, session, text)
        await super().prompt(id, session, scope, text)
        over.set()
        for each in self.waits:
            if each[1] is session:
                self.waits.remove(each)
                self.begin(*each)
                return

    def insert(self, id: Any, session: Session, text: str) -> None:
        self.messages += 1
        message = f"u{self.messages}"
        content = [{"type": "text", "text": text}]
        self.state(session, "running")
        self.update(session, "user_message", messageId=message, content=content)
        self.result(id, {"messageId": message})

    def end(self, id: Any, session: Session, stop: str) -> None:
        self.state(session, "idle", stopReason=stop)

    def asks(self, session: Session) -> dict[str, Any]:
        asked = super().asks(session)
        subject = {"type": "tool_call", "toolCall": asked.pop("toolCall")}
        return {**asked, "title": "Touch a file?", "subject": subject}
