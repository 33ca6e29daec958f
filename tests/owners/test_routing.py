"""What clients say to sessions of other servers, whatever becomes of servers and connections."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import pytest
import trio

from agentrt._cluster import client as cluster
from agentrt._core.runtime.host import Host
from agentrt._serve.remote_command import RemoteCommand
from agentrt.lowlevel import CommandRefused, FlushPart
from agentrt.store import CommandAnswer
from faults.quick import FULL
from inside.cluster import ClusterClient
from inside.server import CommandEvent, CommandOrder, CommandPlace, Hub, operations
from inside.store import StoreService

from . import routing, tables
from .routing import World, run

SECONDS = 10.0


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 6), marks=pytest.mark.slow)])
def test_commands_reach_their_sessions_once_and_in_order_whatever_happens(seeds: range) -> None:
    statements = prompts = servers = 0
    for seed in seeds:
        world = run(lambda seed=seed: World(seed), seed, SECONDS)  # type: ignore[misc]
        statements += world.steps
        prompts += len(world.delivered)
        servers += len(world.everyone)
    assert statements > 800 * len(seeds)  # something happened
    assert prompts > 16 * len(seeds)
    assert servers > 5 * len(seeds)


@pytest.mark.slow
def test_the_same_seed_is_the_same_run() -> None:
    first, again = (run(lambda: World(3, trace=True), 3, 2.0).trace for _ in range(2))
    assert first == again


@pytest.mark.slow
def test_commands_reach_their_sessions_in_many_worlds() -> None:
    for seed in range(1000, 1400 if FULL else 1020):
        run(lambda seed=seed: World(seed), seed, 20.0)  # type: ignore[misc]


# --- planted defects: each is found

Change = tuple[object, str, Any]


async def _watch_nothing(self: Host) -> None:
    await trio.sleep_forever()


def _in_any_order(self: CommandOrder, session: str, *, holds: bool) -> CommandPlace:
    return CommandPlace(None, holds=holds)


def _in_no_flush(self: tables.Backend, answers: Collection[CommandAnswer]) -> None:
    pass


def _anybodys(self: tables.Backend, part: FlushPart) -> bool:
    return True


async def _nobodys(self: RemoteCommand) -> CommandEvent:
    given = await WAIT(self)
    return CommandEvent.CLOCK if given is CommandEvent.ROW_GIVEN_HERE else given


WAIT = RemoteCommand._wait


def _unread(self: tables.Rows, node: int, known: Collection[int]) -> list[Any]:
    taken = TAKE(self, node, known)
    for row in list(self.tables.commands.values()):
        if row.taken and row.node == node:
            del self.tables.commands[row.num]
    return taken


TAKE = tables.Rows.take


def _ungated(self: routing.ModelStore, server: routing.Server) -> None:
    MADE(self, server)
    self.show_only_stored = False


MADE = routing.ModelStore.__init__


async def _impatient(self: RemoteCommand) -> CommandEvent:
    with trio.move_on_after(1.0):
        return await WAIT(self)
    raise CommandRefused("unavailable", "the server that has this session does not answer")


def _settled(session: Any, command: Any) -> dict[str, Any]:
    if command.request not in session.pending_permissions:
        return {}
    return PERMISSION(session, command)


PERMISSION = operations._permission


def _fed_anyhow(self: ClusterClient, tails: Collection[Any]) -> set[int]:
    for tail in tails:
        for followed in self._followed.get(tail.num, ()):
            for _, events in tail.frames:
                followed.log.extend(events, tail.size)
    return set()


PLANTED: dict[str, tuple[int, list[Change]]] = {
    "what was carried out is asked of this process alone": (
        1,
        [(tables.Reader, "answer", lambda self, client, id: None)],
    ),
    "an answer is not stored with what comes of the command": (
        3,
        [(tables.Backend, "_keep", _in_no_flush)],
    ),
    "whoever owned a session writes on": (12, [(tables.Backend, "is_ours", _anybodys)]),
    "a command is gone when it is taken": (0, [(tables.Rows, "take", _unread)]),
    "a command that is not answered at once is refused": (
        3,
        [(RemoteCommand, "_wait", _impatient)],
    ),
    "commands run in any order": (
        0,
        [(CommandOrder, "enter", _in_any_order)],
    ),
    "an answer to a permission that is closed is taken": (
        0,
        [(operations, "_permission", _settled)],
    ),
    "a process waits for a command that it has to carry out": (
        8,
        [(RemoteCommand, "_wait", _nobodys)],
    ),
    "only notifications are looked at": (0, [(cluster, "LOOK_S", 1e9)]),
    "a session that is another's by now stays open": (
        2,
        [(Host, "_watch", _watch_nothing)],
    ),
    "a session is owned that nobody has opened": (
        405,
        [(StoreService, "claiming", lambda self, session: nullcontext())],
    ),
    "a client is shown what it knows already as if it were new": (
        0,
        [(Hub, "is_behind", lambda self, id, epoch, seq: False)],
    ),
    "what is notified is taken to be what comes next": (0, [(ClusterClient, "_feed", _fed_anyhow)]),
    "what is not stored is shown": (1, [(routing.ModelStore, "__init__", _ungated)]),
}
"""With a seed that finds it soon."""


@contextmanager
def planted(changes: list[Change]) -> Iterator[None]:
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(mock.patch.object(*change))
        yield


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_is_found(name: str) -> None:
    first, changes = PLANTED[name]
    found = (AssertionError, trio.TooSlowError)  # the latter of who opens the first sessions
    with planted(changes), pytest.raises(found):  # noqa: PT012
        for seed in (*range(first, first + 5), *range(100, 200)):
            for seconds in (SECONDS, 20.0):
                run(lambda seed=seed: World(seed), seed, seconds)  # type: ignore[misc]
