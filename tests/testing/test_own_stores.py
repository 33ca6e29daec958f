"""`check_store` accepts the stores of agentrt and the example, and finds defects in others."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agentrt
from agentrt.lowlevel import Flush, FlushPart, SessionClaim, StoreReader
from agentrt.storage import backend_of
from agentrt.testing import check_store

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

import json_lines  # noqa: E402
from json_lines import JsonLines, Line  # noqa: E402


def test_the_example_is_a_store(tmp_path: Path) -> None:
    agentrt.testing.check_store(lambda: JsonLines(tmp_path / "sessions.jsonl"))


def test_the_example_is_short() -> None:
    assert len((EXAMPLES / "json_lines.py").read_text().splitlines()) < 150


def test_a_file_is_a_store(tmp_path: Path) -> None:
    check_store(lambda: backend_of(tmp_path / "sessions.db"))


class WritesForOldClaims(JsonLines):
    def commit(self, flush: Flush) -> None:
        for part in flush.parts:
            for claim in self.claims.values():
                if claim.num == part.place.num:
                    part.place = claim
        super().commit(flush)


class ListsDeletedSessions(JsonLines):
    def apply(self, line: Line) -> None:
        entry = self.entries.get(line.session)
        super().apply(line)
        if line.do == "delete" and entry is not None:
            self.entries[line.session] = entry


class ListsSessionsWithoutPrompts(JsonLines):
    def apply(self, line: Line) -> None:
        super().apply(line)
        if line.do == "create":
            row = agentrt.store.SessionRow(
                title=None, prompt="", phase="idle", turns=0, about=line.about
            )
            self.entries[line.session] = row.entry(line.session, line.at, line.at)


class ReturnsEventsBeforeTheHead(JsonLines):
    def apply(self, line: Line) -> None:
        super().apply(line)
        for loaded in self.loaded.values():
            if loaded.head.seq and len(loaded.events) == loaded.next - 1 - loaded.head.seq:
                loaded.events = [loaded.events[0], *loaded.events]


class LetsTwoWrite(JsonLines):
    def open(self) -> None:
        super().open()
        fcntl.flock(self.file, fcntl.LOCK_UN)


class WritesLate(JsonLines):
    late: list[Line] = []

    def write(self, line: Line) -> None:
        if line.do == "commit":
            self.apply(line)
        else:
            super().write(line)


class ReusesOwners(JsonLines):
    def claim(self, session: str, *, reads: bool = False) -> SessionClaim | None:
        return self.claims.get(session)


class ReusesOwnersAfterARestart(JsonLines):
    def open(self) -> None:
        super().open()
        self.claims = {id: SessionClaim(claim.num, 1) for id, claim in self.claims.items()}


class ReusesOwnersForReading(JsonLines):
    def claim(self, session: str, *, reads: bool = False) -> SessionClaim | None:
        return self.claims.get(session) if reads else super().claim(session)


class ReusesNumbersOfDeletedSessions(JsonLines):
    def apply(self, line: Line) -> None:
        if line.do == "create":
            self.created = max((claim.num for claim in self.claims.values()), default=0)
        super().apply(line)


class ListsRowsWithoutPrompts(JsonLines):
    def apply(self, line: Line) -> None:
        super().apply(line)
        if line.do == "commit":
            for part in Flush.decode(line.flush).parts:
                for id, claim in self.claims.items():
                    if claim == part.place and part.row is not None:
                        self.entries[id] = part.row.entry(id, line.at, line.at)


class ReturnsValuesThatChange(JsonLines):
    def reader(self) -> StoreReader:
        return LoadsWithoutCopy(self)


class LoadsWithoutCopy(json_lines.JsonLinesReader):
    def load(self, session: str, last: int | None = None) -> agentrt.store.LoadedSession | None:
        return self.backend.loaded.get(session)


class WritesEventsTwice(JsonLines):
    def commit(self, flush: Flush) -> None:
        for part in flush.parts:
            for id, claim in self.claims.items():
                if claim == part.place:
                    part.first = self.loaded[id].next
        super().commit(flush)


class DiscardsForOldClaims(JsonLines):
    def discard(self, place: SessionClaim) -> None:
        super().discard(next(each for each in self.claims.values() if each.num == place.num))


class ForgetsAnswers(JsonLines):
    def commit(self, flush: Flush) -> None:
        super().commit(Flush(flush.parts, flush.fsync))


class ForgetsRecords(JsonLines):
    def commit(self, flush: Flush) -> None:
        parts = [FlushPart(p.place, p.first, p.events, p.row, p.head) for p in flush.parts]
        super().commit(Flush(parts, flush.fsync, flush.answers))


DEFECTS = JsonLines.__subclasses__()


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_a_defect_of_a_store_is_found(defect: type[JsonLines], tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        check_store(lambda: defect(tmp_path / "sessions.jsonl"))


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[JsonLines]:
    backend = json_lines.JsonLines(tmp_path / "sessions.jsonl")
    backend.open()
    yield backend
    backend.close()


def test_a_flush_keeps_whatever_its_events_contain(backend: JsonLines) -> None:
    about = agentrt.store.SessionDescription(agent="a", protocol="acp", cwd="/")
    place = backend.create("s", "e", about)
    odd: Any = agentrt.events.Notice("info", "x", object())  # type: ignore[arg-type]
    texts = [agentrt.events.Notice("info", "x", text) for text in ("a\nb", "\ud800", "\0")]
    backend.commit(Flush([FlushPart(place, 1, [*texts, odd])]))
    loaded = backend.reader().load("s")
    assert loaded is not None
    messages = [event.message for event in loaded.events if isinstance(event, agentrt.Notice)]
    assert messages[:3] == ["a\nb", "\ufffd", "\0"]
    assert messages[3].startswith("an event could not be stored")


def test_a_line_that_was_being_written_is_dropped(backend: JsonLines) -> None:
    about = agentrt.store.SessionDescription(agent="a", protocol="acp", cwd="/")
    backend.create("s", "e", about)
    backend.close()
    with open(backend.path, "ab") as file:
        file.write(b'{"do":"del')
    again = json_lines.JsonLines(backend.path)
    again.open()
    assert list(again.claims) == ["s"]
    assert os.path.getsize(again.path) == len(backend.path.read_bytes().rpartition(b"\n")[0]) + 1
    again.close()
