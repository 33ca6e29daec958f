"""A command to another server's session, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import trio
from trio.testing import MockClock

from agentrt._serve.remote_command import ask
from agentrt.errors import StoreUnavailable
from agentrt.store import SessionDescription, StoredCommand, StoreProcess
from inside.cluster import ClusterClient
from inside.server import OWNER_PATIENCE_S
from inside.tasks import bare_errors

from .tables import Backend, Leases, Rows, Tables

T = TypeVar("T")

COMMAND = StoredCommand(client="c", id="1", session="s", digest=b"x", body=b"x")


class DirectCluster(ClusterClient):
    async def _do(self, job: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        return job()

    async def look(self) -> None:
        while True:
            await trio.sleep(1)
            await self._look_for_answers()


class Joined:
    def __init__(self, num: int) -> None:
        self.num = num

    def held(self) -> int:
        return self.num


class Two:
    """A worker that owns a session, and a gateway."""

    def __init__(self) -> None:
        self.tables = tables = Tables(trio.current_time, lambda node, words: None)
        leases = Leases(tables)
        self.worker, self.gateway, self.other = (
            leases.join(
                StoreProcess(name=name, host="h", pid=1, home="h", role=role, version="1"), 1e9
            )
            for name, role in (("w", "worker"), ("g", "gateway"), ("o", "gateway"))
        )
        owner = Backend(tables, "h", lambda: self.worker)
        owner.create("s", "e", SessionDescription(agent="a", protocol="acp", cwd="/"))
        self.rows = Rows(tables)
        membership: Any = Joined(self.gateway)
        listen: Any = None
        self.cluster = DirectCluster(self.rows, listen, membership)

    async def call(self) -> bytes | None:
        answer: bytes | None = None
        async with bare_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(self.cluster.look)
            answer = await ask(self.cluster, COMMAND)
            nursery.cancel_scope.cancel()
        return answer


async def test_a_command_that_was_answered_at_another_server_is_not_refused_however_late(
    autojump_clock: MockClock,
) -> None:
    """Its client went there and came back; what it was answered there has not reached it."""
    two = Two()

    async def work() -> None:
        [taken] = two.rows.take(two.worker, ())
        await trio.sleep(OWNER_PATIENCE_S + 1)
        two.rows.post(COMMAND, two.other, two.worker)
        two.rows.answer(two.worker, {taken.num: b"done"})
        two.rows.forget([taken.num])
        await trio.sleep(OWNER_PATIENCE_S + 5)  # it is slow to take it
        while not (taken_again := two.rows.take(two.worker, ())):  # noqa: ASYNC110
            await trio.sleep(0.01)
        two.rows.answer(two.worker, {taken_again[0].num: b"done"})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_behind, 0.5, work)
        assert await two.call() == b"done"
        nursery.cancel_scope.cancel()


async def test_a_command_that_nobody_takes_is_refused_and_its_row_is_gone(
    autojump_clock: MockClock,
) -> None:
    two = Two()
    with pytest.RaisesGroup(StoreUnavailable, allow_unwrapped=True, flatten_subgroups=True):
        await two.call()
    assert not two.tables.commands


async def _behind(seconds: float, job: Callable[[], Any]) -> None:
    await trio.sleep(seconds)
    await job()
