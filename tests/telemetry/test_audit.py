"""The audit log: one line per prompt, decision, call and turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import agentrt
from agentrt.errors import FilesError
from agentrt.hosting import answering
from agentrt.permissions import Policy
from agentrt.telemetry import AuditLog, AuditRecord, read_audit
from in_process import main

pytestmark = pytest.mark.usefixtures("forked_demo")


async def audited(
    tmp_path: Path, prompt: str, permissions: Policy | None, **options: Any
) -> list[AuditRecord]:
    path = tmp_path / "audit.jsonl"
    async with (
        agentrt.open_session(
            "demo", cwd=tmp_path, permissions=permissions, telemetry=AuditLog(path), **options
        ) as session,
        session.prompt(prompt) as turn,
    ):
        async for event in turn:
            if isinstance(event, agentrt.PermissionOpened):
                turn.answer(event, event.options[-1].id)
    return list(read_audit(path))


def of(records: list[AuditRecord], kind: str) -> AuditRecord:
    [found] = [each for each in records if each.kind == kind]
    return found


@pytest.mark.slow
async def test_each_step_has_a_record_in_order(tmp_path: Path) -> None:
    records = await audited(tmp_path, "run date", agentrt.rules(allow=["Bash(date)"]))
    assert [each.kind for each in records] == [
        "session",
        "prompt",
        "decision",
        "call",
        "turn",
        "session",
    ]
    assert len({each.session for each in records}) == 1
    assert [each.time for each in records] == sorted(each.time for each in records)
    decision, call = of(records, "decision"), of(records, "call")
    assert (decision.outcome, decision.by, decision.rule) == (
        "allowed",
        "policy",
        "allow Bash(date)",
    )
    assert decision.input["command"] == "date"
    assert (call.outcome, call.asked, call.title) == ("completed", True, "Run date")
    assert of(records, "prompt").title == "run date"


@pytest.mark.slow
async def test_a_denial_names_the_rule_or_the_person(tmp_path: Path) -> None:
    records = await audited(tmp_path, "run date", agentrt.rules(deny=["Bash(date)"]))
    decision = of(records, "decision")
    assert (decision.outcome, decision.rule) == ("denied", "deny Bash(date)")
    assert of(records, "call").outcome == "denied"


@pytest.mark.slow
async def test_an_answer_of_a_person_has_its_origin(tmp_path: Path) -> None:
    decision = of(await audited(tmp_path, "run date", agentrt.ask), "decision")
    assert (decision.by, decision.via) == ("user", "program")
    assert decision.option.partition(":")[0].startswith(("allow", "reject"))
    assert decision.requested is not None
    assert decision.requested <= decision.time


@pytest.mark.slow
async def test_a_cancelled_turn_has_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with agentrt.open_session("demo", cwd=tmp_path, telemetry=AuditLog(path)) as session:
        async with session.prompt("run sleep 60") as turn:
            async for _ in turn:
                session.cancel()
                break
        async with session.prompt("hi") as turn:
            async for _ in turn:
                pass
    ends = [each for each in read_audit(path) if each.kind == "turn"]
    assert [(end.outcome, end.by, end.who, end.via) for end in ends] == [
        ("cancelled", "user", "", "program"),
        ("completed", "", "", ""),
    ]


@pytest.mark.slow
async def test_a_turn_that_ends_with_its_session_has_the_origin_of_the_end(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with agentrt.open_session("demo", cwd=tmp_path, telemetry=AuditLog(path)) as session:
        session.submit("run sleep 60")
        await trio.testing.wait_all_tasks_blocked()
        with answering("me", "terminal"):
            await session.aclose()
    end = of(list(read_audit(path)), "turn")
    assert (end.outcome, end.by, end.who, end.via) == ("cancelled", "caller", "me", "terminal")


@pytest.mark.slow
async def test_an_origin_is_not_that_of_tasks_that_are_started_by_the_way(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"

    async def stop() -> None:
        session.cancel()

    async with (
        agentrt.open_session("demo", cwd=tmp_path, telemetry=AuditLog(path)) as session,
        trio.open_nursery() as nursery,
        session.prompt("run sleep 60") as turn,
    ):
        with answering("tenant acme", "agentrt.v1"):
            nursery.start_soon(stop)
        async for _ in turn:
            pass
    end = of(list(read_audit(path)), "turn")
    assert (end.outcome, end.who, end.via) == ("cancelled", "", "program")


@pytest.mark.slow
async def test_a_call_without_a_request_is_marked(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    records = await audited(tmp_path, "list the files", agentrt.deny_all)
    assert [each.asked for each in records if each.kind == "call"] == [False]


@pytest.mark.slow
async def test_long_texts_are_cut(tmp_path: Path) -> None:
    records = await audited(tmp_path, f"say {'x' * 10_000}", None)
    assert len(of(records, "prompt").title) == 4097


@pytest.mark.slow
async def test_the_file_is_only_appended_to_and_private(tmp_path: Path) -> None:
    await audited(tmp_path, "hi", None)
    path = tmp_path / "audit.jsonl"
    before = path.read_bytes()
    await audited(tmp_path, "hi", None)
    assert path.read_bytes().startswith(before)
    assert len({each.session for each in read_audit(path)}) == 2
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.slow
async def test_records_of_one_session_are_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    await audited(tmp_path, "hi", None)
    records = await audited(tmp_path, "hi", None)
    wanted = records[-1].session
    found = list(read_audit(tmp_path / "audit.jsonl", wanted[:8]))
    assert {each.session for each in found} == {wanted}
    assert len(found) == len(records) // 2


def test_a_line_that_was_cut_off_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    whole = '{"time":1,"session":"s","agent":"a","kind":"prompt"}\n'
    path.write_text(whole + whole[:20] + "\n" + whole)
    assert len(list(read_audit(path))) == 2


def test_a_file_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(FilesError, match="Is a directory"):
        AuditLog(tmp_path)


def test_the_command_prints_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"time":1,"session":"s1234567890","agent":"demo","kind":"decision","outcome":"denied",'
        '"title":"Run\\u001b[2J","by":"user","via":"terminal","reason":"no"}\n'
    )
    assert main(["audit", "--file", str(path)]) == 0
    out = capsys.readouterr().out
    assert "decision  denied" in out
    assert "(by user terminal, no)" in out
    assert "\x1b" not in out
    assert main(["audit", "s123", "--file", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "denied"
    assert main(["audit"]) == 2
    assert main(["audit", "--file", str(tmp_path / "none")]) == 1
