"""The codex driver under test, with a program that says what the test says."""

from __future__ import annotations

import json
from itertools import count
from typing import Any, TypeVar

from agentrt.effects import Write
from agentrt.events import Text
from agentrt.lowlevel import CodexClientInfo, CodexDriver, Effect, Opening
from agentrt.tools import ToolInfo

E = TypeVar("E")
Json = dict[str, Any]

THREAD = "t-1"
TOOL = ToolInfo("record", "Records.", {"type": "object"})
SETTINGS = {"model": "m-1", "approvalPolicy": "untrusted", "sandbox": {"type": "readOnly"}}
MODELS = [
    {
        "model": "m-1",
        "displayName": "One",
        "description": "the first",
        "hidden": False,
        "supportedReasoningEfforts": [
            {"reasoningEffort": "low", "description": "fast"},
            {"reasoningEffort": "high", "description": "deep"},
        ],
    },
    {
        "model": "m-2",
        "displayName": "Two",
        "description": "the second",
        "hidden": False,
        "supportedReasoningEfforts": [],
    },
]


def thread(**more: Any) -> Json:
    return {"id": THREAD, "preview": "", "cwd": "/shop", "updatedAt": 7, "name": None, **more}


class Peer:
    """The driver, and what went back and forth."""

    def __init__(self, **options: Any) -> None:
        numbers = count(1)
        self.driver = CodexDriver(
            lambda: f"r{next(numbers)}",
            client=CodexClientInfo(name="agentrt", title="agentrt", version="1"),
            **options,
        )
        self.sent: list[Json] = []

    def do(self, effects: list[Effect]) -> list[Effect]:
        """Note what is written; what else was reported."""
        for effect in effects:
            if isinstance(effect, Write):
                self.sent += [json.loads(line) for line in effect.data.splitlines()]
        return [effect for effect in effects if not isinstance(effect, Write)]

    def says(self, *messages: Json) -> list[Effect]:
        lines = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
        return self.do(self.driver.receive(lines))

    def tells(self, method: str, **params: Any) -> list[Effect]:
        return self.says({"method": method, "params": {"threadId": THREAD, **params}})

    def asks(self, id: Any, method: str, **params: Any) -> list[Effect]:
        return self.says({"id": id, "method": method, "params": {"threadId": THREAD, **params}})

    def answers(self, method: str, result: Any) -> list[Effect]:
        return self.says({"id": self.last(method)["id"], "result": result})

    def refuses(self, method: str, message: str) -> list[Effect]:
        error = {"code": -32600, "message": message}
        return self.says({"id": self.last(method)["id"], "error": error})

    def last(self, method: str) -> Json:
        """The last request or notification of that name that was sent."""
        return [each for each in self.sent if each.get("method") == method][-1]

    def methods(self) -> list[str]:
        return [each["method"] for each in self.sent if "method" in each]

    def answer_to(self, id: Any) -> Any:
        [answer] = [each for each in self.sent if each.get("id") == id and "method" not in each]
        return answer.get("result", answer.get("error"))

    # --- what most tests begin with

    def greet(self, opening: Opening | None = None) -> list[Effect]:
        self.do(self.driver.start(opening or Opening(cwd="/shop")))
        self.answers("initialize", {"userAgent": "agentrt/0.169.0 (Linux)"})
        self.answers("account/read", {"account": None, "requiresOpenaiAuth": False})
        return self.answers("model/list", {"data": MODELS})

    def open(self, opening: Opening | None = None) -> list[Effect]:
        self.greet(opening)
        return self.answers("thread/start", {"thread": thread(), **SETTINGS})

    def prompt(self, turn: str = "p-1", id: str = "u-1", *, begins: bool = True) -> None:
        self.do(self.driver.prompt(turn, [Text("hello")]))
        if begins:
            self.answers("turn/start", {"turn": {"id": id, "status": "inProgress", "items": []}})
            self.begins(id)

    def begins(self, id: str = "u-1") -> list[Effect]:
        return self.tells("turn/started", turn={"id": id, "status": "inProgress", "items": []})

    def ends(self, id: str = "u-1", status: str = "completed", **more: Any) -> list[Effect]:
        return self.tells("turn/completed", turn={"id": id, "status": status, "items": [], **more})

    def item(self, when: str, item: Json, turn: str = "u-1") -> list[Effect]:
        return self.tells(f"item/{when}", turnId=turn, item=item)


def opened(**options: Any) -> Peer:
    peer = Peer(**options)
    peer.open()
    return peer


def prompted(**options: Any) -> Peer:
    peer = opened(**options)
    peer.prompt()
    return peer


def only(effects: list[Effect], kind: type[E]) -> E:
    [found] = [effect for effect in effects if isinstance(effect, kind)]
    return found


COMMAND: Json = {
    "type": "commandExecution",
    "id": "c-1",
    "command": "/bin/bash -lc 'rm -rf build; ls'",
    "cwd": "/shop",
    "status": "inProgress",
}
EDIT: Json = {
    "type": "fileChange",
    "id": "e-1",
    "status": "inProgress",
    "changes": [{"path": "/project/a.txt", "kind": {"type": "add"}, "diff": "hello\n"}],
}
