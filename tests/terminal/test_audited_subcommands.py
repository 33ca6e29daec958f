"""Subcommands that change something are in the audit log, although they open no session."""

from __future__ import annotations

import getpass
import re
from pathlib import Path

import pytest
from test_usage import COMMANDS

from agentrt.telemetry import AuditRecord, read_audit
from in_process import main

WITHOUT_VERBS = {
    *("acp", "agents", "attach", "audit", "completion", "config", "conformance", "doctor", "new"),
    *("record", "replay", "rules", "sandbox", "serve"),
}
"""Commands that change no stored data, except through a session; `new` creates a project."""

READING = {
    "checkpoints": {"list", "diff"},
    "nodes": {"list"},
    "sessions": {"list", "search", "show", "export"},
    "trace": {"show"},
    "trust": {"list", "show"},
}
"""The verbs that change nothing."""

CHANGING: dict[str, tuple[list[str], dict[str, object]]] = {
    "checkpoints restore": (["7"], {"cwd": "HERE", "number": 7}),
    "nodes drain": (["n1", "--store", "postgresql://localhost:1/none"], {"name": "n1"}),
    "sessions delete": (["abc"], {"session": "abc"}),
    "sessions repair": ([], {}),
    "sessions vacuum": ([], {}),
    "trust add": (["."], {"folder": "HERE"}),
    "trust remove": ([".", "--agent", "claude"], {"folder": "HERE", "agents": ["claude"]}),
}
"""The others, with arguments and those of the record; HERE is the folder."""


def actions(audit: Path) -> list[AuditRecord]:
    return [each for each in read_audit(audit) if each.kind == "action"]


@pytest.mark.slow
def test_each_verb_is_known_to_change_something_or_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = {}
    for name in COMMANDS:
        assert main([name, "--help"]) == 0
        listed = capsys.readouterr().out.partition("\n  VERB\n")[2].partition("\n\n")[0]
        found[name] = re.findall(r"^    (\w+)", listed, re.MULTILINE)
    assert {name for name, verbs in found.items() if not verbs} == WITHOUT_VERBS
    reading = {f"{name} {verb}" for name, known in READING.items() for verb in known}
    assert {f"{name} {verb}" for name in found for verb in found[name]} == reading | set(CHANGING)


@pytest.mark.parametrize("command", CHANGING)
def test_a_change_without_a_session_is_recorded(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    arguments, about = CHANGING[command]
    status = main(["--audit", "audit.jsonl", *command.split(), *arguments])
    (record,) = actions(tmp_path / "audit.jsonl")
    assert (record.title, record.who, record.via) == (command, getpass.getuser(), "command line")
    here = {name: str(tmp_path) for name, value in about.items() if value == "HERE"}
    assert (record.input or {}) == about | here
    assert record.outcome == ("refused" if status else "done")
    assert record.reason == (f"exit status {status}" if status else "")


def test_a_reading_verb_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    main(["--audit", "audit.jsonl", "trust", "list"])
    assert not Path("audit.jsonl").exists()
