"""The titles, kinds and places of the tools of Claude Code.

Every tool and malformed input is described, without a session for each.
"""

from __future__ import annotations

import pytest

from agentrt._core.claude.toolkit import kind_of, locations_of, title_of


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "title"),
    [
        ("Read", {"file_path": "/a"}, "read", "Read /a"),
        ("Bash", {"command": "ls\n -l"}, "execute", "ls -l"),
        ("Bash", {"command": "x" * 500}, "execute", "x" * 199 + "…"),
        ("Grep", {"pattern": "def"}, "search", "Search def"),
        ("WebFetch", {"url": "u"}, "fetch", "Fetch u"),
        ("Task", {"description": "dig"}, "think", "dig"),
        ("ExitPlanMode", {"plan": "p"}, "switch_mode", "Ready to code?"),
        ("mcp__app__record_result", {}, "other", "record_result (app)"),
        ("Mystery", {"a": 1}, "other", "Mystery"),
        ("Read", None, "read", "Read"),
        ("Read", {"file_path": 7}, "read", "Read"),
    ],
)
def test_calls_have_kinds_and_headlines(
    name: str, arguments: object, kind: str, title: str
) -> None:
    assert (kind_of(name), title_of(name, arguments)) == (kind, title)


def test_a_read_says_where_in_the_file() -> None:
    assert locations_of({"file_path": "/a", "offset": 7}) == [{"path": "/a", "line": 7}]
