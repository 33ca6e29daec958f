"""Opening a session where version 2 is allowed: the choice of the version, and what follows."""

from __future__ import annotations

from typing import Any

import pytest
from acp_kit import EVERYTHING, EVERYTHING_2, Peer, opened, opened2, state, update

from agentrt.effects import (
    CallReturned,
    CommandsSet,
    ModesSet,
    Started,
    StartFailed,
    TextReceived,
    TurnBegan,
    TurnFinished,
)
from agentrt.lowlevel import Opening

INFO = {"name": "agent", "version": "9"}
GREETING = {"protocolVersion": 2, "info": INFO, "capabilities": EVERYTHING_2}


def greeted(answer: dict[str, Any], opening: Opening | None = None) -> Peer:
    peer = Peer(version=2)
    peer.start(opening)
    peer.version = 2 if "info" in answer else 1
    peer.answer(1, answer)
    return peer


def test_one_request_offers_both_versions() -> None:
    peer = Peer(version=2)
    peer.start()
    params = peer.last("initialize")["params"]
    assert params["protocolVersion"] == 2
    assert params["info"] == params["clientInfo"] == {"name": "agentrt", "version": "1"}
    assert params["capabilities"] == {"elicitation": {"form": {}, "url": {}}}
    assert params["clientCapabilities"]["fs"] == {"readTextFile": True, "writeTextFile": True}


def test_version_1_alone_sends_what_it_always_sent() -> None:
    one, both = Peer(), Peer(version=2)
    one.start()
    both.start()
    assert set(one.last("initialize")["params"]) == {
        "protocolVersion",
        "clientInfo",
        "clientCapabilities",
    }
    one.answer(1, {"protocolVersion": 1, "agentCapabilities": EVERYTHING})
    both.answer(1, {"protocolVersion": 1, "agentCapabilities": EVERYTHING})
    assert one.sent[1:] == both.sent[1:], "an agent that answers 1 gets the same in both cases"


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        (GREETING, 2),
        ({"protocolVersion": 2, "info": INFO}, 2),
        ({"protocolVersion": 2, "capabilities": {}}, 2),
        ({"protocolVersion": 1}, 1),
        ({"protocolVersion": 1, "agentCapabilities": EVERYTHING}, 1),
        ({"protocolVersion": 2, "agentCapabilities": EVERYTHING, "agentInfo": INFO}, 1),
        ({**GREETING, "agentCapabilities": EVERYTHING, "agentInfo": INFO}, 2),
        ({"protocolVersion": 99, "agentCapabilities": {}}, 1),
        ({"protocolVersion": 2}, 1),
        ({"protocolVersion": 3, "info": INFO, "capabilities": {}}, None),
        ({"protocolVersion": "2", "info": INFO}, None),
        ({}, None),
    ],
)
def test_the_shape_of_the_answer_decides_the_version(answer: Any, version: int | None) -> None:
    peer = greeted(answer)
    if version is None:
        assert peer.only(StartFailed).error.code == "version"
        return
    peer.answer(2, {"sessionId": "s1"})
    assert peer.only(Started).capabilities["protocol_version"] == version
    repeated = version == 1 and answer["protocolVersion"] != 1
    assert peer.notices() == (["version_repeated"] if repeated else [])


@pytest.mark.parametrize("version", [None, "2", True, 2.0, [2], {}, "x" * 1000])
@pytest.mark.parametrize("asked", [1, 2])
def test_a_version_that_is_no_integer_is_an_error_that_shows_it(asked: int, version: Any) -> None:
    peer = Peer(version=asked)
    peer.start()
    peer.answer(1, {"protocolVersion": version, "info": INFO, "capabilities": {}})
    error = peer.only(StartFailed).error
    assert error.code == "version"
    assert error.message.startswith("the agent's `protocolVersion` must be an integer, got ")
    assert len(error.message) < 120


def test_an_agent_that_refuses_a_version_that_it_supports_is_quoted() -> None:
    peer = Peer(version=2)
    peer.start()
    peer.fail(1, -32022, "Unsupported protocol version", {"requested": 2, "supported": [2, 3]})
    assert peer.only(StartFailed).error.message == (
        "the agent refused version 2 of the protocol, which it lists as supported"
    )


def test_an_agent_that_refuses_the_fields_of_version_2_is_asked_for_1() -> None:
    peer = Peer(version=2)
    peer.start()
    peer.fail(1, -32602, "info: unknown field")
    assert peer.last("initialize")["params"]["protocolVersion"] == 1
    assert "info" not in peer.last("initialize")["params"]
    peer.answer(2, {"protocolVersion": 1})
    peer.answer(3, {"sessionId": "s1"})
    assert peer.only(Started).capabilities["protocol_version"] == 1


def test_an_agent_that_supports_only_version_1_by_its_error_is_asked_for_1() -> None:
    peer = Peer(version=2)
    peer.start()
    peer.fail(1, -32022, "Unsupported protocol version", {"requested": 2, "supported": [1]})
    assert peer.last("initialize")["params"]["protocolVersion"] == 1
    peer.fail(2, -32022, "Unsupported protocol version", {"requested": 1, "supported": [3]})
    assert peer.only(StartFailed).error.message == (
        "the agent speaks version 3 of the protocol, not 1"
    )


def test_the_capabilities_of_version_2_have_the_neutral_names() -> None:
    peer = greeted(GREETING)
    assert peer.last("session/new")["params"] == {"cwd": "/project", "mcpServers": []}
    peer.answer(2, {"sessionId": "s1"})
    started = peer.only(Started)
    assert started.agent_version == "9"
    assert started.capabilities == {
        "protocol_version": 2,
        "resume": True,
        "fork": True,
        "fork_at": False,
        "steer": False,
        "list_sessions": True,
        "delete_session": True,
        "logout": False,
        "set_title": False,
        "providers": False,
        "image": True,
        "audio": True,
        "embedded_context": True,
        "agent": EVERYTHING_2,
    }


def test_options_and_commands_come_with_the_session() -> None:
    option = {
        "configId": "mode",
        "name": "Mode",
        "category": "mode",
        "type": "select",
        "currentValue": "plan",
        "options": [{"groupId": "g", "name": "G", "options": [{"value": "plan", "name": "Plan"}]}],
    }
    command = {"type": "command", "name": "plan", "description": "d", "input": {"hint": "what"}}
    peer = greeted(GREETING)
    peer.answer(2, {"sessionId": "s1", "configOptions": [option], "availableCommands": [command]})
    assert peer.only(ModesSet).modes.mode == "plan"
    assert [(each.name, each.hint) for each in peer.only(CommandsSet).commands] == [
        ("plan", "what")
    ]
    peer.do(peer.driver.call("c", "set_mode", {"mode": "plan"}))
    assert peer.last("session/set_config_option")["params"] == {
        "sessionId": "s1",
        "configId": "mode",
        "type": "id",
        "value": "plan",
    }
    peer.answer(3, {"configOptions": [{**option, "currentValue": "x"}]})
    assert peer.of(ModesSet)[-1].modes.mode == "x"
    peer.update("config_option_update", configOptions=[option])
    assert peer.of(ModesSet)[-1].modes.mode == "plan"


def test_mcp_servers_name_their_transport() -> None:
    servers = (
        {"name": "a", "command": "/bin/a"},
        {"name": "b", "type": "http", "url": "http://127.0.0.1:1"},
        {"name": "c", "type": "sse", "url": "http://127.0.0.1:1"},
    )
    peer = greeted(GREETING, Opening(cwd="/p", mcp_servers=servers))
    sent = peer.last("session/new")["params"]["mcpServers"]
    assert [(each["name"], each["type"]) for each in sent] == [("a", "stdio"), ("b", "http")]
    assert peer.notices() == ["mcp_unsupported"]


@pytest.mark.parametrize("replay", [True, False])
def test_a_session_is_resumed_with_its_history_if_it_is_wanted(replay: bool) -> None:
    opening = Opening(cwd="/p", resume="old", options={} if replay else {"replay": False})
    peer = greeted(GREETING, opening)
    params = peer.last("session/resume")["params"]
    assert params.get("replayFrom") == ({"type": "start"} if replay else None)
    text = {"type": "text", "text": "x"}
    peer.update("agent_message", "old", messageId="m", content=[text])
    peer.say(state("idle", "old", stopReason="end_turn"), {"id": 2, "result": {}})
    assert [each.replay for each in peer.of(TextReceived)] == [True]
    assert peer.only(Started).repeated is replay
    assert peer.of(TurnFinished) == []


def test_a_session_that_is_resumed_while_it_works_has_a_running_turn() -> None:
    peer = greeted(GREETING, Opening(cwd="/p", resume="old"))
    peer.say(state("running", "old"), {"id": 2, "result": {}})
    assert [type(each) for each in peer.effects] == [Started, ModesSet, TurnBegan]
    peer.say(state("idle", "old", stopReason="end_turn"))
    assert peer.only(TurnFinished).turn is None


def test_an_unknown_session_is_recognised_by_code_and_by_text() -> None:
    for code, message in ((-32002, "Resource not found"), (-32603, "no rollout found for thread")):
        peer = greeted(GREETING, Opening(cwd="/p", resume="old"))
        peer.fail(2, code, message, {"sessionId": "old"})
        assert peer.only(StartFailed).error.code == "session_not_found"


def test_logging_in_and_out_have_their_new_names() -> None:
    peer = Peer(version=2, auth_method="key")
    peer.start()
    peer.version = 2
    methods = [{"type": "agent", "methodId": "key", "name": "Key"}]
    peer.answer(1, {**GREETING, "authMethods": methods})
    peer.fail(2, -32000, "Authentication required")
    assert peer.last("auth/login")["params"] == {"methodId": "key"}
    peer.answer(3, {})
    peer.answer(4, {"sessionId": "s1"})
    peer.do(peer.driver.call("c", "logout", {}))
    assert peer.last("auth/logout")["params"] == {}


def test_an_agent_gets_no_files_and_no_terminals_in_version_2() -> None:
    peer = opened2()
    peer.raw(b'{"jsonrpc":"2.0","id":5,"method":"fs/read_text_file","params":{}}\n')
    assert peer.sent[-1]["error"]["code"] == -32601
    assert peer.notices() == ["unknown_request"]


def test_a_session_is_closed_before_the_end_of_the_input() -> None:
    peer = opened2()
    peer.do(peer.driver.shutdown_message())
    assert peer.methods() == ["session/close"]


def test_the_same_call_for_a_task_is_unsupported_in_both_versions() -> None:
    for peer in (opened(), opened2()):
        peer.do(peer.driver.call("c", "stop_task", {"task": "nothing"}))
        error = peer.only(CallReturned).error
        assert error is not None
        assert error.code == "unsupported"


def test_updates_before_the_session_is_known_are_shown_when_it_is_open() -> None:
    peer = greeted(GREETING)
    peer.say(update("agent_message_chunk", "s1", messageId="m", content=TEXT))
    peer.say(state("running", "s1"))
    peer.answer(2, {"sessionId": "s1"})
    assert [each.text for each in peer.of(TextReceived)] == ["x"]
    assert peer.of(TurnBegan)


TEXT = {"type": "text", "text": "x"}
