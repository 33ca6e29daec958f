"""What holds for every cut of the bytes and for every JSON object."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.effects import TurnBegan, TurnFinished
from agentrt.errors import LocalProtocolError
from agentrt.events import Text
from agentrt.lowlevel import Effect
from effects import joined

from .rig import (
    INIT,
    NOTIFIED,
    TYPES,
    Json,
    Rig,
    ask,
    assistant,
    delta,
    event,
    fate,
    result,
    state,
    streamed,
    success,
    system,
    text,
    tool_result,
    tool_use,
)

TRACES = sorted((Path(__file__).parent / "transcripts").glob("*.ndjson"))


def wire_bytes(trace: Path) -> bytes:
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    written = [line["msg"] for line in lines if line["dir"] == "<"]
    return b"".join(json.dumps(m).encode() + b"\n" for m in written)


def through(data: bytes, cuts: list[int]) -> list[Effect]:
    rig = Rig()
    rig.start()
    rig.prompt()
    edges = [0, *sorted(cuts), len(data)]
    for start, end in pairwise(edges):
        rig.do(rig.driver.receive(data[start:end]))
    rig.do(rig.driver.receive_eof())
    return joined(rig.effects)


@settings(deadline=None)
@given(st.data())
def test_any_cut_of_a_trace_gives_the_same(data: st.DataObject) -> None:
    trace = wire_bytes(data.draw(st.sampled_from(TRACES)))
    cuts = data.draw(st.lists(st.integers(0, len(trace)), max_size=12))
    assert through(trace, cuts) == through(trace, [])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(
    [
        "message",
        "request",
        "response",
        "event",
        "content",
        "id",
        "type",
        "subtype",
        "uuid",
        "index",
        "delta",
        "content_block",
        "text",
        "parent_tool_use_id",
        "user_message_uuids",
        "origin",
        "terminal_reason",
        "usage",
        "modelUsage",
        "input",
        "name",
        "tool_use_id",
        "tool_result_meta",
        "state",
        "task_id",
        "tasks",
        "patch",
        "status",
        "request_id",
        "command_uuid",
        "questions",
        "options",
        "permission_suggestions",
        "tool_name",
        "models",
        "commands",
        "model",
        "error",
        "rate_limit_info",
        "stop_reason",
        "is_error",
        "session_id",
        "server_name",
    ]
)
SUBTYPES = st.sampled_from(
    [
        "init",
        "status",
        "session_state_changed",
        "task_started",
        "task_updated",
        "task_progress",
        "task_notification",
        "background_tasks_changed",
        "api_retry",
        "informational",
        "can_use_tool",
        "hook_callback",
        "mcp_message",
        "elicitation",
        "success",
        "error",
        "result",
        "permission_denied",
        "hook_response",
    ]
)
TYPES = st.sampled_from([*TYPES, "brand_new"])
BLOCKS = st.sampled_from(["text", "thinking", "tool_use", "tool_result", "image", "new"])
SHAPED = st.recursive(
    JSON | SUBTYPES | BLOCKS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=15,
)
MESSAGES = st.builds(
    lambda fields, tag, subtype: {**fields, "type": tag, "subtype": subtype},
    st.dictionaries(NAMES, SHAPED, max_size=8),
    TYPES,
    SUBTYPES | SHAPED,
)


ANY = given(st.lists(MESSAGES | JSON, max_size=12), st.booleans())


@ANY
@pytest.mark.slow
def test_no_object_whatever_raises(messages: list[Any], legacy: bool) -> None:
    take(messages, legacy)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@ANY
def test_no_object_whatever_raises_at_length(messages: list[Any], legacy: bool) -> None:
    take(messages, legacy)


def take(messages: list[Any], legacy: bool) -> None:
    rig = Rig(legacy=legacy)
    if legacy:
        rig.do(rig.driver.start(rig.opening))
    else:
        rig.start()
    rig.prompt()
    lines = [json.dumps(message).encode() + b"\n" for message in messages]
    for effect in rig.do(rig.driver.receive(b"".join(lines))):
        if key := getattr(effect, "key", None):
            rig.answer(key, "allow_once")
            rig.do(rig.driver.reply(key, {}))
    rig.do(rig.driver.receive_eof())


@settings(deadline=None)
@given(st.lists(st.binary(max_size=60) | st.sampled_from([b"\n", b'{"type":'])))
def test_no_bytes_whatever_raise(chunks: list[bytes]) -> None:
    rig = Rig()
    rig.do(rig.driver.start(rig.opening))
    for chunk in chunks:
        rig.do(rig.driver.receive(chunk))
    rig.do(rig.driver.receive_eof())


LINES: list[Json] = [
    state("running"),
    state("requires_action"),
    state("idle"),
    INIT,
    assistant(text("hi")),
    assistant(tool_use("c1", "Bash", command="ls")),
    assistant(text("sub"), parent="c1"),
    tool_result("c1"),
    *streamed("some ", "text"),
    event("message_start", message={"id": "m2"}),
    delta("x"),
    ask("r1"),
    ask("r2"),
    {"type": "control_cancel_request", "request_id": "r1"},
    result(),
    result("u1"),
    result("u2"),
    result("u1", "u2"),
    result(origin=NOTIFIED),
    result("u1", is_error=True, terminal_reason="aborted_tools"),
    *(fate(u, f) for u in ("u1", "u2") for f in ("queued", "started", "completed", "cancelled")),
    system("task_started", task_id="a1", task_type="local_agent", tool_use_id="c1"),
    system("task_notification", task_id="a1", status="completed"),
    system("background_tasks_changed", tasks=[]),
    {"type": "conversation_reset"},
    success("agentrt-2", {}),
]
STEPS = st.one_of(
    st.sampled_from(LINES).map(lambda line: ("line", line)),
    st.sampled_from(["prompt", "steer", "cancel", "end_by_silence", "shutdown_message"]).map(
        lambda command: (command, None)
    ),
)


@given(st.lists(STEPS, max_size=40))
def test_every_prompt_ends_at_most_once_and_the_driver_never_raises(
    steps: list[tuple[str, Any]],
) -> None:
    rig = Rig()
    rig.start()
    prompts = 0
    ended: list[str] = []
    open_turn: str | None = None
    agent_open = False
    for command, line in steps:
        if command == "line":
            told = rig.feed(line)
        else:
            arguments = (f"t{prompts + 1}", [Text("x")]) if command in ("prompt", "steer") else ()
            try:
                told = rig.do(getattr(rig.driver, command)(*arguments))
            except LocalProtocolError:
                continue
            if arguments:
                prompts += 1
            if command == "prompt":
                assert open_turn is None
                open_turn = arguments[0]
        for effect in told:
            if isinstance(effect, TurnBegan):
                assert not agent_open
                assert open_turn is None
                agent_open = True
            elif isinstance(effect, TurnFinished):
                if effect.turn is None:
                    assert agent_open
                    agent_open = False
                else:
                    ended.append(effect.turn)
                ended += getattr(effect, "folded", ())
                if effect.turn == open_turn:
                    open_turn = None
    assert len(ended) == len(set(ended))
    assert set(ended) <= {f"t{n}" for n in range(1, prompts + 1)}
