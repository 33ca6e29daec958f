"""The golden traces: behind every event the fold gives the recorded snapshot."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agentrt.events import Event, Snapshot
from agentrt.lowlevel import SessionState

from .make_golden import FOLDER, trace
from .stories import STORIES
from .talk import Rules, shown


def frames(name: str) -> list[Any]:
    """The frames of a trace; of each the event or the snapshot is decoded."""
    found: list[Any] = []
    for line in (FOLDER / f"{name}.ndjson").read_bytes().splitlines():
        frame = msgspec.json.decode(line)
        if frame.pop("type") == "snapshot":
            found.append(msgspec.convert(frame, Snapshot))
        else:
            found.append((frame["seq"], msgspec.convert(frame["event"], Event)))
    return found


@pytest.mark.parametrize("name", STORIES)
def test_every_prefix_of_a_trace_folds_to_the_snapshot_behind_it(name: str) -> None:
    start, *rest = frames(name)
    state = SessionState(start.state.agent)
    assert shown(state) == start
    for (seq, event), expected in zip(rest[::2], rest[1::2], strict=True):
        state.apply(event)
        assert shown(state, seq) == expected


@pytest.mark.parametrize("name", STORIES)
def test_a_trace_keeps_the_rules(name: str) -> None:
    rules = Rules()
    for number, (seq, event) in enumerate(frames(name)[1::2], 1):
        assert seq == number
        rules.check(event)
    assert rules.turn is None


@pytest.mark.parametrize("name", STORIES)
def test_a_trace_is_what_its_story_gives_today(name: str) -> None:
    """If a change is meant to be seen: `python -m model.make_golden`, in `tests/`."""
    recorded = (FOLDER / f"{name}.ndjson").read_bytes().splitlines()
    assert [msgspec.json.decode(line) for line in recorded] == [
        msgspec.json.decode(line) for line in trace(name)
    ]


def test_every_trace_has_a_story() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(STORIES)


def test_the_traces_use_every_kind_of_event() -> None:
    used = {type(event).__name__ for name in STORIES for _, event in frames(name)[1::2]}
    assert used == {kind.__name__ for kind in Event.__args__}
