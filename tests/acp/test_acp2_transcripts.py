"""Recorded conversations with two agents in version 2: each prompt ends once, as it ended then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from acp2_replay import FOLDER, TRANSCRIPTS, Replay

from agentrt.effects import (
    DecisionRequested,
    Started,
    TaskSet,
    TextReceived,
    ToolCalled,
    TurnBegan,
    TurnFinished,
)
from agentrt.events import Diff, Notice


def expected(file: Path, prompts: list[str]) -> dict[str, str]:
    """The ends of the prompts by the recording alone: an error, or the first `idle` with a reason
    after the answer."""
    ends: dict[str, str] = {}
    open_prompt = None
    for row in map(json.loads, file.read_text().splitlines()):
        match row:
            case {"dir": "a>c", "msg": {"id": id, "result": {"messageId": _}}}:
                open_prompt = f"t{id}"
            case {"dir": "a>c", "msg": {"id": id, "error": {"code": code}}} if f"t{id}" in prompts:
                ends[f"t{id}"] = "cancelled" if code == -32800 else "failed"
            case {"msg": {"params": {"update": {"stopReason": reason}}}} if open_prompt in prompts:
                assert open_prompt is not None
                ends.setdefault(open_prompt, OUTCOMES[reason])
    return ends


OUTCOMES = {"end_turn": "completed", "cancelled": "cancelled", "error": "failed"}
RESUMED = ("resume_running", "resume_permission")
"""Recordings in which the client leaves the process while a turn runs."""


@pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: file.stem)
def test_a_recorded_conversation_ends_as_it_did(file: Path) -> None:
    if file.stem.endswith("init_odd"):
        return  # requests that agentrt never sends
    replay = Replay()
    replay.run(file)
    finished = [end for end in replay.all if isinstance(end, TurnFinished)]
    ends = {end.turn: end.outcome for end in finished if end.turn is not None}
    assert len(ends) == len([end for end in finished if end.turn is not None])
    if file.stem.endswith(RESUMED):
        assert [end.turn for end in finished] == [None], "the resumed session shows the turn's end"
    else:
        assert ends == expected(file, replay.prompts)
    own = [effect for effect in replay.all if isinstance(effect, TurnBegan)]
    assert len(own) == len([end for end in finished if end.turn is None])
    notices = {each.code for each in replay.all if isinstance(each, Notice)}
    assert not notices & {"malformed", "foreign_session", "unusable_update", "unknown_update"}
    assert not notices & {"late_message", "unknown_value"}


def replayed(name: str) -> list[Any]:
    replay = Replay()
    replay.run(FOLDER / f"{name}.ndjson")
    return replay.all


def output(effects: list[Any]) -> str:
    """The live output of the tool calls."""
    appended = [each for each in effects if isinstance(each, ToolCalled)]
    return "".join(each.append for each in appended if isinstance(each.append, str))


@pytest.mark.parametrize("agent", ["", "codex-"])
def test_the_output_of_a_command_is_shown_once(agent: str) -> None:
    assert output(replayed(f"{agent}tool_allow")).count("marker-42") == 1


def test_a_background_command_is_a_task_until_it_ends() -> None:
    tasks = [each.task for each in replayed("background") if isinstance(each, TaskSet)]
    assert tasks[0].status == "running"
    assert tasks[-1].status == "completed"
    assert "finished" in (tasks[-1].detail or "")


def test_a_written_file_is_shown_as_a_diff() -> None:
    effects = replayed("write")
    diffs = [
        part
        for each in effects
        if isinstance(each, ToolCalled) and each.content
        for part in each.content
        if isinstance(part, Diff)
    ]
    assert (diffs[0].new_text, diffs[0].old_text) == ("alpha\nbeta\n", None)
    asked = next(each for each in effects if isinstance(each, DecisionRequested))
    assert asked.changes == asked.created == [diffs[0].path]


@pytest.mark.parametrize("name", ["resume", "codex-resume"])
def test_a_resumed_conversation_is_repeated_as_history(name: str) -> None:
    effects = replayed(name)
    texts = [each for each in effects if isinstance(each, TextReceived)]
    assert any(each.replay for each in texts)
    assert [each.repeated for each in effects if isinstance(each, Started) and each.resumed]
    restarted = [each for each in effects if isinstance(each, ToolCalled) and each.replay]
    assert restarted
    assert restarted[0].opens


def test_all_recordings_are_here() -> None:
    assert len(TRANSCRIPTS) == 58
