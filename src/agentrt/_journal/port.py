"""Access to the sessions of other processes that share the store: their stored events are followed,
and commands of this process's clients are carried out by the owners of the sessions.

Notifications are only hints: everything is also polled once a second.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar

import msgspec
import trio
from msgspec import structs

from .._errors import LimitExceeded, StoreError, StoreUnavailable
from .._logging import get_logger
from .._model.log import Log
from .._nesting import bare_errors
from .base import CommandStatus, SessionOwner, StoredCommand, StoreEntry, Tail, Worker
from .membership import Membership

T = TypeVar("T")

logger = get_logger("store")

LOOK: Final = 1.0
"""Seconds between two polls, if no notification arrives."""

COUNT: Final = 10.0
"""Seconds between two queries for the number of database connections."""

PATIENCE: Final = 15.0
"""Seconds to look for a worker, or to wait for one that does not take its command: longer than a
lease, so that the sessions of a dead owner can be continued."""

AGAIN: Final = 0.2
"""Seconds between two attempts to find a worker."""

CarryOut: TypeAlias = Callable[[StoredCommand], Awaitable[bytes]]
"""Carries out a command of another process's client and returns the answer; empty if the session
does not belong to this process."""


class Notified(Protocol):
    """The content of the notifications that were received."""

    @property
    def takes(self) -> bool:
        """True if there are commands to take."""
        ...

    @property
    def answers(self) -> bool:
        """True if there are answers."""
        ...

    @property
    def sessions(self) -> frozenset[int]:
        """The sessions that have new events, which must be read."""
        ...

    @property
    def tails(self) -> Sequence[Tail]:
        """New events of sessions."""
        ...


class Listener(Protocol):
    """Receives the notifications for this process."""

    def fileno(self) -> int:
        """Return the socket to wait for."""
        ...

    def received(self) -> Notified:
        """Return the notifications that have arrived. Never waits."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Rows(Protocol):
    """The database rows, used by one thread at a time. Methods that fail raise `StoreError`."""

    def owned(self, session: str) -> SessionOwner | None:
        """Return the owner of a session; None if there is no such session."""
        ...

    def workers(self) -> list[Worker]:
        """Return the processes that may run sessions."""
        ...

    def post(self, command: StoredCommand, asker: int, node: int) -> CommandStatus | None:
        """Have a command carried out by `node`; None if another command uses its id."""
        ...

    def take(self, node: int, known: Collection[int]) -> list[StoredCommand]:
        """Take the commands for this process, except those that are `known`."""
        ...

    def answer(self, node: int, answers: Mapping[int, bytes]) -> None:
        """Answer commands."""
        ...

    def look(self, nums: Sequence[int]) -> list[CommandStatus]:
        """Return the states of commands."""
        ...

    def pass_on(self, num: int, node: int, to: int) -> bool:
        """Give a command to another process, if `node` cannot carry it out."""
        ...

    def withdraw(self, num: int, node: int) -> bool:
        """Withdraw a command that `node` has not taken, or cannot carry out."""
        ...

    def forget(self, nums: Sequence[int]) -> None:
        """Delete commands whose answers were read."""
        ...

    def watch(self, session: str, node: int) -> int | None:
        """Subscribe to notifications of a session; return its number, or None."""
        ...

    def watch_again(self, nums: Sequence[int], node: int) -> None:
        """Renew subscriptions under this lease."""
        ...

    def unwatch(self, num: int, node: int) -> None:
        """End a subscription."""
        ...

    def tails(self, known: Mapping[int, int]) -> list[Tail]:
        """Return the stored events after those that are known of each session."""
        ...

    def alive(self) -> list[int]:
        """Return the leases that are not over."""
        ...

    def connections(self) -> tuple[int, int]:
        """Return the number of database connections, and its maximum."""
        ...

    def entries(self, limit: int) -> list[StoreEntry]:
        """Return the most recently active sessions, the latest first."""
        ...

    def entry(self, session: str) -> StoreEntry | None:
        """Return one session, as `entries` does."""
        ...

    def chat(self, name: str) -> str | None:
        """Return the session to which clients gave this name."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Answered(Exception):
    """The answer to a command was given to another process, where its client is."""


class Reused(Exception):
    """The id of a command is used by a different command."""


class _Untaken(Exception):
    """No process took a command for too long; it was withdrawn."""


class Followed:
    """A session of another process, as far as it is stored. `log` is kept up to date. `over` is
    called when this ends: the session was deleted, or part of it is missing."""

    def __init__(self, num: int, log: Log, over: Callable[[], None]) -> None:
        self.num = num
        self.log = log
        self.over = over
        self.waiting: list[trio.Event] = []
        """Events that are set when the store was read after they were added here."""

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


class Waiting:
    """A command that another process is to carry out."""

    def __init__(self) -> None:
        self.since = trio.current_time()
        self.status: CommandStatus | None = None
        """The state at the last poll; None if the command no longer existed."""
        self.looked = trio.Event()


class Port:
    """The connection of a process to the others that share its store. `run` must run as long as it
    is used."""

    def __init__(
        self, rows: Rows, listen: Callable[[int], Listener], membership: Membership
    ) -> None:
        self.carry_out: CarryOut | None = None
        """Carries out commands of other processes for sessions here; None: they are refused."""
        self.tended: Callable[[frozenset[int]], None] = lambda alive: None
        """Called at intervals with the leases that are not over."""
        self._rows = rows
        self._make_listener = listen
        self._membership = membership
        self._limiter = trio.CapacityLimiter(1)
        self._followed: dict[int, list[Followed]] = {}
        self._woken: set[int] = set()
        self._under_way: set[int] = set()
        self._answers: dict[int, bytes] = {}
        self._waiting: dict[int, Waiting] = {}
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

    def follow(self, followed: Followed) -> None:
        """Keep a log up to date that was read after `watch`, until `unfollow`."""
        self._followed.setdefault(followed.num, []).append(followed)
        self._wake({followed.num})

    def unfollow(self, followed: Followed) -> None:
        """Stop keeping a log up to date."""
        self._drop(followed)
        self.unwatch(followed.num)

    def unwatch(self, num: int) -> None:
        """Unsubscribe from notifications of a session, unless it is followed."""
        self._nursery.start_soon(self._unwatch, num)

    def _drop(self, followed: Followed) -> None:
        left = [each for each in self._followed.pop(followed.num, ()) if each is not followed]
        if left:
            self._followed[followed.num] = left
        for event in followed.waiting:
            event.set()

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
        node = self._membership.held()
        if node is not None and num not in self._followed:
            try:
                await self._do(partial(self._rows.unwatch, num, node))
            except StoreError as error:  # it ends with the lease
                logger.info("a session is watched on: %s", error)

    def _wake(self, nums: Collection[int]) -> None:
        self._woken.update(nums)
        if self._unread_since is None and not self._followed.keys().isdisjoint(self._woken):
            self._unread_since = trio.current_time()
        self._stored.set()

    async def _read_tails(self) -> None:
        """Read the new events of the followed sessions, until cancelled."""
        looked = trio.current_time()
        while True:
            with trio.move_on_at(looked + LOOK):
                await self._stored.wait()
            self._stored = trio.Event()
            due = trio.current_time() >= looked + LOOK  # however many notifications arrive
            if due:
                looked = trio.current_time()
            nums = self._followed.keys() if due else self._woken
            read = [
                (followed, followed.log.seq)
                for num in nums
                for followed in self._followed.get(num, ())
            ]
            known: dict[int, int] = {}
            for followed, seq in read:
                known[followed.num] = min(seq, known.get(followed.num, seq))
            self._woken = set()
            if not known:
                self._unread_since = None
                continue
            waiting = [(followed, followed.waiting) for followed, _ in read]
            for followed, _ in read:
                followed.waiting = []
            try:
                if due and (node := self._membership.held()) is not None:
                    await self._watch_again(node)
                found = await self._do(partial(self._rows.tails, known))
            except StoreError as error:
                logger.info("what is new elsewhere cannot be read: %s", error)
                await trio.sleep(AGAIN)
                self._wake(known)
                found = None
            if found is not None:
                self._unread_since = None
                self._take_tails(read, {tail.num: tail for tail in found})
            for followed, events in waiting:
                again = found is None or followed.num in self._woken
                if again and followed in self._followed.get(followed.num, ()):
                    followed.waiting += events
                    continue
                for event in events:
                    event.set()

    def _take_tails(self, read: Sequence[tuple[Followed, int]], found: Mapping[int, Tail]) -> None:
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

    def is_mine(self, owned: SessionOwner) -> bool:
        """True if this process runs the session."""
        return owned.node is not None and owned.node == self._membership.held()

    async def call(
        self,
        command: StoredCommand,
        *,
        here: Callable[[str], bool],
        opens: bool = True,
        wanted: Callable[[], bool] = lambda: True,
    ) -> bytes | None:
        """Have a command carried out by the owner of its session, or by a worker that opens it.

        - `here`: returns true for a home whose sessions this process may run.
        - `opens`: the command opens the session if it does not run.
        - `wanted`: returns false when the answer is not needed here any more.

        Returns the answer. Returns None if this process must carry out the command, or if the
        session does not run and `opens` is false. Raises `StoreError`, `LimitExceeded` if no worker
        has room, `Reused`, or `Answered` if the command is gone and not `wanted` any more: the
        client has sent it to another process as well.

        After a cancellation the outcome is unknown.
        """
        status: CommandStatus | None = None
        doubtful = False  # the row may exist, but its state is unknown
        gone = False  # the row existed: the command may have been carried out
        deadline = trio.current_time() + PATIENCE
        target: int | None = None
        while True:
            try:
                target = await self._target(command.session, here, opens=opens)
                mine = status is not None and self._is_mine(status)
                if target is None:
                    if status is None or mine or await self._withdraw(status):
                        return None
                elif target == 0:
                    late = trio.current_time() >= deadline and not doubtful and not gone
                    if late and (status is None or await self._withdraw(status)):
                        break
                    await trio.sleep(AGAIN)
                    continue
                elif status is None:
                    if (doubtful or gone) and not wanted():
                        raise Answered
                    doubtful = True
                    status = await self._post(command, target)
                elif mine:  # given to this process, where it waits for the result of this call
                    self._answers.setdefault(status.num, b"")
                    self._work.set()
                elif await self._do(partial(self._rows.pass_on, status.num, status.node, target)):
                    status = CommandStatus(status.num, target, None, alive=True)
                doubtful = False
                num = status.num
                status = await self._answered(status)
                if status is not None and status.answer:
                    self._read.add(num)
                    return status.answer
                gone = gone or status is None
                if status is None:
                    if not wanted():
                        raise Answered
                elif not status.alive:
                    deadline = trio.current_time() + PATIENCE
                elif trio.current_time() >= deadline and await self._withdraw(status):
                    raise _Untaken
                await trio.sleep(AGAIN)
            except StoreError as error:
                if status is None and not doubtful and not gone:
                    raise  # and the command will not be carried out
                logger.info("a command waits for the store: %s", error)
                await trio.sleep(AGAIN)
            except _Untaken:
                if not gone:
                    break
                status = None  # post it again: the worker knows whether it was carried out
        if target:
            raise StoreUnavailable("the server that has this session does not answer")
        raise LimitExceeded("no server that runs sessions has room for this now")

    async def call_all(self, command: StoredCommand) -> list[bytes]:
        """Have every other worker carry out a command that belongs to no session. Returns the
        answers of those that are alive. Raises `StoreError`."""
        mine = self._membership.held()
        answers: list[bytes] = []

        async def one(node: int) -> None:
            each = structs.replace(command, id=f"{command.id}.{node}")
            status = await self._answered(await self._post(each, node))
            if status is not None and status.answer:
                self._read.add(status.num)
                answers.append(status.answer)

        workers = await self._do(self._rows.workers)
        async with bare_errors(), trio.open_nursery() as nursery:
            for worker in workers:
                if worker.num != mine:
                    nursery.start_soon(one, worker.num)
        return answers

    async def _post(self, command: StoredCommand, node: int) -> CommandStatus:
        status = await self._do(partial(self._rows.post, command, self._lease(), node))
        if status is None:
            raise Reused
        return status

    async def _withdraw(self, status: CommandStatus) -> bool:
        return await self._do(partial(self._rows.withdraw, status.num, status.node))

    async def _target(
        self, session: str, here: Callable[[str], bool], *, opens: bool
    ) -> int | None:
        """Return the lease of the process that must carry out a command to a session; None: this
        process; 0: no process can."""
        home = None
        if session:
            owned = await self.owner(session)
            if owned is not None:
                if owned.node is not None:
                    return None if self.is_mine(owned) else owned.node
                home = owned.home or None
            if owned is None or not opens:
                return None
        if here(home or ""):
            return None
        mine = self._membership.held()
        workers = await self._do(self._rows.workers)
        found = [
            (busy, each.num)
            for each in workers
            if home in (None, each.home) and each.num != mine
            if (busy := _busy(each)) is not None
        ]
        return min(found)[1] if found else 0

    async def _answered(self, status: CommandStatus) -> CommandStatus | None:
        """Wait until a command is answered, its process has ended, or it is given to this process.

        Returns None if there is no such command any more. Raises `_Untaken` if no process takes
        it.
        """
        if status.answer:
            return status
        waiting = self._waiting[status.num] = Waiting()
        since = trio.current_time()
        try:
            if self._answered_elsewhere != self._looked:
                self._work.set()  # it may have been answered before this task waited
            while True:
                await waiting.looked.wait()
                waiting.looked = trio.Event()
                found = waiting.status
                if found is None or found.answer is not None or not found.alive:
                    return found
                if self._is_mine(found):
                    return found
                late = trio.current_time() - since > PATIENCE
                if late and await self._withdraw(found):
                    raise _Untaken
        finally:
            if self._waiting.get(status.num) is waiting:
                del self._waiting[status.num]

    async def _look_for_answers(self) -> None:
        answered, waiting = self._answered_elsewhere, dict(self._waiting)
        if not waiting:
            return  # a task that starts to wait polls by itself
        statuses = await self._do(partial(self._rows.look, list(waiting)))
        found = {status.num: status for status in statuses}
        self._looked = answered
        for num, each in waiting.items():
            each.status = found.get(num)
            each.looked.set()

    def _is_mine(self, status: CommandStatus) -> bool:
        """True if this process must carry out the command, which is unanswered."""
        return status.answer is None and status.node == self._membership.held()

    def _lease(self) -> int:
        lease = self._membership.held()
        if lease is None:
            raise StoreUnavailable("the store was not reached for too long: there is no lease")
        return lease

    # --- commands of other processes to sessions here

    async def _look(self) -> None:
        """Take commands to this process, send the answers, and poll for answers to commands that
        other processes carry out, until cancelled."""
        counted = -COUNT
        looked = trio.current_time()
        while True:
            with trio.move_on_at(looked + LOOK):
                await self._work.wait()
            self._work = trio.Event()
            due = trio.current_time() >= looked + LOOK  # however many notifications arrive
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
                    self.tended(frozenset(await self._do(self._rows.alive)))
                if trio.current_time() - counted >= COUNT:
                    counted = trio.current_time()
                    self.connections = await self._do(self._rows.connections)
            except StoreError as error:
                logger.info("other servers cannot be reached: %s", error)
                self._answers = answers | self._answers
                self._read |= read
                self._takes = True
                await trio.sleep(AGAIN)
                self._work.set()

    async def _take(self, node: int) -> None:
        known = frozenset(self._under_way)
        for command in await self._do(partial(self._rows.take, node, known)):
            self._under_way.add(command.num)
            self._nursery.start_soon(self._carry_out, command)

    async def _carry_out(self, command: StoredCommand) -> None:
        try:
            answer = _UNSERVED if self.carry_out is None else await self.carry_out(command)
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
                    await trio.sleep(AGAIN)
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
                with trio.move_on_after(LOOK) as silent:
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

    async def _open_listener(self, node: int) -> Listener:
        return await trio.to_thread.run_sync(self._make_listener, node)

    async def _wait_for(self, listener: Listener) -> None:
        await trio.lowlevel.wait_readable(listener.fileno())

    async def _do(self, job: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(job, limiter=self._limiter)


def _refusal(code: str, message: str) -> bytes:
    error = {"code": code, "message": message}
    return msgspec.json.encode({"type": "ack", "id": None, "ok": False, "error": error})


_UNSERVED: Final = _refusal(
    "unsupported", "this session is a program's, which takes no commands of other servers"
)
_FAILED: Final = _refusal("internal", "the server failed to carry this out")


class _Load(msgspec.Struct):
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
