"""MCP servers that Claude Code reports as failed."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.events import Notice
from agentrt.lowlevel import Opening

from .rig import INIT, Rig, state

GIVEN = ({"name": "shop", "command": "no-such-program", "args": [], "env": []},)


def reported(*inits: Any) -> list[Any]:
    """The data of the warnings after turns that begin with these lists of servers."""
    rig = Rig(opening=Opening(cwd="/sandbox/project", mcp_servers=GIVEN))
    rig.start()
    for servers in inits:
        rig.feed(state("running"), {**INIT, "mcp_servers": servers})
    notices = rig.of(Notice)
    assert all(each.data["server"] in each.message for each in notices)
    assert {(each.code, each.level) for each in notices} <= {("mcp_server_failed", "warning")}
    return [(each.data["server"], each.data["status"]) for each in notices]


def server(status: str, name: str = "shop") -> Any:
    return {"name": name, "status": status}


@pytest.mark.parametrize("status", ["failed", "needs-auth"])
def test_a_given_server_that_fails_is_reported_once(status: str) -> None:
    assert reported(*[[server(status)]] * 3) == [("shop", status)]


@pytest.mark.parametrize("status", ["connected", "pending", "disabled", "new-word", None])
def test_any_other_state_is_no_failure(status: Any) -> None:
    assert reported([server(status)]) == []


def test_a_server_that_fails_after_its_start_is_reported_by_the_next_turn() -> None:
    assert reported([server("pending")], [server("failed")]) == [("shop", "failed")]


def test_a_server_that_fails_again_is_reported_again() -> None:
    failed, connected = [server("failed")], [server("connected")]
    assert len(reported(failed, connected, failed)) == 2


def test_a_persons_own_server_is_reported_if_it_fails_and_may_go_without_a_login() -> None:
    own = [server("needs-auth", "drive"), server("failed", "notes")]
    assert reported(own) == [("notes", "failed")]


@pytest.mark.parametrize("servers", [None, "none", {}, [None, 1, "shop"]])
def test_a_list_that_is_none_is_no_failure(servers: Any) -> None:
    assert reported(servers) == []
