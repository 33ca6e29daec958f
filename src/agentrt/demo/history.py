"""Storage of conversations: two small files per session in the user's state folder.

`ID.json` describes the session (for `session/list`), `ID.ndjson` contains its updates, one a line
(for `session/load`). Both are bounded. Writes are a few hundred bytes to a local file, so they are
made in place rather than in a thread; a failing disk costs the history, not the conversation.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from .._base.home import home_folder
from .wire import JsonObject

MAX_STORED_SESSIONS = 100
"""Maximum number of stored conversations; the longest unused are removed first."""
MAX_STORED_BYTES = 1024 * 1024
"""Maximum bytes of updates stored for one conversation; the older half is removed first."""

PIECE_CHARS = 16 * 1024
"""Characters of one text that are collected before they are written."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class StoredInfo(Struct, rename="camel", kw_only=True):
    """The answer of `session/list` about one session; also the content of its `.json` file."""

    session_id: str
    cwd: str
    additional_directories: list[str] = []
    title: str | None = None
    updated_at: str = ""


def state_folder() -> Path:
    """Return the folder of the demo agent's saved sessions."""
    given = os.environ.get("XDG_STATE_HOME")
    return (Path(given) if given else home_folder() / ".local" / "state") / "agentrt" / "demo"


def now() -> str:
    """Return the current time as ISO 8601 text, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class DemoStore:
    """The folder of all saved sessions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._broken = False

    def _path(self, session_id: str, suffix: str) -> Path | None:
        """Return the file of a session; None for an id that this agent cannot have made."""
        # Ids come back from clients: only an id that we could have made may become a file name.
        return self._folder / (session_id + suffix) if _ID.fullmatch(session_id) else None

    def _give_up(self, error: OSError) -> None:
        """Stop saving, and report that once."""
        if not self._broken:
            self._broken = True
            print(f"agentrt demo: sessions are not being saved: {error}", file=sys.stderr)

    def save(self, info: StoredInfo) -> None:
        """Write the session's `.json`, completely or not at all."""
        path = self._path(info.session_id, ".json")
        if path is None or self._broken:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = path.with_suffix(f".{os.getpid()}.tmp")
            fresh.write_bytes(msgspec.json.encode(info))
            fresh.replace(path)
        except OSError as error:
            self._give_up(error)

    def append(self, session_id: str, update: JsonObject) -> None:
        """Add an update to the session's `.ndjson`; remove the older half if it is too large."""
        path = self._path(session_id, ".ndjson")
        if path is None or self._broken:
            return
        try:
            with path.open("ab") as file:
                file.write(msgspec.json.encode(update) + b"\n")
                size = file.tell()
            if size > MAX_STORED_BYTES:
                _halve(path)
        except OSError as error:
            self._give_up(error)

    def info(self, session_id: str) -> StoredInfo | None:
        """Return the session's saved description; or None."""
        path = self._path(session_id, ".json")
        try:
            return msgspec.json.decode(path.read_bytes(), type=StoredInfo) if path else None
        except (OSError, msgspec.DecodeError):
            return None

    def updates(self, session_id: str) -> list[JsonObject]:
        """Return the stored updates, to be sent again."""
        path = self._path(session_id, ".ndjson")
        try:
            lines = path.read_bytes().splitlines() if path else []
        except OSError:
            return []
        found: list[JsonObject] = []
        for line in lines:
            try:
                found.append(msgspec.json.decode(line, type=JsonObject))
            except msgspec.DecodeError:
                continue  # half a line: the process was killed while writing
        return found

    def list(self) -> list[StoredInfo]:
        """Return all saved sessions, the last used one first."""
        names = [path.stem for path in self._folder.glob("*.json")]
        found = [info for name in names if (info := self.info(name)) is not None]
        return sorted(found, key=lambda info: (info.updated_at, info.session_id), reverse=True)

    def forget_old(self) -> None:
        """Enforce the limit on the number of sessions."""
        for info in self.list()[MAX_STORED_SESSIONS:]:
            self.delete(info.session_id)

    def delete(self, session_id: str) -> None:
        """Delete both files of the session."""
        for suffix in (".json", ".ndjson"):
            path = self._path(session_id, suffix)
            if path is not None:
                path.unlink(missing_ok=True)


def _halve(path: Path) -> None:
    """Remove the older half, up to the first prompt after the middle."""
    lines = path.read_bytes().splitlines(keepends=True)
    prompt = b'"sessionUpdate":"user_message_chunk"'
    middle = len(lines) // 2
    start = next((i for i in range(middle, len(lines)) if prompt in lines[i]), middle)
    fresh = path.with_suffix(".tmp")
    fresh.write_bytes(b"".join(lines[start:]))
    fresh.replace(path)


def up_to(updates: list[JsonObject], message: str) -> list[JsonObject]:
    """Return the updates up to the end of the turn with this message; or an empty text."""
    names = ("messageId", "toolCallId")
    found = [i for i, each in enumerate(updates) if message in map(each.get, names)]
    if not found:
        return []
    last = found[-1]
    while last + 1 < len(updates) and updates[last + 1]["sessionUpdate"] != "user_message_chunk":
        last += 1
    return updates[: last + 1]


class DemoRecorder:
    """Stores the updates of one session: pieces of a text joined, a tool call in its final
    state."""

    def __init__(self, store: DemoStore, session_id: str) -> None:
        self._store = store
        self._session_id = session_id
        self._open: JsonObject | None = None
        """The piece of text that may still grow."""

    def add(self, update: JsonObject) -> None:
        """Store an update, or join it with the piece of text before it."""
        content = update.get("content")
        if not isinstance(content, dict) or content["type"] != "text":
            self.flush()
            self._store.append(self._session_id, _without_terminals(update))
            return
        if self._open is not None and not _same_message(self._open, update):
            self.flush()
        if self._open is None:
            self._open = {**update, "content": {"type": "text", "text": ""}}
        text = self._open["content"]["text"] + content["text"]
        self._open["content"]["text"] = text
        if len(text) > PIECE_CHARS:
            self.flush()

    def flush(self) -> None:
        """Write the piece of text that could still have grown."""
        if self._open is not None:
            text, self._open = self._open, None
            self._store.append(self._session_id, text)


def _same_message(one: JsonObject, other: JsonObject) -> bool:
    """True if two pieces of text belong to one message."""
    return all(one.get(key) == other.get(key) for key in ("sessionUpdate", "messageId"))


def _without_terminals(update: JsonObject) -> JsonObject:
    """Remove terminals: they exist only in the client that made them, and another client could only
    fail on their ids."""
    content = update.get("content")
    if not isinstance(content, list):
        return update
    return {**update, "content": [part for part in content if part["type"] != "terminal"]}
