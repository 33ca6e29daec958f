"""A model that Claude Code does not know is reported when the session begins."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.events import Notice
from agentrt.lowlevel import Opening

from .rig import Rig

ROWS = [
    {"value": "default", "resolvedModel": "claude-opus-5-5", "displayName": "Default"},
    {"value": "haiku", "resolvedModel": "claude-haiku-5-5", "displayName": "Haiku"},
]


def reported(model: str | None, rows: list[Any]) -> list[Any]:
    rig = Rig(opening=Opening(cwd="/sandbox/project", model=model))
    rig.start({"models": rows})
    return [(notice.code, notice.level, notice.data) for notice in rig.of(Notice)]


def test_a_model_that_claude_lists_without_a_name_is_unknown() -> None:
    echoed = {"value": "haiku-9", "resolvedModel": "haiku-9", "displayName": "haiku-9"}
    data = {"model": "haiku-9", "offered": ["default", "haiku"]}
    assert reported("haiku-9", [*ROWS, echoed]) == [("model_unknown", "warning", data)]


@pytest.mark.parametrize("model", [None, "haiku", "claude-haiku-5-5", "best", "sonnet[1m]"])
def test_a_model_that_claude_does_not_list_apart_is_known(model: str | None) -> None:
    assert reported(model, ROWS) == []


@pytest.mark.parametrize(
    ("model", "resolved", "name"),
    [
        ("claude-sonnet-4-5", "claude-sonnet-4-5", "Sonnet 4.5"),
        ("best", "claude-opus-5", "best"),  # so 2.1.220
    ],
)
def test_a_model_that_claude_names_or_resolves_is_known(
    model: str, resolved: str, name: str
) -> None:
    row = {"value": model, "resolvedModel": resolved, "displayName": name}
    assert reported(model, [*ROWS, row]) == []
