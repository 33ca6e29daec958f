"""Servers that share a store, their clients, and whatever may happen between them, by a seed.

The servers are real: hub, commands, sessions, keepers, leases, the way to the others. The database
is `tables.py`; its threads, connections and notifications, the agents and the clients are made of
the seed. A statement takes time, gets lost on its way there or back; a notification is late, lost
or comes twice; a server is cut off, or killed, often where it has just taken or stored something.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from unittest import mock

import trio

from agentrt import Limits
from agentrt import events as e
from agentrt._cluster import membership
from agentrt._cluster.client import NotificationListener
from agentrt._cluster.membership import Membership
from agentrt._core.store.service import OpenSessions
from agentrt._core.store.writer import _acknowledge, _fence
from agentrt.errors import StoreUnavailable
from agentrt.lowlevel import Fenced
from agentrt.storage import decode_events
from agentrt.store import StoreProcess
from agentrt.testing import FakeAcpAgent, open_fake_runtime, run_seeded
from inside.cluster import ClusterClient
from inside.postgres import Notified, notified_of
from inside.server import Hub, serve_forwarded
from inside.store import Batch, StoreService, WriterJob, gathered
from inside.tasks import bare_errors
from journal.stepped import PassingWriter
from runtime.fakes import Incarnations

from .tables import Backend, Leases, Reader, Rows, Tables

sys.path.append(str(Path(__file__).parents[1] / "web"))
from hub_kit import Stage, Tab
from wire_client import View, WireClient

T = TypeVar("T")

LEASE = 4.0
AGAIN = 15.0
"""Seconds after which a client that misses something comes again."""
SETTLED = 90.0
"""Seconds after the last fault in which everything is over."""
ROLES = {"w1": "worker", "w2": "worker", "b": "both", "g1": "gateway", "g2": "gateway"}
LIMITS = Limits(store_lease_s=LEASE, cancel_grace_s=2.0)
RISKY = {"take", "answer", "pass_on", "post", "claim", "commit"}
"""Statements behind which a server dies more often."""


class Lost(StoreUnavailable):
    """A connection."""


class Server:
    """One process, from its start to its end."""

    def __init__(self, world: World, name: str, role: str) -> None:
        self.world = world
        self.name = name
        self.role = role
        self.killed = False
        self.cut_until = 0.0
        self.agents = Incarnations(partial(work, world))
        self.listeners: set[ModelListener] = set()
        self.store: ModelStore
        self.stage: Stage | None = None
        self.tabs: set[Tab] = set()
        self.scope = trio.CancelScope()

    async def run(self) -> None:
        with self.scope:
            async with trio.open_nursery() as nursery:
                self.store = store = ModelStore(self)
                assert store.membership is not None
                assert store.cluster is not None
                nursery.start_soon(store.run)
                nursery.start_soon(store._watch)
                await nursery.start(store.membership.run)
                await nursery.start(store.cluster.run)
                async with (
                    self.world.open_runtime(self, store) as runtime,
                    trio.open_nursery() as here,
                ):
                    hub = Hub(runtime)
                    serve_forwarded(hub)
                    self.stage = Stage(runtime, hub, self.agents, here)
                    await trio.sleep_forever()

    @property
    def is_there(self) -> bool:
        return self.stage is not None and not self.killed

    def kill(self) -> None:
        if not self.killed:
            self.killed = True
            self.world.note("killed", self.name)
            for process in self.agents.processes:
                process.exit(-9)
            for tab in list(self.tabs):
                tab.cut()
            self.store.trouble, self.store.waited = Lost("killed"), True
            self.scope.cancel()

    # --- its way to the database

    async def do(self, job: Callable[[], T], lost: Callable[[], None] = lambda: None) -> T:
        """A statement; once more on another connection, as who asks for it does. `lost`: called if
        nobody knows what became of it."""
        try:
            return await self.once(job, lost)
        except Lost:
            return await self.once(job, lost)

    async def once(self, job: Callable[[], T], lost: Callable[[], None]) -> T:
        world = self.world
        await trio.sleep(world.delay())
        self._reached()
        result = job()
        world.check()
        name = getattr(getattr(job, "func", job), "__name__", "")
        world.done(self, name)
        await trio.sleep(world.delay())
        try:
            self._reached()
        except Lost:
            lost()
            raise
        return result

    def _reached(self) -> None:
        world = self.world
        if self.killed:
            raise Lost("killed")
        if self.stage is None:
            return  # one that cannot begin is begun again
        if trio.current_time() < self.cut_until or (world.rough and world.chance.random() < 0.02):
            raise Lost("the connection is lost")


class ModelStore(StoreService):
    """Writes as the thread of a store does."""

    def __init__(self, server: Server) -> None:
        tables = server.world.tables
        process = StoreProcess(
            name=server.name, host="host", pid=1, home="here", role=server.role, version="1"
        )
        sessions = OpenSessions(LIMITS)
        membership = ModelMembership(server, process, sessions.end_all)
        super().__init__(
            "tables",
            Reader(tables),
            PassingWriter(self._put),
            LIMITS,
            sessions=sessions,
            membership=membership,
            cluster=ModelCluster(server, membership),
        )
        self.server = server
        self.backend = Backend(tables, "here", membership.held)
        self._waiting: deque[Batch | WriterJob] = deque()
        self._given = trio.Event()

    async def _read(self, read: Callable[[], T], *, abandon: bool = False) -> T:
        return await self.server.do(read)

    def _put(self, item: Batch | WriterJob) -> None:
        self._waiting.append(item)
        self._given.set()

    async def run(self) -> None:
        while True:
            await self._given.wait()
            self._given = trio.Event()
            while self._waiting:
                item = self._waiting.popleft()
                if isinstance(item, WriterJob):
                    await self._call_now(item)
                else:
                    await trio.sleep(0.005)
                    await self._commit(self._gathered(item))

    async def _call_now(self, call: WriterJob) -> None:
        job = partial(call.job, self.backend)
        try:
            result = await self.server.do(job)
        except trio.Cancelled:
            raise
        except Exception as error:
            call.done(None, error)
        else:
            call.done(result, None)

    def _gathered(self, batch: Batch) -> list[Batch]:
        batches = [batch]
        while self._waiting and isinstance(item := self._waiting[0], Batch):
            self._waiting.popleft()
            batches.append(item)
        return batches

    async def _commit(self, batches: list[Batch]) -> None:
        delay = 0.1
        while True:
            flush = gathered(batches)
            try:
                await self.server.once(partial(self.backend.commit, flush), self._doubt)
            except Fenced as error:
                _fence({b.source for b in batches if b.source.place in error.places})
                batches = [b for b in batches if b.source.place not in error.places]
            except Lost as error:
                if self.server.killed:
                    await trio.sleep_forever()
                self.failing(error, final=False)
                await trio.sleep(delay)
                delay = min(2.0, delay * 2)
            else:
                if self.trouble is not None:
                    self.well()
                _acknowledge({b.source: b.first + len(b.events) - 1 for b in batches})
                return

    def _doubt(self) -> None:
        self.backend.doubtful = True


class ModelMembership(Membership):
    def __init__(
        self, server: Server, process: StoreProcess, end: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(Leases(server.world.tables), process, LEASE, end)
        self._server = server

    async def _do(self, job: Callable[[], T]) -> T:
        async with self._limiter:
            return await self._server.do(job)


class ModelListener:
    def __init__(self, server: Server, node: int) -> None:
        self.server = server
        self.node = node
        self.told: list[str] = []
        self.something = trio.Event()
        self.lost = False

    def hear(self, words: str) -> None:
        self.told.append(words)
        self.something.set()

    def fileno(self) -> int:
        raise AssertionError("there is no file")

    def received(self) -> Notified:
        if self.lost:
            raise Lost("nothing is heard any more")
        told, self.told, self.something = self.told, [], trio.Event()
        return notified_of(told)

    def close(self) -> None:
        self.server.listeners.discard(self)


class ModelCluster(ClusterClient):
    def __init__(self, server: Server, membership: Membership) -> None:
        super().__init__(Rows(server.world.tables), self._listener_of, membership)
        self.server = server

    def unwatch(self, num: int) -> None:
        if not self.server.killed:
            super().unwatch(num)

    def _listener_of(self, node: int) -> NotificationListener:
        listener = ModelListener(self.server, node)
        self.server.listeners.add(listener)
        return listener

    async def _open_listener(self, node: int) -> NotificationListener:
        return await self.server.once(partial(self._listener_of, node), lambda: None)

    async def _wait_for(self, listener: NotificationListener) -> None:
        assert isinstance(listener, ModelListener)
        await listener.something.wait()

    async def _do(self, job: Callable[[], T]) -> T:
        async with self._limiter:
            return await self.server.do(job)


# --- agents


async def work(world: World, agent: FakeAcpAgent) -> None:
    """Answers a prompt, of which nobody else has heard, after a while; some ask first."""
    chance = world.chance
    async for prompt in agent.prompts:
        world.reached_agent(prompt.text)
        agent.say(prompt.text)
        if chance.random() < 0.3:
            await agent.ask()
        with trio.move_on_after(chance.choice((0.0, 0.05, 0.3, 2.0)) if world.rough else 0.0):
            await prompt.cancelled.wait()
        prompt.end("cancelled" if prompt.cancelled.is_set() else "end_turn")


# --- clients


class KnownView(View):
    """What is shown never goes back, and is never ahead of what is stored."""

    world: World

    def take_snapshot(self, frame: dict[str, Any]) -> None:
        before = self.epoch, self.seq
        super().take_snapshot(frame)
        assert before[0] in (None, self.epoch), "another epoch, and nothing was lost"
        assert self.seq >= before[1], f"a snapshot of {self.seq} came behind {before[1]}"
        self.world.shown(self.session, self.seq)

    def take_event(self, frame: dict[str, Any]) -> None:
        super().take_event(frame)
        self.world.shown(self.session, self.seq)


class Person(WireClient):
    """A client that comes and goes, and says what comes to its mind."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(name)
        self.world = world
        self.tab: Tab | None = None
        self.server: Server | None = None
        self.came = 0.0
        self.prompts: dict[str, str] = {}
        """Their texts, by the ids of the commands."""
        self.choices: dict[str, tuple[str, str]] = {}
        """The sessions and requests that were answered, by the ids of the commands."""
        self.sent: dict[str, set[str]] = {}
        """The servers that each command was sent to."""

    def new_id(self) -> str:
        id = f"{self.name}-{super().new_id()}"
        assert self.server is not None
        self.sent[id] = {self.server.name}
        return id

    async def live(self) -> None:
        chance = self.world.chance
        while not self.world.calm.is_set():
            if not self.connected:
                self.connect()
            elif chance.random() < 0.08:
                self.leave()
            else:
                self.say()
            with trio.move_on_after(chance.choice((0.0, 0.02, 0.3, 1.0))):
                await self.world.calm.wait()
        while True:  # as people do until they see what they wanted
            if not self.connected:
                self.connect()
            elif self.missed or trio.current_time() > self.came + AGAIN:
                self.leave()  # a session is not followed any more that was another server's
            elif not self.unanswered:
                self.finish()
            await trio.sleep(0.5)

    @property
    def connected(self) -> bool:
        return self.tab is not None and self.tab.ended is None and not self.tab._scope.cancel_called

    @property
    def missed(self) -> bool:
        """Whether a session could not be shown when this client came: the store was away."""
        assert self.tab is not None
        said = self.acks.get(self.tab.wire.hello_id, {})
        return "unknown_session" in said.get("sessions", {}).values()

    def connect(self) -> None:
        world = self.world
        doors = [each for each in world.servers if each.is_there and each.role != "worker"]
        if not doors:
            return
        for session in world.tables.sessions:
            if session not in self.views:
                self.views[session] = view = KnownView(session)
                view.world = world
        self.server = world.chance.choice(doors)
        assert self.server.stage is not None
        self.tab = self.server.stage.connect(client=self)
        self.came = trio.current_time()
        self.server.tabs.add(self.tab)
        for id in self.unanswered:
            self.sent[id].add(self.server.name)
        world.note(str(self.name), "at", self.server.name)

    def leave(self) -> None:
        assert self.server is not None
        assert self.tab is not None
        self.server.tabs.discard(self.tab)
        self.tab.cut()

    def say(self) -> None:
        assert self.tab is not None
        send, chance = self.tab.wire.send, self.world.chance
        session = chance.choice(list(self.views))
        view = self.views[session]
        what = chance.random()
        if what < 0.4:
            for _ in range(chance.choice((1, 1, 3))):
                text = f"{self.name} {len(self.prompts)}"
                content = [{"type": "text", "text": text}]
                id = send("prompt", session=session, content=content)
                self.prompts[id] = text
                self.world.note(str(self.name), "says", id, text, "in", session)
            if view.shown and view.shown["paused"]:  # else a Stop would end all that happens
                send("queue", session=session, op="resume")
        elif what < 0.5:
            send("cancel", session=session)
        elif what < 0.53:
            send("stop_all")
        elif what < 0.56 and view.shown and view.shown["paused"]:
            send("queue", session=session, op="resume")
        elif view.shown:
            self.choose(view)

    def choose(self, view: View) -> None:
        assert self.tab is not None
        for request, asked in view.shown["permissions"].items():
            if (view.session, request) not in self.choices.values():
                option = self.world.chance.choice(asked["options"])["id"]
                id = self.tab.wire.send(
                    "permission", session=view.session, request=request, option=option
                )
                self.choices[id] = view.session, request

    def finish(self) -> None:
        assert self.tab is not None
        for view in self.views.values():
            if view.shown:
                self.choose(view)
                if view.shown["paused"] and view.shown["queue"]:
                    self.tab.wire.send("queue", session=view.session, op="resume")


# --- all of it


class World:
    def __init__(
        self,
        seed: int,
        *,
        trace: bool = False,
    ) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.tables = Tables(trio.current_time, self.tell)
        self.servers: list[Server] = []
        self.people: list[Person] = []
        self.calm = trio.Event()
        self.rough = False
        self.delivered: list[str] = []
        self.trace: list[str] | None = [] if trace else None
        self.steps = 0
        self._read: dict[int, int] = {}  # frames, by session
        self._entries: dict[str, str] = {}
        self._turns: dict[str, str] = {}
        self._ends: dict[int, tuple[int, int]] = {}
        self._first: dict[int, list[str]] = {}
        """The prompts of each session, in the order in which they were accepted."""
        self.everyone: list[Server] = []
        self.broken: AssertionError | None = None
        self._booted = 0
        self._nursery: trio.Nursery

    def note(self, *words: str) -> None:
        if self.trace is not None:
            self.trace.append(" ".join((f"{trio.current_time():8.3f}", *words)))

    # --- faults

    def delay(self) -> float:
        if not self.rough:
            return self.chance.choice((0.0, 0.001))
        return self.chance.choice((0.0, 0.001, 0.001, 0.005, 0.005, 0.02, 0.3))

    def tell(self, node: int, words: str) -> None:
        for server in self.servers:
            for listener in server.listeners:
                if listener.node == node:
                    self._nursery.start_soon(self._tell, listener, words)

    async def _tell(self, listener: ModelListener, words: str) -> None:
        fate = self.chance.random() if self.rough else 1.0
        if fate < 0.1:
            return
        if fate < 0.3:
            await trio.sleep(self.chance.choice((0.05, 0.5, 3.0)))
        listener.hear(words)
        if fate > 0.9:
            listener.hear(words)

    def done(self, server: Server, statement: str) -> None:
        """A statement was carried out: that may have been the last thing that a server did."""
        self.steps += 1
        self.note(server.name, statement)
        if self.rough and statement in RISKY and self.chance.random() < 0.004:
            server.kill()

    async def _disturb(self) -> None:
        chance = self.chance
        while True:
            await trio.sleep(chance.uniform(0.2, 3.0))
            if not self.servers:
                continue  # all are down at this moment
            server = chance.choice(self.servers)
            what = chance.random()
            if what < 0.25:
                server.kill()
            elif what < 0.5:
                server.cut_until = trio.current_time() + chance.choice((0.1, 1.0, 2 * LEASE))
                self.note(server.name, "is cut off")
            else:
                for listener in server.listeners:
                    listener.lost = True
                    listener.something.set()

    # --- the run

    def boot(self, name: str, role: str) -> None:
        self._booted += 1
        server = Server(self, f"{name}.{self._booted}", role)
        self.servers.append(server)
        self.everyone.append(server)
        self._nursery.start_soon(self._serve, server, name, role)

    async def _serve(self, server: Server, name: str, role: str) -> None:
        await server.run()
        self.servers.remove(server)
        await trio.sleep(self.chance.choice((0.1, 1.0, 2 * LEASE)) if self.rough else 0.0)
        self.boot(name, role)

    @asynccontextmanager
    async def open_runtime(self, server: Server, store: StoreService) -> AsyncIterator[Any]:
        async with open_fake_runtime(
            {"fake": server.agents.start}, store=store, limits=LIMITS
        ) as runtime:
            yield runtime

    async def run(self, seconds: float) -> None:
        async with bare_errors(), trio.open_nursery() as self._nursery:
            await self._run(seconds)
            self._nursery.cancel_scope.cancel()
        if self.broken is not None:
            raise self.broken

    async def _run(self, seconds: float) -> None:
        for name, role in ROLES.items():
            self.boot(name, role)
        while not all(server.is_there for server in self.servers):  # noqa: ASYNC110
            await trio.sleep(0.1)
        await self._open_sessions()
        for name in ("ann", "bob", "cid"):
            self.people.append(person := Person(self, name))
            self._nursery.start_soon(person.live)
        self.rough = True
        with trio.move_on_after(seconds):
            await self._disturb()
        self.rough = False
        for server in self.servers:
            server.cut_until = 0.0
        self.calm.set()
        self.note("calm")
        await self._settle()
        self.judge()

    async def _open_sessions(self) -> None:
        opener = Person(self, "opener")
        opener.connect()
        assert opener.tab is not None
        for number in range(2):
            answer = await opener.tab.ok("session", op="new", agent="fake")
            text = [{"type": "text", "text": f"opener {number}"}]
            await opener.tab.ok("prompt", session=answer["session"], content=text)
        opener.leave()

    async def _settle(self) -> None:
        with trio.move_on_after(SETTLED):
            while waits := self._waits():  # noqa: ASYNC110
                await trio.sleep(0.5)
            return
        raise AssertionError(f"somebody waits for ever: {waits}")

    def _waits(self) -> str:
        for person in self.people:
            if not person.connected or person.unanswered:
                return f"{person.name} for {person.unanswered}"
            for view in person.views.values():
                if not view.shown or view.busy:
                    return f"{person.name} for the end of a turn in {view.session}"
                at = self.tables.sessions[view.session].next - 1
                if view.seq != at:
                    return f"{person.name} for {view.session} to go from {view.seq} to {at}"
                if view.shown["queue"]:
                    return f"{person.name} for what is queued in {view.session}"
        for row in self.tables.commands.values():
            if row.answer is None and self.tables.lives(row.node):
                return f"the command {row.client} {row.id}"
        return ""

    # --- what has to hold

    def check(self) -> None:
        """After each statement."""
        try:
            self._check()
        except AssertionError as error:
            self.fail(error)

    def fail(self, error: AssertionError) -> None:
        """What broke first, whoever looks at it."""
        self.broken = self.broken or error
        self._nursery.cancel_scope.cancel()

    def _check(self) -> None:
        for session in self.tables.sessions.values():
            frames = self.tables.frames.get(session.num, [])
            for first, last, owner, body in frames[self._read.get(session.num, 0) :]:
                self._check_frame(session.num, first, last, owner)
                for event in decode_events(body):
                    self._saw(session.num, event)
            self._read[session.num] = len(frames)

    def _check_frame(self, num: int, first: int, last: int, owner: int) -> None:
        at, by = self._ends.get(num, (0, 0))
        assert first == at + 1, "a gap, or an overlap"
        assert owner >= by, "an earlier owner wrote"
        self._ends[num] = last, owner

    def _saw(self, num: int, event: Any) -> None:
        if isinstance(event, e.QueueChanged):
            for entry in event.queue:
                text = _text(entry.content)
                known = self._entries.setdefault(text, entry.id)
                assert known == entry.id, f"the prompt {text!r} was queued twice"
                self._first.setdefault(num, []).append(text)
        elif isinstance(event, e.ItemOpened) and event.item.type == "user":
            text = _text(event.item.content)
            assert text not in self._turns, f"the prompt {text!r} has two turns"
            self._turns[text] = event.item.turn or ""
            self._first.setdefault(num, []).append(text)

    def reached_agent(self, text: str) -> None:
        self.note("an agent has", text)
        if text in self.delivered:
            self.fail(AssertionError(f"the prompt {text!r} reached an agent twice"))
        if text not in self._turns:
            self.fail(AssertionError(f"the prompt {text!r} reached an agent, and is not stored"))
        self.delivered.append(text)

    def shown(self, session: str, seq: int) -> None:
        stored = self.tables.sessions[session].next - 1
        assert seq <= stored, f"event {seq} of {session} is shown, and {stored} is stored"

    def judge(self) -> None:
        """When all is over."""
        done = self._entries.keys() | self._turns.keys()
        chosen: set[tuple[str, str]] = set()
        settled: set[str] = set()
        """The prompts that were taken where they were sent, and not sent to other servers: what is
        refused by one may be carried out by the next."""
        for person in self.people:
            for ack in person.acks.values():
                code = ack["error"]["code"] if not ack["ok"] else None
                assert code != "bad_request", f"the world sends a wrong command: {ack['error']}"
            for id, text in person.prompts.items():
                if person.acks[id]["ok"]:
                    assert text in done, f"{text!r} was taken, and nothing came of it"
                    if len(person.sent[id]) == 1:
                        settled.add(text)
                else:
                    once = len(person.sent[id]) == 1
                    assert not once or text not in done, f"{text!r} was refused, and carried out"
            for id, request in person.choices.items():
                if person.acks[id]["ok"]:
                    assert request not in chosen, f"{request} was answered twice"
                    chosen.add(request)
        for texts in self._first.values():
            for person in self.people:
                name = str(person.name)
                taken = [t for t in dict.fromkeys(texts) if t.split()[0] == name and t in settled]
                ordered = sorted(taken, key=lambda text: int(text.split()[1]))
                assert taken == ordered, f"{name}'s prompts ran in another order: {taken}"
        for server in self.everyone:
            for agent in server.agents.agents:
                told = [m["id"] for m in agent.received if "id" in m and "method" not in m]
                assert len(set(told)) == len(told), "an agent was answered twice"


def _text(content: Any) -> str:
    return "".join(getattr(block, "text", "") for block in content)


def run(world: Callable[[], World], seed: int, seconds: float) -> World:
    made: list[World] = []

    async def main() -> None:
        made.append(world())
        await made[0].run(seconds)

    words = Random(seed)
    logger = logging.getLogger("agentrt")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with (
            mock.patch.object(membership, "now", trio.current_time),
            mock.patch.object(membership, "let_agents_live"),
            mock.patch("secrets.token_hex", lambda size=16: words.randbytes(size).hex()),
        ):
            run_seeded(main, seed=seed)
    except BaseExceptionGroup as group:
        raise _first(group) from group
    finally:
        logger.setLevel(level)
    return made[0]


def _first(error: BaseException) -> BaseException:
    """Return what was found: the rest of a group failed because the world ended with it."""
    errors = list(_leaves(error))
    found = (each for each in errors if isinstance(each, AssertionError | trio.TooSlowError))
    return next(found, errors[0])


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def explore(seeds: Iterable[int], seconds: float | None, *, trace: bool) -> bool:
    """Run seeds until one fails, or the time is over; whether all was well."""
    began, count, prompts, steps = time.monotonic(), 0, 0, 0
    for seed in seeds:
        made: list[World] = []

        def make(seed: int = seed, made: list[World] = made) -> World:
            made.append(World(seed, trace=trace))
            return made[0]

        try:
            run(make, seed, 20.0)
        except BaseException:  # noqa: ASYNC103 - Trio is not running any more
            print("\n".join(made[0].trace or ()))
            print(f"seed {seed} fails: nox -s simulate -- --servers --seed {seed}")
            raise
        count += 1
        prompts += len(made[0].delivered)
        steps += made[0].steps
        if seconds is not None and time.monotonic() - began > seconds:
            break
    print(f"{count} seeds, {steps} statements, {prompts} prompts that reached an agent")
    return True
