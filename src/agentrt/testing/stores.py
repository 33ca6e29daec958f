"""A conformance test for stores: what `agentrt.store.open_store` needs of a backend.

The checks use the interface of `Backend` and its readers only. They are run in order on one store,
and later ones build on the sessions of earlier ones. The message of a failure names the
requirement, so that the author of a store need not read this module.

Four properties are checked, each by one or more functions: that everything that was committed is
loaded, listed and found as it was written; that a flush which is repeated adds nothing; that only
the last claim of a session can write it; and that all of it holds again after the store was closed
without `finish`, as if the process had been killed.

What is not checked: speed, behaviour on a full disk or a lost connection, and access by two
machines at a time. A store that is shared by servers needs tests of its own for these.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from ..errors import StoreInUse
from ..events import Event, Notice
from ..lowlevel import Backend, Fenced, Flush, FlushPart, SessionClaim, StoreReader, Unusable
from ..store import CommandAnswer, Head, Record, SessionDescription, SessionQuery, SessionRow


def check_store(make: Callable[[], Backend]) -> None:
    """Check that a store does what agentrt needs, and raise `AssertionError` where it does not.

    `make` returns a new backend each time, not opened, for one and the same store, which is empty
    at first. The store contains some sessions afterwards. Call this in a test of your store::

        def test_the_store(tmp_path):
            agentrt.testing.check_store(lambda: MyBackend(tmp_path / "store"))

    These are the requirements, in the order in which they are checked:

    - Sessions: `load` returns what was committed, `events` and `records` return pages of it, and
      all three return None for an unknown session. A head takes the place of the events before it.
      A loaded value does not change with later commits.
    - Repetition: the same `Flush` may be committed twice, as agentrt does after an error whose
      effect it cannot know. The second time adds nothing.
    - Lists: the latest session comes first; the limit, the place to continue after and the filters
      by folder and agent are applied; sessions without a prompt are not listed. `find` finds ids by
      their prefix, and `search` finds words of titles and prompts.
    - Deletion: a deleted session is gone from every list, its number is never given to another one,
      and a late commit to it changes nothing.
    - Claims: each claim of a session has a higher `owner` than all before it, also those before a
      restart. A commit under an earlier claim raises `Fenced` with that claim, and nothing of the
      flush is written. `discard` needs the current claim.
    - Clients: answers to commands are kept in order; the latest name of a chat replaces the earlier
      one.
    - One writer: `open` raises `StoreInUse` while another backend has the store open.
    - Durability: after `close` without `finish`, everything that was committed is still there, and
      the sessions can be claimed and continued. `tidy` drops nothing that is needed.

    Everything is called in this thread, one call at a time, so a backend need not be safe for
    threads to pass. No event loop is needed. The message of the `AssertionError` names the
    requirement, with the expected and the returned value where there are two. Errors of the backend
    itself are not caught.
    """
    backend = make()
    backend.open()
    try:
        _check_sessions(backend)
        _check_claims(backend)
        _check_clients(backend)
        _check_lock(make)
        backend.release(backend.create("killed", "epoch", _about()))
        killed = backend.claim("killed")
        assert killed is not None
        backend.commit(Flush([_part(killed, 1, 3)], fsync=True))
    finally:
        backend.close()  # without `finish`, as if the process had been killed
    _check_reopened(make, killed)


def _about(cwd: str = "/") -> SessionDescription:
    """Return a description of a session."""
    return SessionDescription(agent="agent", protocol="acp", cwd=cwd)


def _events(first: int, count: int) -> list[Event]:
    """Return events with their numbers as texts, beginning with `first`."""
    return [Notice("info", "number", str(number)) for number in range(first, first + count)]


def _row(prompt: str = "a prompt", title: str | None = None, cwd: str = "/") -> SessionRow:
    """Return the row of a session in lists."""
    return SessionRow(title=title, prompt=prompt, phase="idle", turns=1, about=_about(cwd))


def _part(claim: SessionClaim, first: int, count: int) -> FlushPart:
    """Return a part of a flush: `count` events from number `first` on, and a row."""
    return FlushPart(claim, first, _events(first, count), row=_row())


def _numbers(backend: Backend, session: str) -> list[str]:
    """Return the messages of the events that a new reader finds after the head."""
    reader = backend.reader()
    try:
        loaded = reader.load(session)
    finally:
        reader.close()
    assert loaded is not None, f"the session {session!r} was created, and load() returned None"
    return [event.message for event in loaded.events if isinstance(event, Notice)]


def _expect(found: object, wanted: object, message: str) -> None:
    """Raise `AssertionError` with both values if they differ."""
    assert found == wanted, f"{message}: expected {wanted!r}, got {found!r}"


def _check_sessions(backend: Backend) -> None:
    """Check that sessions are loaded, listed and found as they were committed."""
    reader = backend.reader()
    first = backend.create("first", "epoch", _about())
    _expect(reader.sessions(SessionQuery()), [], "a session without a prompt must not be listed")
    _expect(reader.load("none"), None, "load() of an unknown session")
    head = Head(seq=2, records=2, title="A title")
    row = _row("look for needles", "A title")
    records = {number: Record(number, [], []) for number in range(2)}
    backend.commit(Flush([FlushPart(first, 1, _events(1, 4), row, head, records)]))
    backend.commit(Flush([FlushPart(first, 5, _events(5, 1))]))
    _check_loaded(backend, reader, head)
    _check_repeated(backend, reader, first)
    second = backend.create("second", "epoch", _about("/other"))
    backend.commit(Flush([FlushPart(second, 1, _events(1, 1), row=_row(cwd="/other"))]))
    _check_lists(reader)
    _expect(backend.delete("second"), True, "delete() of a session")
    _expect(backend.delete("second"), False, "delete() of a session that is deleted")
    _expect(reader.load("second"), None, "load() of a session that is deleted")
    _expect(_listed(reader), ["first"], "sessions() after one was deleted")
    third = backend.create("third", "epoch", _about())
    assert third.num != second.num, "the number of a deleted session was used again"
    with contextlib.suppress(Fenced):  # a store may also ignore the part
        backend.commit(Flush([_part(second, 1, 1)]))
    _expect(_numbers(backend, "third"), [], "a deleted session's events are in another session")
    _expect(_listed(reader), ["first"], "sessions() after a commit to a deleted session")
    row = SessionRow(title=None, prompt="", phase="idle", turns=0, about=_about())
    backend.commit(Flush([FlushPart(third, 1, _events(1, 1), row)]))
    _expect(_listed(reader), ["first"], "a session whose row has no prompt must not be listed")
    reader.close()


def _check_loaded(backend: Backend, reader: StoreReader, head: Head) -> None:
    """Check that stored events, heads and records are loaded, and read in pages.

    The head says that it stands for the first two events, so only later ones may be loaded with it.
    """
    loaded = reader.load("first")
    assert loaded is not None
    _expect((loaded.epoch, loaded.next), ("epoch", 6), "epoch and next event")
    _expect(loaded.head, head, "the head")
    _expect(loaded.about, _about(), "the description")
    _expect(_numbers(backend, "first"), ["3", "4", "5"], "load() returns the events after the head")
    _expect([record.number for record in loaded.records], [0, 1], "the records")
    found = [record.number for record in reader.records("first", 1, 5) or ()]
    _expect(found, [0], "records() before 1")
    found = [record.number for record in reader.records("first", None, 1) or ()]
    _expect(found, [1], "the last one of records()")
    _expect([each[0] for each in reader.events("first", 3) or ()], [4, 5], "events() after 3")
    _expect(reader.events("none", 0), None, "events() of an unknown session")
    _expect(reader.records("none", None, 1), None, "records() of an unknown session")


def _check_repeated(backend: Backend, reader: StoreReader, first: SessionClaim) -> None:
    """Check that a repeated flush adds nothing, and that loaded values do not change later.

    agentrt repeats a flush if the first attempt failed in a way that leaves its effect unknown.
    """
    loaded = reader.load("first")
    assert loaded is not None
    for _ in range(2):  # the second time as if the first call had seemed to fail
        backend.commit(Flush([FlushPart(first, 6, _events(6, 2))]))
    wanted = ["3", "4", "5", "6", "7"]
    _expect(_numbers(backend, "first"), wanted, "events of a flush that was committed twice")
    found = (loaded.next, len(loaded.events))
    _expect(found, (6, 3), "a result of load() must not change with a later commit")


def _check_lists(reader: StoreReader) -> None:
    """Check the order, the filters and the pages of lists, and both searches."""
    latest, earlier = reader.sessions(SessionQuery())
    _expect((latest.session, earlier.session), ("second", "first"), "the latest comes first")
    _expect((earlier.prompt, earlier.title), ("look for needles", "A title"), "an entry")
    assert latest.created <= latest.updated
    for query, wanted in (
        (SessionQuery(limit=1), ["second"]),
        (SessionQuery(before=(latest.updated, "second")), ["first"]),
        (SessionQuery(cwd="/other"), ["second"]),
        (SessionQuery(agent="another"), []),
    ):
        _expect(_listed(reader, query), wanted, f"sessions({query})")
    _expect([each.session for each in reader.find("fir")], ["first"], "find()")
    _expect([each.entry.session for each in reader.search("tit", 5)], ["first"], "search()")
    _expect(reader.search("absent", 5), [], "search() of a word that does not occur")


def _listed(reader: StoreReader, query: SessionQuery | None = None) -> list[str]:
    """Return the ids of the sessions in a list, in its order."""
    return [entry.session for entry in reader.sessions(query or SessionQuery())]


def _check_claims(backend: Backend) -> None:
    """Check that only the last claim of a session can write it.

    Two servers may both believe that they own a session, if one of them was suspended. The number
    of the owner decides which of them is right.
    """
    old, other = (backend.create(name, "epoch", _about()) for name in ("claimed", "other"))
    assert old.num != other.num
    backend.commit(Flush([_part(old, 1, 1), _part(other, 1, 1)]))
    backend.release(old)
    new = backend.claim("claimed")
    assert new is not None
    assert new.num == old.num
    assert new.owner > old.owner, "each claim needs a higher number of its owner"
    assert backend.claim("none") is None, "claim() must return None for an unknown session"
    _check_fenced(backend, Flush([_part(other, 2, 1), _part(old, 2, 1)]), old)
    assert _numbers(backend, "other") == ["1"], "a flush that was fenced was written in part"
    backend.commit(Flush([_part(new, 2, 1)]))
    assert _numbers(backend, "claimed") == ["1", "2"]
    reading = backend.claim("claimed", reads=True)
    assert reading is not None
    assert reading.owner > new.owner, "a claim with `reads` needs a higher number as well"
    _check_fenced(backend, Flush([_part(new, 3, 1)]), new)
    backend.discard(old)
    assert _numbers(backend, "claimed") == ["1", "2"], "an earlier claim has discarded the session"
    backend.discard(reading)
    assert backend.claim("claimed") is None, "discard() must delete the session"
    backend.release(other)


def _check_fenced(backend: Backend, flush: Flush, invalid: SessionClaim) -> None:
    """Check that the flush is refused because of that claim.

    A store for a single process may raise `Unusable` instead, as it has no second owner to name.
    """
    try:
        backend.commit(flush)
    except Fenced as error:
        places = error.places
    except Unusable:  # right where only one process writes: this cannot happen then
        places = frozenset({invalid})
    else:
        raise AssertionError("commit() must raise Fenced for a claim that is no longer valid")
    assert set(places) == {invalid}, "Fenced must name the claims that are no longer valid"


def _check_clients(backend: Backend) -> None:
    """Check that answers to clients and their names for sessions are kept.

    A client that repeats a command after a restart gets the stored answer, in place of a second
    effect.
    """
    answers = [CommandAnswer("client", str(number), b"\x00digest", b"{}") for number in range(3)]
    backend.commit(Flush([], answers=answers[:2]))
    backend.commit(Flush([], fsync=True, answers=answers[2:]))
    backend.name_chat("chat", "old")
    backend.name_chat("chat", "first")
    reader = backend.reader()
    assert reader.answers() == answers, "answers() must return the oldest first"
    assert reader.answer("client", "1") == answers[1]
    assert reader.answer("client", "9") is None
    assert reader.chats() == {"chat": "first"}
    reader.close()


def _check_lock(make: Callable[[], Backend]) -> None:
    """Check that no second writer can open the store."""
    second = make()
    try:
        second.open()
    except StoreInUse:
        pass
    else:
        raise AssertionError("open() must raise StoreInUse while another backend is open")
    finally:
        second.close()


def _check_reopened(make: Callable[[], Backend], killed: SessionClaim) -> None:
    """Check that everything that was committed is there, and that it can be continued."""
    backend = make()
    backend.open()
    try:
        assert _numbers(backend, "killed") == ["1", "2", "3"], "committed events were lost"
        assert _numbers(backend, "first") == ["3", "4", "5", "6", "7"]
        reader = backend.reader()
        assert len(reader.answers()) == 3
        assert reader.chats() == {"chat": "first"}
        assert reader.load("second") is None, "a session that was deleted is back"
        reader.close()
        for reads in (True, False):
            claim = backend.claim("killed", reads=reads)
            assert claim is not None
            assert claim.owner > killed.owner, "a claim must outnumber those before the restart"
            killed = claim
        backend.commit(Flush([_part(killed, 4, 1)], fsync=True))
        backend.catch_up()
        backend.tidy(0, 0)
        assert _numbers(backend, "killed") == ["1", "2", "3", "4"], "tidy() dropped what is needed"
        backend.finish()
    finally:
        backend.close()
