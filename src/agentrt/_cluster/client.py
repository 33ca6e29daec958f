"""Access to the sessions of other processes that share the store: their stored events are followed,
and commands of this process's clients are carried out by the owners of the sessions.

Notifications are only hints: everything is also polled once a second.

Two tasks do the work. `_read_tails` reads new events of the followed sessions and appends them to
their `RemoteLog`. `_look` takes commands that other processes have stored for this one, writes
their answers, and looks for the answers to commands of this one. `run` adds a third one, which
listens for notifications; a notification only wakes one of the two earlier than its next poll, so a
lost one costs at most a second and never an event or an answer.

Database access is synchronous, in one thread at a time (`_do`). Everything else happens in Trio's
thread, between two checkpoints, and needs no locks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec
import trio
from msgspec import structs

from .._base.nesting import bare_errors
from ..errors import StoreError, StoreUnavailable
from ..lowlevel import CommandHandler, IdReused, Log, PostedCommand
from ..store import CommandStatus, SessionOwner, StoredCommand, StoreEntry
from .membership import Membership
from .rows import NotificationListener, Rows, Tail, Worker

T = TypeVar("T")

logger = logging.getLogger("agentrt.store")

LOOK_S: Final = 1.0
"""Seconds between two polls, if no notification arrives."""

COUNT_S: Final = 10.0
"""Seconds between two queries for the number of database connections."""

PATIENCE_S: Final = 15.0
"""Seconds to wait for the other workers' answers to a command for all of them."""

AGAIN_S: Final = 0.2
"""Seconds between two attempts after a failure."""


class RemoteLog:
    """A session of another process, as far as it is stored. `log` is kept up to date. `over` is
    called when this ends: the session was deleted, or part of it is missing."""

    def __init__(self, num: int, log: Log, over: Callable[[], None]) -> None:
        self.num = num
        self.log = log
        self.over = over
        self.waiting: list[trio.Event] = []
        """Events that are set when the store was read after they were added here."""

    def take_waiting(self) -> list[trio.Event]:
        """Remove and return the events that are to be set after the next read."""
        waiting, self.waiting = self.waiting, []
        return waiting

    def take(self, tail: Tail, known: int) -> bool:
        """Append the stored events after event `known`. Returns False if they do not connect to
        the log."""
        log = self.log
        if tail.epoch != log.epoch or tail.next <= known:
            return False
        left = tail.size
        for first, events in tail.frames:
            there = log.seq + 1 - first
            if there < 0:
                return False
            if there < len(events):
                log.extend(events[there:], left)
                left = 0
        return tail.cut or log.seq >= tail.next - 1


class AwaitedCommand:
    """A command that another process is to carry out, while its answer is awaited."""

    def __init__(self, status: CommandStatus) -> None:
        self.since: float = trio.current_time()
        self.status: CommandStatus | None = status
        """The state at the last poll; None if the command no longer existed."""
        self.polls: int = 0
        self._polled: trio.Event = trio.Event()

    def polled(self, status: CommandStatus | None) -> None:
        """Take the state that a poll has found."""
        self.status = status
        self.polls += 1
        polled, self._polled = self._polled, trio.Event()
        polled.set()

    async def wait(self, polls: int) -> None:
        """Wait until there were more than `polls` polls."""
        while self.polls <= polls:
            await self._polled.wait()


class ClusterClient:
    """The connection of a process to the others that share its store. `run` must run as long as it
    is used."""

    def __init__(
        self, rows: Rows, listen: Callable[[int], NotificationListener], membership: Membership
    ) -> None:
        self.served: trio.Event = trio.Event()
        """Set when this process begins to carry out commands of others."""
        self._handler: CommandHandler | None = None
        self._rows = rows
        self._make_listener = listen
        self._membership = membership
        self._limiter = trio.CapacityLimiter(1)
        self._followed: dict[int, list[RemoteLog]] = {}
        self._woken: set[int] = set()
        self._under_way: set[int] = set()
        self._answers: dict[int, bytes] = {}
        self._waiting: dict[int, AwaitedCommand] = {}
        self._read: set[int] = set()
        self._stored = trio.Event()
        self._work = trio.Event()
        self._takes = False
        self._answered_elsewhere = self._looked = 0
        """Number of notifications that there are answers; its value at the last poll for them."""
        self._unread_since: float | None = None
        """Time since which new events of a followed session have been unread."""
        self.connections: tuple[int, int] = (0, 0)
        """The database connections of all users, and their maximum."""
        self._nursery: trio.Nursery

    # --- status

    @property
    def lag(self) -> float:
        """Seconds for which new events of followed sessions have been unread."""
        since = self._unread_since
        return 0.0 if since is None else trio.current_time() - since

    @property
    def waits(self) -> list[float]:
        """The seconds for which each command to other processes has waited."""
        now = trio.current_time()
        return [now - each.since for each in self._waiting.values()]

    # --- listing sessions

    async def entries(self, limit: int) -> list[StoreEntry]:
        """Return the most recently active sessions, the latest first, with their current phases.

        Raises `StoreError`.
        """
        return await self._do(partial(self._rows.entries, limit))

    async def entry(self, session: str) -> StoreEntry | None:
        """Return one session, as `entries` does. Raises `StoreError`."""
        return await self._do(partial(self._rows.entry, session))

    async def chat(self, name: str) -> str | None:
        """Return the session to which clients gave this name. Raises `StoreError`."""
        return await self._do(partial(self._rows.chat, name))

    # --- following

    async def watch(self, session: str) -> int | None:
        """Subscribe to notifications of a session. Returns its number; None if it does not exist.

        Raises `StoreError`.
        """
        return await self._do(partial(self._rows.watch, session, self._lease()))

    def follow(self, num: int, log: Log, over: Callable[[], None]) -> Callable[[], None]:
        """Keep a log up to date that was read after `watch`; see `RemoteLog`. Returns the function
        that ends this."""
        followed = RemoteLog(num, log, over)
        self._followed.setdefault(num, []).append(followed)
        self._wake({num})
        return partial(self._unfollow, followed)

    def _unfollow(self, followed: RemoteLog) -> None:
        """End following, and the subscription if no other log follows the session."""
        self._drop(followed)
        self.unwatch(followed.num)

    def unwatch(self, num: int) -> None:
        """Unsubscribe from notifications of a session, unless it is followed."""
        self._nursery.start_soon(self._unwatch, num)

    def _drop(self, followed: RemoteLog) -> None:
        """Remove a followed log, and wake the tasks that wait for it to be read."""
        left = [each for each in self._followed.pop(followed.num, ()) if each is not followed]
        if left:
            self._followed[followed.num] = left
        _set_all(followed.waiting)

    async def caught_up(self, log: Log) -> bool:
        """Wait until everything that is stored of a session now is known here. Returns False if it
        is not followed, or no longer."""
        for followed in [each for several in self._followed.values() for each in several]:
            if followed.log is log:
                over = trio.Event()
                followed.waiting.append(over)
                self._wake({followed.num})
                await over.wait()
                return followed in self._followed.get(followed.num, ())
        return False

    async def _watch_again(self, node: int) -> None:
        """Renew the subscriptions of the followed sessions under this lease."""
        if self._followed:
            await self._do(partial(self._rows.watch_again, list(self._followed), node))

    async def _unwatch(self, num: int) -> None:
        """End a subscription, unless the session is followed again. A failure is harmless:
        subscriptions end with the lease.
        """
        node = self._membership.held()
        if node is not None and num not in self._followed:
            try:
                await self._do(partial(self._rows.unwatch, num, node))
            except StoreError as error:  # it ends with the lease
                logger.info("a subscription to a session could not be ended: %s", error)

    def _wake(self, nums: Collection[int]) -> None:
        """Have the new events of these sessions read as soon as possible."""
        self._woken.update(nums)
        if self._unread_since is None and not self._followed.keys().isdisjoint(self._woken):
            self._unread_since = trio.current_time()
        self._stored.set()

    async def _read_tails(self) -> None:
        """Read the new events of the followed sessions, until cancelled."""
        looked = trio.current_time()
        while True:
            with trio.move_on_at(looked + LOOK_S):
                await self._stored.wait()
            self._stored = trio.Event()
            due = trio.current_time() >= looked + LOOK_S  # however many notifications arrive
            if due:
                looked = trio.current_time()
            nums = set(self._followed) if due else self._woken & self._followed.keys()
            self._woken = set()
            if nums:
                await self._read_logs(nums, renew=due)
            else:
                self._unread_since = None

    async def _read_logs(self, nums: Collection[int], *, renew: bool) -> None:
        """Read the new events of followed sessions once. `renew`: also renew the subscriptions."""
        logs = [(each, each.log.seq) for num in nums for each in self._followed[num]]
        known = {num: min(seq for each, seq in logs if each.num == num) for num in nums}
        waiting = [each.take_waiting() for each, _ in logs]
        found: list[Tail] | None = None
        try:
            if renew and (node := self._membership.held()) is not None:
                await self._watch_again(node)
            found = await self._do(partial(self._rows.tails, known))
        except StoreError as error:
            logger.info("the new events of other servers cannot be read: %s", error)
            await trio.sleep(AGAIN_S)
            self._wake(known)
        else:
            self._unread_since = None
            self._take_tails(logs, {tail.num: tail for tail in found})
        for (each, _), events in zip(logs, waiting, strict=True):
            unread = found is None or each.num in self._woken
            if unread and each in self._followed.get(each.num, ()):
                each.waiting += events
            else:
                _set_all(events)

    def _take_tails(self, read: Sequence[tuple[RemoteLog, int]], found: Mapping[int, Tail]) -> None:
        """Append the events that were read, and stop following sessions if their logs cannot
        continue.

        A session without an entry in `found` was deleted. One with more events than a query returns
        is read again.
        """
        for followed, seq in read:
            if followed not in self._followed.get(followed.num, ()):
                continue  # it has ended in the meantime
            tail = found.get(followed.num)
            if tail is None or not followed.take(tail, seq):
                self._drop(followed)
                followed.over()
            elif tail.cut:
                self._wake({followed.num})

    def _feed(self, tails: Sequence[Tail]) -> set[int]:
        """Append events that came with notifications; return the sessions of which some are
        missing."""
        return {
            tail.num
            for tail in tails
            for followed in self._followed.get(tail.num, ())
            if not followed.take(tail, 0)
        }

    # --- commands of clients here to sessions of other processes

    async def owner(self, session: str) -> SessionOwner | None:
        """Return the owner of a session; None if there is no such session. Raises `StoreError`."""
        return await self._do(partial(self._rows.owned, session))

    async def worker(self, home: str | None) -> int | None:
        """Return the lease of the least busy other worker with room. `home`: the home that it must
        have; None: any. Raises `StoreError`.
        """
        workers = await self._do(self._rows.workers)
        found = [
            (busy, each.num)
            for each in workers
            if home in (None, each.home) and not self.is_mine(each.num)
            if (busy := _busy(each)) is not None
        ]
        return min(found)[1] if found else None

    def is_mine(self, node: int | None) -> bool:
        """True if this process has the lease."""
        return node is not None and node == self._membership.held()

    async def post(self, command: StoredCommand, node: int) -> CommandStatus:
        """Have a command carried out by `node`. Raises `StoreError`, after which its row may exist
        or not, or `IdReused`.
        """
        status = await self._do(partial(self._rows.post, command, self._lease(), node))
        if status is None:
            raise IdReused
        return status

    async def pass_on(self, status: CommandStatus, node: int) -> CommandStatus:
        """Give a command to another process, if its process will not carry it out. Raises
        `StoreError`.
        """
        if await self._do(partial(self._rows.pass_on, status.num, status.node, node)):
            return CommandStatus(status.num, node, None, alive=True)
        return status

    def give_back(self, num: int) -> None:
        """Answer a command that was given to this process, and that waits here for another one."""
        self._answers.setdefault(num, b"")
        self._work.set()

    async def withdraw(self, status: CommandStatus) -> bool:
        """Withdraw a command. Returns False if its process has taken it and is alive. Raises
        `StoreError`.
        """
        return await self._do(partial(self._rows.withdraw, status.num, status.node))

    def forget(self, num: int) -> None:
        """Delete the row of a command whose answer was read."""
        self._read.add(num)

    def wait_for(self, status: CommandStatus) -> AwaitedCommand:
        """Begin to wait for the answer to a command, until `wait_no_more`."""
        waiting = self._waiting[status.num] = AwaitedCommand(status)
        if self._answered_elsewhere != self._looked:
            self._work.set()  # it may have been answered before this task waited
        return waiting

    def wait_no_more(self, num: int, waiting: PostedCommand) -> None:
        """End waiting."""
        if self._waiting.get(num) is waiting:
            del self._waiting[num]

    async def ask_all(self, command: StoredCommand) -> list[bytes]:
        """Have every other worker carry out a command that belongs to no session.

        Returns the answers of those that are alive and take it within `PATIENCE_S`. Raises
        `StoreError`.
        """
        answers: list[bytes] = []

        async def one(node: int) -> None:
            """Have one worker carry out the command, under a separate id, and keep the answer."""
            status = await self.post(structs.replace(command, id=f"{command.id}.{node}"), node)
            waiting = self.wait_for(status)
            try:
                with trio.move_on_after(PATIENCE_S):
                    while (now := waiting.status) is not None and not now.answer and now.alive:
                        await waiting.wait(waiting.polls)
            finally:
                self.wait_no_more(status.num, waiting)
            if waiting.status is not None and waiting.status.answer:
                self.forget(status.num)
                answers.append(waiting.status.answer)

        workers = await self._do(self._rows.workers)
        async with bare_errors(), trio.open_nursery() as nursery:
            for worker in workers:
                if not self.is_mine(worker.num):
                    nursery.start_soon(one, worker.num)
        return answers

    async def _look_for_answers(self) -> None:
        """Read the state of all awaited commands with one query, and pass it to the
        waiting tasks.
        """
        answered, waiting = self._answered_elsewhere, dict(self._waiting)
        if not waiting:
            return  # a task that starts to wait polls by itself
        statuses = await self._do(partial(self._rows.look, list(waiting)))
        found = {status.num: status for status in statuses}
        self._looked = answered
        for num, each in waiting.items():
            each.polled(found.get(num))

    def _lease(self) -> int:
        """Return the lease of this process. Raises `StoreUnavailable` without one."""
        lease = self._membership.held()
        if lease is None:
            raise StoreUnavailable("no lease: the store could not be reached for too long")
        return lease

    # --- commands of other processes to sessions here

    async def serve(self, handler: CommandHandler) -> None:
        """Have `handler` carry out commands of other processes, until cancelled."""
        self._handler = handler
        self.served.set()
        try:
            await trio.sleep_forever()
        finally:
            self._handler = None

    @property
    def serves(self) -> bool:
        """True if this process carries out commands of others."""
        return self._handler is not None

    async def _look(self) -> None:
        """Take commands to this process, send the answers, and poll for answers to commands that
        other processes carry out, until cancelled."""
        counted = -COUNT_S
        looked = trio.current_time()
        while True:
            with trio.move_on_at(looked + LOOK_S):
                await self._work.wait()
            self._work = trio.Event()
            due = trio.current_time() >= looked + LOOK_S  # however many notifications arrive
            if due:
                looked = trio.current_time()
            node = self._membership.held()
            if node is None:
                self._under_way.clear()
                self._answers.clear()
                continue
            answers, self._answers = self._answers, {}
            read, self._read = self._read, set()
            takes, self._takes = self._takes or due, False
            try:
                if answers:
                    await self._do(partial(self._rows.answer, node, answers))
                    self._under_way.difference_update(answers)
                if takes:
                    await self._take(node)
                if due or self._answered_elsewhere != self._looked:
                    await self._look_for_answers()
                if read:
                    await self._do(partial(self._rows.forget, list(read)))
                if due:
                    await self._report_leases()
                if trio.current_time() - counted >= COUNT_S:
                    counted = trio.current_time()
                    self.connections = await self._do(self._rows.connections)
            except StoreError as error:
                logger.info("other servers cannot be reached: %s", error)
                self._answers = answers | self._answers
                self._read |= read
                self._takes = True
                await trio.sleep(AGAIN_S)
                self._work.set()

    async def _report_leases(self) -> None:
        """Report the live processes to the handler, which drops the clients of those that have
        ended.
        """
        alive = frozenset(await self._do(self._rows.alive))
        if self._handler is not None:
            self._handler.on_leases_changed(alive)

    async def _take(self, node: int) -> None:
        """Take the commands for this process, and carry out each in a task."""
        known = frozenset(self._under_way)
        for command in await self._do(partial(self._rows.take, node, known)):
            self._under_way.add(command.num)
            self._nursery.start_soon(self._carry_out, command)

    async def _carry_out(self, command: StoredCommand) -> None:
        """Carry out a command of another process, and queue the answer.

        An empty answer means that this process does not own the session any more; the other process
        then looks for the next owner. A process that has never shared its sessions refuses the
        command instead.
        """
        try:
            if self._handler is not None:
                answer = await self._handler.carry_out(command)
            else:  # this process is about to give up its sessions, or has never shared them
                answer = b"" if self.served.is_set() else _UNSERVED
        except Exception:
            logger.exception("a command of another server failed")
            answer = _FAILED
        self._answers[command.num] = answer
        self._work.set()

    # --- notifications

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run all tasks, until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                nursery.start_soon(self._read_tails)
                nursery.start_soon(self._look)
                while True:
                    node = self._membership.held()
                    if node is not None:
                        try:
                            await self._listen(node)
                        except StoreError as error:
                            logger.info("other servers cannot be followed: %s", error)
                    await trio.sleep(AGAIN_S)
        finally:
            self._rows.close()

    async def _listen(self, node: int) -> None:
        """Receive the notifications for a lease, as long as it is held. Raises `StoreError`."""
        listener = await self._open_listener(node)
        try:
            await self._watch_again(node)
            self._wake(self._followed)  # notifications may have been missed before
            self._takes = True
            self._answered_elsewhere += 1
            self._work.set()
            while self._membership.held() == node:
                with trio.move_on_after(LOOK_S) as silent:
                    await self._wait_for(listener)
                if silent.cancelled_caught:
                    continue
                notified = listener.received()
                self._wake(notified.sessions | self._feed(notified.tails))
                self._takes = self._takes or notified.takes
                self._answered_elsewhere += notified.answers
                if notified.takes or notified.answers:
                    self._work.set()
        finally:
            listener.close()

    # --- waiting

    async def _open_listener(self, node: int) -> NotificationListener:
        """Connect a listener in a thread."""
        return await trio.to_thread.run_sync(self._make_listener, node)

    async def _wait_for(self, listener: NotificationListener) -> None:
        """Wait until a notification may have arrived."""
        await trio.lowlevel.wait_readable(listener.fileno())

    async def _do(self, job: Callable[[], T]) -> T:
        """Run a query in a thread. Queries are serialized: they share one connection."""
        return await trio.to_thread.run_sync(job, limiter=self._limiter)


def _set_all(events: list[trio.Event]) -> None:
    for event in events:
        event.set()


def _refusal(code: str, message: str) -> bytes:
    """Return the answer for a command that is refused before it reaches the handler."""
    error = {"code": code, "message": message}
    return msgspec.json.encode({"type": "ack", "id": None, "ok": False, "error": error})


_UNSERVED: Final = _refusal(
    "unsupported", "this session belongs to a program and accepts no commands from other servers"
)
_FAILED: Final = _refusal("internal", "the server failed to carry this out")


class _Load(msgspec.Struct):
    """The load that a worker reports, as far as the choice of a worker needs it. `room`: the number
    of further sessions that it can take.
    """

    sessions: int = 0
    turns: int = 0
    room: int = 0


_loads: Final = msgspec.json.Decoder(_Load)


def _busy(worker: Worker) -> tuple[int, int] | None:
    """Return the load of a worker, for comparison; None if it has no room."""
    load = _loads.decode(worker.load)
    if load.sessions + load.room <= worker.sessions + worker.coming:
        return None
    return load.turns + worker.coming, worker.sessions
