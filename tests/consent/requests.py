"""Permission requests as agents send them: recorded ones, and generated ones with strings of every
kind in every place of the three protocols. Each has gone through its driver."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from acp_kit import opened
from msgspec import Struct

from agentrt.effects import DecisionRequested
from agentrt.events import Item, PermissionOpened, Text
from agentrt.lowlevel import Effect
from claude.rig import Rig
from codex.codex_kit import prompted
from model.talk import Talk

TESTS = Path(__file__).parents[1]
Json = dict[str, Any]


class Request(Struct):
    """One request, as interfaces get it, and all strings of it that a person has to see."""

    name: str
    opened: PermissionOpened
    item: Item | None
    strings: list[str]

    @property
    def lines(self) -> list[str]:
        """The lines of these strings. (In a change, a mark stands before each.)"""
        return [line for text in self.strings for line in text.split("\n") if line.strip()]


# --- through the drivers


def _logged(name: str, raw: Json, effects: list[Effect], strings: list[str]) -> Iterator[Request]:
    """What the log has of a request, once the driver's effects have been told."""
    talk = Talk()
    talk.begin([Text("hello")])
    talk.tell(
        *(
            e
            for e in effects
            if isinstance(e, DecisionRequested) or type(e) in talk.conversation.EFFECTS
        )
    )
    talk.step()
    for request in talk.state.permissions.values():
        item = talk.state.items.get(request.item or "")
        yield Request(name, request, item, strings)


def acp(name: str, updates: list[Json], raw: Json) -> Iterator[Request]:
    peer = opened()
    peer.prompt()
    peer.effects.clear()
    for each in updates:
        peer.say(
            {
                "jsonrpc": "2.0",
                "method": "session/update",
                "params": {"sessionId": "s1", "update": each},
            }
        )
    peer.ask("session/request_permission", {**raw, "sessionId": "s1"}, id=7)
    call = raw["toolCall"]
    known = [each for each in updates if each.get("toolCallId") == call["toolCallId"]]
    said = {**{k: v for each in known for k, v in each.items()}, **call}
    strings = [*acp_strings(said), *(each["name"] for each in _dicts(raw["options"]))]
    yield from _logged(name, raw, peer.effects, strings)


SUGGESTIONS = "permission_suggestions"


def claude(name: str, raw: Json) -> Iterator[Request]:
    rig = Rig()
    rig.start()
    rig.prompt()
    rig.effects.clear()
    call = {"type": "tool_use", "id": raw["tool_use_id"], "name": raw["tool_name"]}
    call["input"] = raw["input"]
    message = {"id": "m", "type": "message", "role": "assistant", "content": [call]}
    if "agent_id" not in raw:
        rig.feed({"type": "assistant", "message": message, "parent_tool_use_id": None})
    rig.feed({"type": "control_request", "request_id": "q", "request": raw})
    hidden = ("subtype", "tool_use_id", "suppress_always_allow_rule", "display_name")
    rest = {key: value for key, value in raw.items() if key not in hidden}
    strings = leaves({key: value for key, value in rest.items() if key != SUGGESTIONS})
    if not all(isinstance(each, dict) for each in rest.get(SUGGESTIONS, [])):
        strings += leaves(rest[SUGGESTIONS])
    for each in _dicts(rest.get(SUGGESTIONS, [])):  # options describe them in words of agentrt
        strings += each.get("directories", [])
        for rule in each.get("rules", []):
            content = rule["ruleContent"]
            strings += [rule["toolName"], content[content.startswith("//") :]]
    yield from _logged(name, raw, rig.effects, strings)


def codex(name: str, method: str, raw: Json, items: list[Json]) -> Iterator[Request]:
    peer = prompted()
    effects = [effect for each in items for effect in peer.item("started", each)]
    effects += peer.asks(7, method, **raw)
    hidden = ("turnId", "itemId", "kind", "availableDecisions", "serverName")
    rest = {key: value for key, value in raw.items() if key not in hidden}
    amended = [
        word
        for each in raw.get("availableDecisions", [])
        if isinstance(each, dict)
        for word in leaves(each)
    ]
    changes = [text for each in items for text in leaves(each.get("changes", []))]
    kinds = {"add", "update", "delete"}  # of changes: a diff shows them
    strings = [text for text in [*leaves(rest), *amended, *changes] if text not in kinds]
    yield from _logged(name, raw, effects, strings)


# --- the strings in a request


def leaves(value: Any) -> list[str]:
    """Every string in a value."""
    match value:
        case str():
            return [value]
        case dict():
            return [text for each in value.values() for text in leaves(each)]
        case list():
            return [text for each in value for text in leaves(each)]
        case _:
            return []


def keys(value: Any) -> list[str]:
    match value:
        case dict():
            return [*value, *(key for each in value.values() for key in keys(each))]
        case list():
            return [key for each in value for key in keys(each)]
        case _:
            return []


def acp_strings(call: Json) -> list[str]:
    """Those of a tool call: all but ids, its kind and status, and the bytes of media."""
    given = call.get("rawInput")
    found = [call.get("title") or "", *leaves(given)]
    found += [key for key in keys(given) if key != "command"]  # its value has a look of its own
    found += leaves(call.get("locations")) + leaves(call.get("rawOutput"))
    for part in _dicts(call.get("content") or []):
        match part:
            case {"type": "diff", "path": path, "newText": new}:
                found += [path, *changed(part.get("oldText") or "", new)]
            case {"type": "content", "content": dict(block)}:
                rest = dict(block)
                kind = rest.pop("type")
                if kind in ("image", "audio"):
                    del rest["data"]
                if kind == "resource":
                    resource = {k: v for k, v in rest.pop("resource").items() if k != "blob"}
                    found += leaves(resource)
                found += leaves(rest)
            case _:
                found += leaves({k: v for k, v in part.items() if k != "type"})
    return [text for text in found if text]


def changed(old: str, new: str) -> list[str]:
    """The lines that a change removes or adds."""
    before, after = old.split("\n"), new.split("\n")
    return [*(x for x in before if x not in after), *(x for x in after if x not in before)]


def _dicts(values: list[Any]) -> list[Json]:
    return [each for each in values if isinstance(each, dict)]


# --- recorded


def recorded() -> list[Request]:
    """Every permission request in the recordings that the tests keep."""
    return [
        request
        for file in sorted(TESTS.glob("*/transcripts/*.ndjson"))
        for request in _recorded(file)
    ]


def _recorded(file: Path) -> Iterator[Request]:
    updates: list[Json] = []
    for line in file.read_text().splitlines():
        message = json.loads(line).get("msg")
        if not isinstance(message, dict):
            continue
        params = message.get("params")
        if message.get("method") == "session/update" and isinstance(params, dict):
            update = params.get("update")
            if isinstance(update, dict) and "toolCallId" in update:
                updates.append(update)
        elif message.get("method") == "session/request_permission" and isinstance(params, dict):
            yield from acp(file.stem, updates, params)
        elif message.get("type") == "control_request":
            request = message["request"]
            if request.get("subtype") == "can_use_tool":
                if request["tool_name"] != "AskUserQuestion":
                    yield from claude(file.stem, request)


# --- generated

WORDS = (
    *("ls", "rm -rf ~/work", "a=$(cat x)|sh", "src/app.py", "https://example.org/a?b=c", "日本語"),
    *("зарегистрировать", "שלום עולם", "rm שלום / מחק", "naïve", "e\u0301te\u0301", "हिन्दी", "🙂⚠️"),
)
TRICKS = (
    *("\u202e", "\u2066", "\u200b", "\u200d", "\u00ad", "\ufeff", "\u2800", "\u3164", "\ufe0f"),
    *("\x1b[2J", "\x07", "\r", "\x9b", "\x7f", "\u2028", "\u00a0", "\u3000", "\U000e0041"),
    *(
        "z\u0300\u0301\u0302\u0303\u0304",
        "r\u0336m",
        "с\u0075rl",
        "pаypal",
        "𝗋𝗆",
        "ｒｍ",
        "a\u2215b",
    ),
    *("\t", "  ", "<b>x</b>", "&amp;", "\\u202e", "'\"`$"),
)


class Generator:
    """Makes requests; a seed decides all of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def text(self, lines: bool = True) -> str:
        """A string that occurs nowhere else."""
        choose = self.random
        self.count += 1
        parts = [f"w{self.count}x"]
        for _ in range(choose.randrange(4)):
            parts.append(choose.choice(WORDS))
            if choose.random() < 0.5:
                parts.append(choose.choice(TRICKS))
        choose.shuffle(parts)
        text = choose.choice(("", " ")).join(parts)
        if choose.random() < 0.04:
            text += " x" * choose.randrange(200, 2000)
        if lines and choose.random() < 0.25:
            text = "\n".join([text, *(self.text(False) for _ in range(choose.randrange(1, 6)))])
        if lines and choose.random() < 0.03:
            text += "\n" + "\n".join(f"line {n}" for n in range(choose.randrange(50, 400)))
        return text

    def name(self) -> str:
        """The name of an argument."""
        self.count += 1
        return self.random.choice((f"arg{self.count}", f"run_after{self.count}", self.text(False)))

    def value(self, depth: int = 0) -> Any:
        kind = self.random.randrange(8 if depth < 4 else 5)
        if kind < 3:
            return self.text()
        if kind == 3:
            return self.random.choice((0, 17, -2, True, False, None, 0.5))
        if kind == 4:
            return self.random.choice(([], {}, [1, 2, 3], ""))
        if kind == 5:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        return {self.name(): self.value(depth + 1) for _ in range(self.random.randrange(1, 4))}

    def arguments(self) -> Any:
        choose = self.random
        if choose.random() < 0.1:
            return self.value()
        given: Json = {self.name(): self.value() for _ in range(choose.randrange(4))}
        if choose.random() < 0.6:
            given["command"] = choose.choice((self.text(), ["bash", "-lc", self.text()]))
        if choose.random() < 0.2:
            given["path"] = self.text(False)
        return given

    def maybe(self, make: Any, often: float = 0.5) -> Json:
        return make() if self.random.random() < often else {}

    def block(self) -> Json:
        choose = self.random
        extra = self.maybe(lambda: {"annotations": {"note": self.text()}}, 0.2)
        extra |= self.maybe(lambda: {"_meta": {self.name(): self.value()}}, 0.2)
        match choose.randrange(6):
            case 0 | 1:
                return {"type": "text", "text": self.text(), **extra}
            case 2:
                picture = "R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
                return {"type": "image", "data": picture, "mimeType": "image/gif", **extra} | (
                    self.maybe(lambda: {"uri": self.text(False)})
                )
            case 3:
                return {
                    "type": "resource_link",
                    "uri": self.text(False),
                    "name": self.text(False),
                    "title": self.text(False),
                    "description": self.text(),
                    **extra,
                }
            case 4:
                resource = {"uri": self.text(False), "text": self.text(), "mimeType": "text/plain"}
                return {"type": "resource", "resource": resource, **extra}
            case _:
                resource = {
                    "uri": self.text(False),
                    "blob": "AAECAw==",
                    "mimeType": self.text(False),
                }
                return {"type": "resource", "resource": resource, **extra}

    def content(self) -> Json:
        match self.random.randrange(4):
            case 0:
                old = self.text() if self.random.random() < 0.7 else None
                keep = "".join(f"same {n}\n" for n in range(self.random.randrange(60)))
                new = keep + self.text()
                return {"type": "diff", "path": self.text(False), "newText": new} | (
                    {} if old is None else {"oldText": keep + old}
                )
            case 1:
                return {"type": "terminal", "terminalId": self.text(False)}
            case _:
                return {"type": "content", "content": self.block()}

    def contents(self) -> list[Json]:
        return [self.content() for _ in range(self.random.randrange(4))]

    def acp(self, name: str) -> Iterator[Request]:
        choose = self.random
        call: Json = {"toolCallId": "c1", "title": self.text()}
        call |= self.maybe(lambda: {"kind": choose.choice(("execute", "edit", "fetch", "other"))})
        call |= self.maybe(lambda: {"rawInput": self.arguments()}, 0.6)
        call |= self.maybe(lambda: {"content": self.contents()}, 0.6)
        places = lambda: [{"path": self.text(False), "line": choose.choice((None, 3))}]  # noqa: E731
        call |= self.maybe(lambda: {"locations": places()}, 0.4)
        first = {**call, "sessionUpdate": "tool_call", "status": "pending"}
        first |= self.maybe(lambda: {"content": self.contents()}, 0.2)
        kinds = ("allow_once", "allow_always", "reject_once", "reject_always")
        options = [
            {
                "optionId": f"o{n}",
                "name": choose.choice((self.text(False), "Reject", "Yes")),
                "kind": kind,
            }
            for n, kind in enumerate(kinds)
            if n in (0, 2) or choose.random() < 0.5
        ]
        yield from acp(
            name, [first] if choose.random() < 0.6 else [], {"toolCall": call, "options": options}
        )

    def claude(self, name: str) -> Iterator[Request]:
        choose = self.random
        tools: list[tuple[str, Any]] = [
            ("Bash", {"command": self.text(), "description": self.text(False)}),
            ("Write", {"file_path": self.text(False), "content": self.text()}),
            ("Edit", {"file_path": self.text(False), "old_string": "a", "new_string": self.text()}),
            (f"mcp__a__{choose.randrange(9)}", self.arguments()),
            ("ExitPlanMode", {"plan": self.text()}),
        ]
        tool, given = choose.choice(tools)
        if isinstance(given, dict) and choose.random() < 0.3:
            given["run_after"] = self.text()
        rules = [{"toolName": "Bash", "ruleContent": self.text(False)}]
        suggestions = [
            {"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"},
            {"type": "addDirectories", "directories": [self.text(False)], "destination": "session"},
        ]
        raw: Json = {
            "subtype": "can_use_tool",
            "tool_name": tool,
            "input": given,
            "tool_use_id": "toolu_1",
        }
        for field in ("title", "description", "decision_reason", "blocked_path", "new_field"):
            raw |= self.maybe(lambda field=field: {field: self.text()}, 0.3)
        raw |= self.maybe(lambda: {"permission_suggestions": suggestions}, 0.5)
        raw |= self.maybe(lambda: {"agent_id": self.text(False)}, 0.15)
        yield from claude(name, raw)

    def codex(self, name: str) -> Iterator[Request]:
        raw: Json = {"turnId": "u-1", "itemId": "c-1"}
        raw |= self.maybe(lambda: {"reason": self.text()})
        match self.random.randrange(3):
            case 0:
                raw["command"], raw["cwd"] = self.text(), self.text(False)
                amendment = [self.text(False), self.text(False)]
                raw["proposedExecpolicyAmendment"] = amendment
                wanted = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": amendment}}
                raw["availableDecisions"] = ["accept", wanted, "cancel"]
                raw |= self.maybe(
                    lambda: {"additionalPermissions": {"network": {"hosts": [self.text(False)]}}}
                )
                yield from codex(name, "item/commandExecution/requestApproval", raw, [])
            case 1:
                change = {"path": self.text(False), "kind": {"type": "add"}, "diff": self.text()}
                item = {
                    "type": "fileChange",
                    "id": "c-1",
                    "status": "inProgress",
                    "changes": [change],
                }
                raw |= self.maybe(lambda: {"grantRoot": self.text(False)})
                yield from codex(name, "item/fileChange/requestApproval", raw, [item])
            case _:
                files = {"read": [self.text(False)], "write": [self.text(False)]}
                raw |= {"cwd": self.text(False), "permissions": {"fileSystem": files}}
                yield from codex(name, "item/permissions/requestApproval", raw, [])

    def requests(self, number: int) -> list[Request]:
        found: list[Request] = []
        while len(found) < number:
            make = self.random.choice((self.acp, self.acp, self.acp, self.claude, self.codex))
            found += make(f"{make.__name__} {len(found)}")
        return found
