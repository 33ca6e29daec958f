"""The real Claude Code for a whole night alone, in one session: it ends by itself, within its
budget, and the audit log explains every step."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio

import agentrt
from agentrt.errors import BudgetExceeded
from agentrt.sandbox import Sandbox
from agentrt.telemetry import AuditLog, AuditRecord, read_audit
from agentrt.unattended import WaitForLimits

from .lab import Lab
from .modelserver.scripts import Script, Shell, Status, Text, prompt_for
from .story import session_with

pytestmark = [
    pytest.mark.real_agent,
    pytest.mark.sandbox,
    pytest.mark.slow,
    pytest.mark.parametrize("agent", ["claude"]),
]

PATIENCE_S = 1500.0
TURNS = 200
LIMITED = (50, 120)
"""Turns in which the provider reports a rate limit."""
REFUSED = 80
"""The turn that wants a host that is not listed."""
DESTRUCTIVE = 150
"""The turn that deletes the sources. It is undone."""
DENIED = 160
"""The turn that wants a command that a rule denies."""


@pytest.fixture
def lab(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    port = urlsplit(lab.model.url).port
    assert port is not None
    lab.env["CLAUDE_CODE_MAX_RETRIES"] = "0"
    return replace(lab, sandbox=Sandbox(ports=[port]))


def script_of(turn: int) -> Script:
    """What the model does in a turn."""
    if turn in LIMITED:
        return [[Status(429, times=1), Text(f"Turn {turn}.")]]
    commands = {
        REFUSED: "curl -sS --max-time 30 http://new.invalid/ > answer.txt",
        DESTRUCTIVE: "rm -rf src notes.bin",
        DENIED: "touch denied.txt",
    }
    if turn in commands:
        return [[Shell(commands[turn])], [Text(f"Turn {turn}.")]]
    if turn % 40 == 0:
        return [[Shell(f"echo {turn} > src/turn.txt")], [Text(f"Turn {turn}.")]]
    return [[Text(f"Turn {turn}.")]]


def write_project(folder: Path) -> None:
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "main.py").write_bytes(b"print('a')\r\nprint('b')\n")
    (folder / "src" / "deep" / "data.bin").write_bytes(bytes(range(256)) * 40)
    (folder / "src" / "run.sh").write_text("#!/bin/sh\n")
    (folder / "src" / "run.sh").chmod(0o755)
    (folder / "src" / "link").symlink_to("main.py")
    (folder / "notes.bin").write_bytes(b"\xff\xfe\x00")


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            str(path.readlink()).encode() if path.is_symlink() else path.read_bytes(),
        )
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


async def cost_of_a_turn(lab: Lab) -> float:
    with agentrt.budget(usd=100) as probe:
        async with session_with(lab, permissions=agentrt.allow_all) as (session, _):
            await session.run(prompt_for([[Text("Hello.")]]))
    assert probe.spent_usd > 0
    return probe.spent_usd


async def test_a_night_alone_ends_by_itself_and_is_explained(lab: Lab, tmp_path: Path) -> None:
    write_project(lab.work)
    limit_usd = TURNS * await cost_of_a_turn(lab)
    audit = AuditLog(tmp_path / "audit.jsonl")
    policy = agentrt.rules(deny=["Bash(touch:*)"], otherwise=agentrt.allow_all)
    outcomes: Counter[str] = Counter()
    started = 0
    largest_report_usd = 0.0
    restored: dict[str, tuple[int, bytes]] = {}
    with trio.fail_after(PATIENCE_S), agentrt.budget(usd=limit_usd) as spent:
        async with session_with(
            lab,
            permissions=policy,
            checkpoints=True,
            wait=WaitForLimits(at_most_s=600),
            telemetry=audit,
        ) as (session, story):
            try:
                while True:
                    started += 1
                    assert started < 2 * TURNS, "the budget does not end it"
                    before = contents(lab.work)
                    before_usd = spent.spent_usd
                    result = await session.run(prompt_for(script_of(started)), check=False)
                    outcomes[result.outcome] += 1
                    largest_report_usd = max(largest_report_usd, spent.spent_usd - before_usd)
                    if started == DESTRUCTIVE:
                        assert not (lab.work / "src").exists()
                        await session.checkpoints.undo()
                        restored = contents(lab.work)
                        assert restored == before
            except BudgetExceeded:
                pass
            id = session.id
    # It ended by its budget, and not by anything else.
    assert spent.exceeded == "usd"
    # A budget is used up within a rounding error of its limit, since it adds up floats.
    assert spent.spent_usd >= limit_usd * (1 - 1e-9)
    assert spent.spent_usd <= limit_usd + largest_report_usd
    assert started > DENIED
    assert restored
    assert not (lab.work / "denied.txt").exists()
    assert b"new.invalid" in (lab.work / "answer.txt").read_bytes()
    assert set(outcomes) <= {"completed", "cancelled"}
    assert outcomes["cancelled"] <= 1

    records = list(read_audit(audit.path, id))
    explained(records, started, outcomes)
    assert len(story.all(agentrt.TurnEnded)) == outcomes.total()


def explained(records: list[AuditRecord], started: int, outcomes: Counter[str]) -> None:
    """Check that the audit log alone tells everything that has happened."""

    def of(kind: str, **fields: object) -> list[AuditRecord]:
        return [
            each
            for each in records
            if each.kind == kind and all(getattr(each, n) == v for n, v in fields.items())
        ]

    assert [each.outcome for each in of("session")] == ["opened", "closed"]
    assert len(of("prompt")) == len(of("turn")) == outcomes.total() == started - 1
    assert Counter(each.outcome for each in of("turn")) == outcomes
    # the rate limits, with the time until which was waited
    limits = of("notice", code="rate_limit_wait")
    assert len(limits) == len(LIMITED)
    assert all(each.data["until"] > each.time for each in limits)
    # the refused host
    [host] = of("decision", subject="Network")
    assert (host.outcome, host.input["host"]) == ("denied", "new.invalid")
    assert host.rule or host.reason
    # the denied command, by its rule
    [denied] = [each for each in of("decision") if each.rule == "deny Bash(touch:*)"]
    assert (denied.outcome, denied.input["command"]) == ("denied", "touch denied.txt")
    # the destructive command, its files, and the undo
    [destructive] = [
        each for each in of("call") if str((each.input or {}).get("command", "")).startswith("rm ")
    ]
    [changed] = of("notice", code="files_changed", turn=destructive.turn)
    assert {each["path"] for each in changed.data["files"]} >= {"src/main.py", "notes.bin"}
    [undone] = of("notice", code="files_restored")
    assert undone.data["checkpoint"] == changed.data["before"]
    # the budget: what is spent, and the end
    last = of("notice", code="budget_spent")[-1]
    assert last.data[0]["exceeded"] == "usd"
    [refused] = of("notice", code="budget_refused")
    assert "the budget is used up (usd)" in refused.title
