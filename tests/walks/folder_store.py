"""A store with a file for each change: written aside, synced, then renamed into place."""

import copy
import fcntl
import os
import threading
import time
from pathlib import Path

import msgspec

from agentrt import store
from agentrt.errors import StoreInUse
from agentrt.lowlevel import Backend, Fenced, Flush, SessionClaim, StoreReader


class Change(msgspec.Struct, omit_defaults=True):
    kind: str
    session: str = ""
    claim: SessionClaim = SessionClaim(0, 0)
    time: float = 0.0
    epoch: str = ""
    chat: str = ""
    about: store.SessionDescription | None = None
    flush: msgspec.Raw = msgspec.Raw(b"null")


class Kept(msgspec.Struct):
    claim: SessionClaim
    loaded: store.LoadedSession
    entry: store.StoreEntry | None = None


class Folder(Backend):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        self._folder = -1

    def __str__(self) -> str:
        return str(self.path)

    def open(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self._folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreInUse(f"{self} is used by another process", None) from None
        self.kept: dict[str, Kept] = {}
        self.chats: dict[str, str] = {}
        self.answers: dict[tuple[str, str], store.CommandAnswer] = {}
        self._files = self._sessions = 0
        for file in sorted(self.path.glob("*.json")):
            self._files = int(file.stem)
            self._apply(msgspec.json.decode(file.read_bytes(), type=Change))

    def close(self) -> None:
        if self._folder != -1:
            os.close(self._folder)
        self._folder = -1

    def reader(self) -> StoreReader:
        return Reader(self)

    def create(self, session: str, epoch: str, about: store.SessionDescription) -> SessionClaim:
        claim = SessionClaim(self._sessions + 1, 1)
        self._write(Change("create", session, claim, time.time(), epoch, about=about))
        return claim

    def claim(self, session: str, *, reads: bool = False) -> SessionClaim | None:
        if kept := self.kept.get(session):
            claim = SessionClaim(kept.claim.num, kept.claim.owner + 1)
            self._write(Change("claim", session, claim))
        return None if kept is None else kept.claim

    def commit(self, flush: Flush) -> None:
        valid = [kept.claim for kept in self.kept.values()]
        if invalid := [part.place for part in flush.parts if part.place not in valid]:
            raise Fenced(invalid)
        self._write(Change("flush", time=time.time(), flush=msgspec.Raw(flush.encode())))

    def release(self, place: SessionClaim) -> None:
        pass

    def discard(self, place: SessionClaim) -> None:
        for id in [id for id, kept in self.kept.items() if kept.claim == place]:
            self.delete(id)

    def delete(self, session: str) -> bool:
        if found := session in self.kept:
            self._write(Change("delete", session))
        return found

    def name_chat(self, chat: str, session: str) -> None:
        self._write(Change("chat", session, chat=chat))

    def _write(self, change: Change) -> None:
        with (self.path / "aside").open("wb") as file:
            file.write(msgspec.json.encode(change))
            file.flush()
            os.fsync(file.fileno())
        (self.path / "aside").rename(self.path / f"{self._files + 1:012}.json")
        os.fsync(self._folder)
        self._files += 1
        self._apply(change)

    def _apply(self, change: Change) -> None:
        with self.lock:
            id, at = change.session, change.time
            if change.kind == "create" and change.about is not None:
                loaded = store.LoadedSession(about=change.about, epoch=change.epoch, created=at)
                self.kept[id] = Kept(change.claim, loaded)
                self._sessions = change.claim.num
            elif change.kind == "claim":
                self.kept[id].claim = change.claim
            elif change.kind == "delete":
                del self.kept[id]
                self.chats = {chat: of for chat, of in self.chats.items() if of != id}
            elif change.kind == "chat":
                self.chats[change.chat] = id
            elif change.kind == "flush":
                flush = Flush.decode(change.flush)
                ids = {kept.claim: id for id, kept in self.kept.items()}
                for part in flush.parts:
                    kept = self.kept[id := ids[part.place]]
                    kept.loaded.add(part)
                    if part.row is not None and part.row.prompted:
                        kept.entry = part.row.entry(id, kept.loaded.created, at)
                self.answers |= {(a.client, a.id): a for a in flush.answers}


class Reader(StoreReader):
    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def sessions(self, query: store.SessionQuery) -> list[store.StoreEntry]:
        with self._folder.lock:
            return query.select(each.entry for each in self._folder.kept.values() if each.entry)

    def load(self, session: str, last: int | None = None) -> store.LoadedSession | None:
        with self._folder.lock:
            return copy.copy(kept.loaded) if (kept := self._folder.kept.get(session)) else None

    def chats(self) -> dict[str, str]:
        return dict(self._folder.chats)

    def answers(self) -> list[store.CommandAnswer]:
        return list(self._folder.answers.values())
