"""The audit log names the client behind each command that changes something."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from hub_kit import Stage, stage_of, viewer_of
from wire_client import WireClient

import agentrt
from agentrt.telemetry import AuditLog, AuditRecord, read_audit
from web import published

pytestmark = pytest.mark.usefixtures("forked_demo")

TEXT = [{"type": "text", "text": "hello"}]
WORK = [{"type": "text", "text": "run sleep 60"}]

ORIGIN = ("the server's token", "agentrt.v1")


class Scene:
    """A server with a store and an audit log, and a client."""

    def __init__(self, stage: Stage, audit: Path) -> None:
        self.runtime = stage.runtime
        self.hub = stage.hub
        self.tab = stage.connect(client=WireClient(None))
        self.audit = audit

    def actions(self) -> list[AuditRecord]:
        return [each for each in read_audit(self.audit) if each.kind == "action"]

    async def session(self) -> agentrt.Session:
        return await self.runtime.create("demo", cwd=self.audit.parent, checkpoints=True)


@asynccontextmanager
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "project"
    folder.mkdir()
    audit = folder / "audit.jsonl"
    async with (
        agentrt.open_runtime(telemetry=AuditLog(audit), store=tmp_path / "store.db") as runtime,
        stage_of(runtime) as stage,
    ):
        yield Scene(stage, audit)


async def until_running(session: agentrt.Session) -> None:
    with trio.fail_after(30):
        while session.state.turn is None:  # noqa: ASYNC110
            await trio.sleep(0.01)


CHANGES: dict[tuple[str, str | None], tuple[dict[str, Any], str]] = {
    ("prompt", None): ({"content": TEXT}, "prompt"),
    ("retell", None): ({}, "send_history"),
    ("cancel", None): ({}, "cancel"),
    ("tool_result", None): ({"item": "i1", "content": TEXT}, "tool_result"),
    ("queue", "remove"): ({"entry": "q1"}, "queue_remove"),
    ("queue", "edit"): ({"entry": "q1", "content": TEXT}, "queue_edit"),
    ("queue", "promote"): ({"entry": "q1"}, "queue_promote"),
    ("queue", "resume"): ({}, "queue_resume"),
    ("session", "rename"): ({"title": "Mine"}, "rename"),
    ("session", "set_mode"): ({"mode": "mine"}, "set_mode"),
    ("session", "set_model"): ({"model": "mine"}, "set_model"),
    ("session", "set_option"): ({"option": "mine", "value": True}, "set_option"),
    ("session", "revoke"): ({"target": "mine"}, "revoke"),
    ("task", "stop"): ({"task": "mine"}, "stop_task"),
    ("checkpoints", "restore"): ({"checkpoint": 99}, "restore"),
    ("session", "fork"): ({}, "fork"),
    ("stop_all", None): ({}, "cancel"),
    ("session", "close"): ({}, "close"),
    ("session", "delete"): ({}, "delete"),
}
"""The commands that change a session, in the order in which they are tried, and their names in the
audit log.
"""

ELSEWHERE = {("session", "new"), ("session", "load"), ("permission", None)}
"""Commands that have their own tests below."""

SHOW = {
    *((each, None) for each in ("hello", "attach", "detach", "history", "content", "wire", "beat")),
    ("session", "list"),
}
"""Commands about what a client is shown."""

READS = {
    *((each, None) for each in ("files", "folder", "file", "folders", "uncommitted")),
    ("checkpoints", "list"),
    ("checkpoints", "diff"),
}
"""Commands about files."""


def test_each_command_that_changes_something_is_tried() -> None:
    assert CHANGES.keys() | ELSEWHERE | SHOW | READS == published.COMMANDS.keys()


@pytest.mark.slow
async def test_each_change_has_its_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(tmp_path, monkeypatch) as there:
        session = await there.session()
        await session.run("hi")
        for (kind, op), (fields, title) in CHANGES.items():
            given = {**fields, **({} if op is None else {"op": op})}
            if "session" in published.fields_of(published.COMMANDS[kind, op]):
                given["session"] = session.id
            if kind == "stop_all":  # it is recorded for each session that it stops
                await there.tab.ok("prompt", session=session.id, content=WORK)
            before = len(there.actions())
            answer = await there.tab.ask(kind, **given)
            titled = [each for each in there.actions()[before:] if each.title == title]
            assert titled, (kind, op, answer)
            found = titled[0]
            assert (found.who, found.via, found.agent) == (*ORIGIN, "demo"), (kind, op)
            assert found.outcome == ("done" if answer["ok"] else "refused"), (kind, op)
            assert bool(found.reason) != answer["ok"], (kind, op)


@pytest.mark.slow
async def test_a_fork_that_is_refused_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, monkeypatch) as there:
        session = await there.session()
        await session.run("hi")
        await there.tab.ok("prompt", session=session.id, content=WORK)
        await until_running(session)
        assert await there.tab.refused("session", op="fork", session=session.id) == "busy"
        await there.tab.ok("session", op="close", session=session.id)
        await there.tab.ok("session", op="delete", session=session.id)
        missing = await there.tab.refused("session", op="fork", session=session.id)
        assert missing == "unknown_session"
        forks = [each for each in there.actions() if each.title == "fork"]
        assert [(each.session, each.agent, each.outcome, each.who) for each in forks] == [
            (session.id, "demo", "refused", ORIGIN[0]),
        ]
        assert "a turn is running" in forks[0].reason


@pytest.mark.slow
async def test_who_closed_a_session_also_cancelled_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, monkeypatch) as there:
        session = await there.session()
        session.submit("run sleep 60")
        await until_running(session)
        await there.tab.ok("session", op="close", session=session.id)
    [end] = [each for each in read_audit(there.audit) if each.kind == "turn"]
    assert (end.outcome, end.by, end.who, end.via) == ("cancelled", "caller", *ORIGIN)


@pytest.mark.slow
async def test_a_session_that_a_client_opens_has_its_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, monkeypatch) as there:
        await there.tab.ok("session", op="new", agent="demo", cwd=str(there.audit.parent))
        [first] = there.actions()
        assert (first.who, first.via, first.outcome) == (*ORIGIN, "done")
        await there.runtime.get(first.session).run("hi")
        await there.tab.ok("session", op="close", session=first.session)
        await there.tab.ok("session", op="load", session=first.session)
        await there.tab.ok("session", op="delete", session=first.session)
        assert [(each.title, each.who, each.via) for each in there.actions()] == [
            ("open", *ORIGIN),
            ("close", *ORIGIN),
            ("open", *ORIGIN),
            ("close", *ORIGIN),
            ("delete", *ORIGIN),
        ]


@pytest.mark.slow
async def test_changes_in_other_protocols_have_their_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, monkeypatch) as there:
        cwd = str(there.audit.parent)
        editor = viewer_of(there.hub, "/acp")

        async def ask(method: str, **params: Any) -> Any:
            message = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
            editor.receive(json.dumps(message))
            with trio.fail_after(30):
                while (answer := json.loads(await editor.next_frame())).get("id") != method:
                    pass
            return answer["result"]

        info = {"name": "editor", "version": "1"}
        await ask("initialize", protocolVersion=1, clientInfo=info, clientCapabilities={})
        session = (await ask("session/new", cwd=cwd, mcpServers=[]))["sessionId"]
        await ask("session/set_mode", sessionId=session, modeId="plan")
        await ask("session/prompt", sessionId=session, prompt=TEXT)
        await ask("session/close", sessionId=session)

        chat = viewer_of(there.hub, "/ai")
        message = {"id": "m", "role": "user", "parts": TEXT}
        body = {"agent": "demo", "cwd": cwd}
        sent = {"type": "send", "requestId": "r", "id": "a", "messages": [message], "body": body}
        chat.receive(json.dumps(sent))
        with trio.fail_after(30):
            while json.loads(await chat.next_frame())["type"] != "end":
                pass

        names = [(each.via.partition(" ")[0], each.title) for each in there.actions()]
        assert names == [
            ("acp", "open"),
            ("acp", "set_mode"),
            ("acp", "prompt"),
            ("acp", "close"),
            ("ai", "open"),
            ("ai", "prompt"),
        ]
        assert {each.who for each in there.actions()} == {"the server's token"}


@pytest.mark.slow
async def test_changes_by_the_program_are_not_actions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, monkeypatch) as there:
        session = await there.session()
        await session.run("hi")
        session.rename("Mine")
        await there.runtime.close(session.id)
        await there.runtime.delete(session.id)
        assert there.actions() == []
