"""From the first byte to a session that takes prompts, or to a reason why there is none."""

from __future__ import annotations

from typing import Any

import pytest
from acp_kit import EVERYTHING, Peer, chunk, update

from agentrt.effects import (
    ModesSet,
    Started,
    StartFailed,
    TextReceived,
    ToolCalled,
    UserContentReceived,
)
from agentrt.errors import LocalProtocolError
from agentrt.events import ForkPoint
from agentrt.lowlevel import Implementation, Opening, client_capabilities


def initialized(
    opening: Opening | None = None,
    /,
    *,
    auth_method: str | None = None,
    late_history: bool = False,
    fork_at: bool = False,
    **result: Any,
) -> Peer:
    """A peer whose agent has just answered `initialize`."""
    peer = Peer(auth_method=auth_method, late_history=late_history, fork_at=fork_at)
    peer.start(opening)
    peer.methods()
    peer.answer(1, {"protocolVersion": 1, **result})
    return peer


def test_version_one_and_what_the_host_serves_are_sent_first() -> None:
    peer = Peer(
        capabilities=client_capabilities(terminals=True), client=Implementation("host", "7")
    )
    assert peer.start() == []
    (line,) = peer.sent
    assert line["method"] == "initialize"
    assert line["params"] == {
        "protocolVersion": 1,
        "clientCapabilities": {
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": True,
            "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
            "subagents": {},
        },
        "clientInfo": {"name": "host", "version": "7"},
    }


def test_a_new_session_is_opened_and_reported_with_what_the_agent_can() -> None:
    peer = initialized(
        agentCapabilities=EVERYTHING, agentInfo={"name": "agent", "version": "1.2.3"}
    )
    assert peer.last("session/new")["params"] == {"cwd": "/project", "mcpServers": []}
    peer.answer(2, {"sessionId": "s1"})
    started = peer.only(Started)
    assert (started.session, started.resumed) == ("s1", False)
    assert started.agent_version == "1.2.3"
    assert started.capabilities == {
        "protocol_version": 1,
        "resume": True,
        "fork": True,
        "fork_at": False,
        "steer": False,
        "list_sessions": True,
        "delete_session": True,
        "logout": True,
        "set_title": False,
        "providers": False,
        "image": True,
        "audio": True,
        "embedded_context": True,
        "agent": EVERYTHING,
    }


@pytest.mark.parametrize("version", [2, 0, "1", 1.0, True, None])
def test_any_other_version_than_one_is_refused(version: Any) -> None:
    peer = Peer()
    peer.start()
    peer.answer(1, {"protocolVersion": version})
    assert peer.only(StartFailed).error.code == "version"
    assert peer.methods() == ["initialize"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"requested": 1, "supported": [2]},
            "the agent speaks version 2 of the protocol, not 1; allow version 2 with"
            " `acp_version = 2` (a draft)",
        ),
        ({"supported": [3, 4]}, "the agent speaks versions 3 and 4 of the protocol, not 1"),
        ({"supported": ["2"]}, "the agent does not speak version 1 of the protocol"),
        (None, "the agent does not speak version 1 of the protocol"),
    ],
)
def test_an_agent_that_refuses_the_version_is_described_with_its_own(
    data: Any, message: str
) -> None:
    peer = Peer()
    peer.start()
    peer.fail(1, -32022, "Unsupported protocol version", data)
    error = peer.only(StartFailed).error
    assert (error.code, error.message) == ("version", message)


def test_an_error_instead_of_a_handshake_keeps_its_data() -> None:
    peer = Peer()
    peer.start()
    peer.fail(1, 1001, "no native binary", {"exitCode": 1, "details": "not installed"})
    error = peer.only(StartFailed).error
    assert error.code == "rejected"
    assert error.message == "no native binary: not installed"
    assert error.data == {"code": 1001, "data": {"exitCode": 1, "details": "not installed"}}


def test_an_answer_without_a_session_is_a_failed_start() -> None:
    peer = initialized()
    peer.answer(2, {})
    assert peer.only(StartFailed).error.code == "protocol"


def test_an_agent_that_describes_itself_wrongly_is_still_opened() -> None:
    peer = initialized(agentCapabilities={"loadSession": "yes"}, authMethods="none", agentInfo=3)
    peer.answer(2, {"sessionId": "0", "modes": [], "configOptions": {"a": 1}})
    assert peer.only(Started).session == "0"
    assert peer.notices() == ["wrong_fields", "wrong_fields"]


# --- taking up an earlier session


def test_an_earlier_session_is_loaded_and_its_history_marked_as_such() -> None:
    peer = initialized(Opening(cwd="/p", resume="old"), agentCapabilities=EVERYTHING)
    assert peer.last("session/load")["params"] == {
        "sessionId": "old",
        "cwd": "/p",
        "mcpServers": [],
    }
    text = {"type": "text", "text": "x"}
    peer.say(
        update("user_message_chunk", "old", content=text),
        chunk("answer", "old"),
        update("tool_call", "old", toolCallId="c", title="Read"),
        {"id": 2, "result": None},
    )
    assert [effect.replay for effect in peer.effects[:3]] == [True, True, True]  # type: ignore[union-attr]
    assert [type(effect) for effect in peer.effects] == [
        UserContentReceived,
        TextReceived,
        ToolCalled,
        Started,
        ModesSet,
    ]
    assert peer.only(Started).resumed
    peer.prompt()
    peer.effects.clear()
    peer.say(chunk("new", "old"))
    assert peer.effects == [TextReceived("new")]


def test_history_that_goes_on_behind_the_answer_is_waited_for() -> None:
    opening = Opening(cwd="/p", resume="old")
    peer = initialized(opening, late_history=True, agentCapabilities=EVERYTHING)
    text = {"type": "text", "text": "x"}
    peer.say(update("user_message_chunk", "old", content=text), {"id": 2, "result": None})
    peer.say(chunk("first", "old"))
    peer.fail(3, -32601, "method not found")  # what was to be answered
    peer.say(chunk("second", "old"))
    peer.fail(4, -32601, "method not found")
    assert peer.of(Started) == []
    peer.fail(5, -32601, "method not found")
    assert [effect.replay for effect in peer.effects[:3]] == [True, True, True]  # type: ignore[union-attr]
    assert peer.only(Started).resumed
    assert peer.notices() == []
    peer.prompt()
    peer.effects.clear()
    peer.say(chunk("new", "old"))
    assert peer.effects == [TextReceived("new")]


def test_without_wanting_history_a_session_is_resumed_rather_than_loaded() -> None:
    opening = Opening(cwd="/p", resume="old", options={"replay": False})
    peer = initialized(opening, agentCapabilities=EVERYTHING)
    assert peer.last("session/resume")["params"]["sessionId"] == "old"
    peer.say(chunk("replayed all the same", "old"), {"id": 2, "result": {}})
    assert peer.only(TextReceived).replay
    assert peer.only(Started).session == "old"


def test_a_session_is_resumed_where_it_cannot_be_loaded() -> None:
    capabilities = {"sessionCapabilities": {"resume": {}}}
    peer = initialized(Opening(cwd="/p", resume="old"), agentCapabilities=capabilities)
    assert peer.methods() == ["session/resume"]


def test_a_session_is_forked_under_a_new_id() -> None:
    opening = Opening(cwd="/p", resume="old", fork=True)
    peer = initialized(opening, agentCapabilities=EVERYTHING)
    assert peer.last("session/fork")["params"]["sessionId"] == "old"
    peer.answer(2, {"sessionId": "new"})
    assert peer.only(Started).session == "new"


POINT = ForkPoint(messages=("m2", "m1"), text="Done.", occurrence=3)


@pytest.mark.parametrize("how", [{"fork_at": True}, {"_meta": {"agentrt": {"forkAt": True}}}])
def test_a_fork_ends_where_it_is_said(how: dict[str, Any]) -> None:
    meta = {"mine": 1, "jetbrains": {"air": {"kind": "x"}}}
    opening = Opening(cwd="/p", resume="old", fork=True, fork_at=POINT, options={"meta": meta})
    peer = initialized(opening, agentCapabilities=EVERYTHING, **how)
    said = peer.last("session/fork")["params"]["_meta"]
    digest = "ed251864987c367e9641fbdc89c1d83e9bf0fa2e3eecef8f301c79f619bfac81"
    fork = {"version": 1, "messageId": "m2", "messageOccurrence": 3}
    assert said["mine"] == 1
    assert said["jetbrains"]["air"] == {
        "kind": "x",
        "fork": {**fork, "messageFingerprint": f"sha256:{digest}"},
    }
    peer.answer(2, {"sessionId": "new"})
    assert peer.only(Started).capabilities["fork_at"] is True


def test_an_agent_that_would_fork_at_its_end_instead_is_a_failed_start() -> None:
    opening = Opening(cwd="/p", resume="old", fork=True, fork_at=POINT)
    peer = initialized(opening, agentCapabilities=EVERYTHING)
    assert peer.only(StartFailed).error.message == "the agent can fork a session only at its end"
    assert peer.methods() == []


@pytest.mark.parametrize("fork", [True, False])
def test_an_agent_that_cannot_take_up_a_session_is_a_failed_start(fork: bool) -> None:
    peer = initialized(Opening(cwd="/p", resume="old", fork=fork))
    assert peer.only(StartFailed).error.code == "rejected"
    assert peer.methods() == []


@pytest.mark.parametrize(
    ("code", "message", "word"),
    [
        (-32002, "Resource not found", "session_not_found"),
        (-32603, "Session 'old' not found", "session_not_found"),
        (-32001, "Unknown session", "session_not_found"),
        (-32603, "Internal error: no rollout found for thread id 01a2", "session_not_found"),
        (-32601, "Method not found", "rejected"),
        (-32603, "Internal error", "rejected"),
    ],
)
def test_a_lost_session_is_distinguished_from_other_failures(
    code: int, message: str, word: str
) -> None:
    peer = initialized(Opening(cwd="/p", resume="old"), agentCapabilities=EVERYTHING)
    peer.fail(2, code, message)
    assert peer.only(StartFailed).error.code == word


# --- authentication


METHODS: list[dict[str, Any]] = [
    {"type": "terminal", "id": "login", "name": "Log in", "args": ["--login"]},
    {"id": "key", "name": "API key"},
    {"type": "agent", "id": "browser", "name": "Browser"},
]


def refused(peer: Peer) -> Peer:
    peer.fail(2, -32000, "Authentication required")
    return peer


def test_no_login_is_begun_that_nobody_has_chosen() -> None:
    peer = refused(initialized(authMethods=METHODS))
    error = peer.only(StartFailed).error
    assert (error.code, error.message) == ("auth_required", "Authentication required")
    assert [method["id"] for method in error.data["methods"]] == ["login", "key", "browser"]
    assert peer.methods() == ["session/new"]


def test_the_configured_method_is_tried_once() -> None:
    peer = refused(initialized(auth_method="key", authMethods=METHODS))
    assert peer.last("authenticate")["params"] == {"methodId": "key"}
    peer.answer(3, {})
    assert peer.methods() == ["session/new", "authenticate", "session/new"]
    peer.fail(4, -32000, "Authentication required")
    assert peer.only(StartFailed).error.code == "auth_required"


def test_a_configured_method_is_used_even_if_it_was_not_advertised() -> None:
    peer = Peer(auth_method="secret")
    peer.start()
    peer.answer(1, {"protocolVersion": 1})
    refused(peer)
    assert peer.last("authenticate")["params"] == {"methodId": "secret"}
    peer.answer(3, None)
    peer.answer(4, {"sessionId": "s1"})
    assert peer.only(Started).session == "s1"


def test_a_terminal_method_is_never_sent_but_reported() -> None:
    peer = refused(initialized(authMethods=METHODS[:1]))
    error = peer.only(StartFailed).error
    assert error.code == "auth_required"
    told = {"id": "login", "name": "Log in", "type": "terminal", "args": ["--login"]}
    assert error.data["methods"] == [told]
    assert peer.methods() == ["session/new"]


def test_a_failed_authentication_is_a_failed_start() -> None:
    peer = refused(initialized(auth_method="key", authMethods=METHODS))
    peer.fail(3, -32603, "wrong key")
    assert peer.only(StartFailed).error.code == "auth_required"


# --- what a session is opened with


def test_a_server_is_sent_by_the_first_transport_that_the_agent_knows() -> None:
    http = {"type": "http", "name": "tools", "url": "http://127.0.0.1:1"}
    stdio = {"name": "tools", "command": "/bin/bridge", "env": [{"name": "A", "value": "b"}]}
    opening = Opening(cwd="/p", mcp_servers=(http, stdio))
    peer = initialized(opening, agentCapabilities={"mcpCapabilities": {"http": True}})
    assert peer.last("session/new")["params"]["mcpServers"] == [{**http, "headers": []}]
    peer = initialized(opening)
    assert peer.last("session/new")["params"]["mcpServers"] == [{**stdio, "args": []}]


def test_a_server_out_of_reach_is_reported() -> None:
    http = {"type": "http", "name": "tools", "url": "http://127.0.0.1:1"}
    peer = initialized(Opening(cwd="/p", mcp_servers=(http,)))
    assert peer.last("session/new")["params"]["mcpServers"] == []
    assert peer.notices() == ["mcp_unsupported"]


def test_what_is_no_server_is_the_caller_s_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="not an MCP server"):
        Peer().start(Opening(cwd="/p", mcp_servers=({"command": "x"},)))


def test_further_folders_go_to_agents_that_take_them() -> None:
    opening = Opening(cwd="/p", roots=("/q",))
    peer = initialized(opening, agentCapabilities=EVERYTHING)
    assert peer.last("session/new")["params"]["additionalDirectories"] == ["/q"]
    peer = initialized(opening)
    assert "additionalDirectories" not in peer.last("session/new")["params"]
    assert peer.notices() == ["roots_unsupported"]


def test_extras_for_the_agent_travel_as_meta() -> None:
    peer = initialized(Opening(cwd="/p", options={"meta": {"claudeCode": {"options": {}}}}))
    assert peer.last("session/new")["params"]["_meta"] == {"claudeCode": {"options": {}}}


MODES = {
    "currentModeId": "code",
    "availableModes": [{"id": "code", "name": "Code"}, {"id": "ask", "name": "Ask first"}],
}


def test_prompts_wait_until_the_wanted_mode_is_set() -> None:
    peer = initialized(Opening(cwd="/p", mode="ask first"))
    peer.answer(2, {"sessionId": "s1", "modes": MODES})
    assert peer.last("session/set_mode")["params"] == {"sessionId": "s1", "modeId": "ask"}
    assert peer.of(Started) == []
    peer.answer(3, {})
    assert peer.only(Started)
    assert peer.only(ModesSet).modes.mode == "ask"


def test_a_mode_that_does_not_exist_fails_the_start_and_names_those_that_do() -> None:
    peer = initialized(Opening(cwd="/p", mode="yolo"))
    peer.answer(2, {"sessionId": "s1", "modes": MODES})
    error = peer.only(StartFailed).error
    assert error.code == "rejected"
    assert "code, ask" in error.message


def test_a_mode_that_the_agent_refuses_fails_the_start() -> None:
    peer = initialized(Opening(cwd="/p", mode="ask"))
    peer.answer(2, {"sessionId": "s1", "modes": MODES})
    peer.fail(3, -32603, "not now")
    assert peer.only(StartFailed).error.message == "not now"


def test_model_mode_and_options_are_set_one_after_the_other() -> None:
    def option(id: str, value: str, *values: str, category: str | None = None) -> dict[str, Any]:
        choices = [{"value": each, "name": each.upper()} for each in values]
        return {
            "id": id,
            "name": id,
            "type": "select",
            "category": category,
            "currentValue": value,
            "options": choices,
        }

    opening = Opening(cwd="/p", model="big", mode="ask", options={"config": {"web": True}})
    peer = initialized(opening)
    web = {"id": "web", "name": "Web", "type": "boolean", "currentValue": False}
    model = option("m", "small", "small", "big", category="model")
    peer.answer(2, {"sessionId": "s1", "configOptions": [model, web]})
    assert peer.last("session/set_config_option")["params"] == {
        "sessionId": "s1",
        "configId": "m",
        "value": "big",
    }
    mode = option("mode", "code", "code", "ask", category="mode")  # the big model brings it
    model["currentValue"] = "big"
    peer.answer(3, {"configOptions": [model, mode, web]})
    assert peer.last("session/set_config_option")["params"]["value"] == "ask"
    mode["currentValue"] = "ask"
    peer.answer(4, {"configOptions": [model, mode, web]})
    assert peer.last("session/set_config_option")["params"] == {
        "sessionId": "s1",
        "configId": "web",
        "value": True,
        "type": "boolean",
    }
    peer.answer(5, {"nothing": "useful"})
    modes = peer.only(ModesSet).modes
    assert (modes.model, modes.mode) == ("big", "ask")
    assert [(each.id, each.value) for each in modes.options] == [("web", True)]


# --- order


def test_updates_before_the_session_has_an_id_are_reported_after_it_is_open() -> None:
    peer = initialized()
    commands = [{"name": "plan", "description": "d"}]
    peer.say(update("available_commands_update", availableCommands=commands), chunk("early"))
    peer.say(chunk("not ours", "s2"))
    assert peer.effects == []
    peer.answer(2, {"sessionId": "s1"})
    kinds = [type(effect).__name__ for effect in peer.effects]
    assert kinds == ["Started", "ModesSet", "CommandsSet", "TextReceived", "Notice"]
    assert peer.notices() == ["foreign_session"]


def test_nothing_can_be_done_before_the_session_is_open() -> None:
    peer = initialized()
    for command in (
        lambda: peer.driver.prompt("t", []),
        lambda: peer.driver.call("c", "set_mode", {"mode": "x"}),
        lambda: peer.driver.start(Opening(cwd="/p")),
    ):
        with pytest.raises(LocalProtocolError):
            command()
    assert peer.driver.cancel() == []
    assert peer.driver.shutdown_message() == []


def test_an_agent_that_asks_for_permission_during_the_handshake_is_heard() -> None:
    peer = initialized()
    peer.ask("fs/read_text_file", {"sessionId": "s1", "path": "/p/x"})
    peer.ask("_vendor/ready", {}, id=1)
    assert [type(effect).__name__ for effect in peer.effects] == ["ServiceRequested", "Notice"]
    assert peer.methods()[1:] == ["error"]


def prompting(modes: object, **options: str) -> Peer:
    """A peer with these options, whose agent has reported its modes for system prompts."""
    able = {"loadSession": True, "sessionCapabilities": {"systemPrompt": modes}}
    opening = Opening(cwd="/project", options=dict(options))
    return initialized(opening, agentCapabilities=able)


@pytest.mark.parametrize(
    ("option", "mode"), [("system_prompt", "override"), ("append_system_prompt", "append")]
)
def test_a_system_prompt_is_sent_to_an_agent_that_takes_it(option: str, mode: str) -> None:
    peer = prompting({"mode": {"override": {}}}, **{option: "You are a cat."})
    assert peer.last("session/new")["params"]["systemPrompt"] == {
        "mode": mode,
        "content": [{"type": "text", "text": "You are a cat."}],
    }


@pytest.mark.parametrize(
    ("modes", "option", "message"),
    [
        (None, "system_prompt", "does not take a system prompt"),
        (None, "append_system_prompt", "does not take a system prompt"),
        ({}, "system_prompt", "use `append_system_prompt`"),
    ],
)
def test_a_session_does_not_start_without_its_system_prompt(
    modes: object, option: str, message: str
) -> None:
    failed = prompting(modes, **{option: "You are a cat."}).only(StartFailed)
    assert failed.error.code == "unsupported"
    assert message in failed.error.message
