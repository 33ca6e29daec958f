"""The minimal MCP server, message by message.

The server gets messages one by one, also those that no MCP client sends.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt._core.wire.mcp import VERSION_KEY, VERSIONS, CancelTool, ListenForChanges
from agentrt.events import Image, JsonObject, Text
from agentrt.hosting import ToolOutcome
from agentrt.jsonrpc import encode_line
from agentrt.tools import ToolInfo
from inside.wire import CallTool, McpToolServer

ECHO = ToolInfo("echo", "Says it again.", {"type": "object"})


def server(*tools: ToolInfo) -> McpToolServer:
    return McpToolServer("app", "1", tools or (ECHO,))


def request(method: str, params: Any = None, id: Any = 1) -> JsonObject:
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else {**message, "params": params}


def call(id: Any = 1, **params: Any) -> JsonObject:
    return request("tools/call", {"name": "echo", "arguments": {}, **params}, id)


def cancelled(id: Any) -> JsonObject:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


def on_the_wire(message: object) -> Any:
    return msgspec.json.decode(encode_line(message))


def error_code(message: object) -> int:
    code = on_the_wire(message)["error"]["code"]
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize("version", VERSIONS)
def test_a_known_version_is_answered_with_itself(version: str) -> None:
    reply = server().receive(request("initialize", {"protocolVersion": version}))
    assert on_the_wire(reply)["result"]["protocolVersion"] == version


@pytest.mark.parametrize(
    "params", [{"protocolVersion": "2031-01-01"}, {"protocolVersion": 7}, {}, [], None]
)
def test_an_unknown_version_is_answered_with_our_newest(params: Any) -> None:
    reply = server().receive(request("initialize", params))
    assert on_the_wire(reply) == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "app", "version": "1"},
        },
    }


def test_the_list_names_each_tool_with_its_schema() -> None:
    hinted = ToolInfo("look", "Looks.", {"type": "object"}, {"readOnlyHint": True})
    reply = server(ECHO, hinted).receive(request("tools/list", {"cursor": None}))
    assert on_the_wire(reply)["result"] == {
        "tools": [
            {"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object"}},
            {
                "name": "look",
                "description": "Looks.",
                "inputSchema": {"type": "object"},
                "annotations": {"readOnlyHint": True},
            },
        ]
    }


def test_a_ping_is_answered() -> None:
    assert on_the_wire(server().receive(request("ping")))["result"] == {}


@pytest.mark.parametrize("method", ["resources/list", "server/discover", "tools/call2", ""])
def test_an_unknown_method_is_not_found(method: str) -> None:
    assert error_code(server().receive(request(method))) == -32601


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        {"jsonrpc": "2.0", "id": 9, "result": {}},
        {"jsonrpc": "2.0", "id": 9, "error": {"code": 1, "message": "no"}},
    ],
)
def test_notifications_and_stray_answers_want_nothing(message: JsonObject) -> None:
    assert server().receive(message) is None


def test_a_call_is_handed_over_and_its_answer_carries_its_id() -> None:
    mcp = server()
    meta = {"claudecode/toolUseId": "toolu_1", "progressToken": 2}
    effect = mcp.receive(
        encode_line(request("tools/call", {"name": "echo", "arguments": {"a": 1}, "_meta": meta}))
    )
    assert effect == CallTool(1, "echo", {"a": 1}, 2, meta)
    assert on_the_wire(mcp.reply(1, ToolOutcome([Text("hi")], structured={"a": 1}))) == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {
            "content": [{"type": "text", "text": "hi"}],
            "isError": False,
            "structuredContent": {"a": 1},
        },
    }


@pytest.mark.parametrize("id", [0, -1, "seven", "7", 1.5, None])
def test_any_id_is_echoed_as_it_came(id: Any) -> None:
    mcp = server()
    assert mcp.receive(call(id)) == CallTool(id, "echo", {})
    assert on_the_wire(mcp.reply(id, ToolOutcome([])))["id"] == id


def test_a_failure_is_a_result_that_says_so() -> None:
    mcp = server()
    mcp.receive(call())
    assert on_the_wire(mcp.reply(1, ToolOutcome.error("no such job")))["result"] == {
        "content": [{"type": "text", "text": "no such job"}],
        "isError": True,
    }


def test_an_image_goes_out_in_the_shape_of_mcp() -> None:
    mcp = server()
    mcp.receive(call())
    [block] = on_the_wire(mcp.reply(1, ToolOutcome([Image("AAAA", "image/png")])))["result"][
        "content"
    ]
    assert block == {"type": "image", "data": "AAAA", "mimeType": "image/png"}


@pytest.mark.parametrize(
    "params",
    [
        {"name": "other", "arguments": {}},
        {"arguments": {}},
        {"name": 3},
        {"name": "echo", "arguments": [1]},
        {"name": "echo", "arguments": "{}"},
        [],
        None,
    ],
)
def test_a_call_that_makes_no_sense_is_refused(params: Any) -> None:
    mcp = server()
    assert error_code(mcp.receive(request("tools/call", params))) == -32602
    assert mcp.reply(1, ToolOutcome([])) is None


@pytest.mark.parametrize("arguments", [{}, {"arguments": None}])
def test_a_call_may_come_without_arguments(arguments: JsonObject) -> None:
    effect = server().receive(request("tools/call", {"name": "echo", **arguments}))
    assert effect == CallTool(1, "echo", {})


def test_a_call_is_answered_once() -> None:
    mcp = server()
    mcp.receive(call())
    assert mcp.reply(1, ToolOutcome([])) is not None
    assert mcp.reply(1, ToolOutcome([])) is None
    assert mcp.refuse(1, -32603, "late") is None


def test_a_call_delivered_twice_runs_once() -> None:
    mcp = server()
    assert isinstance(mcp.receive(call()), CallTool)
    assert mcp.receive(call()) is None
    assert mcp.reply(1, ToolOutcome([])) is not None


def test_a_cancelled_call_is_stopped_and_never_answered() -> None:
    mcp = server()
    mcp.receive(call("a"))
    assert mcp.receive(cancelled("a")) == CancelTool("a")
    assert mcp.reply("a", ToolOutcome([])) is None
    assert mcp.receive(cancelled("a")) is None


@pytest.mark.parametrize("params", [{"requestId": 2}, {"requestId": [1]}, {}, [1], None])
def test_a_cancel_of_nothing_does_nothing(params: Any) -> None:
    mcp = server()
    mcp.receive(call())
    notification = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    assert mcp.receive(notification) is None
    assert mcp.reply(1, ToolOutcome([])) is not None


def test_progress_goes_to_who_asked_for_it_while_the_call_runs() -> None:
    mcp = server()
    mcp.receive(call(1, _meta={"progressToken": "p"}))
    mcp.receive(call(2))
    assert mcp.progress(1, 0.5, 1, "half") == {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progressToken": "p", "progress": 0.5, "total": 1, "message": "half"},
    }
    assert mcp.progress(2, 0.5, 1, "half") is None
    mcp.reply(1, ToolOutcome([]))
    assert mcp.progress(1, 1, 1, None) is None


def test_new_tools_are_announced_to_a_client_that_is_there() -> None:
    mcp = server()
    assert mcp.set_tools([]) == []
    mcp.receive(request("initialize"))
    assert mcp.set_tools([ECHO]) == [
        {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    ]
    assert isinstance(mcp.receive(call()), CallTool)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"hello", -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b"42", -32600),
        (b'{"id":true,"method":"ping"}', -32600),
        (b'{"id":1,"method":7}', -32600),
    ],
)
def test_what_is_no_request_is_refused_without_an_id(line: bytes, code: int) -> None:
    reply = server().receive(line)
    assert error_code(reply) == code
    assert on_the_wire(reply)["id"] is None


def test_half_an_emoji_does_not_lose_the_call() -> None:
    line = b'{"id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":"\\ud83d"}}}'
    assert server().receive(line) == CallTool(1, "echo", {"a": "\ufffd"})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=5,
)
methods = st.sampled_from(
    ["initialize", "tools/list", "tools/call", "ping", "notifications/cancelled", "x"]
)


@pytest.mark.slow
@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "id": json_values,
                "method": methods | json_values,
                "params": json_values
                | st.fixed_dictionaries({"name": st.just("echo"), "arguments": json_values})
                | st.fixed_dictionaries({"requestId": json_values}),
            },
        )
        | json_values,
        max_size=8,
    )
)
def test_no_message_raises_and_every_request_has_at_most_one_answer(messages: list[Any]) -> None:
    mcp = server()
    running: list[Any] = []
    for message in messages:
        match mcp.receive(encode_line(message)):
            case CallTool(request_id=id):
                assert id not in running
                running.append(id)
            case CancelTool(request_id=id):
                running.remove(id)
            case reply:
                assert reply is None or on_the_wire(reply)["jsonrpc"] == "2.0"
    for id in running:
        assert mcp.reply(id, ToolOutcome([])) is not None
        assert mcp.reply(id, ToolOutcome([])) is None


# --- without a handshake


def stateless(method: str, version: str = "2026-07-28", id: Any = 1, **params: Any) -> JsonObject:
    return request(method, {**params, "_meta": {VERSION_KEY: version}}, id)


def test_a_client_without_a_handshake_finds_out_what_there_is() -> None:
    found = on_the_wire(server().receive(stateless("server/discover")))["result"]
    assert found == {
        "supportedVersions": ["2026-07-28", *VERSIONS],
        "capabilities": {"tools": {"listChanged": True}},
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "app", "version": "1"}},
    }


def test_what_it_is_answered_says_that_it_is_complete() -> None:
    mcp = server()
    listed = on_the_wire(mcp.receive(stateless("tools/list")))["result"]
    assert (listed["resultType"], listed["ttlMs"]) == ("complete", 0)
    assert [each["name"] for each in listed["tools"]] == ["echo"]
    assert isinstance(mcp.receive(stateless("tools/call", id=2, name="echo")), CallTool)
    answer = on_the_wire(mcp.reply(2, ToolOutcome([Text("hi")])))["result"]
    assert answer == {
        "content": [{"type": "text", "text": "hi"}],
        "isError": False,
        "resultType": "complete",
    }


def test_a_client_of_each_era_is_answered_in_its_own_words() -> None:
    mcp = server()
    mcp.receive(stateless("tools/call", id=1, name="echo"))
    mcp.receive(call(2))
    mcp.receive(stateless("tools/call", id=3, name="echo"))
    mcp.receive(cancelled(3))
    mcp.receive(call(3))
    outcome = ToolOutcome([Text("hi")])
    answers = [on_the_wire(mcp.reply(id, outcome))["result"] for id in (1, 2, 3)]
    assert ["resultType" in answer for answer in answers] == [True, False, False]


def test_a_revision_that_nobody_knows_is_refused_with_those_that_are() -> None:
    error = on_the_wire(server().receive(stateless("tools/list", "2099-01-01")))["error"]
    assert error["code"] == -32022
    assert error["data"] == {
        "supported": ["2026-07-28", *VERSIONS],
        "requested": "2099-01-01",
    }


def test_a_client_without_a_handshake_hears_of_new_tools_while_it_listens() -> None:
    mcp = server()
    begun = mcp.receive(
        stateless("subscriptions/listen", id="l", notifications={"toolsListChanged": True})
    )
    named = {"io.modelcontextprotocol/subscriptionId": "l"}
    assert isinstance(begun, ListenForChanges)
    assert begun.acknowledgement["params"] == {
        "notifications": {"toolsListChanged": True},
        "_meta": named,
    }
    [changed] = mcp.set_tools([])
    assert changed["method"] == "notifications/tools/list_changed"
    assert changed["params"] == {"_meta": named}
    assert on_the_wire(mcp.end_listening("l"))["result"]["_meta"] == named
    assert mcp.set_tools([]) == []


def test_a_client_hears_only_of_what_it_wants_to_hear() -> None:
    mcp = server()
    listen = stateless("subscriptions/listen", notifications={"promptsListChanged": True})
    begun = mcp.receive(listen)
    assert isinstance(begun, ListenForChanges)
    assert begun.acknowledgement["params"]["notifications"] == {}
    assert mcp.set_tools([]) == []


def test_a_cancelled_request_to_listen_is_not_answered() -> None:
    mcp = server()
    mcp.receive(stateless("subscriptions/listen", notifications={}))
    assert mcp.receive(cancelled(1)) == CancelTool(1)
    assert mcp.end_listening(1) is None


def test_a_request_to_listen_that_makes_no_sense_is_refused() -> None:
    assert error_code(server().receive(stateless("subscriptions/listen"))) == -32602
    assert error_code(server().receive(request("subscriptions/listen"))) == -32601
