"""Stored sessions."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentrt._core.claude.sessions import (
    config_folder,
    delete_session,
    end_of_turn,
    find_session,
    history,
    list_sessions,
    project_name,
    read_messages,
)
from agentrt.effects import TextEnded, TextReceived, ToolCalled, UserContentReceived
from agentrt.errors import SessionNotFound
from agentrt.events import Text, ToolText

from .rig import Json, text, tool_use

ONE = "11111111-1111-4111-8111-111111111111"
TWO = "22222222-2222-4222-8222-222222222222"
CWD = "/sandbox/project"


def entry(kind: str, uuid: str, parent: str | None, content: Any, **fields: Any) -> Json:
    message = {"role": kind, "content": content}
    if kind == "assistant":
        message["id"] = fields.pop("id", f"msg-{uuid}")
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "isSidechain": False,
        "sessionId": ONE,
        "cwd": CWD,
        "gitBranch": "main",
        "timestamp": "2026-11-21T04:38:39.445Z",
        "message": message,
        **fields,
    }


def answered(uuid: str, parent: str, call: str, words: str) -> Json:
    block = {"type": "tool_result", "tool_use_id": call, "content": words}
    return entry("user", uuid, parent, [block], toolUseResult={"stdout": words})


CONVERSATION = [
    {"type": "custom-title", "customTitle": "First title", "sessionId": ONE},
    entry("user", "a", None, "list the files"),
    {"type": "attachment", "uuid": "b", "parentUuid": "a", "attachment": {}},
    entry("assistant", "c", "b", [text("Both at once.")], id="m1"),
    entry("assistant", "d", "c", [tool_use("c1", "Bash", command="ls")], id="m1"),
    entry("assistant", "e", "d", [tool_use("c2", "Bash", command="pwd")], id="m1"),
    answered("f", "d", "c1", "README.md"),
    answered("g", "e", "c2", CWD),
    {"type": "progress", "uuid": "h", "parentUuid": "g"},
    entry("assistant", "i", "h", [text("Done.")]),
    {"type": "cost-state", "totalCostUSD": 1},
]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "projects" / "-sandbox-project"
    folder.mkdir(parents=True)
    write(folder / f"{ONE}.jsonl", CONVERSATION)
    return tmp_path


def write(path: Path, entries: list[Json]) -> None:
    path.write_text("".join(json.dumps(e) + "\n" for e in entries))


def uuids(path: Path) -> list[str]:
    return [e["uuid"] for e in read_messages(path)]


def test_sessions_of_a_project_are_listed_newest_first(config: Path) -> None:
    older = config / "projects" / "-sandbox-project" / f"{TWO}.jsonl"
    write(older, [entry("user", "a", None, [text("another\none")])])
    os.utime(older, (1, 1))
    first, second = list_sessions(config, CWD)
    assert (first.id, first.title, first.cwd, first.branch) == (ONE, "First title", CWD, "main")
    assert (second.id, second.title, second.modified) == (TWO, "another one", 1)
    assert list_sessions(config) == [first, second]
    assert list_sessions(config, "/elsewhere") == []


def test_what_is_no_conversation_is_not_listed(config: Path) -> None:
    folder = config / "projects" / "-sandbox-project"
    write(folder / f"{TWO}.jsonl", [{"type": "summary"}])
    (folder / "notes.jsonl").write_text("{}\n")
    (folder / f"{TWO[:-1]}3.jsonl").write_bytes(b"")
    write(folder / f"{TWO[:-1]}4.jsonl", [entry("user", "a", None, "x", isSidechain=True)])
    assert [s.id for s in list_sessions(config, CWD)] == [ONE]


def test_a_long_transcript_is_glanced_at_from_both_ends(config: Path) -> None:
    path = find_session(config, ONE, CWD)
    blob = {"type": "api-request-blob", "data": "x" * 200_000}
    titled = {"type": "custom-title", "customTitle": "Last title", "sessionId": ONE}
    write(path, [*CONVERSATION, blob, titled])
    assert list_sessions(config, CWD)[0].title == "Last title"


def test_a_session_is_found_by_its_id_only(config: Path) -> None:
    assert find_session(config, ONE).stem == ONE
    for wrong in (TWO, "../../etc/passwd", "*", ""):
        with pytest.raises(SessionNotFound):
            find_session(config, wrong)


def test_long_paths_are_found_by_their_beginning(tmp_path: Path) -> None:
    cwd = "/" + "very/long/" * 30 + "path"
    folder = tmp_path / "projects" / f"{project_name(cwd)[:200]}-hash"
    folder.mkdir(parents=True)
    write(folder / f"{ONE}.jsonl", CONVERSATION)
    assert [s.id for s in list_sessions(tmp_path, cwd)] == [ONE]


def test_messages_are_those_of_the_newest_branch_with_all_parallel_results(config: Path) -> None:
    path = find_session(config, ONE)
    assert uuids(path) == ["a", "c", "d", "e", "f", "g", "i"]


def test_a_branch_that_was_left_is_not_read(config: Path) -> None:
    path = find_session(config, ONE)
    rewound = [entry("user", "x", "b", "or rather"), entry("assistant", "y", "x", [text("yes")])]
    write(path, [*CONVERSATION, *rewound])
    assert uuids(path) == ["a", "x", "y"]


def test_broken_lines_are_left_out(config: Path) -> None:
    path = find_session(config, ONE)
    path.write_bytes(b"garbage\n{}\n7\n" + path.read_bytes() + b'{"type":"user","uu')
    assert uuids(path) == ["a", "c", "d", "e", "f", "g", "i"]


def test_entries_that_go_round_in_a_circle_are_read_once(config: Path) -> None:
    path = find_session(config, ONE)
    write(path, [entry("user", "a", "b", "x"), entry("assistant", "b", "a", [text("y")])])
    assert uuids(path) == ["a", "b"]


def test_the_history_is_reported_as_a_replay(config: Path) -> None:
    told = history(find_session(config, ONE))
    assert told[0] == UserContentReceived(
        content=[Text("list the files")], message="a", replay=True
    )
    assert told[1] == TextReceived("Both at once.", message="m1", replay=True)
    calls = [e for e in told if isinstance(e, ToolCalled)]
    assert [(e.id, e.status) for e in calls] == [
        ("c1", "running"),
        ("c2", "running"),
        ("c1", "completed"),
        ("c2", "completed"),
    ]
    assert calls[2].content == [ToolText(Text("README.md"))]
    assert all(e.replay for e in told if not isinstance(e, TextEnded))


def test_what_was_never_said_is_not_reported(config: Path) -> None:
    path = find_session(config, ONE)
    meta = entry("user", "j", "i", "caveat", isMeta=True)
    output = entry("user", "k", "j", "<local-command-stdout>x</local-command-stdout>")
    write(path, [*CONVERSATION, meta, output])
    assert len([e for e in history(path) if isinstance(e, UserContentReceived)]) == 1


def test_a_deleted_session_is_gone_with_all_that_belongs_to_it(config: Path) -> None:
    path = find_session(config, ONE)
    (path.with_suffix("") / "subagents").mkdir(parents=True)
    delete_session(path)
    assert list(path.parent.iterdir()) == []


def test_where_the_files_are() -> None:
    assert config_folder({"CLAUDE_CONFIG_DIR": "/c"}) == Path("/c")
    assert config_folder({"HOME": "/h"}) == Path("/h/.claude")


@pytest.mark.parametrize(
    ("name", "last"),
    [("a", "i"), ("m1", "i"), ("c1", "i"), ("i", "i"), ("msg-k", "l"), ("j", "l"), ("never", None)],
)
def test_a_turn_ends_ahead_of_the_next_prompt(tmp_path: Path, name: str, last: str | None) -> None:
    path = tmp_path / "two.jsonl"
    more = [
        entry("user", "j", "i", "and now?"),
        entry("assistant", "k", "j", [tool_use("c3", "Bash", command="ls")]),
        answered("l", "k", "c3", "README.md"),
        entry("user", "x", "l", "<reminder>", isMeta=True),
        entry("user", "n", "x", "and then?"),
    ]
    write(path, CONVERSATION + more)
    found = end_of_turn(path, (name,))
    assert found == ("x" if last == "l" else last)
