"""Messages with too many levels of nesting are refused before they are decoded.

Decoding one that just fits into the interpreter's stack succeeds; to store or show it then fails,
for everybody who uses the same store or looks at the same messages.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

import agentrt
from agentrt.errors import LocalProtocolError, RemoteProtocolError
from agentrt.jsonrpc import Lines, decode, decode_strictly
from agentrt.testing import FakeAcpAgent, MemoryAgent, open_fake_runtime, open_fake_session
from agentrt.tracing import RecentWire, TraceConversation, TraceRecord
from runtime.fakes import Incarnations, echo, session_with

MAX_NESTING = 200
DEPTHS = (MAX_NESTING - 9, MAX_NESTING + 1, 400, *range(960, 1000, 3), 2000, 9000, 100_000)
"""Around the limits of this package and of the interpreter, which differ by version."""
OPENERS = st.sampled_from(("[", '{"a":', '["]",', '{"\\"[{":1,"a":', '["\\\\",'))


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@settings(max_examples=15)
@given(
    st.lists(OPENERS, min_size=MAX_NESTING, max_size=MAX_NESTING + 1),
    st.sampled_from(('"]}]}"', "1", '"\\\\"')),
)
def test_the_levels_of_a_message_are_counted_outside_of_strings(
    openers: list[str], middle: str
) -> None:
    ends = ("}" if opener.endswith('"a":') else "]" for opener in reversed(openers))
    text = "".join(openers) + middle + "".join(ends)
    json.loads(text)
    for read in (decode_strictly, lambda text: decode(text.encode())):
        if len(openers) <= MAX_NESTING:
            read(text)
        else:
            with pytest.raises(RemoteProtocolError, match="levels of nesting"):
                read(text)


@pytest.mark.parametrize("depth", DEPTHS[1:])
def test_a_message_that_is_too_nested_has_an_error_that_says_so(depth: int) -> None:
    with pytest.raises(RemoteProtocolError, match="more than 200 levels of nesting"):
        decode(nested(depth).encode())
    with pytest.raises(RemoteProtocolError, match="more than 200 levels of nesting"):
        decode_strictly(nested(depth))


@given(st.integers(1, 2000))
def test_a_nested_line_costs_none_of_its_neighbours(size: int) -> None:
    line = b'{"a":' + nested(2 * MAX_NESTING).encode() + b"}\n"
    data = b'{"first":1}\n' + line + b'{"last":[2]}\n'
    lines = Lines()
    out = b"".join(bytes(lines.feed(data[at : at + size])) for at in range(0, len(data), size))
    first, replaced, last = out.splitlines()
    assert (first, last) == (b'{"first":1}', b'{"last":[2]}')
    assert replaced.startswith(line[:200])
    with pytest.raises(RemoteProtocolError, match="more than 200 levels of nesting"):
        decode(replaced)


def test_a_long_line_that_is_too_nested_is_refused() -> None:
    lines = Lines(long_apart=True)
    lines.feed(b'{"a":' + nested(2 * MAX_NESTING).encode() + b',"text":"')
    for _ in range(40):
        lines.feed(b"x" * 65536)
    lines.feed(b'"}\n')
    [line] = lines.long
    with pytest.raises(RemoteProtocolError, match="levels of nesting"):
        line.value()


async def test_a_prompt_of_a_program_may_not_be_too_nested() -> None:
    async with session_with(echo) as (session, _):
        block = {"type": "text", "text": "x", "_meta": {"a": json.loads(nested(MAX_NESTING))}}
        with pytest.raises(LocalProtocolError, match="more than 200 levels of nesting"):
            await session.run([block])


def raw_update(depth: int) -> dict[str, Any]:
    call = {"toolCallId": f"t{depth}", "title": "x", "rawInput": Raw(nested(depth).encode())}
    update = {"sessionUpdate": "tool_call", **call}
    return {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": "s1", "update": update},
    }


async def test_no_nesting_of_one_agent_makes_the_store_useless_for_others(tmp_path: Any) -> None:
    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            if prompt.text == "nest":
                for depth in DEPTHS:
                    agent.send(raw_update(depth))
            agent.say(prompt.text)
            prompt.end()

    agents = Incarnations(script, capabilities={"loadSession": True})
    with trio.fail_after(30):
        async with (
            agentrt.store.open_store(tmp_path / "s.db") as store,
            open_fake_runtime({"fake": agents.start}, store=store) as runtime,
            trio.open_nursery() as nursery,
        ):
            hostile, other = [await runtime.create("fake", cwd="/") for _ in range(2)]
            wire = RecentWire(hostile.trace())
            nursery.start_soon(wire.listen)
            async with hostile.prompt("nest") as turn:
                events = [event async for event in turn]
            assert turn.result.text == "nest"
            notices = [each for each in events if isinstance(each, agentrt.events.Notice)]
            assert "200 levels of nesting" in notices[0].message
            assert notices[0].code == "malformed"
            for text in ("hello", "again"):  # a store that failed refuses the next prompt
                assert (await other.run(text)).text == text
            assert wire.rows()[-1].what == "answer to session/prompt"
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "shape",
    [
        '{"jsonrpc":"2.0","id":%s,"method":"x"}',
        '{"jsonrpc":"2.0","id":1,"error":%s}',
        '{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":%s}}}',
        '{"type":"system","subtype":%s}',
        '{"type":"user","message":{"content":[{"type":"tool_result","content":%s}]}}',
        '{"method":"item/started","params":{"item":{"type":%s,"id":"x"}}}',
    ],
)
def test_no_nesting_ends_the_reading_of_a_trace(shape: str) -> None:
    for depth in range(940, 1000):
        record = TraceRecord(t=0, kind="received", session="s", line=shape % nested(depth))
        rows = list(TraceConversation().feed(record))
        assert [row.what for row in rows] == ["no message"]


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","method":"%s"}',
        '{"jsonrpc":"2.0","id":"%s","method":"x"}',
        '{"jsonrpc":"2.0","id":["%s"],"result":{"stopReason":"%s"}}',
        '{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"%s"}}}',
        '{"type":"%s"}',
        '{"type":"system","subtype":"%s"}',
        '{"method":"item/started","params":{"item":{"type":"%s","id":"%s"}}}',
        "%s",
    ],
)
@pytest.mark.parametrize("kind", ["received", "stderr"])
def test_a_row_of_a_trace_is_short_whatever_is_in_its_line(line: str, kind: Any) -> None:
    record = TraceRecord(t=0, kind=kind, session="s", line=line.replace("%s", "x" * 100_000))
    conversation = TraceConversation()
    [row] = [*conversation.feed(record), *conversation.flush()]
    shown = [row.what, row.detail, row.answer, str(row.id), *row.odd]
    if row.message is not None:
        shown += [row.message.what, row.message.detail, str(row.message.id)]
    assert max(map(len, shown)) <= 400


def acp_line(kind: str, n: int) -> bytes:
    """A word, or a tool call whose input is fine or too nested, as an update of ACP."""
    if kind == "word":
        content = {"type": "text", "text": f"w{n} [{{"}
        update: dict[str, Any] = {"sessionUpdate": "agent_message_chunk", "content": content}
    else:
        depth = 2 * MAX_NESTING if kind == "nested" else 5
        given = {"toolCallId": f"c{n}", "title": f"t{n}", "rawInput": Raw(nested(depth).encode())}
        update = {"sessionUpdate": "tool_call", **given}
    params = {"sessionId": "s", "update": update}
    message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
    return msgspec.json.encode(message) + b"\n"


def claude_line(kind: str, n: int) -> bytes:
    """The same of Claude Code."""
    message: dict[str, Any]
    if kind == "word":
        delta = {"type": "text_delta", "text": f"w{n} [{{"}
        event = {"type": "content_block_delta", "index": 0, "delta": delta}
        message = {"type": "stream_event", "event": event}
    else:
        depth = 2 * MAX_NESTING if kind == "nested" else 5
        use = {"type": "tool_use", "id": f"c{n}", "name": f"t{n}"}
        use["input"] = {"a": Raw(nested(depth).encode())}
        message = {"type": "assistant", "message": {"id": f"m{n}", "content": [use]}}
    return msgspec.json.encode(message) + b"\n"


async def in_one_write(protocol: str, kinds: list[str], agent: MemoryAgent) -> None:
    """Answer a prompt with lines of these kinds, all in one write."""
    line = acp_line if protocol == "acp" else claude_line
    data = b"".join(line(kind, n) for n, kind in enumerate(kinds))
    while (received := await agent.receive_line()) is not None:
        request = json.loads(received)
        if protocol == "claude":
            if request["type"] == "control_request":
                given = {"subtype": "success", "request_id": request["request_id"], "response": {}}
                end: dict[str, Any] = {"type": "control_response", "response": given}
            else:
                agent.send(data)
                end = {"type": "result", "subtype": "success", "is_error": False}
        else:
            answer: dict[str, Any] = {"protocolVersion": 1}
            if request["method"] == "session/new":
                answer = {"sessionId": "s"}
            elif request["method"] == "session/prompt":
                agent.send(data)
                answer = {"stopReason": "end_turn"}
            end = {"jsonrpc": "2.0", "id": request["id"], "result": answer}
        agent.send(json.dumps(end).encode() + b"\n")


@pytest.mark.parametrize("protocol", ["acp", "claude"])
@settings(max_examples=25)
@given(st.lists(st.sampled_from(("word", "tool", "nested")), max_size=8))
def test_nested_messages_between_others_are_refused_and_the_others_are_shown(
    protocol: Any, kinds: list[str]
) -> None:
    """Wherever they are in one read: what was decoded before them is neither lost nor repeated."""

    async def main() -> None:
        start = partial(MemoryAgent, partial(in_one_write, protocol, kinds))
        async with open_fake_session(start, protocol=protocol) as session:
            await session.run("go")
            items = list(session.log.state.items.values())
            notices = [e for e in session.log.since(0) if isinstance(e, agentrt.events.Notice)]
        shown = [item.text for item in items if item.type == "text"]
        calls = [item.tool.title for item in items if item.tool is not None]
        assert "".join(shown) == "".join(
            f"w{n} [{{" for n, kind in enumerate(kinds) if kind == "word"
        )
        assert [title.partition(" ")[0].partition(":")[0] for title in calls] == [
            f"t{n}" for n, kind in enumerate(kinds) if kind == "tool"
        ]
        assert bool(notices) == ("nested" in kinds)
        assert all("levels of nesting" in each.message for each in notices)

    trio.run(main)
