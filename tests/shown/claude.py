"""Messages of recorded Claude Code processes, and the events that they lead to.

Claude's protocol has no schema, so the recordings take its place. A recorded conversation is
replayed with another value in one leaf of one message. The leaf shows if the value occurs in the
events, or if other events follow.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from agentrt.claude import ClaudeOptions
from agentrt.effects import TurnBegan, TurnFinished
from agentrt.errors import LocalProtocolError
from agentrt.events import Text
from agentrt.lowlevel import ClaudeDriver, DecisionAnswer, Effect, Opening
from claude.rig import Json, Rig
from claude.test_handshake import OLDEST as OLDEST
from model.talk import Talk

from .ignored import BY_CLAUDE
from .leaves import Leaf, LeafPath, marker
from .probe import DIFFERS, Events, Shown, declared, places

FOLDER: Final = Path(__file__).parent / "recorded" / "claude"
"""Rich conversations of each supported version; made by `tests/agents/record_claude.py`."""
TRANSCRIPTS: Final = Path(__file__).parents[1] / "claude" / "transcripts"
"""Conversations about single subjects."""
DECLARED: Final = {
    **{rf"{re.escape(name)}\..*": why for name, why in BY_CLAUDE.items()},
    **declared("claude"),
}
REPEATED: Final = {
    path: each["by"]
    for each in tomllib.loads((Path(__file__).parent / "claude.toml").read_text())["declared"]
    for path in each["paths"]
    if "by" in each
}
"""By the regular expression of declared leaves, a leaf of another message that shows the same."""

Pointer: TypeAlias = tuple[str | int, ...]
OPEN: Final = re.compile(
    r".*<(tool_use|server_tool_use)>\.input|.*\.(tool_use_result|tool_input|structured_output)"
    r"|control_request/(can_use_tool|hook_callback)\.request\.(input|tool_input)"
    r"|control_request/mcp_message\.request\.message\.params"
    r"|.*\.permission_suggestions|.*\.input_schema"
)
"""Fields whose shape is not Claude's: each tool has its own."""
NAMED: Final = re.compile(r".*\.(modelUsage|model_usage_since_last_result)")
"""Objects whose members are named after models."""
WORD: Final = re.compile(r"[a-z]+([A-Z_-][a-z]*)*")
MOST_VALUES: Final = 12
"""Number of different words in a field up to which they count as the values of an enum."""
FREE: Final = (".text", ".*", ".name", ".description", ".task_description", ".tool_name", "[]")
"""Ends of the paths of fields that are no enums, though all their recorded values are words."""
PLACES: Final = {
    "Started": "state",
    "StartFailed": "state",
    "CallReturned": "result of the call",
    "ServiceRequested": "call of a tool or handler",
    "RequestWithdrawn": "call of a tool or handler",
    "ToolCheckRequested": "permission rules",
    "Write": "answer to the agent",
    "Signal": "signal to the agent",
}
"""Names of effects that are not events."""


class Row(NamedTuple):
    """A recorded line."""

    sent: bool
    message: Json


Recording: TypeAlias = list[Row]


class Seen(NamedTuple):
    """A leaf of a recorded line, with its place."""

    leaf: Leaf
    recording: int
    row: int
    pointer: Pointer


def recordings() -> list[Recording]:
    """Return the recorded conversations, one for each process."""
    found: list[Recording] = []
    for file in [*sorted(FOLDER.glob("*.ndjson")), *sorted(TRANSCRIPTS.glob("*.ndjson"))]:
        found.append([])
        for line in file.read_text().splitlines():
            row = json.loads(line)
            message = row["msg"]
            starts = message.get("request", {}) if isinstance(message, dict) else {}
            if starts.get("subtype") == "initialize" and row["dir"] == ">" and found[-1]:
                found.append([])
            if row["dir"] in "<>":
                found[-1].append(Row(row["dir"] == ">", message))
    return found


class _Replay:
    """One driver that lives through a recording."""

    def __init__(self, recording: Recording) -> None:
        uuids = [row.message["uuid"] for row in recording if row.sent and "uuid" in row.message]
        self.rig = Rig(
            uuids=uuids,
            driver=ClaudeDriver(
                ClaudeOptions(session_id="s0"),
                new_key=iter(f"k{n}" for n in range(10_000)).__next__,
                new_uuid=iter([*uuids, *(f"u{n}" for n in range(1000))]).__next__,
            ),
            opening=Opening(cwd="/sandbox/work"),
        )
        self.talk = Talk()
        self.events: Events = []
        self.take: Callable[[list[Effect]], None] = self._take
        self.keys: dict[str, str] = {}
        self.calls: dict[str, str] = {}

    def run(self, recording: Recording) -> Events:
        starts = (row.message.get("request", {}).get("subtype") for row in recording if row.sent)
        if "initialize" not in starts:
            self._take(self.rig.driver.start(self.rig.opening))
            answer = {"subtype": "success", "request_id": "agentrt-1", "response": {}}
            self._receive({"type": "control_response", "response": answer})
        for row in recording:
            if row.sent:
                self._send(row.message)
            else:
                self._receive(row.message)
        self._take(self.rig.driver.receive_eof())
        return self.events

    def _receive(self, message: Json) -> None:
        if message.get("type") == "control_response":
            message = copy.deepcopy(message)
            body = message["response"]
            body["request_id"] = self.calls.get(body.get("request_id"), body.get("request_id"))
        self._take(self.rig.driver.receive(json.dumps(message).encode() + b"\n"), message)

    def _send(self, message: Json) -> None:
        driver = self.rig.driver
        match message:
            case {"type": "user", "message": {"content": content}}:
                self._take(driver.end_by_silence())
                try:
                    self._take(driver.prompt(f"t{len(self.events)}", [Text(str(content))]))
                    if self.talk.conversation.turn is None:
                        self.talk.begin([Text(str(content))])
                except LocalProtocolError:
                    with suppress(LocalProtocolError):  # the changed message was the start's
                        self._take(driver.steer("t", [Text(str(content))]))
            case {"type": "control_request", "request": {"subtype": "initialize"}}:
                self._request(driver.start(self.rig.opening), message)
            case {"type": "control_request", "request": {"subtype": "interrupt"}}:
                self._request(driver.cancel(), message)
            case {"type": "control_request", "request": {"subtype": name, **params}}:
                self._request(driver.call("call", name, params), message)
            case {"type": "control_response", "response": {"request_id": str(id), **body}}:
                key = self.keys.get(id)
                if key is not None:
                    self._answer(key, body)

    def _request(self, effects: list[Effect], message: Json) -> None:
        for effect in effects:
            if hasattr(effect, "data"):
                for line in effect.data.splitlines():
                    self.calls[message["request_id"]] = json.loads(line).get("request_id", "")
        self._take(effects)

    def _answer(self, key: str, body: Json) -> None:
        value = body.get("response") or {}
        if "behavior" in value:
            content = value.get("updatedInput", {}).get("answers")
            allowed = "accept" if content else "allow_once"
            answer = DecisionAnswer(
                option=allowed if value["behavior"] == "allow" else "reject_once",
                content=content,
                message=value.get("message", ""),
                interrupt=value.get("interrupt", False),
            )
            self._take(self.rig.driver.answer(key, answer))
        else:
            self._take(self.rig.driver.reply(key, value.get("mcp_response", value)))

    def _take(self, effects: list[Effect], message: Json | None = None) -> None:
        talk, conversation = self.talk, self.talk.conversation
        for effect in effects:
            key = getattr(effect, "key", None)
            if key is not None and message is not None and "request_id" in message:
                self.keys[message["request_id"]] = key
            name = type(effect).__name__
            if isinstance(effect, TurnFinished):
                if conversation.turn is not None:
                    conversation.end(
                        effect.outcome,
                        stop_reason=effect.stop_reason,
                        usage=effect.usage,
                        error=effect.error,
                    )
            elif isinstance(effect, TurnBegan):
                if conversation.turn is None:
                    conversation.begin_own(explicit=effect.explicit)
            elif name in PLACES:
                value = msgspec.to_builtins(effect, enc_hook=str)
                self.events.append({"kind": PLACES[name], **value})
            else:
                talk.tell(effect)
        talk.step()
        self.events += msgspec.to_builtins(talk.events())


def versions() -> set[str]:
    """Return the versions that were recorded."""
    texts = (file.read_text() for file in FOLDER.glob("*.ndjson"))
    return {
        version
        for text in texts
        for version in re.findall(r'"claude_code_version":"([\d.]+)"', text)
    }


def play(recording: Recording) -> Events:
    """Return the events of a recorded conversation."""
    return _Replay(recording).run(recording)


def name_of(message: Json, asked: dict[str, str]) -> str:
    """Return the name of a kind of message."""
    match message:
        case {"type": "stream_event", "event": {"type": str(kind)}}:
            return f"stream_event/{kind}"
        case {"type": "control_request", "request": {"subtype": str(kind)}}:
            return f"control_request/{kind}"
        case {"type": "control_response", "response": {"request_id": id}}:
            return f"control_response/{asked.get(str(id), 'unknown')}"
        case {"type": "system", "subtype": str(kind)}:
            return f"system/{kind}"
        case _:
            return str(message.get("type"))


def walk(value: Any, path: LeafPath, at: Pointer) -> Iterator[tuple[LeafPath, Pointer, Any]]:
    """Yield the leaves of a message."""
    if isinstance(value, dict):
        tag = value.get("type") if at else None
        here = f"{path}<{tag}>" if isinstance(tag, str) else path
        for name, each in value.items():
            if name == "type" and isinstance(each, str):
                continue
            member = "*" if NAMED.fullmatch(path) else name
            inner = f"{here}.{member}"
            if OPEN.fullmatch(inner):
                yield from _first(each, f"{inner}.*", (*at, name))
            else:
                yield from walk(each, inner, (*at, name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from walk(each, f"{path}[]", (*at, number))
    elif value is not None:
        yield path, at, value


def _first(value: Any, path: LeafPath, at: Pointer) -> Iterator[tuple[LeafPath, Pointer, Any]]:
    """Yield the first leaf of a value with an open shape."""
    for _, inner, each in walk(value, "", at):
        yield path, inner, each
        return


def seen(found: list[Recording]) -> Iterator[Seen]:
    """Yield each leaf of each recorded line of the agent."""
    for number, recording in enumerate(found):
        asked = {
            row.message["request_id"]: row.message["request"]["subtype"]
            for row in recording
            if row.sent and row.message.get("type") == "control_request"
        }
        for place, row in enumerate(recording):
            if row.sent:
                continue
            name = name_of(row.message, asked)
            for path, pointer, value in walk(row.message, name, ()):
                kind = {bool: "bool", str: "text"}.get(type(value), "number")
                yield Seen(Leaf(path, value, kind), number, place, pointer)


def keys(found: list[Recording]) -> dict[LeafPath, list[Seen]]:
    """Return the leaves by the rows of the table: enum values and booleans have their own."""
    by_path: dict[LeafPath, list[Seen]] = defaultdict(list)
    for each in seen(found):
        by_path[each.leaf.path].append(each)
    rows: dict[LeafPath, list[Seen]] = defaultdict(list)
    for path, several in by_path.items():
        values = {str(each.leaf.value) for each in several}
        enum = (
            len(values) <= MOST_VALUES
            and all(WORD.fullmatch(value.lower()) for value in values)
            and not path.endswith(FREE)
        )
        for each in several:
            rows[f"{path} = {each.leaf.value}" if enum else path].append(each)
    return rows


TRIES: Final = 10
"""Number of lines in which a leaf is tried before it counts as not shown."""


@cache
def shown() -> Shown:
    """Return where each leaf of the recorded messages shows."""
    return shown_in(recordings(), play)


def shown_in(found: list[Recording], play: Callable[[Recording], Events]) -> Shown:
    """Return where each leaf of some recordings shows. `play` returns a recording's events."""
    before = [play(recording) for recording in found]
    whole = [json.dumps(events) for events in before]
    table: Shown = {}
    for key, several in keys(found).items():
        table[key] = ""
        several.sort(key=lambda each: len(found[each.recording]))  # short ones are fast
        step = max(1, len(several) // TRIES)
        for each in several[::step][:TRIES]:
            other = _other(each.leaf)
            changed = list(found[each.recording])
            message = copy.deepcopy(changed[each.row].message)
            _put(message, each.pointer, other)
            changed[each.row] = Row(False, message)
            events = play(changed)
            where = _where(events, other)
            if where and (" = " not in key):
                table[key] = where
                break
            if json.dumps(events) != whole[each.recording]:
                table[key] = where or DIFFERS
                break
    return table


def _where(events: Events, value: Any) -> str:
    if isinstance(value, bool):
        return ""
    for event in events:
        for place in places(event, value, str(event.get("kind"))):
            return place
    return ""


def _other(leaf: Leaf) -> Any:
    match leaf.value:
        case bool():
            return not leaf.value
        case str():
            return marker(leaf.path)
        case _:
            return 1_000_003 + len(leaf.path)


def _put(message: Any, pointer: Pointer, value: Any) -> None:
    *way, last = pointer
    for step in way:
        message = message[step]
    message[last] = value
