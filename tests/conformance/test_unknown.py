"""Messages that the tables do not know are named once; known ones are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from agentrt._lab.conformance.unknown import unknown_messages

TESTS = Path(__file__).parents[1]
UNKNOWN: dict[Literal["acp", "claude", "codex"], Any] = {
    "acp": {
        "method": "session/update",
        "params": {"sessionId": "s1", "update": {"sessionUpdate": "dance"}},
    },
    "claude": {"type": "system", "subtype": "dance"},
    "codex": {"method": "dance/began", "params": {}},
}


def recorded(protocol: str) -> list[Any]:
    match protocol:
        case "codex":
            return [
                *map(
                    json.loads, (TESTS / "shown/recorded/codex.ndjson").read_text().split("\n")[:-1]
                )
            ]
        case "claude":
            files = (TESTS / "shown/recorded/claude").glob("*.ndjson")
        case _:
            files = (TESTS / "acp/transcripts").glob("*.ndjson")
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [row["msg"] for row in rows if row["dir"] == "<"]


@pytest.mark.parametrize("protocol", UNKNOWN)
def test_a_message_that_the_tables_do_not_know_is_named_once(
    protocol: Literal["acp", "claude", "codex"],
) -> None:
    [words] = unknown_messages(protocol, [UNKNOWN[protocol]] * 3)
    assert "dance" in words


@pytest.mark.parametrize("protocol", UNKNOWN)
def test_the_tables_know_each_message_of_the_recordings(
    protocol: Literal["acp", "claude", "codex"],
) -> None:
    assert unknown_messages(protocol, recorded(protocol)) == []


def test_the_tables_know_each_message_of_the_recordings_of_version_2() -> None:
    rows = [
        json.loads(line)
        for file in sorted((TESTS / "acp/transcripts2").glob("*.ndjson"))
        for line in file.read_text().splitlines()
    ]
    messages = [row["msg"] for row in rows if row["dir"] in ("<", "a>c")]
    assert len(messages) > 1000
    assert unknown_messages("acp", messages, 2) == []
