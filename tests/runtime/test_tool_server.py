"""The tools of a session as an MCP server, and the calls of its clients."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from agentrt.errors import ToolError
from agentrt.events import JsonObject
from agentrt.jsonrpc import encode_line
from agentrt.tools import ToolContext, tool
from web.tool_calls import tool_server


class Client:
    """One end of a connection: sends messages, keeps what comes back."""

    def __init__(self, server: Any, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.notifications: list[JsonObject] = []
        self.replies: list[Any] = []
        self.connection = server.connect(self.notifications.append)

    def send(self, method: str, params: Any = None, **envelope: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params, **envelope}
        self.connection.handle(message, self.nursery.start_soon, self._reply)

    def call(self, name: str, id: Any = 1, meta: JsonObject | None = None, **args: Any) -> None:
        self.send("tools/call", {"name": name, "arguments": args, "_meta": meta}, id=id)

    def cancel(self, id: Any = 1) -> None:
        self.send("notifications/cancelled", {"requestId": id})

    def _reply(self, message: JsonObject | None) -> None:
        self.replies.append(
            message if message is None else msgspec.json.decode(encode_line(message))
        )

    @property
    def reply(self) -> Any:
        [reply] = self.replies
        return reply


@asynccontextmanager
async def client_of(server: Any) -> AsyncIterator[Client]:
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            yield Client(server, nursery)
            await trio.lowlevel.checkpoint()


@tool
async def echo(text: str) -> str:
    return text


@tool
async def sleep(context: ToolContext) -> None:
    context.report_progress(0, message="asleep")
    await trio.sleep_forever()


def result(text: str, *, is_error: bool = False, id: Any = 1) -> JsonObject:
    return {
        "jsonrpc": "2.0",
        "id": id,
        "result": {"content": [{"type": "text", "text": text}], "isError": is_error},
    }


async def test_a_call_is_answered_when_its_tool_is_done() -> None:
    async with client_of(tool_server([echo])) as client:
        client.call("echo", text="hi")
        assert client.replies == []
    assert client.reply == result("hi")


async def test_what_is_no_call_is_answered_at_once() -> None:
    async with client_of(tool_server([echo])) as client:
        client.send("tools/list", id=1)
        assert [tool["name"] for tool in client.reply["result"]["tools"]] == ["echo"]


async def test_a_notification_is_replied_to_with_nothing() -> None:
    async with client_of(tool_server([echo])) as client:
        client.send("notifications/initialized")
        assert client.reply is None


async def test_calls_run_at_the_same_time_and_are_answered_as_they_end() -> None:
    first_waits, second_is_done = trio.Event(), trio.Event()

    @tool
    async def one() -> str:
        first_waits.set()
        await second_is_done.wait()
        return "one"

    @tool
    async def two() -> str:
        await first_waits.wait()
        second_is_done.set()
        return "two"

    async with client_of(tool_server([one, two])) as client:
        client.call("one", 1)
        client.call("two", 2)
    assert client.replies == [result("two", id=2), result("one", id=1)]


async def test_the_context_has_the_session_the_turn_and_the_agents_own_id() -> None:
    seen: list[ToolContext] = []
    session: Any = object()
    turns: list[Any] = [object(), object()]

    @tool
    async def look(context: ToolContext) -> None:
        seen.append(context)

    server = tool_server([look], session=session, turn=lambda: turns[0])
    async with client_of(server) as client:
        client.call("look", meta={"claudecode/toolUseId": "toolu_1", "progressToken": 1})
        turns.reverse()  # the turn counts that runs when the call comes
    [context] = seen
    assert context.session is session
    assert context.turn is turns[1]
    assert context.tool_call == "toolu_1"


async def test_progress_reaches_the_client_that_asked_for_it() -> None:
    @tool
    async def work(context: ToolContext) -> str:
        context.report_progress(1, 2, "half")
        return "done"

    async with client_of(tool_server([work])) as client:
        client.call("work", 1, meta={"progressToken": "p"})
        client.call("work", 2)
    assert [notification["params"] for notification in client.notifications] == [
        {"progressToken": "p", "progress": 1, "total": 2, "message": "half"}
    ]


async def test_a_call_cancelled_by_its_client_is_stopped_and_not_answered() -> None:
    async with client_of(tool_server([sleep, echo])) as client:
        client.call("sleep", 1, meta={"progressToken": 1})
        client.call("echo", 2, text="hi")
        await trio.testing.wait_all_tasks_blocked()
        client.cancel(1)
    # None for the notification, None for the call.
    assert sorted(client.replies, key=repr) == [None, None, result("hi", id=2)]


async def test_a_call_cancelled_before_it_started_never_runs() -> None:
    ran: list[str] = []

    @tool
    async def act() -> None:
        ran.append("act")

    async with client_of(tool_server([act])) as client:
        client.call("act")
        client.cancel()
    assert client.replies == [None, None]
    assert not ran


async def test_an_id_may_be_used_again_after_a_cancel_even_while_the_tool_cleans_up() -> None:
    cleaning, finish = trio.Event(), trio.Event()

    @tool
    async def slow() -> None:
        try:
            await trio.sleep_forever()
        finally:
            cleaning.set()
            with trio.move_on_after(5, shield=True):
                await finish.wait()

    async with client_of(tool_server([slow, echo])) as client:
        client.call("slow", 1)
        await trio.testing.wait_all_tasks_blocked()
        client.cancel(1)
        await cleaning.wait()
        client.call("echo", 1, text="again")
        finish.set()
    assert sorted(client.replies, key=repr) == [None, None, result("again")]


async def test_a_call_whose_turn_is_cancelled_is_answered_so_that_the_agent_goes_on() -> None:
    async with client_of(tool_server([sleep])) as client:
        client.call("sleep", meta={"progressToken": 1})
        await trio.testing.wait_all_tasks_blocked()
        client.nursery.cancel_scope.cancel()
    assert client.reply == result("sleep was cancelled", is_error=True)


async def test_a_client_that_goes_away_cancels_its_calls_and_nobody_elses() -> None:
    server = tool_server([sleep])
    async with client_of(server) as one, client_of(server) as other:
        one.call("sleep", meta={"progressToken": 1})
        other.call("sleep", meta={"progressToken": 1})
        await trio.testing.wait_all_tasks_blocked()
        one.connection.close()
        one.connection.close()
        await trio.testing.wait_all_tasks_blocked()
        assert one.reply == result("sleep was cancelled", is_error=True)
        assert not other.replies
        other.connection.close()


async def test_two_clients_may_use_the_same_ids() -> None:
    server = tool_server([echo])
    async with client_of(server) as one, client_of(server) as other:
        one.call("echo", 1, text="one")
        other.call("echo", 1, text="other")
    assert (one.reply, other.reply) == (result("one"), result("other"))


async def test_a_call_that_has_no_turn_to_run_in_is_refused() -> None:
    server = tool_server([echo])
    replies: list[Any] = []

    def spawn(*args: object) -> None:
        raise RuntimeError("no turn is running")

    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}}
    server.connect(lambda notification: None).handle(message, spawn, replies.append)
    [reply] = replies
    assert reply["error"].code == -32603
    assert reply["error"].message == "echo cannot run now: no turn is running"


async def test_a_tools_exception_is_an_answer_and_is_reported() -> None:
    reported: list[tuple[str, str]] = []

    @tool
    async def fail() -> None:
        raise ValueError("broken")

    server = tool_server(
        [fail], on_error=lambda tool, error: reported.append((tool.name, str(error)))
    )
    async with client_of(server) as client:
        client.call("fail")
    assert client.reply == result("ValueError: broken", is_error=True)
    assert reported == [("fail", "broken")]


async def test_a_tools_exception_is_logged_if_nobody_wants_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    async def fail() -> None:
        raise ValueError("broken")

    @tool
    async def refuse() -> None:
        raise ToolError("no")

    async with client_of(tool_server([fail, refuse])) as client:
        client.call("fail", 1)
        client.call("refuse", 2)
    [record] = caplog.records
    assert (record.levelno, record.message) == (logging.ERROR, "tool fail failed")


async def test_what_is_no_exception_goes_on_upwards_and_the_agent_is_not_left_waiting() -> None:
    @tool
    async def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.RaisesGroup(KeyboardInterrupt):
        async with client_of(tool_server([interrupt])) as client:
            client.call("interrupt")
    assert client.reply == result("interrupt was cancelled", is_error=True)


async def test_the_servers_timeout_holds_for_tools_without_one(autojump_clock: object) -> None:
    async with client_of(tool_server([sleep], timeout=3)) as client:
        client.call("sleep")
    assert client.reply == result("sleep timed out after 3 s", is_error=True)


async def test_new_tools_are_announced_to_clients_that_said_hello() -> None:
    server = tool_server([echo])
    async with client_of(server) as client, client_of(server) as silent:
        client.send("initialize", {"protocolVersion": "2025-11-25"}, id=0)
        server.set_tools([sleep])
        assert [notification["method"] for notification in client.notifications] == [
            "notifications/tools/list_changed"
        ]
        assert not silent.notifications
        client.send("tools/list", id=1)
        assert [tool["name"] for tool in client.replies[-1]["result"]["tools"]] == ["sleep"]
        silent.call("echo", text="gone")
        assert silent.reply["error"]["code"] == -32602


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools are called 'echo'"):
        tool_server([echo, echo])
