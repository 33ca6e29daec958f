"""A whole installation on one machine: PostgreSQL, servers, a balancer in front of them, clients.

    python -m cluster --minutes 30 --clients 200 --seed 1
    python -m cluster --rolling --minutes 5

A proxy is between each server and the database. `faults` does at random, from a seed, what can
happen to all of them; `rolling` restarts one server after the other, as an upgrade does. Behind it
a checker looks at what clients, agents and tables say (`history.py`).
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import trio
from msgspec import Struct

from postgres.kit import rows
from postgres.server import Server, free_port

from .agents import Agents, Record
from .client import ClusterClient
from .history import Frame, History, Lease, Look, Stored, overdue
from .nodes import Node
from .relay import Relay

LOOK = 0.1
"""Seconds between two looks at leases and agents."""
SCHEMA = "cluster"


class Plan(Struct, kw_only=True):
    seed: int = 1
    minutes: float = 1.0
    clients: int = 10
    viewers: int = 3
    workers: int = 3
    gateways: int = 0
    """0: each server is a worker and a gateway."""
    lease: float = 4.0
    every: float = 2.0
    """Seconds between two faults, on the average."""
    rolling: bool = False
    settle: float = 300.0
    """Seconds that all may take to come to rest behind the last fault."""


class Outcome(Struct):
    history: History
    numbers: dict[str, float]


class Cluster:
    def __init__(self, plan: Plan, folder: Path, server: Server) -> None:
        self.plan = plan
        self.server = server
        self.chance = random.Random(plan.seed)
        self.history = History()
        self.clients: list[ClusterClient] = []
        self.done: Counter[str] = Counter()
        """What has been done to it."""
        self.front = Relay(self._some_server, random.Random(f"{plan.seed} front"))
        self.ways: dict[str, Relay] = {}
        self.nodes: dict[str, Node] = {}
        self.over = False
        self._folder = folder
        self._record = Record(folder / "record")
        self._agents = Agents(folder)
        self._looks = 0

    @property
    def url(self) -> str:
        return self.server.url(SCHEMA)

    @property
    def workers(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.role != "gateway"]

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.front.port}"

    async def _some_server(self) -> trio.SocketStream:
        ready = [node for node in self.nodes.values() if node.ready and node.role != "worker"]
        if not ready:
            raise OSError("no server is ready")
        return await trio.open_tcp_stream("127.0.0.1", self.front.chance.choice(ready).port)

    async def _database(self) -> trio.SocketStream:
        return await trio.open_unix_socket(self.server.folder / f".s.PGSQL.{self.server.port}")

    async def start(self, nursery: trio.Nursery) -> None:
        plan = self.plan
        await nursery.start(self.front.run)
        roles = ["worker" if plan.gateways else "both"] * plan.workers
        roles += ["gateway"] * plan.gateways
        for number, role in enumerate(roles):
            name = f"{role[0]}{number}"
            self.ways[name] = way = Relay(self._database, random.Random(f"{plan.seed} {name}"))
            await nursery.start(way.run)
            url = self.server.tcp_url(port=way.port, schema=SCHEMA)
            node = Node(name, self._folder, url=url, lease=plan.lease, role=role)
            node.port = free_port()
            self.nodes[name] = node
            await node.start(self.host)
            nursery.start_soon(node.probe)
            nursery.start_soon(self._supervise, node)
            await node.until_ready()  # the first one makes the schema

    # --- what is done to it

    async def faults(self, until: float) -> None:
        """One after the other, some beside each other."""
        async with trio.open_nursery() as nursery:
            while trio.current_time() < until:
                kind, fault = self.chance.choices(*zip(*FAULTS, strict=True))[0]
                self.done[kind] += 1
                nursery.start_soon(fault, self)
                await trio.sleep(self.chance.expovariate(1 / self.plan.every))

    def some_node(self) -> Node:
        return self.chance.choice(list(self.nodes.values()))

    async def _supervise(self, node: Node) -> None:
        """Start it again when it has ended, as whoever runs servers does."""
        while True:
            await node.wait()
            node.ready = False
            await trio.sleep(self.chance.uniform(0, 3) if not self.plan.rolling else 0)
            if self.over:
                return
            await node.start(self.host)

    async def kill(self) -> None:
        self.some_node().signal(signal.SIGKILL)

    async def stop(self) -> None:
        node = self.some_node()
        node.signal(signal.SIGSTOP)
        await trio.sleep(self.chance.uniform(0.1, 2.5) * self.plan.lease)
        node.signal(signal.SIGCONT)

    async def cut_database(self) -> None:
        self.some_way().cut(self.chance.random())

    async def halve_database(self) -> None:
        self.some_way().halves = True

    async def hold_database(self) -> None:
        """Nothing arrives for a while; then what was said arrives late, or never."""
        way = self.some_way()
        way.hold()
        await trio.sleep(self.chance.uniform(0.1, 2) * self.plan.lease)
        if self.chance.random() < 0.5:
            way.cut()
        way.go_on()

    async def slow_database(self) -> None:
        way = self.some_way()
        way.delay = self.chance.uniform(0.01, 0.3)
        await trio.sleep(self.chance.uniform(1, 5))
        way.delay = 0.0

    async def cut_clients(self) -> None:
        self.front.cut(self.chance.random())

    async def halve_client(self) -> None:
        self.front.halves = True

    async def hold_clients(self) -> None:
        self.front.hold()
        await trio.sleep(self.chance.uniform(0.1, 6))
        if self.chance.random() < 0.5:
            self.front.cut()
        self.front.go_on()

    async def end_backends(self) -> None:
        await trio.to_thread.run_sync(
            self._execute,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE application_name LIKE 'agentrt %' AND random()<{self.chance.random()}",
        )

    async def kill_backend(self) -> None:
        """The server then ends all connections and recovers."""
        rows = await trio.to_thread.run_sync(
            self._execute,
            "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'agentrt %'"
            " ORDER BY random() LIMIT 1",
        )
        for (pid,) in rows:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def some_way(self) -> Relay:
        return self.chance.choice(list(self.ways.values()))

    def _execute(self, sql: str) -> list[tuple[Any, ...]]:
        import psycopg

        try:
            with self.server.connect() as connection:
                return list(connection.execute(sql).fetchall())
        except psycopg.OperationalError:
            return []  # it recovers

    async def rolling(self, until: float) -> None:
        """Each server in turn is asked to leave, waited for and started again."""
        while trio.current_time() < until:
            for node in list(self.nodes.values()):
                node.signal(signal.SIGTERM)
                if status := await node.wait():
                    self.history.broken.append(f"{node.name} has ended with {status}")
                node.ready = False
                await node.until_ready()
                self.done["restart"] += 1

    # --- what is looked at

    async def watch(self) -> None:
        """Leases and agents, all the time."""
        import psycopg

        while True:
            with suppress(psycopg.OperationalError):  # it recovers
                connection = await trio.to_thread.run_sync(self.server.connect)
                with connection:
                    while True:
                        look = await trio.to_thread.run_sync(self._look, connection)
                        self._looks += 1
                        self.history.overdue += overdue(look)
                        await trio.sleep(LOOK)
            await trio.sleep(LOOK)

    def _look(self, connection: Any) -> Look:
        rows = connection.execute(
            "SELECT num, pid, extract(epoch FROM since)::float8,"
            " extract(epoch FROM until)::float8,"
            f" extract(epoch FROM clock_timestamp())::float8 FROM {SCHEMA}.node"
        ).fetchall()
        at = rows[0][4] if rows else time.time()
        servers = {label: pid for node in self.nodes.values() for label, pid in node.labels.items()}
        agents = self._agents.alive(self._record.new(), servers)
        return Look(at, [Lease(*row[:4]) for row in rows], agents)

    def collect(self) -> None:
        """What agents and tables say, when all is over."""
        self._record.new()
        self.history.received = [line["prompt"] for line in self._record.lines if "prompt" in line]
        stored: dict[int, list[Frame]] = {}
        for num, *place, body in rows(
            self.url, "SELECT session, first, last, owner, body FROM frame ORDER BY session, first"
        ):
            stored.setdefault(num, []).append(Frame(*place, msgspec.json.decode(body)))
        for num, *said in rows(self.url, "SELECT num, id, epoch, next, owner FROM session"):
            self.history.sessions.append(Stored(*said, stored.get(num, [])))

    def unowned(self) -> bool:
        """Whether nobody is left that is gone and owns a session."""
        sql = f"""SELECT count(*) FROM {SCHEMA}.session s WHERE node IS NOT NULL AND NOT EXISTS
            (SELECT FROM {SCHEMA}.node n WHERE n.num=s.node AND until>clock_timestamp())"""
        return self._execute(sql) == [(0,)]


FAULTS: list[Any] = [
    (("kill -9 of a server", Cluster.kill), 4),
    (("SIGSTOP of a server", Cluster.stop), 4),
    (("database cut", Cluster.cut_database), 3),
    (("database halved", Cluster.halve_database), 2),
    (("database held", Cluster.hold_database), 2),
    (("database slow", Cluster.slow_database), 2),
    (("clients cut", Cluster.cut_clients), 3),
    (("client halved", Cluster.halve_client), 2),
    (("clients held", Cluster.hold_clients), 1),
    (("backends ended", Cluster.end_backends), 2),
    (("kill -9 of a backend", Cluster.kill_backend), 0.5),
]


async def run(plan: Plan, folder: Path, server: Server) -> Outcome:
    """Do all of it, and collect what there is to be checked. Raises `trio.TooSlowError` if it does
    not come to rest."""
    cluster = Cluster(plan, folder, server)
    async with trio.open_nursery() as nursery:
        try:
            await cluster.start(nursery)
            nursery.start_soon(cluster.watch)
            await _load(cluster, nursery)
        finally:
            with trio.CancelScope(shield=True):
                await _leave(cluster)
        nursery.cancel_scope.cancel(reason="over")
    cluster.collect()
    return Outcome(cluster.history, numbers(cluster))


async def _leave(cluster: Cluster) -> None:
    """Have all servers end, as they are asked to."""
    cluster.over = True
    begun = {name: node.ready for name, node in cluster.nodes.items() if node.process is not None}
    for name in begun:
        for number in (signal.SIGCONT, signal.SIGTERM):
            cluster.nodes[name].signal(number)
    for name, ready in begun.items():
        node = cluster.nodes[name]
        with trio.move_on_after(cluster.plan.settle) as waiting:
            status = await node.wait()
            if status and ready:
                cluster.history.broken.append(f"{name} has ended with {status}")
        if waiting.cancelled_caught:
            cluster.history.broken.append(f"{name} has not ended by SIGTERM")
            node.signal(signal.SIGKILL)
            await node.wait()


async def _load(cluster: Cluster, nursery: trio.Nursery) -> None:
    over = trio.Event()
    plan, history, front = cluster.plan, cluster.history, cluster.front
    workers, viewers = (
        [ClusterClient(f"{kind}{n}", front.port, history) for n in range(count)]
        for kind, count in (("c", plan.clients), ("v", plan.viewers))
    )
    cluster.clients = [*workers, *viewers]
    for client in cluster.clients:
        nursery.start_soon(client.run)
    async with trio.open_nursery() as working:
        for client in workers:
            working.start_soon(client.work, "recording", over)
        for number, viewer in enumerate(viewers):
            working.start_soon(_view, viewer, workers[number % len(workers)], over)
        until = trio.current_time() + plan.minutes * 60
        await (cluster.rolling(until) if plan.rolling else cluster.faults(until))
        over.set()
        working.cancel_scope.deadline = trio.current_time() + plan.settle
    if working.cancel_scope.cancelled_caught:
        late = [str(client) for client in workers if client.busy]
        history.broken.append(f"these have not come to rest: {late}")
    with trio.move_on_after(cluster.plan.settle) as scope:
        while not await trio.to_thread.run_sync(cluster.unowned):  # noqa: ASYNC110
            await trio.sleep(0.2)
    if scope.cancelled_caught:
        history.broken.append("a server that is gone still owns a session")


async def _view(viewer: ClusterClient, client: ClusterClient, over: trio.Event) -> None:
    """Look on at what another one does."""
    while client.session is None:
        if over.is_set():
            return
        await trio.sleep(0.1)
    viewer.attach(client.session)
    await over.wait()


def numbers(cluster: Cluster) -> dict[str, float]:
    """What there was, for who reads that all is well."""
    history = cluster.history
    events = sum(session.next - 1 for session in history.sessions)
    frames = sum(len(session.frames) for session in history.sessions)
    return {
        **cluster.done,
        "sessions": len(history.sessions),
        "owners": sum(session.owner for session in history.sessions),
        "prompts acknowledged": sum(said.answer is not None for said in history.said),
        "prompts at agents": len(history.received),
        "refusals": sum(len(said.refused) for said in history.said),
        "events stored": events,
        "frames": frames,
        "events shown": len(history.shown),
        "connections": sum(client.connections for client in cluster.clients),
        "connected again for a turn": sum(client.stuck for client in cluster.clients),
        "looks at leases": cluster._looks,
    }
