"""The host is lost as by `kill -9`, or ends as by SIGTERM, and the next one goes on with what is
stored.

What was not committed by a host that is lost is gone; what was being committed may be there. A host
that ends in order loses nothing (J13). Agents, people and clients are the same, and know what they
knew: J4, J6, J7, J8 and J13 are judged over all lives.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import trio

import agentrt
from journal.kit import abandoned

from . import kept
from .checker import Checker
from .rules import rule
from .rules_of_viewers import come_back, tabs

if TYPE_CHECKING:
    from agentrt import Runtime

    from .world import World

MOST = 4
"""Lives of one run."""


class Nobody:
    """What is left of a program whose process was killed."""

    def on_line(self, line: bytes, host_had_read: int) -> None: ...

    def on_eof(self) -> None: ...

    def on_exit(self) -> None: ...

    def on_signal(self, name: str) -> None: ...


def _can_be_lost(world: World) -> bool:
    store = world.store
    if store is None or world.lives >= MOST or world.leave.is_set():
        return False
    return store.stored >= world.book_of_store.began


@rule(1.5, _can_be_lost, stored=True)
def lose_host(world: World, rng: Random) -> None:
    lose(world, rng)


def lose(world: World, rng: Random) -> None:
    """The host is gone, and its agents with it."""
    store = world.store
    assert store is not None
    world.checker.catch_up()
    if store.in_doubt is not None and rng.random() < 0.5:
        store.write_now(store.in_doubt)
    world.note("lost behind", str(store.stored))
    _what_was_seen(world, store.stored)
    _hand_on(world)
    store.trouble, store.waited = agentrt.errors.StoreUnavailable("killed"), True
    for process in world.processes:
        process.program = Nobody()
        process.exit(-9)


@rule(1.5, _can_be_lost, stored=True)
def end_host(world: World, rng: Random) -> None:
    """The host is to end: its block is left in one of the ways in which a server ends."""
    world.ends = True
    world.leave_by(rng.choice(("normally", "raise", "cancel", "cancel")))


def ended(world: World) -> None:
    """The host has ended in order: J13 says what is there."""
    store, checker = world.store, world.checker
    assert store is not None
    checker.catch_up()
    if not (store.waited or store.lost):
        accepted, queued = world.book_of_store.accepted, list(checker.queued.values())
        kept = [token for token in queued if token in world.book.submitted]
        due = set(world.book.submitted) - world.book.taken_back - set(checker.by_token)
        lost = {token for token in due if token in accepted} - set(kept)
        if lost:
            world.fail("J13", f"{lost} waited when the host ended, and {queued} do now")
        if kept != [token for token in world.waited_at_leaving if token in kept]:
            world.fail("J13", f"{world.waited_at_leaving} waited in that order, and {kept} do now")
        if set(queued) != checker.paused:
            world.fail("J13", f"{queued} waited at the end, of which {checker.paused} are paused")
        still = {each.tag for each in checker.questions.values() if each.orphaned}
        if world.session._host.core.resumes and not checker.cut_off <= still:
            world.fail("J13", f"{checker.cut_off} were open at the end, and {still} are now")
    if world.violation is not None:
        return
    _what_was_seen(world, store.stored)
    _hand_on(world)


def _hand_on(world: World) -> None:
    """What is stored is the next host's, and the clients come back to it."""
    store = world.store
    assert store is not None
    abandoned(Path(store.path), Path(_path(world, world.lives + 1)))
    world.returning = tabs(world) if world.with_hub else []
    world.lost = world.torn_down = True


def _path(world: World, life: int) -> str:
    return f"{world.folder}/life-{life}.db"


def _what_was_seen(world: World, last: int) -> None:
    """J4: what anybody has seen is there afterwards."""
    seen = {viewer.reader.name: viewer.reader.given for viewer in world.log_viewers}
    seen |= {name: reader.given for name, reader in world.readers.items()}
    seen |= {tab.name: tab.view.seq for tab in world.tabs if tab.view is not None}
    for name, seq in seen.items():
        if seq > last:
            world.fail("J4", f"{name} has seen {seq}, and {last} is what is left")


def begin(world: World) -> None:
    """The next host, which has what is stored."""
    before, old = world.store, world.checker
    assert before is not None
    before.close()
    turns, own_turns = world.turns, world.own_turns
    world.lives += 1
    world.store = store = kept.SimulatedStore(world, _path(world, world.lives), world.store_rng)
    store.session = before.session
    store.look()
    world.book_of_store = kept.Book()
    world.checker = checker = Checker(world)
    checker.log = old.log
    checker.follow_store(store)
    store.tap.events = old.events[: store.stored]
    checker.catch_up()
    checker.waited = list(checker.queued.values())
    checker.restoring = True
    world.turns, world.own_turns = turns, own_turns
    world.first_process = len(world.processes)
    world.actors, world.readers, world.log_viewers = [], {}, []
    world.own_limits, world.interrupts = {}, []
    world.opened, world.leave, world.block = trio.Event(), trio.Event(), trio.CancelScope()
    world.over = world.lost = world.torn_down = world.ends = False
    world.leaving, world.left_at = None, 0.0
    world.__dict__.pop("session", None)


async def found(world: World, runtime: Runtime) -> agentrt.Session:
    """The session, of a runtime that has it stored. Its clients are there before it is open."""
    rng, store = world.store_rng, world.store
    assert store is not None
    for tab in world.returning:
        come_back(world, rng, tab)
    await trio.sleep(rng.choice((0.0, 0.0, 0.3)))
    while True:
        try:
            return await runtime.reopen(store.session)
        except agentrt.errors.StoreUnavailable:
            await trio.sleep(0.2)
