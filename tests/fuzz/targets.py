"""What is fuzzed: functions of some bytes that raise if agentrt does something it must not.

Each takes its bytes as decisions (`grammar.Choices`). What it checks beside that nothing undeclared
is raised: that where the bytes are cut makes no difference.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from itertools import count
from typing import Any
from unittest.mock import patch

import msgspec
import trio
from trio.testing import MockClock

import agentrt
from agentrt._core.acp import messages as acp_messages
from agentrt._core.claude import messages as claude_messages
from agentrt._core.wire import json as wire_json
from agentrt._core.wire import lines as long_lines
from agentrt._core.wire import lines as wire_lines
from agentrt.effects import DecisionRequested, ServiceRequested, Started, TextReceived, Write
from agentrt.errors import LocalProtocolError, RemoteProtocolError
from agentrt.events import Notice, Text
from agentrt.hosting import ToolOutcome
from agentrt.jsonrpc import JsonRpcResponse, Lines, LongLine, OutstandingCalls, lenient, parse
from agentrt.lowlevel import (
    AcpDriver,
    ClaudeDriver,
    DecisionAnswer,
    Effect,
    Implementation,
    Opening,
    client_capabilities,
)
from agentrt.tools import ToolInfo
from inside.drivers import LegacyDriver
from inside.server import commands
from inside.wire import CallTool, McpToolServer

from .grammar import Choices, broken, line, messages, pieces, stream, written

KEYS = 100
"""No key of a real message is as long as this; a key is not decoded in pieces."""

Target = Callable[[bytes], None]

# --- bytes and lines


def lines(data: bytes) -> None:
    """Framing: however the bytes are cut, the same lines come out, and too long ones are told."""
    choices = Choices(data)
    limit = choices.of([1, 3, 16, 64, 10**6])
    text = choices.rest(256).replace(b"\xff", b"\n")
    told = text.split(b"\n")
    told = told if told[-1] else told[:-1]
    framer = Lines(limit)
    out = b"".join(bytes(framer.feed(piece)) for piece in pieces(text, choices))
    found = out.split(b"\n")[:-1]
    last = bytes(framer.end())
    found += [last] if last else []
    assert found == [each for each in told if len(each) <= limit]
    assert framer.oversized == [len(each) for each in told if len(each) > limit]


def long_line(data: bytes) -> None:
    """A line that is decoded while it comes says what it says when it is decoded at once."""
    choices = Choices(data)
    text = line(choices.of(["acp", "claude"]), choices).replace(b"\n", b" ")
    with patch.object(long_lines, "PIECE_BYTES", KEYS):
        long = LongLine()
        for piece in pieces(text, choices):
            long.feed(piece)
        came = _value(long.value)
    assert came == _value(lambda: wire_json.decode(text))


def _value(read: Callable[[], Any]) -> Any:
    try:
        return ("value", read())
    except RemoteProtocolError:
        return ("refused",)


# --- messages


_STRUCTS: list[type[msgspec.Struct]] = [
    each
    for module in (acp_messages,)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, msgspec.Struct) and each is not msgspec.Struct
]


def decoding(data: bytes) -> None:
    """One line through everything that decodes lines: only the declared error is raised."""
    choices = Choices(data)
    text = line(choices.of(["acp", "claude"]), choices)
    try:
        value = wire_json.decode(text)
    except RemoteProtocolError:
        return
    wire_json.encode_line(value)
    for kind in (acp_messages.UpdateFrame, claude_messages.Assistant, Any):
        try:
            wire_json.decode(text, msgspec.json.Decoder(kind))
        except RemoteProtocolError:
            pass
    claude_messages.ClaudeReader().read(text)
    try:
        message = parse(value)
    except RemoteProtocolError:
        return
    calls: OutstandingCalls[str] = OutstandingCalls()
    own = [calls.open("x") for _ in range(3)]
    if isinstance(message, JsonRpcResponse):
        purpose, defect = calls.take(message.id)
        assert (purpose is None) == (defect in ("foreign", "duplicate"))
        assert len(calls) == len(own) - (purpose is not None)


def leniency(data: bytes) -> None:
    """What strict decoding takes, lenient decoding takes unchanged; what it refuses, it takes in
    part or refuses in the same way."""
    choices = Choices(data)
    kind = choices.of(_STRUCTS)
    value = choices.of(messages("acp"))
    while isinstance(value, dict) and value and choices.below(3):
        value = value[choices.of(list(value))]
    for _ in range(choices.below(3)):
        value = broken(value, choices)
    try:
        value = wire_json.decode(written(value).encode("utf-8", "surrogatepass"))
    except RemoteProtocolError:
        return
    dropped: list[str] = []
    try:
        strict = msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError):
        try:
            lenient(value, kind, dropped)
        except msgspec.ValidationError:
            pass
    else:
        assert lenient(value, kind, dropped) == strict
        assert not dropped


_CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t"}}
_MCP: list[Any] = [
    _CALL,
    {**_CALL, "params": {"name": "t", "arguments": {"n": 1}, "_meta": {"progressToken": 1}}},
    {**_CALL, "method": "tools/list"},
    {**_CALL, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
    {**_CALL, "method": "ping"},
    {"method": "notifications/cancelled", "params": {"requestId": 1}},
    {"id": 1, "result": {}},
]


def mcp(data: bytes) -> None:
    """The tool server: raises nothing, and answers each call once."""
    choices = Choices(data)
    server = McpToolServer("x", "1", [ToolInfo("t", "does it", {"type": "object"})])
    running: list[CallTool] = []
    while choices:
        message = choices.of(_MCP)
        for _ in range(choices.below(3)):
            message = broken(message, choices)
        told = server.receive(written(message).encode("utf-8", "surrogatepass"))
        if isinstance(told, CallTool):
            running.append(told)
        elif isinstance(told, dict):
            wire_json.encode_line(told)
        if running and choices.below(2):
            server.progress(running[-1].request_id, 0.5, 1, "half")
            id = running.pop(choices.below(len(running))).request_id
            for answer in (server.reply(id, ToolOutcome([])), server.refuse(id, -1, "no")):
                wire_json.encode_line(answer)


_COMMAND = {"type": "prompt", "id": "1", "session": "s"}
_COMMANDS: list[Any] = [
    {"type": "hello", "id": "1", "sessions": [{"session": "s", "epoch": "e", "seq": 1}]},
    {"type": "hello", "id": "1", "tools": [{"name": "t", "input_schema": {}}]},
    {**_COMMAND, "content": [{"type": "text", "text": "hello"}], "when": "steer"},
    {**_COMMAND, "type": "cancel", "turn": "t1"},
    {**_COMMAND, "type": "permission", "request": "r", "option": "yes"},
    {**_COMMAND, "type": "permission", "request": "r", "content": {"a": 1}},
    {**_COMMAND, "type": "tool_result", "item": "i", "content": []},
    {**_COMMAND, "type": "queue", "op": "edit", "entry": "q", "content": []},
    {"type": "session", "id": "1", "op": "new", "agent": "demo"},
    {"type": "session", "id": "1", "op": "load", "agent": "demo", "agent_session": "s"},
    {**_COMMAND, "type": "files", "query": "a"},
    {"type": "stop_all", "id": "1"},
    {"type": "beat"},
]


def browser(data: bytes) -> None:
    """A frame of a browser is a command, or refused."""
    choices = Choices(data)
    command = choices.of(_COMMANDS)
    for _ in range(choices.below(4)):
        command = broken(command, choices)
    refusal = None
    try:
        commands.decode(written(command))
    except commands.Malformed as error:
        refusal = error
    if refusal is not None:
        assert refusal.id is None or len(refusal.id) <= 128
        wire_json.encode_line({"id": refusal.id, "code": refusal.code, "message": str(refusal)})


# --- drivers


def acp_driver(data: bytes) -> None:
    """The driver of ACP agents, from its start or with a prompt in flight."""
    _driver("acp", data, _acp)


def claude_driver(data: bytes) -> None:
    _driver("claude", data, _claude)


def legacy_driver(data: bytes) -> None:
    """Of Claude Code before it had a control protocol."""
    _driver("claude", data, _legacy)


def _acp() -> AcpDriver:
    numbers = count(1)
    return AcpDriver(
        lambda: f"k{next(numbers)}",
        capabilities=client_capabilities(
            read_files=True, write_files=True, terminals=True, elicitation=True
        ),
        client=Implementation("agentrt", "1"),
        line_limit=200_000,
    )


def _claude() -> ClaudeDriver:
    numbers, names = count(1), count(1)
    return ClaudeDriver(
        new_key=lambda: f"k{next(numbers)}",
        new_uuid=lambda: f"u{next(names)}",
        line_limit=200_000,
    )


def _legacy() -> LegacyDriver:
    numbers = count(1)
    return LegacyDriver(new_key=lambda: f"k{next(numbers)}")


_GREETINGS = {
    "acp": [
        {"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}},
        {"id": 2, "result": {"sessionId": "s1"}},
    ],
    "claude": [
        {
            "type": "control_response",
            "response": {"subtype": "success", "request_id": "agentrt-1", "response": {}},
        }
    ],
}


def _driver(protocol: str, data: bytes, make: Callable[[], Any]) -> None:
    choices = Choices(data)
    greets, long = choices.below(4), choices.of([64, 1000, 10**6])
    text = stream(protocol, choices)
    if protocol == "acp":  # the session's own name, more often than not that of a real one
        text = _renamed(text)
    cut = pieces(text, choices)
    if not _is_json(text):
        long = 10**6
    with (
        patch.object(wire_lines, "LONG_LINE_BYTES", long),
        patch.object(long_lines, "PIECE_BYTES", KEYS),
    ):
        told = _fed(protocol, make(), [text] if text else [], greets)
        assert _fed(protocol, make(), cut, greets) == told, "it matters where the bytes are cut"


def _is_json(text: bytes) -> bool:
    """Whether there is nothing wrong with any line. A long one is read as a whole, a short one only
    as far as it matters: what is wrong with the rest is told of the one and not of the other."""
    try:
        msgspec.json.Decoder().decode_lines(text)
    except wire_json.DECODE_ERRORS:
        return False
    return True


def _renamed(text: bytes) -> bytes:
    """All sessions by the name of the one that was opened."""
    for conversation in _session_names():
        text = text.replace(conversation, b'"s1"')
    return text


def _session_names() -> list[bytes]:
    if not _NAMES:
        for message in messages("acp"):
            match message:
                case {"params": {"sessionId": str(name)}} | {"result": {"sessionId": str(name)}}:
                    _NAMES.add(json.dumps(name).encode())
                case _:
                    pass
    return sorted(_NAMES)


_NAMES: set[bytes] = set()


def _fed(protocol: str, driver: Any, cut: list[bytes], greets: int) -> list[Effect]:
    """All that a driver tells of these bytes. Its requests are answered at the end: earlier, the
    cuts would decide what comes before what."""
    effects: list[Effect] = driver.start(Opening(cwd="/"))
    if greets:
        for message in _GREETINGS[protocol]:
            effects += driver.receive(json.dumps(message).encode() + b"\n")
        try:
            effects += driver.prompt("t1", [Text("hello")])
        except LocalProtocolError:
            pass
        if greets > 2:
            effects += driver.cancel()
    for piece in cut:
        effects += driver.receive(piece)
    for effect in list(effects):
        if isinstance(effect, DecisionRequested):
            option = effect.options[0].id if effect.options else None
            effects += driver.answer(effect.key, DecisionAnswer(option=option))
        elif isinstance(effect, ServiceRequested):
            effects += driver.reply(effect.key, {})
            effects += driver.refuse(effect.key, -1, "twice")
    if greets > 1 and any(isinstance(effect, Started) for effect in effects):
        effects += driver.cancel()
    effects += driver.receive_eof() + driver.shutdown_message()
    for effect in effects:
        if isinstance(effect, Write):
            assert effect.data.endswith(b"\n")
    return _joined(effects)


def _joined(effects: list[Effect]) -> list[Effect]:
    """Neighbouring pieces of one text as one: how many there are depends on the cuts. So do the
    words for what is wrong with a line."""
    told: list[Effect] = []
    for effect in effects:
        if isinstance(effect, Notice):
            effect = Notice(effect.level, effect.code, "", effect.data)
        last = told[-1] if told else None
        if isinstance(effect, TextReceived) and isinstance(last, TextReceived):
            whole = msgspec.structs.replace(last, text=last.text + effect.text)
            if msgspec.structs.replace(effect, text=whole.text) == whole:
                told[-1] = whole
                continue
        told.append(effect)
    return told


# --- everything together


def acp_session(data: bytes) -> None:
    """A session on an agent in memory that writes such things: it ends, and its log is whole."""
    _session("acp", data)


def claude_session(data: bytes) -> None:
    _session("claude", data)


def _session(protocol: Any, data: bytes) -> None:
    from faults.life import Life
    from faults.wellformed import check_log

    class Fuzzed(Life):
        async def turns(self, session: agentrt.Session) -> None:
            with trio.move_on_after(100):
                await session.run("hello", check=False)
            process = self.processes[-1]
            for piece in pieces(stream(protocol, choices), choices):
                process.send(piece)
                if choices.below(2):
                    await trio.sleep(choices.of([0, 0, 1]))
                if choices.below(16) == 15:
                    session.submit("stream")
                if choices.below(16) == 15:
                    session.cancel()
            session.cancel()
            with trio.move_on_after(100):
                await session.run("again", check=False)

    choices, over = Choices(data), math.inf
    life = Fuzzed(protocol, limits=msgspec.structs.replace(_LIMITS, message_bytes=200_000))

    async def lead() -> None:
        nonlocal over
        try:
            await life.live()
        except agentrt.AgentrtError:
            pass
        over = trio.current_time()

    logging.disable(logging.CRITICAL)
    try:
        trio.run(lead, clock=MockClock(autojump_threshold=0))
    finally:
        logging.disable(logging.NOTSET)
    assert over < 1000, f"it took {over} s"
    life.check_left()
    check_log(life.events)


_LIMITS = agentrt.Limits(
    cancel_grace_s=2,
    cancel_resend_s=0.5,
    end_silence_s=0.5,
    drain_timeout_s=60,
    turn_timeout_s=60,
    permission_timeout_s=5,
    recent_events=10**9,
    recent_events_bytes=10**12,
)

TARGETS: dict[str, Target] = {
    each.__name__: each
    for each in (
        *(lines, long_line, decoding, leniency, mcp, browser),
        *(acp_driver, claude_driver, legacy_driver, acp_session, claude_session),
    )
}
