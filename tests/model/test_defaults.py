"""What the browser protocol's page says of fields that have their default value."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agentrt import events as e


@pytest.mark.parametrize(
    ("struct", "written"),
    [
        (e.Item(id="i1", type="text"), {"id": "i1", "type": "text"}),
        (e.ToolCall(), {}),
        (e.Task(id="b1"), {"id": "b1"}),
        (e.Usage(), {}),
        (e.Usage(steps=0), {"steps": 0}),
        (e.Modes(), {}),
        (
            e.TurnEnded(turn="t1", outcome="completed"),
            {"kind": "turn.ended", "turn": "t1", "outcome": "completed"},
        ),
        (
            e.Notice("info", "x", "y"),
            {"kind": "notice", "level": "info", "code": "x", "message": "y"},
        ),
    ],
)
def test_a_field_that_has_its_default_is_left_out(struct: Any, written: dict[str, Any]) -> None:
    assert msgspec.json.decode(msgspec.json.encode(struct)) == written
