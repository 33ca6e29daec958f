"""A store of your own: sessions in a file of JSON lines.

Every change is one line, which is on the disk before it applies. `own_store.py` uses it.
"""

import fcntl
import os
import threading
import time
from pathlib import Path

import msgspec

from agentrt import store
from agentrt.errors import StoreInUse
from agentrt.lowlevel import Backend, Fenced, Flush, SessionClaim, StoreReader


class Line(msgspec.Struct, omit_defaults=True):
    do: str
    session: str = ""
    epoch: str = ""
    about: store.SessionDescription | None = None
    chat: str = ""
    flush: msgspec.Raw = msgspec.Raw(b"null")
    at: float = 0.0


class JsonLines(Backend):
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.file, self.created = -1, 0
        self.lock = threading.Lock()  # the reader is used in another thread
        self.claims: dict[str, SessionClaim] = {}
        self.loaded: dict[str, store.LoadedSession] = {}
        self.entries: dict[str, store.StoreEntry] = {}  # of sessions that were prompted
        self.chats: dict[str, str] = {}
        self.answers: dict[tuple[str, str], store.CommandAnswer] = {}

    def __str__(self) -> str:
        return str(self.path)

    def open(self) -> None:
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreInUse(f"{self.path} is being written by another process", None) from None
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        os.ftruncate(self.file, whole)  # without a line whose writing was interrupted
        for line in data[:whole].splitlines():
            self.apply(msgspec.json.decode(line, type=Line))

    def write(self, line: Line) -> None:
        line.at = time.time()
        data, size = msgspec.json.encode(line) + b"\n", os.fstat(self.file).st_size
        try:
            if os.write(self.file, data) < len(data):
                raise OSError("the disk is full")
            os.fsync(self.file)
        except OSError:
            os.ftruncate(self.file, size)
            raise
        with self.lock:
            self.apply(line)

    def apply(self, line: Line) -> None:
        id = line.session
        if line.do == "create" and line.about is not None:
            self.created += 1
            self.claims[id] = SessionClaim(self.created, 1)
            about, epoch, at = line.about, line.epoch, line.at
            self.loaded[id] = store.LoadedSession(about=about, epoch=epoch, created=at)
        elif line.do == "claim":
            self.claims[id] = SessionClaim(self.claims[id].num, self.claims[id].owner + 1)
        elif line.do == "delete":
            del self.claims[id], self.loaded[id]
            self.entries.pop(id, None)
        elif line.do == "name":
            self.chats[line.chat] = id
        else:
            flush = Flush.decode(line.flush)
            ids = {claim: id for id, claim in self.claims.items()}
            for part in flush.parts:
                id = ids[part.place]
                self.loaded[id].add(part)
                if part.row is not None and part.row.prompted:
                    self.entries[id] = part.row.entry(id, self.loaded[id].created, line.at)
            self.answers |= {(each.client, each.id): each for each in flush.answers}

    def commit(self, flush: Flush) -> None:
        if fenced := {part.place for part in flush.parts}.difference(self.claims.values()):
            raise Fenced(fenced)
        self.write(Line("commit", flush=msgspec.Raw(flush.encode())))

    def create(self, session: str, epoch: str, about: store.SessionDescription) -> SessionClaim:
        self.write(Line("create", session, epoch, about))
        return self.claims[session]

    def claim(self, session: str, *, reads: bool = False) -> SessionClaim | None:
        if session in self.claims:
            self.write(Line("claim", session))
        return self.claims.get(session)

    def release(self, place: SessionClaim) -> None:
        pass  # no other process can claim it while this one has the file

    def discard(self, place: SessionClaim) -> None:
        for session in [id for id, claim in self.claims.items() if claim == place]:
            self.delete(session)

    def delete(self, session: str) -> bool:
        if found := session in self.claims:
            self.write(Line("delete", session))
        return found

    def name_chat(self, chat: str, session: str) -> None:
        self.write(Line("name", session, chat=chat))

    def reader(self) -> StoreReader:
        return JsonLinesReader(self)

    def close(self) -> None:
        file, self.file = self.file, -1
        if file >= 0:
            os.close(file)


class JsonLinesReader(StoreReader):
    def __init__(self, backend: JsonLines) -> None:
        self.backend = backend

    def sessions(self, query: store.SessionQuery) -> list[store.StoreEntry]:
        with self.backend.lock:
            return query.select(self.backend.entries.values())

    def load(self, session: str, last: int | None = None) -> store.LoadedSession | None:
        with self.backend.lock:
            found = self.backend.loaded.get(session)
            return None if found is None else msgspec.structs.replace(found)

    def chats(self) -> dict[str, str]:
        with self.backend.lock:
            return dict(self.backend.chats)

    def answers(self) -> list[store.CommandAnswer]:
        with self.backend.lock:
            return list(self.backend.answers.values())
