"""What codex asks, and what it is answered."""

from __future__ import annotations

from typing import Any

import pytest

import agentrt
from agentrt.effects import DecisionRequested, RequestWithdrawn, ServiceRequested
from agentrt.errors import LocalProtocolError
from agentrt.events import Image, Notice, Text
from agentrt.lowlevel import DecisionAnswer, Effect
from agentrt.testing import FakeCodexAgent, MemoryAgent, open_fake_session

from .codex_kit import COMMAND, EDIT, Peer, only, opened, prompted

AMENDMENT = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["rm", "-rf"]}}


def ask_command(peer: Peer, id: Any = 0, **more: Any) -> DecisionRequested:
    params = {
        "kind": "command",
        "itemId": "c-1",
        "command": COMMAND["command"],
        "cwd": "/shop",
        "reason": "to clean",
        "availableDecisions": ["accept", AMENDMENT, "cancel"],
        **more,
    }
    return only(peer.asks(id, "item/commandExecution/requestApproval", **params), DecisionRequested)


def ask_edit(peer: Peer, id: Any = 0, **more: Any) -> DecisionRequested:
    return only(
        peer.asks(id, "item/fileChange/requestApproval", itemId="e-1", **more), DecisionRequested
    )


def answered(peer: Peer, asked: DecisionRequested, id: Any = 0, **answer: Any) -> Any:
    peer.do(peer.driver.answer(asked.key, DecisionAnswer(**answer)))
    return peer.answer_to(id)


def test_a_command_is_asked_about_with_the_words_that_would_run() -> None:
    asked = ask_command(prompted())
    assert (asked.kind, asked.tool_call, asked.tool_kind) == ("permission", "c-1", "execute")
    assert asked.title == "rm -rf build; ls"
    assert asked.input["command"] == ["/bin/bash", "-lc", "rm -rf build; ls"]
    assert [(option.id, option.kind) for option in asked.options] == [
        ("accept", "allow_once"),
        ("acceptWithExecpolicyAmendment", "allow_always"),
        ("decline", "reject_once"),
    ]


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        ({"option": "accept"}, "accept"),
        ({"option": "decline"}, "decline"),
        ({"option": "decline", "interrupt": True}, "cancel"),
        ({"option": "acceptWithExecpolicyAmendment"}, AMENDMENT),
        ({}, "cancel"),
    ],
)
def test_a_decision_on_a_command_is_said_in_its_words(
    answer: dict[str, Any], decision: object
) -> None:
    peer = prompted()
    assert answered(peer, ask_command(peer), **answer) == {"decision": decision}


def test_a_command_may_be_allowed_for_the_session_where_that_is_offered() -> None:
    peer = prompted()
    asked = ask_command(peer, availableDecisions=["accept", "acceptForSession"])
    assert [option.kind for option in asked.options] == [
        "allow_once",
        "allow_always",
        "reject_once",
    ]
    assert answered(peer, asked, option="acceptForSession") == {"decision": "acceptForSession"}


def test_what_is_written_to_a_running_program_is_no_command_that_is_known() -> None:
    asked = ask_command(prompted(), kind="writeStdin", command="rm -rf /\n")
    assert asked.input == {"chars": "rm -rf /\n"}


def test_a_connection_is_asked_about_by_its_host() -> None:
    context = {"host": "example.org", "protocol": "https"}
    asked = ask_command(prompted(), command=None, networkApprovalContext=context)
    assert (asked.tool_kind, asked.input) == ("fetch", {"url": "https://example.org"})


def test_a_command_that_cannot_be_read_is_given_as_it_is() -> None:
    asked = ask_command(prompted(), command="bash -lc 'no end")
    assert asked.input["command"] == "bash -lc 'no end"


def test_an_edit_is_asked_about_with_its_files() -> None:
    peer = prompted()
    peer.item("started", EDIT)
    asked = ask_edit(peer)
    assert (asked.tool_kind, asked.changes) == ("edit", ["/project/a.txt"])
    assert answered(peer, asked, option="acceptForSession") == {"decision": "acceptForSession"}


def test_an_edit_is_also_of_where_it_moves_a_file() -> None:
    peer = prompted()
    kind = {"type": "update", "move_path": "/project/b.txt"}
    change = {"path": "/project/a.txt", "kind": kind, "diff": "@@ -1 +1 @@\n-a\n+b\n"}
    peer.item("started", {**EDIT, "changes": [change]})
    assert ask_edit(peer).changes == ["/project/a.txt", "/project/b.txt"]


def test_a_root_that_it_wants_for_the_session_is_one_of_the_files() -> None:
    assert ask_edit(prompted(), grantRoot="/etc").changes == ["/etc"]


def ask_more(peer: Peer) -> DecisionRequested:
    wanted = {"network": {"enabled": True}, "fileSystem": {"read": None, "write": ["/etc"]}}
    effects = peer.asks(
        0,
        "item/permissions/requestApproval",
        itemId="x",
        cwd="/shop",
        reason="must",
        permissions=wanted,
    )
    return only(effects, DecisionRequested)


@pytest.mark.parametrize(("option", "scope"), [("accept", "turn"), ("acceptForSession", "session")])
def test_more_permissions_are_granted_for_a_turn_or_the_session(option: str, scope: str) -> None:
    peer = prompted()
    asked = ask_more(peer)
    assert asked.changes == ["/etc"]
    granted = answered(peer, asked, option=option)
    assert granted["scope"] == scope
    assert granted["permissions"]["fileSystem"]["write"] == ["/etc"]


@pytest.mark.parametrize("answer", [{"option": "decline"}, {}])
def test_without_a_yes_no_more_permissions_are_granted(answer: dict[str, Any]) -> None:
    peer = prompted()
    assert answered(peer, ask_more(peer), **answer) == {"permissions": {}, "scope": "turn"}


MCP = {
    "serverName": "s",
    "turnId": "u-1",
    "mode": "form",
    "message": "Allow?",
    "requestedSchema": {"type": "object", "properties": {}},
}
ITS_TOOL = {
    "codex_approval_kind": "mcp_tool_call",
    "persist": ["session", "always"],
    "tool_name": "t",
    "tool_params": {"a": 1},
}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"option": "accept"}, {"action": "accept", "content": {}}),
        (
            {"option": "acceptForSession"},
            {"action": "accept", "content": {}, "_meta": {"persist": "session"}},
        ),
        ({"option": "decline"}, {"action": "decline"}),
        ({}, {"action": "cancel"}),
    ],
)
def test_the_call_of_an_mcp_tool_is_a_permission_request(
    answer: dict[str, Any], said: dict[str, Any]
) -> None:
    peer = prompted()
    effects = peer.asks(0, "mcpServer/elicitation/request", **MCP, _meta=ITS_TOOL)
    asked = only(effects, DecisionRequested)
    assert (asked.kind, asked.name, asked.input) == ("permission", "mcp__s__t", {"a": 1})
    assert answered(peer, asked, **answer) == said


def test_a_form_of_an_mcp_server_is_filled() -> None:
    peer = prompted()
    asked = only(peer.asks(0, "mcpServer/elicitation/request", **MCP), DecisionRequested)
    assert (asked.kind, asked.form) == ("elicitation", MCP["requestedSchema"])
    said = answered(peer, asked, option="accept", content={"x": "y"})
    assert said == {"action": "accept", "content": {"x": "y"}}


def test_a_page_of_an_mcp_server_is_visited() -> None:
    page = {"serverName": "s", "mode": "url", "message": "Go", "url": "http://x", "turnId": None}
    asked = only(prompted().asks(0, "mcpServer/elicitation/request", **page), DecisionRequested)
    assert asked.url == "http://x"


QUESTION = {
    "id": "q",
    "header": "Colour",
    "question": "Which?",
    "isOther": False,
    "isSecret": False,
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"option": "accept", "content": {"q": "Red", "z": "?"}}, {"q": {"answers": ["Red"]}}),
        ({"option": "decline"}, {}),
    ],
)
def test_the_models_questions_are_a_form(answer: dict[str, Any], said: dict[str, Any]) -> None:
    peer = prompted()
    asked = only(
        peer.asks(0, "item/tool/requestUserInput", itemId="i", questions=[QUESTION]),
        DecisionRequested,
    )
    assert asked.form is not None
    assert [each["const"] for each in asked.form["properties"]["q"]["oneOf"]] == ["Red", "Blue"]
    assert answered(peer, asked, **answer) == {"answers": said}


def call_tool(peer: Peer) -> list[Effect]:
    given = {"turnId": "u-1", "callId": "k", "tool": "record", "arguments": {"a": 1}}
    return peer.asks(0, "item/tool/call", **given)


def test_a_tool_of_the_program_is_called_and_answered() -> None:
    peer = prompted()
    request = only(call_tool(peer), ServiceRequested)
    assert request.method == "tool"
    assert request.params == {"tool": "record", "arguments": {"a": 1}, "call": "k"}
    peer.do(peer.driver.reply(request.key, {"success": True}))
    assert peer.answer_to(0) == {"success": True}


async def test_codex_gets_texts_and_images_of_a_tool_as_they_are() -> None:
    @agentrt.tool
    def show() -> list[Text | Image]:
        return [Text("done"), Image(data="aGk=", mime_type="image/png")]

    answers: list[Any] = []

    async def calls(agent: FakeCodexAgent) -> None:
        async for prompt in agent.prompts:
            call = {"callId": "k", "tool": "show", "arguments": {}}
            answers.append(await agent.request("item/tool/call", call))
            prompt.end()

    async def program(process: MemoryAgent) -> None:
        async with FakeCodexAgent.serving(process) as agent:
            await calls(agent)

    opening = open_fake_session(lambda: MemoryAgent(program), protocol="codex", tools=[show])
    async with opening as session:
        await session.run("show it")
    assert [answer["result"] for answer in answers] == [
        {
            "contentItems": [
                {"type": "inputText", "text": "done"},
                {"type": "inputImage", "imageUrl": "data:image/png;base64,aGk="},
            ],
            "success": True,
        }
    ]


def test_a_tool_that_failed_says_so_to_the_model() -> None:
    peer = prompted()
    request = only(call_tool(peer), ServiceRequested)
    peer.do(peer.driver.refuse(request.key, -32603, "it broke"))
    answer = peer.answer_to(0)
    assert (answer["success"], answer["contentItems"][0]["text"]) == (False, "it broke")


def test_a_request_that_nobody_knows_is_refused_at_once() -> None:
    peer = prompted()
    effects = peer.asks(5, "attestation/generate")
    assert only(effects, Notice).code == "unknown_request"
    assert peer.answer_to(5)["code"] == -32601


def test_a_request_without_what_it_needs_is_refused() -> None:
    peer = prompted()
    assert only(peer.asks(5, "item/tool/call"), Notice).code == "invalid_request"
    assert peer.answer_to(5)["code"] == -32602


def test_a_request_that_codex_settled_is_withdrawn_and_owed_nothing() -> None:
    peer = prompted()
    asked = ask_command(peer)
    assert (
        only(peer.tells("serverRequest/resolved", requestId=0), RequestWithdrawn).key == asked.key
    )
    assert peer.driver.answer(asked.key, DecisionAnswer(option="accept")) == []


def test_an_answer_that_is_said_settles_no_second_time() -> None:
    peer = prompted()
    answered(peer, ask_command(peer), option="accept")
    assert peer.tells("serverRequest/resolved", requestId=0) == []


def test_an_option_that_was_not_offered_is_refused_here() -> None:
    peer = prompted()
    asked = ask_command(peer)
    with pytest.raises(LocalProtocolError, match="no option 'acceptForSession'"):
        peer.driver.answer(asked.key, DecisionAnswer(option="acceptForSession"))
    assert answered(peer, asked, option="accept") == {"decision": "accept"}


def test_a_service_takes_no_decision() -> None:
    peer = prompted()
    request = only(call_tool(peer), ServiceRequested)
    with pytest.raises(LocalProtocolError, match="requires a reply"):
        peer.driver.answer(request.key, DecisionAnswer(option="accept"))


def test_nobody_is_asked_in_a_turn_that_is_being_cancelled() -> None:
    peer = prompted()
    peer.do(peer.driver.cancel())
    params = {"itemId": "c-1", "command": "ls", "cwd": "/shop"}
    assert peer.asks(0, "item/commandExecution/requestApproval", **params) == []
    assert peer.answer_to(0) == {"decision": "cancel"}


def test_further_requests_and_notifications_are_the_program_s_by_their_methods() -> None:
    peer = opened(extensions=["account/chatgptAuthTokens/refresh", "thread/queue/changed"])
    [asked] = peer.asks(9, "account/chatgptAuthTokens/refresh", reason="unauthorized")
    assert isinstance(asked, ServiceRequested)
    assert asked.method == "extension"
    assert asked.params["method"] == "account/chatgptAuthTokens/refresh"
    assert asked.params["params"]["reason"] == "unauthorized"
    peer.do(peer.driver.reply(asked.key, {"accessToken": "new"}))
    assert peer.answer_to(9) == {"accessToken": "new"}
    [told] = peer.tells("thread/queue/changed", used=1)
    assert isinstance(told, ServiceRequested)
    assert told.notification
    sent = len(peer.sent)
    assert peer.do(peer.driver.reply(told.key, "nobody's")) == []
    assert len(peer.sent) == sent
