"""How a thread comes about."""

from __future__ import annotations

import pytest

from agentrt.effects import (
    ModesSet,
    Started,
    StartFailed,
    TextReceived,
    ToolCalled,
    UserContentReceived,
)
from agentrt.events import ForkPoint
from agentrt.lowlevel import Opening

from .codex_kit import COMMAND, SETTINGS, TOOL, Json, Peer, only, thread


def test_a_new_thread_is_started_in_the_folder_and_the_mode_asked_for() -> None:
    peer = Peer(tools=[TOOL])
    opening = Opening(cwd="/shop", roots=("/more",), mode="workspace-write", model="m-2")
    started = only(peer.open(opening), Started)
    assert (started.session, started.agent_version, started.resumed) == ("t-1", "0.169.0", False)
    asked = peer.last("thread/start")["params"]
    assert asked["runtimeWorkspaceRoots"] == ["/shop", "/more"]
    assert (asked["approvalPolicy"], asked["sandbox"]) == ("on-request", "workspace-write")
    assert asked["approvalsReviewer"] == "user"
    assert asked["model"] == "m-2"
    assert asked["dynamicTools"][0] == {
        "type": "function",
        "name": "record",
        "description": "Records.",
        "inputSchema": {"type": "object"},
    }


def test_the_mode_the_models_and_the_effort_are_told() -> None:
    modes = only(Peer().open(), ModesSet).modes
    assert modes.mode == "untrusted"
    assert [choice.id for choice in modes.models] == ["m-1", "m-2"]
    [effort] = modes.options
    assert [choice.id for choice in effort.choices] == ["low", "high"]


def test_an_earlier_thread_is_resumed_with_all_its_pages_of_history() -> None:
    peer = Peer()
    peer.greet(Opening(cwd="/shop", resume="t-1"))
    peer.answers("thread/resume", {"thread": thread(), **SETTINGS})
    user = {"type": "userMessage", "id": "i-1", "content": [{"type": "text", "text": "hi"}]}
    said = {"type": "agentMessage", "id": "i-2", "text": "hello"}
    done = {**COMMAND, "status": "completed", "aggregatedOutput": "out"}
    first = peer.answers(
        "thread/turns/list",
        {"data": [{"id": "u", "status": "completed", "items": [user, said]}], "nextCursor": "2"},
    )
    assert only(first, UserContentReceived).replay
    assert only(first, TextReceived).replay
    assert peer.last("thread/turns/list")["params"]["cursor"] == "2"
    second = peer.answers(
        "thread/turns/list", {"data": [{"id": "v", "status": "completed", "items": [done]}]}
    )
    called = only(second, ToolCalled)
    assert (called.replay, called.status) == (True, "completed")
    assert only(second, Started).resumed


def test_a_fork_is_another_thread_and_no_resumed_one() -> None:
    peer = Peer()
    peer.greet(Opening(cwd="/shop", resume="t-0", fork=True, options={"replay": False}))
    effects = peer.answers("thread/fork", {"thread": thread(), **SETTINGS})
    started = only(effects, Started)
    assert (started.session, started.resumed) == ("t-1", False)


def said(turn: str, item: str, text: str) -> Json:
    answer = {"type": "agentMessage", "id": item, "text": text}
    return {"id": turn, "status": "completed", "items": [answer]}


@pytest.mark.parametrize(
    ("point", "turn"),
    [
        (ForkPoint(messages=("i2",), text="Done."), "u2"),
        (ForkPoint(messages=("lost", "i1")), "u1"),
        (ForkPoint(messages=("lost",), text="Done.", occurrence=2), "u3"),
    ],
)
def test_a_fork_ends_with_the_turn_that_is_meant(point: ForkPoint, turn: str) -> None:
    peer = Peer()
    peer.greet(Opening(cwd="/shop", resume="t-0", fork=True, fork_at=point))
    pages = [said("u1", "i1", "Look."), said("u2", "i2", "Done.")], [said("u3", "i3", "Done.")]
    assert peer.sent[-1]["params"]["threadId"] == "t-0"
    peer.answers("thread/turns/list", {"data": pages[0], "nextCursor": "more"})
    peer.answers("thread/turns/list", {"data": pages[1], "nextCursor": None})
    assert (peer.sent[-1]["method"], peer.sent[-1]["params"]["lastTurnId"]) == ("thread/fork", turn)


def test_a_fork_at_what_is_not_known_any_more_is_a_failed_start() -> None:
    peer = Peer()
    point = ForkPoint(messages=("lost",), text="Done.", occurrence=2)
    peer.greet(Opening(cwd="/shop", resume="t-0", fork=True, fork_at=point))
    page = {"data": [said("u1", "i1", "Done.")], "nextCursor": None}
    error = only(peer.answers("thread/turns/list", page), StartFailed).error
    assert (error.code, error.message) == (
        "rejected",
        "codex no longer has the text at that point",
    )


@pytest.mark.parametrize(
    ("refusal", "code"),
    [("no rollout found for thread id t-9", "session_not_found"), ("no disk", "rejected")],
)
def test_a_thread_that_cannot_be_resumed_fails_the_start(refusal: str, code: str) -> None:
    peer = Peer()
    peer.greet(Opening(cwd="/shop", resume="t-9"))
    assert only(peer.refuses("thread/resume", refusal), StartFailed).error.code == code


def test_nobody_logged_in_fails_the_start_with_what_to_do() -> None:
    peer = Peer()
    peer.do(peer.driver.start(Opening(cwd="/shop")))
    peer.answers("initialize", {"userAgent": "agentrt/0.169.0"})
    effects = peer.answers("account/read", {"account": None, "requiresOpenaiAuth": True})
    error = only(effects, StartFailed).error
    assert error.code == "auth_required"
    assert "codex login" in error.message


@pytest.mark.parametrize(
    "wrong",
    [
        Opening(cwd="/shop", mode="nonsense"),
        Opening(cwd="/shop", options={"config": {"nonsense": "high"}}),
        Opening(cwd="/shop", options={"config": {"effort": "nonsense"}}),
        Opening(cwd="/shop", options={"config": {"effort": 5}}),
        Opening(cwd="/shop", mcp_servers=({"name": "x", "type": "sse", "url": "http://x"},)),
    ],
)
def test_what_codex_does_not_have_fails_the_start(wrong: Opening) -> None:
    assert only(Peer().greet(wrong), StartFailed).error.code == "rejected"


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [(None, "HIGH", "high"), ("m-1", "high", "high"), ("own", "x", "x")],
)
def test_the_effort_is_one_that_the_model_has_where_that_is_known(
    model: str | None, effort: str, sent: str
) -> None:
    peer = Peer()
    peer.open(Opening(cwd="/shop", model=model, options={"config": {"effort": effort}}))
    assert peer.last("thread/start")["params"]["config"] == {"model_reasoning_effort": sent}


def test_mcp_servers_go_into_its_configuration() -> None:
    server = {"name": "x", "command": "run", "args": ["a"], "env": [{"name": "K", "value": "v"}]}
    again = {"name": "x", "type": "http", "url": "http://x"}
    peer = Peer()
    peer.open(Opening(cwd="/shop", mcp_servers=(server, again)))
    config = peer.last("thread/start")["params"]["config"]
    assert config["mcp_servers"] == {"x": {"command": "run", "args": ["a"], "env": {"K": "v"}}}


def test_only_the_program_itself_may_be_asked_something() -> None:
    peer = Peer()
    peer.do(peer.driver.start(Opening(cwd="/shop", options={"session": False})))
    peer.answers("initialize", {"userAgent": "agentrt/0.169.0"})
    effects = peer.answers("account/read", {"account": None, "requiresOpenaiAuth": False})
    assert only(effects, Started).session == ""
    assert "thread/start" not in peer.methods()
