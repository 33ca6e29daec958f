"""Recorded conversations in version 2 of ACP, played again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

import agentrt
from agentrt.testing import Replay
from agentrt.tracing import TraceRecord

FOLDER = Path(__file__).parents[1] / "acp" / "transcripts2"
TURNS = {
    "text": ["completed"],
    "tool_allow": ["completed"],
    "tool_deny": ["completed"],
    "write": ["completed"],
    "cancel_command": ["cancelled", "completed"],
    "cancel_permission": ["cancelled", "completed"],
    "cancel_race": ["cancelled", "completed"],
    "cancel_stream": ["cancelled", "completed"],
    "codex-text": ["completed"],
    "codex-tool_allow": ["completed"],
    "codex-cancel_command": ["cancelled", "completed"],
    "codex-cancel_race": ["cancelled", "completed"],
}


def records(name: str) -> list[TraceRecord]:
    """A recording as a trace."""
    found = [
        TraceRecord(t=0.0, kind="session", session="s", process=1, agent="recorded", protocol="acp")
    ]
    for row in map(json.loads, (FOLDER / f"{name}.ndjson").read_text().splitlines()):
        if row["dir"] in ("c>a", "a>c"):
            kind: Any = "sent" if row["dir"] == "c>a" else "received"
            line = json.dumps(_completed(row["msg"]))
            found.append(TraceRecord(t=row["t"], kind=kind, session="s", process=1, line=line))
    return found


def _completed(message: Any) -> Any:
    """Leave out the marks of a list that was cut."""
    update = (message.get("params") or {}).get("update") or message.get("result") or {}
    if isinstance(update, dict) and "availableCommands" in update:
        commands = [each for each in update["availableCommands"] if isinstance(each, dict)]
        update["availableCommands"] = commands
    return message


@pytest.mark.parametrize("name", TURNS)
async def test_a_recording_of_version_2_is_played_again(
    name: str, autojump_clock: trio.abc.Clock
) -> None:
    played = Replay(records(name))
    assert played.acp_version == 2
    async with played.open_session(permissions=agentrt.ask) as session:
        await played.enact(session)
        turns = session.snapshot().turns
    assert [turn.outcome for turn in turns if turn.origin == "user"] == TURNS[name]
    assert msgspec.to_builtins(session.snapshot())
