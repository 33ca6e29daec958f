"""What one PostgreSQL takes of a store's flushes, and what many sessions cost it.

    python benchmarks/scale.py --postgres URL [--seconds 5] [--sessions 1000000] [--quick]

The database must be on this machine and have nothing else to do: its CPU is read from its
processes, and its log's bytes from where it stands. Writers are processes with a lease each, as
servers have it; each flush is `PostgresBackend.commit`, without agents, and without the 5 ms that a
server rests behind each. What is made is in schemas of its own, which are dropped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TICK = os.sysconf("SC_CLK_TCK")

FLUSHES: tuple[tuple[int, int, int], ...] = (
    (1, 1, 1),
    (1, 1, 5),
    (1, 10, 5),
    (1, 100, 5),
    (2, 10, 5),
    (4, 10, 5),
    (8, 10, 5),
    (16, 10, 5),
)
"""Writers, sessions of one flush, events of each of them."""

TEXT = "some words of an answer that is streamed, "
"""Of one event: about 90 bytes as JSON."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--postgres", metavar="URL", required=True)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--sessions", type=int, default=1_000_000, help="rows of the long list")
    parser.add_argument("--quick", action="store_true", help="1 s each, 20,000 rows")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        write(asked.postgres, **json.loads(asked.child))
        return
    seconds, sessions = (1.0, 20_000) if asked.quick else (asked.seconds, asked.sessions)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print(
        "writers  sessions  events |  flushes/s   events/s |  ms p50    p99 |"
        "  server µs a flush  writers' µs | WAL B an event | load"
    )
    for writers, parts, events in FLUSHES:
        measured = flushes(asked.postgres, writers, parts, events, seconds)
        print(
            f"{writers:7} {parts:9} {events:7} | {measured} | {os.getloadavg()[0]:.1f}", flush=True
        )
    many(asked.postgres, sessions)


@contextlib.contextmanager
def schema(url: str) -> Iterator[str]:
    """The URL of a new one, which is dropped behind the block."""
    import psycopg

    from agentrt._cluster.postgres.backend import PostgresBackend
    from agentrt._cluster.server import parse as server_of

    name = f"bench_{secrets.token_hex(4)}"
    place = f"{url}{'&' if '?' in url else '?'}schema={name}"
    backend = PostgresBackend(server_of(place), "bench")
    backend.open()
    backend.close()
    try:
        yield place
    finally:
        with psycopg.connect(server_of(url).conninfo, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {name} CASCADE")


def connected(url: str) -> Any:
    from agentrt._cluster.postgres.connection import connect
    from agentrt._cluster.server import parse as server_of

    return connect(server_of(url), writes=True)


# --- flushes


def flushes(url: str, writers: int, parts: int, events: int, seconds: float) -> str:
    with schema(url) as place, connected(place) as connection:
        said = json.dumps({"parts": parts, "events": events, "seconds": seconds})
        command = [sys.executable, __file__, "--postgres", place, "--child", said]
        children = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(writers)
        ]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        [(pid, wal)] = connection.rows("SELECT pg_backend_pid(), pg_current_wal_lsn()-'0/0'")
        before = server_cpu(pid)
        for child in children:
            child.stdin.write("go\n")  # type: ignore[union-attr]
            child.stdin.flush()  # type: ignore[union-attr]
        outs = [json.loads(child.stdout.readline()) for child in children]  # type: ignore[union-attr]
        used = server_cpu(pid) - before  # before the writers' backends are gone
        [(end,)] = connection.rows("SELECT pg_current_wal_lsn()-'0/0'")
        for child in children:
            child.communicate("end\n")
    waits = sorted(wait for out in outs for wait in out["waits"])
    count, wall = len(waits), max(out["wall"] for out in outs)
    rate, ours = count / wall, sum(out["cpu"] for out in outs)
    return (
        f"{rate:10,.0f} {rate * parts * events:10,.0f} |"
        f" {statistics.median(waits) * 1e3:7.2f} {waits[int(count * 0.99)] * 1e3:6.1f} |"
        f" {used / count * 1e6:18,.0f} {ours / count * 1e6:12,.0f} |"
        f" {float(end - wal) / (count * parts * events):14,.0f}"
    )


def write(url: str, parts: int, events: int, seconds: float) -> None:
    """One writer, which begins when it is told to."""
    from agentrt._cluster.postgres.backend import PostgresBackend
    from agentrt._cluster.postgres.leases import PostgresLeases
    from agentrt._cluster.server import parse as server_of
    from agentrt._core.model.events import TextDelta
    from agentrt._core.store.base import Flush, FlushPart, SessionDescription
    from agentrt._core.store.shared import StoreProcess

    server = server_of(url)
    backend, leases = PostgresBackend(server, "bench"), PostgresLeases(server)
    backend.open()
    name = f"writer-{os.getpid()}"
    num = leases.join(StoreProcess(name=name, host="bench", pid=os.getpid(), home="bench"), 600)
    backend.lease = lambda: num
    about = SessionDescription(agent="bench", protocol="acp", cwd="/")
    places = [backend.create(f"{name}-{number}", "e", about) for number in range(parts)]
    content: list[Any] = [TextDelta("i1", TEXT)] * events
    say("ready")
    sys.stdin.readline()
    first, waits = 1, []
    start, used = time.perf_counter(), time.process_time()
    while (now := time.perf_counter()) < start + seconds:
        backend.commit(Flush([FlushPart(place, first, content) for place in places]))
        waits.append(time.perf_counter() - now)
        first += events
    wall, cpu = time.perf_counter() - start, time.process_time() - used
    say(json.dumps({"waits": waits, "wall": wall, "cpu": cpu}))
    sys.stdin.readline()
    backend.close()
    leases.close()


def say(text: str) -> None:
    print(text, flush=True)


def server_cpu(backend: int) -> float:
    """Seconds that a server's processes have used, with those that were ended; by one of them."""
    postmaster = stat(backend)[1]
    total = 0.0
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                fields = stat(int(entry.name))
                if fields[1] == postmaster:
                    total += (fields[11] + fields[12]) / TICK
    own = stat(postmaster)
    return total + sum(own[11:15]) / TICK


def stat(pid: int) -> list[int]:
    """The numbers of a process's `stat`, from its state (as 0) on: its parent is the next one."""
    return [0, *map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1:])]


# --- sessions


def many(url: str, count: int) -> None:
    """Rows of sessions that rest, and of one turn of each."""
    from agentrt._cluster.postgres.backend import PostgresBackend
    from agentrt._cluster.postgres.reader import PostgresReader
    from agentrt._cluster.server import parse as server_of
    from agentrt._core.store.base import SessionDescription, SessionQuery, encode

    with schema(url) as place, connected(place) as connection:
        connection.patience = 3600.0
        connection.rows("SELECT set_config('statement_timeout', '0', false)")
        about = encode(SessionDescription(agent="bench", protocol="acp", cwd="/project"))
        start = time.perf_counter()
        connection.rows(
            "INSERT INTO session(id, epoch, generation, owner, next, agent, cwd, prompt, phase,"
            " turns, created, updated, about, head, head_seq, home)"
            " SELECT md5(n::text), 'e', 0, 1, 108, 'bench', '/project', 'what it was asked',"
            " 'closed', 1, now(), now()-n*interval '1 second', %s, %s, 107, 'bench'"
            " FROM generate_series(1, %s) n",
            (about, os.urandom(600), count),
        )
        connection.rows("VACUUM ANALYZE session")
        made = time.perf_counter() - start
        [(size,)] = connection.rows("SELECT pg_total_relation_size('session')")
        print(f"\n{count:,} sessions: {size / count:,.0f} B each, made in {made:.0f} s")
        reader = PostgresReader(server_of(place))
        backend = PostgresBackend(server_of(place))
        backend.open()
        ids = [
            row[0]
            for row in connection.rows("SELECT id FROM session TABLESAMPLE system(1) LIMIT 200")
        ]
        oldest = reader.sessions(SessionQuery(limit=50))[-1]
        works = {
            "the latest 200": lambda _: reader.sessions(SessionQuery(limit=200)),
            "the 50 behind some": lambda _: reader.sessions(
                SessionQuery(limit=50, before=(oldest.updated, oldest.session))
            ),
            "a claim": backend.claim,
        }
        for name, work in works.items():
            waits = []
            for id in ids:
                start = time.perf_counter()
                work(id)
                waits.append(time.perf_counter() - start)
            print(f"  {name}: {statistics.median(waits) * 1e3:.2f} ms (of {len(waits)})")
        backend.close()
        reader.close()


if __name__ == "__main__":
    main()
