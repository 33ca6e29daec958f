"""Claude Code's stored sessions: one transcript per session, in a folder named after the project.

A transcript is `<config>/projects/<project>/<session>.jsonl`; the CLI only appends to it. Its
entries form a tree by `parentUuid`; the conversation is the branch that ends at the newest entry of
the main agent. The functions of this module are plain, blocking functions over such files.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, ValidationError, convert

from ..._base.home import home_folder
from ..errors import RemoteProtocolError, SessionNotFound
from ..model.content import JsonObject
from ..model.driver import (
    BlockReceived,
    Effect,
    TextEnded,
    TextReceived,
    ToolCalled,
    UserContentReceived,
)
from ..wire.json import decode
from . import messages as wire
from .blocks import from_claude
from .speech import ClaudeTranslator

SUMMARY_READ_BYTES: Final = 64 * 1024
"""Bytes read from each end of a transcript to list it; the whole file may be hundreds of
megabytes."""
MAX_FOLDER_NAME_CHARS: Final = 200
"""Characters of a project's folder name before a hash that replaces the others."""
ENTRIES: Final = frozenset({"user", "assistant", "system", "attachment", "progress"})
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class StoredSession(Struct, frozen=True, kw_only=True):
    """A session that can be resumed."""

    id: str
    """The id that `resume` takes."""
    title: str
    """The title, or the start of the first prompt."""
    path: str
    """The transcript's file."""
    cwd: str | None
    """The folder in which the session began, if the transcript names it."""
    branch: str | None
    """The Git branch at that time, if any."""
    modified: float
    """Seconds since the Unix epoch."""
    size: int
    """The size of the transcript, in bytes."""


def config_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return the folder in which Claude Code keeps its files."""
    given = env.get("CLAUDE_CONFIG_DIR")
    return Path(given) if given else home_folder(env) / ".claude"


def list_sessions(config: Path, cwd: str | None = None) -> list[StoredSession]:
    """Return the sessions of a project, or of all projects, newest first. Unreadable ones are
    omitted."""
    found = [s for path in _transcripts(config, cwd) if (s := _glance(path)) is not None]
    return sorted(found, key=lambda session: session.modified, reverse=True)


def find_session(config: Path, session: str, cwd: str | None = None) -> Path:
    """Return the path of a session's transcript. Raises `SessionNotFound`."""
    if _UUID.fullmatch(session):
        for path in _transcripts(config, cwd):
            if path.stem.lower() == session.lower() and path.stat().st_size:
                return path
    raise SessionNotFound(f"no stored session {session!r}")


def read_messages(transcript: Path) -> list[JsonObject]:
    """Return the conversation's entries (`user`, `assistant`, `system`) in order.

    They begin at the start of the conversation or at its last compaction.
    """
    return [e for e in _conversation(transcript) if e["type"] in ("user", "assistant", "system")]


def history(transcript: Path, *, up_to: str | None = None) -> list[Effect]:
    """Return the conversation as effects that are marked as a replay.

    `up_to`: uuid of the last entry to include. An unknown uuid is ignored.
    """
    translator = ClaudeTranslator()
    out: list[Effect] = []
    entries = read_messages(transcript)
    uuids = [entry["uuid"] for entry in entries]
    if up_to in uuids:
        entries = entries[: uuids.index(up_to) + 1]
    for entry in entries:
        if entry.get("isMeta") or entry.get("isCompactSummary"):
            continue
        try:
            if entry["type"] == "assistant":
                translator.assistant(convert(entry, wire.Assistant), out)
            elif entry["type"] == "user" and _is_prompt(entry):
                content = from_claude(_message(entry).get("content"))
                out.append(UserContentReceived(content=content, message=entry["uuid"]))
            elif entry["type"] == "user":
                message = {**entry, "tool_use_result": entry.get("toolUseResult")}
                translator.user(convert(message, wire.User), True, out)
        except ValidationError:
            continue
    for effect in out:
        if isinstance(effect, UserContentReceived | BlockReceived | TextReceived | ToolCalled):
            effect.replay = True
    kept = UserContentReceived | BlockReceived | TextReceived | TextEnded | ToolCalled
    return [effect for effect in out if isinstance(effect, kept)]


def end_of_turn(transcript: Path, names: Container[str]) -> str | None:
    """Return the uuid of the last entry of the turn that contains one of these names.

    A name is the uuid of an entry, the API's id of an answer, or the id of a tool call. Returns
    None if the conversation contains none of them.
    """
    entries = read_messages(transcript)
    named = [index for index, entry in enumerate(entries) if _names(entry, names)]
    if not named:
        return None
    last = named[-1]
    while last + 1 < len(entries) and not _begins_turn(entries[last + 1]):
        last += 1
    return str(entries[last]["uuid"])


def delete_session(transcript: Path) -> None:
    """Remove a session and the files of its sub-agents. This cannot be undone."""
    transcript.unlink()
    shutil.rmtree(transcript.with_suffix(""), ignore_errors=True)


# --- files


def project_name(cwd: str) -> str:
    """Return the name of Claude Code's folder for a project."""
    return re.sub(r"[^a-zA-Z0-9]", "-", cwd)


def _transcripts(config: Path, cwd: str | None) -> Iterator[Path]:
    """Yield the transcripts of a project, or of all projects.

    The folder of a long path has a hash in place of its end that only Claude computes, so all
    folders with that beginning are searched.
    """
    name = "*"
    if cwd is not None:
        name = project_name(os.path.realpath(cwd))
        if len(name) > MAX_FOLDER_NAME_CHARS:
            name = f"{name[:MAX_FOLDER_NAME_CHARS]}-*"
    for path in (config / "projects").glob(f"{name}/*.jsonl"):
        if _UUID.fullmatch(path.stem):
            yield path


def _glance(path: Path) -> StoredSession | None:
    """Describe a session from the two ends of its transcript. None if it is not a conversation."""
    try:
        with open(path, "rb") as file:
            stat = os.fstat(file.fileno())
            head = file.read(SUMMARY_READ_BYTES)
            file.seek(max(len(head), stat.st_size - SUMMARY_READ_BYTES))
            tail = file.read(SUMMARY_READ_BYTES)
    except OSError:
        return None
    entries = list(_entries(head))
    newest = [*entries, *_entries(tail)]
    first = next((e for e in entries if _in_tree(e)), None)
    if first is None or first.get("isSidechain"):
        return None
    title = (
        _newest(newest, "customTitle")
        or _newest(newest, "aiTitle")
        or _first_prompt(entries)
        or _newest(newest, "lastPrompt")
    )
    return StoredSession(
        id=path.stem,
        title=title or "",
        path=str(path),
        cwd=_newest([first], "cwd"),
        branch=_newest(newest, "gitBranch"),
        modified=stat.st_mtime,
        size=stat.st_size,
    )


def _newest(entries: list[JsonObject], field: str) -> str | None:
    """Return the last value of a field."""
    values = (entry.get(field) for entry in reversed(entries))
    return next((v for v in values if isinstance(v, str) and v), None)


def _first_prompt(entries: Iterable[JsonObject]) -> str | None:
    """Return the beginning of the first prompt; text in tags is not one."""
    for entry in entries:
        if entry.get("type") == "user" and not entry.get("isMeta"):
            content = _message(entry).get("content")
            text = content if isinstance(content, str) else _text(content)
            if text and not text.startswith("<"):
                return " ".join(text.split())[:MAX_FOLDER_NAME_CHARS]
    return None


def _text(content: Any) -> str:
    """Return the text blocks of a content."""
    parts = content if isinstance(content, list) else []
    texts = [p.get("text") for p in parts if isinstance(p, dict) and p.get("type") == "text"]
    return "".join(t for t in texts if isinstance(t, str))


# --- entries


def _entries(data: bytes) -> Iterator[JsonObject]:
    """Yield the entries of some lines. Broken lines, such as those cut at an end, are omitted."""
    for line in data.split(b"\n"):
        if line.startswith(b"{"):
            try:
                yield decode(line)
            except RemoteProtocolError:
                continue


def _in_tree(entry: JsonObject) -> bool:
    """Return True if an entry is part of the conversation's tree, outside of sub-agents."""
    named = isinstance(entry.get("uuid"), str) and isinstance(entry.get("type"), str)
    hangs = isinstance(entry.get("parentUuid"), str | None)
    return named and hangs and entry["type"] in ENTRIES and not entry.get("isSidechain")


def _conversation(transcript: Path) -> list[JsonObject]:
    """Read the whole transcript, and return the branch of its newest message."""
    return _branch([e for e in _entries(transcript.read_bytes()) if _in_tree(e)])


def _branch(entries: list[JsonObject]) -> list[JsonObject]:
    """Return the branch of the newest message, in order.

    Tool calls of one answer are children of each other, and each result is a child of the call.
    The branch by `parentUuid` therefore contains only one of several results; the others are added.
    """
    by_uuid = {entry["uuid"]: entry for entry in entries}
    leaf = next((e for e in reversed(entries) if e["type"] in ("user", "assistant")), None)
    chosen: set[str] = set()
    while leaf is not None and leaf["uuid"] not in chosen:
        chosen.add(leaf["uuid"])
        leaf = by_uuid.get(leaf.get("parentUuid") or "")
    answers = {_answer(entry) for entry in entries if entry["uuid"] in chosen} - {None}
    for entry in entries:
        result = entry.get("parentUuid") in chosen and _is_result(entry)
        if result or _answer(entry) in answers:
            chosen.add(entry["uuid"])
    return [entry for entry in entries if entry["uuid"] in chosen]


def _message(entry: JsonObject) -> JsonObject:
    """Return the API message of an entry, or an empty one."""
    message = entry.get("message")
    return message if isinstance(message, dict) else {}


def _answer(entry: JsonObject) -> str | None:
    """Return the id of the model's answer that an entry is a block of, or None."""
    id = _message(entry).get("id")
    return id if isinstance(id, str) else None


def _is_result(entry: JsonObject) -> bool:
    """Return True if an entry is the result of a tool."""
    content = _message(entry).get("content")
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") == "tool_result" for part in content
    )


def _names(entry: JsonObject, names: Container[str]) -> bool:
    """Return True if one of these names means an entry: its uuid, its answer or one of its
    calls.
    """
    content = _message(entry).get("content")
    parts = (
        [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    )
    calls = {part.get("id") for part in parts} | {part.get("tool_use_id") for part in parts}
    return any(name in names for name in {entry["uuid"], _answer(entry), *calls} - {None})


def _begins_turn(entry: JsonObject) -> bool:
    """Return True if a turn begins with an entry. Messages that the CLI adds do not begin one."""
    return entry["type"] == "user" and not entry.get("isMeta") and _is_prompt(entry)


def _is_prompt(entry: JsonObject) -> bool:
    """Return True if a `user` entry is a prompt, and not a result or the output of a command."""
    content = _message(entry).get("content")
    command = isinstance(content, str) and content.startswith("<local-command-")
    return not command and not _is_result(entry)
