"""A client of a server narrows the sandbox of its sessions, and never widens it."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import agentrt
from agentrt import Agent, Runtime, SessionOptions
from agentrt.sandbox import Sandbox
from agentrt.store import ReopenOptions
from agentrt.web import Security, Tenant, serve
from web import published
from web.sockets import TOKEN
from web.tenants_kit import BOLT, Line, line

HERE = Path(__file__).resolve().parent
SANDBOX = Sandbox(
    network=["api.example"], ports=[8080], write=["/var/lib/x"], hide=[".env"], read=[str(HERE)]
)
WIDER: list[dict[str, Any]] = [
    {"mode": "off"},
    {"mode": "open-network"},
    {"network": "all"},
    {"network": ["api.example", "evil.example"]},
    {"network": ["*"]},
    {"write": ["/"]},
    {"write": ["/var/lib/x/../../.."]},
    {"read": ["~"]},
    {"ports": [8080, 5432]},
    {"network": ["api.example", "10.0.0.7"]},
    {"nested": True},
    {"needs": "landlock"},
    {"mode": "offline", "write": ["/etc"]},
]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"unknown": 1}, "unknown"),
    ({"mode": "none"}, "there is no sandbox preset 'none'"),
    ({"ports": [0]}, "0 is not a port number"),
    ({"network": 7}, "network"),
    ({"write": ["/var/lib/x/y"] * 501}, "write: at most 500 entries, not 501"),
    ({"network": ["api.example"] * 501}, "network: at most 500 entries, not 501"),
    ({"hide": ["x"] * 501}, "hide: at most 500 entries, not 501"),
    ({"write": ["/a" * 2000] * 20}, "write: at most 4096 characters in an entry, and 65536"),
    ({"hide": ["a/" * 2049]}, "hide: at most 4096 characters in an entry"),
    ({"hide": ["a/**/b/**/c/**"]}, "has more than 2 '**'"),
    ({"hide": ["**/x"] * 21}, "hide: at most 20 patterns with '**'"),
    ({"programs": {f"p{number}": "deny" for number in range(501)}}, "programs: at most 500"),
]


@asynccontextmanager
async def connected(
    sandbox: Sandbox | None, *roots: str | Path, store: Path | None = None
) -> AsyncIterator[tuple[Runtime, Line]]:
    """A runtime with a sandbox, and a client of a tenant that may use these folders."""
    tenant = Tenant(name="bolt", roots=tuple(map(str, roots)))
    security = Security(token=TOKEN, tenants={BOLT: tenant})
    with trio.fail_after(120):
        async with (
            agentrt.open_runtime(sandbox=sandbox, store=store) as runtime,
            trio.open_nursery() as nursery,
        ):
            site = await nursery.start(partial(serve, runtime, security=security))
            async with line(site.port, BOLT) as bolt:
                yield runtime.of(tenant), bolt
            nursery.cancel_scope.cancel()


async def test_what_permits_more_is_refused_by_its_setting() -> None:
    async with connected(SANDBOX, "/") as (_, bolt):
        for settings in WIDER:
            code, message = await bolt.refused(
                "session", op="new", agent="demo", cwd="/", sandbox=settings
            )
            assert code == "bad_request", settings
            wanted = "network" if settings.get("mode") not in (None, "off", "offline") else ""
            assert wanted in message
            assert "may only be narrowed" in message or "cannot be switched off" in message


async def test_a_wrong_setting_is_refused_with_the_reason() -> None:
    async with connected(None) as (_, bolt):
        for settings, reason in WRONG:
            code, message = await bolt.refused(
                "session", op="new", agent="demo", cwd="/", sandbox=settings
            )
            assert code == "bad_request"
            assert reason in message


async def test_a_host_that_is_listed_is_public_where_all_public_hosts_are_allowed() -> None:
    async with connected(Sandbox(network="all")) as (runtime, bolt):
        given = runtime.client_sandbox({"network": ["10.0.0.7", "intranet.example"]})
        assert given is not None
        assert not given.private_hosts
        settings = {"network": ["10.0.0.7"], "private_hosts": True}
        code, message = await bolt.refused(
            "session", op="new", agent="demo", cwd="/", sandbox=settings
        )
    assert code == "forbidden" or "private_hosts" in message


async def test_a_tenant_without_folders_opens_no_session_in_a_sandbox(tmp_path: Path) -> None:
    """It would choose the files of this machine that its agents can use."""
    async with connected(Sandbox()) as (_, bolt):
        for folder in (str(tmp_path), "/", ".", "~/.ssh"):
            code, message = await bolt.refused("session", op="new", agent="demo", cwd=folder)
            assert code == "forbidden"
            assert "serve.tenants.bolt.root" in message
        code, _ = await bolt.refused("folders", path="/")
        assert code == "forbidden"


OUTSIDE = ["/", "/etc", "~/.ssh", "..", "/proc/self/root"]
ATTACKS: dict[str, dict[str, list[tuple[Any, str]]]] = {
    "new": {
        "agent": [("/bin/sh", "agent_failed"), ("../demo", "agent_failed")],
        "cwd": [(each, "forbidden") for each in OUTSIDE],
        "roots": [([each], "forbidden") for each in OUTSIDE],
        "trust": [(each, "bad_request") for each in ("yes", "ask", True)],
        "sandbox": [(each, "bad_request") for each in WIDER],
        "title": [],
        "model": [],
        "mode": [],
    },
    "fork": {"session": [], "at": [], "roots": [([each], "forbidden") for each in OUTSIDE]},
    "load": {
        "session": [],
        "agent": [],
        "agent_session": [("x", "forbidden")],
        "cwd": [],
    },
}
"""Values with which a tenant would get more than the server allows, and the refusals. Titles,
models and modes of agents are the tenant's own: rules and the sandbox hold in each mode."""


def test_each_field_of_a_command_that_opens_a_session_is_attacked() -> None:
    for op in ("new", "fork", "load"):
        assert {*ATTACKS[op]} == published.fields_of(published.COMMANDS["session", op])


@pytest.mark.slow
async def test_no_field_of_a_command_gives_a_tenant_more_than_the_server(project: Path) -> None:
    async with connected(SANDBOX, project) as (runtime, bolt):
        session = await runtime.create("demo", cwd=project, sandbox=None)
        usual = {
            "new": {"agent": "demo", "cwd": str(project)},
            "fork": {"session": session.id},
            "load": {"agent": "demo", "agent_session": "x", "cwd": str(project)},
        }
        for op, fields in ATTACKS.items():
            for name, values in fields.items():
                for value, code in values:
                    given = usual[op] | {name: value}
                    refused = await bolt.refused("session", op=op, **given)
                    assert refused[0] == code, (op, given, refused)


async def test_no_other_option_of_a_session_is_a_tenants(project: Path) -> None:
    """Permissions, budgets, limits, checkpoints, the environment and the rest are the server's."""
    options = {*SessionOptions.__annotations__, *ReopenOptions.__annotations__}
    others = options - published.fields_of(published.COMMANDS["session", "new"])
    assert {"permissions", "budget", "limits", "env", "tenant", "trusted", "options"} <= others
    async with connected(SANDBOX, project) as (_, bolt):
        for name in sorted(others):
            for op in ("new", "load", "fork"):
                given = {"agent": "demo", "cwd": str(project), name: "x"}
                code, message = await bolt.refused("session", op=op, **given)
                assert code == "bad_request", (op, name, message)


HIDDEN: list[tuple[str, str, bool]] = [
    ("secrets", "shop/secrets", True),
    ("secrets/", "shop/secrets/deep/er", True),
    ("secrets", "shop/secrets2", False),
    ("config/keys", "shop/config/keys/prod", True),
    ("config/keys", "shop/config", False),
    ("**/private", "shop/a/b/private", True),
    ("**/private", "private", True),
    ("*.d", "shop/conf.d", True),
    ("*.d", "shop/conf", False),
    ("a/*/c", "shop/a/b/c/d", True),
    ("a/*/c", "shop/a/c", False),
]


@pytest.mark.parametrize(("pattern", "folder", "hidden"), HIDDEN)
async def test_a_folder_that_the_sandbox_hides_is_no_folder_of_a_tenants_session(
    pattern: str, folder: str, hidden: bool, tmp_path: Path
) -> None:
    named = tmp_path / folder
    named.mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to(named)
    async with connected(Sandbox(hide=[pattern]), tmp_path) as (_, bolt):
        for way in (named, tmp_path / "link", tmp_path / "other" / ".." / folder):
            for fields in (
                {"cwd": str(way)},
                {"cwd": str(tmp_path / "other"), "roots": [str(way)]},
            ):
                answer = await bolt.ask("session", op="new", agent="no-such-agent", **fields)
                assert (answer["error"]["code"] == "forbidden") == hidden, answer


@pytest.mark.parametrize("pattern", ["secrets", "a/a/a/b", "**/*.key", "**/a/**/b"])
async def test_a_deep_folder_is_compared_once_with_each_part_of_a_hidden_one(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0
    matches = fnmatch.fnmatchcase

    def counted(name: str, pattern: str) -> bool:
        nonlocal compared
        compared += 1
        return matches(name, pattern)

    monkeypatch.setattr(fnmatch, "fnmatchcase", counted)
    parts = len(pattern.split("/"))
    async with connected(Sandbox(hide=[pattern]), tmp_path) as (_, bolt):
        for depth in (100, 1000):
            compared = 0
            folder = f"{tmp_path}{'/a' * depth}"
            await bolt.refused("session", op="new", agent="no-such-agent", cwd=folder)
            assert 0 < compared <= depth * parts


LONG = "a/" * 20_000
LONG_PATHS: list[dict[str, Any]] = [
    {"op": "new", "agent": "demo", "cwd": LONG},
    {"op": "new", "agent": "demo", "roots": [LONG]},
    {"op": "new", "agent": "demo", "roots": ["."] * 33},
    {"op": "new", "agent": "demo", "sandbox": {"read": [LONG]}},
    {"op": "new", "agent": "demo", "sandbox": {"write": ["~/" + LONG]}},
]


@pytest.mark.parametrize("fields", LONG_PATHS, ids=lambda fields: "-".join(map(str, fields)))
async def test_a_path_that_no_system_has_is_refused_before_it_is_resolved(
    fields: dict[str, Any], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resolving a path takes the square of its length."""
    resolved: list[int] = []
    real = os.path.realpath

    def realpath(path: str, **options: bool) -> str:
        resolved.append(len(path))
        return real(path, **options)

    async with connected(SANDBOX, project) as (_, bolt):
        monkeypatch.setattr(os.path, "realpath", realpath)
        code, _ = await bolt.refused("session", **fields)
        assert code == "bad_request"
        assert max(resolved, default=0) < 8192
        assert len(resolved) < 50


@pytest.mark.sandbox
@pytest.mark.slow
async def test_a_folder_in_whose_place_is_a_link_is_not_opened_again(tmp_path: Path) -> None:
    """Another session of the tenant, in the folder around it, can put the link there."""
    root, secret = tmp_path / "acme", tmp_path / "secret"
    (root / "shop").mkdir(parents=True)
    secret.mkdir()
    async with connected(Sandbox(), root, store=tmp_path / "store.db") as (_, bolt):
        answer = await bolt.ok("session", op="new", agent="demo", cwd=str(root / "shop"))
        id = answer["session"]
        await bolt.prompt(id, "hello")
        await bolt.attach(id)
        await bolt.over(id)
        await bolt.ok("session", op="close", session=id)
        (root / "shop").rename(root / "before")
        (root / "shop").symlink_to(secret)
        code, message = await bolt.refused(
            "prompt", session=id, content=[{"type": "text", "text": "x"}]
        )
    assert (code, "sessions are opened in" in message) == ("forbidden", True), message


@pytest.mark.sandbox
@pytest.mark.slow
async def test_a_client_narrows_and_what_the_server_hides_stays_hidden(project: Path) -> None:
    asked = {"mode": "offline", "hide": ["secrets"], "ports": [], "programs": ["rm"]}
    async with connected(SANDBOX, project) as (runtime, bolt):
        answer = await bolt.ok("session", op="new", agent="demo", cwd=str(project), sandbox=asked)
        sandbox = runtime.get(answer["session"]).sandbox
        assert sandbox is not None
        policy = sandbox.policy
    assert (policy.network, policy.ports, policy.write) == ("none", (), SANDBOX.write)
    assert set(policy.hide) == {".env", "secrets"}
    assert policy.program_rules == {"rm": "deny"}


@pytest.mark.sandbox
@pytest.mark.slow
async def test_a_client_gets_a_sandbox_where_the_server_has_none(project: Path) -> None:
    async with connected(None) as (runtime, bolt):
        answer = await bolt.ok("session", op="new", agent="demo", cwd=str(project), sandbox={})
        sandbox = runtime.get(answer["session"]).sandbox
        assert sandbox is not None
        assert sandbox.policy == Sandbox()


@pytest.mark.sandbox
@pytest.mark.slow
async def test_a_client_takes_a_permission_back(shell_agent: Agent, project: Path) -> None:
    connect = "curl -s -o /dev/null -w '%{http_code}' http://new.invalid/"
    async with connected(SANDBOX) as (runtime, bolt):
        session = await runtime.create(shell_agent, cwd=project, permissions=agentrt.ask)
        await bolt.attach(session.id)
        content = [{"type": "text", "text": f"shell {connect}"}]
        await bolt.ok("prompt", session=session.id, content=content)
        while not session.pending_permissions:  # noqa: ASYNC110
            await trio.sleep(0.01)
        [request] = session.pending_permissions
        await bolt.ok("permission", session=session.id, request=request, option="session")
        assert session.sandbox is not None
        with trio.fail_after(30):
            while shown(bolt) != ("idle", ["Network new.invalid:80"]):
                await bolt.until(type="sessions")
        code, message = await bolt.refused(
            "session", op="revoke", session=session.id, target="other.invalid:80"
        )
        assert code == "bad_request"
        assert "new.invalid:80" in message
        await bolt.ok("session", op="revoke", session=session.id, target="new.invalid:80")
        assert session.sandbox.granted == ()
        with trio.fail_after(30):
            while shown(bolt) != ("idle", []):
                await bolt.until(type="sessions")


def shown(viewer: Line) -> tuple[str, list[str]]:
    """Return the phase and the permissions of the session in the newest list of sessions."""
    lists = [each["sessions"] for each in viewer.messages if each["type"] == "sessions"]
    newest = lists[-1][0] if lists and lists[-1] else {"phase": ""}
    return newest["phase"], newest.get("granted", [])


@pytest.mark.slow
async def test_without_a_sandbox_there_is_nothing_to_take_back(project: Path) -> None:
    async with connected(None) as (runtime, bolt):
        session = await runtime.create("demo", cwd=project)
        code, _ = await bolt.refused("session", op="revoke", session=session.id, target="x")
        assert code == "unsupported"
