"""A host that is not listed becomes a question of the session, which rules and people answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import agentrt
from agentrt import Agent, PermissionOpened, open_session, rules
from agentrt.events import PermissionClosed
from agentrt.permissions import PermissionRequest, Policy
from agentrt.sandbox import Sandbox

HERE = Path(__file__).resolve().parent
SANDBOX = Sandbox(read=[str(HERE)])

CONNECT = (
    "python3 -c \"import socket; s = socket.create_connection(('127.0.0.1', 3128), 5);"
    " s.sendall(b'CONNECT new.invalid:443 HTTP/1.1\\r\\n\\r\\n'); print(s.recv(1000).decode())\""
)
"""Asks the proxy for a host whose name has no address: once allowed, it cannot be resolved."""


def closed_in(session: agentrt.Session) -> list[PermissionClosed]:
    return [each for each in session.log.since(0) if isinstance(each, PermissionClosed)]


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "allowed", "by", "rule"),
    [
        (rules(allow=["Network(*.invalid)"]), True, "policy", "allow Network(*.invalid)"),
        (rules(allow=["Network(other.invalid)"]), False, "policy", "deny_all"),
        (
            rules(deny=["Network(*:443)"], otherwise=agentrt.allow_all),
            False,
            "policy",
            "deny Network(*:443)",
        ),
        (rules(deny=["Fetch(*)"], allow=["Network"]), True, "policy", "allow Network"),
        (agentrt.allow_all, False, "policy", "boundary"),
        (rules(allow=["*"]), False, "policy", "boundary"),
        (None, False, "unattended", ""),
    ],
)
async def test_rules_answer_and_allow_all_does_not(
    policy: Policy | None, allowed: bool, by: str, rule: str, shell_agent: Agent, project: Path
) -> None:
    async with open_session(
        shell_agent, cwd=project, sandbox=SANDBOX, permissions=policy
    ) as session:
        said = (await session.run(f"shell {CONNECT}")).text
        [opened] = [e for e in session.log.since(0) if isinstance(e, PermissionOpened)]
        [closed] = closed_in(session)
    assert opened.title == "Connect to new.invalid:443"
    assert opened.detail == {"tool": "Network", "input": {"host": "new.invalid", "port": 443}}
    assert (closed.by, closed.rule) == (by, rule)
    assert ("is not allowed in this session" not in said) is allowed
    assert ("cannot be resolved" in said) is allowed


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize(("option", "asked"), [("once", 2), ("session", 1), ("reject", 2)])
async def test_a_person_allows_once_or_for_the_session(
    option: str, asked: int, shell_agent: Agent, project: Path
) -> None:
    count = 0
    async with open_session(
        shell_agent, cwd=project, sandbox=SANDBOX, permissions=agentrt.ask
    ) as session:
        for _ in range(2):
            async with session.prompt(f"shell {CONNECT}") as turn:
                async for event in turn:
                    if isinstance(event, PermissionOpened):
                        count += 1
                        turn.answer(event, option)
        assert session.sandbox is not None
        granted = [each.target for each in session.sandbox.granted]
    assert count == asked
    assert granted == (["new.invalid:443"] if option == "session" else [])


@pytest.mark.parametrize(
    ("make", "request_", "expected"),
    [
        (lambda: rules(allow=["Network(a.example)"]), "Network", agentrt.Deny),
        (lambda: rules(allow=["Network"]), "Network", agentrt.Deny),
    ],
)
def test_a_tool_of_an_agent_is_no_connection_of_the_sandbox(
    make: Callable[[], Policy], request_: str, expected: type
) -> None:
    request = PermissionRequest(title="x", tool=request_, input={"host": "a.example", "port": 443})
    assert isinstance(make()(request), expected)


@pytest.mark.parametrize("rule", ["Network(https://a.example)", "Network(a b)", "Network(a:b)"])
def test_a_rule_about_no_host_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match="is not a host"):
        rules(allow=[rule])


@pytest.mark.sandbox
@pytest.mark.slow
async def test_viewers_see_the_sandbox_and_the_hosts_that_were_allowed(
    shell_agent: Agent, project: Path
) -> None:
    async with (
        agentrt.open_runtime(
            sandbox=SANDBOX,
            permissions=rules(allow=["Network(other.example)"], otherwise=agentrt.ask),
        ) as runtime,
    ):
        session = await runtime.create(shell_agent, cwd=project)
        assert runtime.list_open()[0].sandbox == "workspace"
        async with session.prompt(f"shell {CONNECT}") as turn:
            async for event in turn:
                if isinstance(event, PermissionOpened):
                    turn.answer(event, "session")
        assert runtime.list_open()[0].sandbox == "workspace, 1 allowed"
        told = [each for each in session.log.since(0) if isinstance(each, agentrt.Notice)]
    assert [each.code for each in told if "sandbox" in each.code] == [
        "sandboxed",
        "sandbox_widened",
    ]
    assert told[-1].data["granted"] == [{"tool": "Network", "target": "new.invalid:443"}]
