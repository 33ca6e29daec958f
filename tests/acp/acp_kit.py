"""A driver under test, with an agent that says what the test says.

Whatever the driver sends is held against the official schema, whichever test it is sent in.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from jsonschema import Draft202012Validator

from agentrt.effects import Write
from agentrt.events import Block, Notice, Text
from agentrt.lowlevel import AcpDriver, Effect, Implementation, Opening, client_capabilities

E = TypeVar("E")

SCHEMAS = {
    1: Path(__file__).parent / "schema" / "schema.json",
    2: Path(__file__).parent / "schema" / "schema2.json",
}
SERVICES = ("read_files", "write_files", "terminals", "elicitation")
DRAFTS = {
    "session/fork",
    "session/set_model",
    "session/set_title",
    "providers/list",
    "providers/set",
    "providers/disable",
}
"""Methods that the stable schema does not know, and that the driver sends where advertised."""


@cache
def schema(version: int) -> dict[str, Any]:
    """The definitions of a version of the protocol."""
    defs: dict[str, Any] = json.loads(SCHEMAS[version].read_text())["$defs"]
    return defs


@cache
def definitions(version: int = 1) -> dict[tuple[str, str, str], str]:
    """(side, method, "Request" | "Response" | "Notification") to the name of its definition."""
    found = {}
    for name, definition in schema(version).items():
        for suffix in ("Request", "Response", "Notification"):
            if "x-method" in definition and name.endswith(suffix):
                found[definition["x-side"], definition["x-method"], suffix] = name
    return found


@cache
def validator(definition: str, version: int = 1) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": schema(version)})


def conforms(value: Any, side: str, method: str, kind: str, version: int = 1) -> None:
    """Fail unless `value` is what the schema says of this method."""
    side = "protocol" if method.startswith("$/") else side
    validator(definitions(version)[side, method, kind], version).validate(value)


class Peer:
    """The driver, and what went back and forth."""

    def __init__(self, **options: Any) -> None:
        options.setdefault(
            "capabilities",
            client_capabilities(
                read_files=True, write_files=True, terminals=True, elicitation=True
            ),
        )
        options.setdefault("client", Implementation("agentrt", "1"))
        self._keys = 0
        self.driver = AcpDriver(self._new_key, **options)
        self.effects: list[Effect] = []
        """Everything but the writes, since the last look."""
        self.sent: list[dict[str, Any]] = []
        """The lines written, since the last look."""
        self._asked: dict[Any, str] = {}
        self.version = 1
        """The version of the protocol whose schema holds for the lines sent."""

    def _new_key(self) -> str:
        self._keys += 1
        return f"key{self._keys}"

    # --- the host's side

    def do(self, effects: list[Effect]) -> list[Effect]:
        """Take effects: lines are checked and kept apart. Returns the rest."""
        rest = []
        for effect in effects:
            if isinstance(effect, Write):
                for line in effect.data.splitlines():
                    self.sent.append(json.loads(line))
                    self._check(self.sent[-1])
            else:
                rest.append(effect)
        self.effects += rest
        return rest

    def start(self, opening: Opening | None = None) -> list[Effect]:
        return self.do(self.driver.start(opening or Opening(cwd="/project")))

    def prompt(self, turn: str = "t1", content: Sequence[Block] = (Text("hello"),)) -> Any:
        """Send a prompt; the id of its request."""
        self.do(self.driver.prompt(turn, content))
        return self.last("session/prompt")["id"]

    # --- the agent's side

    def say(self, *messages: Any) -> list[Effect]:
        """The agent writes these messages in one go."""
        lines = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
        return self.raw(lines)

    def raw(self, data: bytes) -> list[Effect]:
        for line in data.splitlines():
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(message, dict) and "id" in message and "method" in message:
                self._asked[repr(message["id"])] = message["method"]
        return self.do(self.driver.receive(data))

    def update(self, variant: str, session: str = "s1", /, **fields: Any) -> list[Effect]:
        return self.say(update(variant, session, **fields))

    def answer(self, id: Any, result: Any) -> list[Effect]:
        return self.say({"jsonrpc": "2.0", "id": id, "result": result})

    def fail(self, id: Any, code: int, message: str, data: Any = None) -> list[Effect]:
        error = {"code": code, "message": message, "data": data}
        return self.say({"jsonrpc": "2.0", "id": id, "error": error})

    def ask(self, method: str, params: Any, id: Any = 0) -> list[Effect]:
        return self.say({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    # --- looking

    def last(self, method: str) -> dict[str, Any]:
        """The last line sent that has this method."""
        return next(line for line in reversed(self.sent) if line.get("method") == method)

    def methods(self) -> list[str]:
        """The methods of the lines sent since the last look; `result` and `error` for answers."""
        methods = [
            line.get("method") or ("error" if "error" in line else "result") for line in self.sent
        ]
        self.sent.clear()
        return methods

    def of(self, kind: type[E]) -> list[E]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def only(self, kind: type[E]) -> E:
        found = self.of(kind)
        assert len(found) == 1, self.effects
        return found[0]

    def notices(self) -> list[str]:
        return [notice.code for notice in self.of(Notice)]

    def _check(self, line: dict[str, Any]) -> None:
        assert line["jsonrpc"] == "2.0"
        method = line.get("method")
        if method in DRAFTS or (method or "").startswith("_"):
            return
        if method is not None:
            kind = "Request" if "id" in line else "Notification"
            conforms(line["params"], "agent", method, kind, self.version)
        elif "result" in line:
            asked = self._asked[repr(line["id"])]
            if asked != "session/update":
                conforms(line["result"], "client", asked, "Response", self.version)
        else:
            validator("Error", self.version).validate(line["error"])
            assert repr(line["id"]) in self._asked


def update(variant: str, session: str = "s1", /, **fields: Any) -> dict[str, Any]:
    """A `session/update`."""
    params = {"sessionId": session, "update": {"sessionUpdate": variant, **fields}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def chunk(text: str, session: str = "s1", **fields: Any) -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return update("agent_message_chunk", session, content=content, **fields)


EVERYTHING = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {
        "list": {},
        "delete": {},
        "resume": {},
        "close": {},
        "fork": {},
        "additionalDirectories": {},
    },
    "auth": {"logout": {}},
}
"""The capabilities of an agent that can do everything."""

EVERYTHING_2 = {
    "session": {
        "prompt": {"image": {}, "audio": {}, "embeddedContext": {}},
        "mcp": {"stdio": {}, "http": {}},
        "delete": {},
        "fork": {},
        "additionalDirectories": {},
    },
}
"""The same in version 2."""


def opened(
    opening: Opening | None = None,
    *,
    capabilities: dict[str, Any] | None = None,
    session: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    **options: Any,
) -> Peer:
    """A peer with an open session `s1`, of which nothing has been looked at yet."""
    peer = Peer(**options)
    peer.start(opening)
    greeting = {"protocolVersion": 1, "agentCapabilities": capabilities or {}}
    peer.answer(1, {**greeting, **({"_meta": meta} if meta is not None else {})})
    peer.answer(2, {"sessionId": "s1", **(session or {})})
    peer.effects.clear()
    peer.sent.clear()
    return peer


def opened2(
    opening: Opening | None = None,
    *,
    capabilities: dict[str, Any] | None = None,
    session: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    **options: Any,
) -> Peer:
    """A peer that speaks version 2, with an open session `s1`."""
    peer = Peer(version=2, **options)
    peer.start(opening)
    info = {"name": "agent", "version": "1"}
    greeting = {"protocolVersion": 2, "info": info, "capabilities": capabilities or EVERYTHING_2}
    peer.version = 2
    peer.answer(1, {**greeting, **({"_meta": meta} if meta is not None else {})})
    peer.answer(2, {"sessionId": "s1", **(session or {})})
    peer.effects.clear()
    peer.sent.clear()
    return peer


def state(name: str, session: str = "s1", /, **fields: Any) -> dict[str, Any]:
    """A `state_update`."""
    return update("state_update", session, state=name, **fields)
