"""ACP on streams, without a process: what a client may do to it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from msgspec import structs
from trio.testing import lockstep_stream_one_way_pair, memory_stream_one_way_pair

from agentrt import Limits, Runtime, TurnEnded
from agentrt._serve.acpmessages import Meta
from agentrt._serve.stdio import OwnSessions, serve_streams
from agentrt.testing import FakeAcpAgent, open_fake_runtime
from inside.server import Hub
from runtime.fakes import Incarnations, Script, echo

PATIENCE = 20.0
LINE = 100_000


class Editor:
    """The client's end of the streams."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.why: str | None = None
        """How it ended."""
        self.over = trio.Event()
        self.output, self._source = memory_stream_one_way_pair()
        # What is sent has been read.
        self._sink, self.input = lockstep_stream_one_way_pair()
        self._rest = b""

    async def serve(self, hub: Hub, limits: Limits, *, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        self.why = await serve_streams(
            OwnSessions(hub, Meta(agent="fake")), self._source, self._sink, limits=limits
        )
        self.over.set()

    async def send(self, *messages: Any) -> None:
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            await self.output.send_all(line + b"\n")

    async def receive(self) -> Any:
        while b"\n" not in self._rest:
            data = await self.input.receive_some()
            assert data, "it has ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    async def answer(self, id: object) -> Any:
        """The answer to that request, behind whatever else is said."""
        while (message := await self.receive()).get("id", "none") != id or "method" in message:
            pass
        return message

    async def ask(self, id: int, method: str, **params: Any) -> Any:
        await self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return (await self.answer(id))["result"]

    async def new(self) -> str:
        await self.ask(1, "initialize", protocolVersion=1)
        opened = await self.ask(2, "session/new", cwd="/", mcpServers=[])
        return str(opened["sessionId"])


def prompt(session: str, text: str, id: int = 3) -> dict[str, Any]:
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params}


@asynccontextmanager
async def an_editor(script: Script = echo, **bounds: Any) -> AsyncIterator[Editor]:
    limits = structs.replace(Limits(), **{"message_bytes": LINE, **bounds})
    agents = Incarnations(script)
    with trio.fail_after(PATIENCE):
        async with (
            open_fake_runtime({"fake": agents.start}, limits=limits) as runtime,
            trio.open_nursery() as nursery,
        ):
            editor, hub = Editor(runtime), Hub(runtime)
            await nursery.start(editor.serve, hub, limits)
            yield editor
            nursery.cancel_scope.cancel()
            hub.close()


async def talkative(agent: FakeAcpAgent) -> None:
    """It says ten megabytes, and then that it is done."""
    async for each in agent.prompts:
        for _ in range(1000):
            agent.say("x" * 10_000)
        each.end()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"garbage", -32700),
        (b"{", -32700),
        (b"42", -32600),
        (b"[]", -32600),
        (b"null", -32600),
        (b'{"jsonrpc": "2.0"}', -32600),
        (b'{"id": {}, "method": "x"}', -32600),
        (b"\xff\xfe", -32700),
        (b"[" * 5000, -32700),
    ],
)
async def test_a_malformed_line_is_answered_and_the_next_one_is_heard(
    line: bytes, code: int
) -> None:
    async with an_editor() as editor:
        await editor.send(line)
        assert (await editor.answer(None))["error"]["code"] == code
        assert (await editor.ask(1, "initialize", protocolVersion=1))["protocolVersion"] == 1


async def test_a_line_that_is_too_long_is_skipped_and_the_next_one_is_heard() -> None:
    async with an_editor() as editor:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(editor.send, b'{"id": 9, "x": "' + b"x" * 3 * LINE + b'"}')
            error = (await editor.answer(None))["error"]
        assert str(LINE) in error["message"]
        session = await editor.new()
        await editor.send(prompt(session, "hello"))
        assert (await editor.answer(3))["result"]["stopReason"] == "end_turn"


async def test_blank_lines_and_carriage_returns_are_nothing() -> None:
    async with an_editor() as editor:
        await editor.send(b"", b"\r", b" ")
        await editor.output.send_all(b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\r\n')
        assert (await editor.receive())["id"] == 1


async def test_a_byte_order_mark_before_a_message_is_ignored() -> None:
    async with an_editor() as editor:
        await editor.send(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"initialize"}\r')
        assert (await editor.receive())["id"] == 1


async def test_a_request_ahead_of_initialize_is_refused_and_ends_it() -> None:
    async with an_editor() as editor:
        await editor.send({"jsonrpc": "2.0", "id": 1, "method": "session/list"})
        assert (await editor.answer(1))["error"]["code"] == -32600
        await editor.over.wait()
        assert editor.why == "the first message must be `initialize`"


async def test_an_unknown_method_is_refused_and_an_unknown_notification_ignored() -> None:
    async with an_editor() as editor:
        await editor.new()
        await editor.send({"jsonrpc": "2.0", "method": "_vendor/news"})
        await editor.send({"jsonrpc": "2.0", "id": "x", "method": "no/such"})
        assert (await editor.answer("x"))["error"]["code"] == -32601


async def test_an_editor_that_does_not_read_holds_up_neither_the_agent_nor_its_own_end() -> None:
    async with an_editor(talkative) as editor:
        id = await editor.new()
        session = editor.runtime.get(id)
        await editor.send(prompt(id, "talk"))
        async for event in session.subscribe():
            if isinstance(event, TurnEnded):
                break
        assert session.state.turn is None
        await editor.output.aclose()
        await editor.answer(3)  # it reads after all
        await editor.over.wait()
        assert editor.why == ""


async def test_the_end_of_the_input_ends_it_even_if_nobody_reads(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with an_editor(talkative) as editor:
        id = await editor.new()
        await editor.send(prompt(id, "talk"))
        await editor.output.aclose()
        await editor.over.wait()


async def test_the_end_of_the_input_cancels_what_it_has_asked_for() -> None:
    async def script(agent: FakeAcpAgent) -> None:
        async for each in agent.prompts:
            await each.cancelled.wait()
            each.end("cancelled")

    async with an_editor(script) as editor:
        session = await editor.new()
        await editor.send(prompt(session, "one"), prompt(session, "two", 4))
        await editor.output.aclose()
        ends = {}
        while len(ends) < 2:
            if (said := await editor.receive()).get("id"):
                ends[said["id"]] = said["result"]["stopReason"]
        assert ends == {3: "cancelled", 4: "cancelled"}
        await editor.over.wait()
        assert editor.why == ""


async def test_an_editor_s_answer_that_is_too_long_fails_what_the_agent_has_asked() -> None:
    answers: list[Any] = []

    async def script(agent: FakeAcpAgent) -> None:
        async for each in agent.prompts:
            answers.append(await agent.request("fs/read_text_file", {"path": "/x"}))
            each.end()

    async with an_editor(script) as editor:
        fs = {"readTextFile": True}
        await editor.ask(1, "initialize", protocolVersion=1, clientCapabilities={"fs": fs})
        opened = await editor.ask(2, "session/new", cwd="/", mcpServers=[])
        await editor.send(prompt(opened["sessionId"], "read"))
        while (asked := await editor.receive()).get("method") != "fs/read_text_file":
            pass
        content = {"content": "x" * 2 * LINE}
        await editor.send({"jsonrpc": "2.0", "id": asked["id"], "result": content})
        assert (await editor.answer(3))["result"]["stopReason"] == "end_turn"
        assert "was skipped" in answers[0]["error"]["message"]
