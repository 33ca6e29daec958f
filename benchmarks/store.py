"""What it costs to keep sessions in a store: the same work with one and without.

    python benchmarks/store.py [--rounds 5] [--quick] [--works turns,flood] [--folder FOLDER]
                               [--agentrt PYTHON ...] [--postgres URL]

Rounds are interleaved, and each measurement is a process of its own; ratios are taken inside a
round, and their medians shown. CPU is that of the process, with the store's thread. `--agentrt`
adds builds to compare with, by a Python or a folder with the package: they do the same work without
a store and, if they know of any, with one. `--folder` says where the store's files are, which
decides what a flush costs; by default they are beside the scripted agent. `--postgres` does the
works of `IN_POSTGRES` once more with a store there, each in a schema of its own, which is dropped
behind it; the server's CPU is not measured. The exit code is 1 when a target was missed (by the
file: PostgreSQL has none).
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import lab

HERE = Path(__file__).parent

Out = dict[str, float]


class Target(NamedTuple):
    """`figure` of a work; `ratio`: with the store by without, else as it is with the store."""

    title: str
    work: str
    figure: str
    bound: float
    ratio: bool = True


TARGETS = (
    Target("trivial turn, without a pause before it, CPU", "turns", "cpu", 5),
    Target("trivial turn, with a pause of 20 ms before it, CPU", "rested", "cpu", 3),
    Target("flood of updates, CPU", "flood", "cpu", 1.5),
    Target("500 sessions, 2,000 updates a second together, CPU", "many", "cpu", 1.6),
    Target("the same, from logged to shown, median in ms", "many", "shown", 2, ratio=False),
    Target("loop's delay while the store is stalled, p99", "stalled", "late", 1.2),
    Target("cancel while it is stalled, at the agent after ms", "cancel", "heard", 20, ratio=False),
    Target("rejection, the same", "reject", "heard", 20, ratio=False),
    Target("record of a turn by its events, bytes", "bytes", "record", 0.25, ratio=False),
)

WORKS = tuple(dict.fromkeys(target.work for target in TARGETS))

IN_POSTGRES = ("turns", "rested", "flood", "many")

SIZES: dict[str, dict[str, Any]] = {
    "turns": {"n": 1000},
    "rested": {"n": 300},
    "flood": {"n": 100_000},
    "many": {"sessions": 500, "n": 40, "rate": 4},
    "stalled": {"sessions": 50, "n": 40, "rate": 10},
    "cancel": {"reps": 5},
    "reject": {"reps": 5},
    "bytes": {"n": 200},
}

QUICK: dict[str, dict[str, Any]] = {
    "turns": {"n": 500},
    "rested": {"n": 100},
    "flood": {"n": 20_000},
    "many": {"sessions": 100, "n": 20, "rate": 4},
    "stalled": {"sessions": 20, "n": 20, "rate": 10},
    "cancel": {"reps": 2},
    "reject": {"reps": 2},
    "bytes": {"n": 50},
}

# --- what is measured, in a process of its own


class Child:
    """One work. `store`: whether sessions are kept in one; `url`: where, if in no file."""

    def __init__(self, *, agent: str, store: bool, folder: str, url: str | None) -> None:
        import agentrt

        self.program = agentrt.Agent(name="fake", protocol="acp", command=(f"{agent}/fake-acp",))
        self.store = store
        self.folder = Path(folder)
        self.url = url
        """Of PostgreSQL, if the store is there."""
        self.out: Out = {}
        self.flows = threading.Event()
        """Cleared while the store's disk does not answer."""
        self.flows.set()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Any]:
        """The store, or None; its commits wait while `flows` is not set."""
        if not self.store:
            yield None
            return
        import agentrt

        if self.url is not None:
            async with agentrt.store.open_store(self.url) as store:
                yield store
            return
        from agentrt._core.store.sqlite import SqliteBackend

        commit: Callable[..., None] = SqliteBackend.commit

        def slow(backend: SqliteBackend, flush: Any) -> None:
            self.flows.wait()
            commit(backend, flush)

        SqliteBackend.commit = slow  # type: ignore[method-assign,assignment]  # a disk that stalls
        async with agentrt.store.open_store(self.folder / "store.db") as store:
            try:
                yield store
            finally:
                self.flows.set()

    @asynccontextmanager
    async def session(self, store: Any, **options: Any) -> AsyncIterator[Any]:
        import agentrt

        if store is not None:
            options["store"] = store
        async with agentrt.open_session(self.program, cwd="/", **options) as session:
            yield session

    @contextlib.contextmanager
    def measured(self, count: int) -> Iterator[None]:
        """CPU of the block, in microseconds for each of `count`."""
        gc.collect()  # what opening the sessions has left: in one run it would fall into the block
        start, begin = time.process_time(), time.perf_counter()
        yield
        self.out["cpu"] = (time.process_time() - start) / count * 1e6
        self.out["wall"] = (time.perf_counter() - begin) / count * 1e6

    async def turns(self, n: int) -> None:
        async with self.opened() as store, self.session(store) as session:
            for _ in range(100):
                await session.run("BENCH turn")
            with self.measured(n):
                for _ in range(n):
                    await session.run("BENCH turn")

    async def rested(self, n: int) -> None:
        """Whoever waits for a disk comes back to a colder machine: with a rest that is so for the
        turns without a store, too."""
        import trio

        used = 0.0
        async with self.opened() as store, self.session(store) as session:
            for turn in range(20 + n):
                await trio.sleep(0.02)
                start = time.process_time()
                await session.run("BENCH turn")
                if turn >= 20:
                    used += time.process_time() - start
        self.out["cpu"] = used / n * 1e6

    async def flood(self, n: int) -> None:
        async with self.opened() as store, self.session(store) as session:
            await session.run("BENCH turn")
            begun = time.process_time()
            with self.measured(n):
                async with session.prompt(f"BENCH flood {n} 250") as turn:
                    async for _ in turn:
                        pass
            self.out["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        # With what a store puts off until nobody waits: records of much text, and the index.
        self.out["closed"] = (time.process_time() - begun) / n * 1e6

    async def many(self, sessions: int, n: int, rate: int) -> None:
        async with self.opened() as store:
            waits = await self._trickle(store, sessions, n, rate)
        if waits:
            self.out["shown"] = statistics.median(waits) * 1e3
            self.out["shown_p99"] = statistics.quantiles(waits, n=100)[98] * 1e3

    async def stalled(self, sessions: int, n: int, rate: int) -> None:
        """The same, while the store does not answer; how late a task is that sleeps a little."""
        import trio

        late: list[float] = []
        ready = trio.Event()

        async def look() -> None:
            await ready.wait()
            await trio.sleep(0.5)
            self.flows.clear()
            end = trio.current_time() + 0.8 * n / rate
            while (now := trio.current_time()) < end:
                await trio.sleep(0.005)
                late.append(trio.current_time() - now - 0.005)
            self.flows.set()

        async with self.opened() as store, trio.open_nursery() as nursery:
            nursery.start_soon(look)
            await self._trickle(store, sessions, n, rate, ready)
        self.out["late"] = statistics.quantiles(late, n=100)[98] * 1e3

    async def _trickle(
        self, store: Any, sessions: int, n: int, rate: int, ready: Any = None
    ) -> list[float]:
        """Sessions that all stream at once; how long each batch took to be shown."""
        import trio

        begin = trio.Event() if ready is None else ready
        opening = trio.Semaphore(8)
        opened, over = 0, trio.Event()
        waits: list[float] = []

        async def one(number: int) -> None:
            nonlocal opened
            await opening.acquire()
            async with self.session(store) as session:
                opening.release()
                if store is not None:
                    watch(session._host.log, waits)
                opened += 1
                if opened == sessions:
                    begin.set()
                await begin.wait()
                await trio.sleep(number / sessions / rate)
                async with session.prompt(f"BENCH trickle {n} {1_000_000 // rate}") as turn:
                    async for _ in turn:
                        pass
                opened -= 1
                if not opened:
                    over.set()
                await over.wait()  # what it costs to end them all is no part of it

        async with trio.open_nursery() as nursery:
            for number in range(sessions):
                nursery.start_soon(one, number)
            await begin.wait()
            with self.measured(sessions * n):
                await over.wait()
        return waits

    async def cancel(self, reps: int) -> None:
        import trio

        heard = []
        async with self.opened() as store:
            for number in range(reps):
                file = self.folder / f"cancel-{number}"
                async with (
                    self.session(store) as session,
                    session.prompt(f"BENCH trickle 100000 2000 {file}") as turn,
                ):
                    await trio.sleep(0.2)
                    self.flows.clear()
                    await trio.sleep(0.1)
                    start = time.monotonic_ns()
                    turn.cancel()
                    saw = json.loads(await written(file))
                    heard.append((saw["saw_cancel_ns"] - start) / 1e6)
                    self.flows.set()
        self.out["heard"] = max(heard)

    async def reject(self, reps: int) -> None:
        """From the question to its rejection, as the agent sees it."""

        import agentrt

        def refuse(request: Any) -> agentrt.Deny:
            self.flows.clear()
            return agentrt.Deny()

        heard = []
        async with self.opened() as store:
            for number in range(reps):
                file = self.folder / f"reject-{number}"
                async with (
                    self.session(store, permissions=refuse) as session,
                    session.prompt(f"BENCH ask 1 {file}"),
                ):
                    heard.append(json.loads(await written(file))["max_ns"] / 1e6)
                    self.flows.set()
        self.out["heard"] = max(heard)

    async def bytes(self, n: int) -> None:
        """Turns of 107 events, with words of the docs."""
        from agentrt import Limits
        from agentrt._core.model.checkpoint import Checkpoints
        from agentrt._core.model.log import Log
        from agentrt._core.model.state import SessionState
        from agentrt._core.store.base import encode_events, encode_record

        log = Log("s1", "e1", Limits(), SessionState())
        checkpoints = Checkpoints(log.state)
        events = records = 0
        for turn in turns_of(n):
            log.extend(turn, 1000)
            events += len(encode_events(turn))
            _, record = checkpoints.take(log.seq, {}, named=False)
            assert record is not None
            records += len(encode_record(record))
        self.out["record"] = records / events


def watch(log: Any, waits: list[float]) -> None:
    """Note how long each batch takes from the log to those who read it."""
    persister, shown, put = log.persister, log.shown, log.persister.put
    logged: list[tuple[int, float]] = []

    def noted(first: int, events: list[Any], size: int) -> None:
        logged.append((first, time.perf_counter()))
        put(first, events, size)

    def seen() -> None:
        now = time.perf_counter()
        while logged and logged[0][0] <= shown.seq:
            waits.append(now - logged.pop(0)[1])

    persister.put = noted
    shown.listen(seen)


async def written(file: Path) -> str:
    import trio

    with trio.fail_after(10):
        while True:
            with contextlib.suppress(FileNotFoundError):
                if text := file.read_text():
                    return text
            await trio.sleep(0.005)


def turns_of(count: int) -> Iterator[list[Any]]:
    """A prompt, thoughts, three tool calls with output, a question and an answer each."""
    from agentrt._core.model.content import Text, ToolText
    from agentrt._core.model.events import (
        Item,
        ItemClosed,
        ItemOpened,
        ItemUpdated,
        PermissionClosed,
        PermissionOpened,
        PermissionOption,
        TextDelta,
        ThoughtDelta,
        ToolCall,
        TurnEnded,
        TurnStarted,
        Usage,
        UsageChanged,
    )

    chance = random.Random(1)
    words = "\n".join(
        path.read_text() for path in sorted((HERE.parent / "docs").rglob("*.md"))
    ).split()
    code = (HERE / "harness.py").read_text()

    def text(size: int) -> str:
        said = ""
        while len(said) < size:
            said += chance.choice(words) + " "
        return said

    for number in range(count):
        turn, ids = f"t{number}", [f"i{6 * number + n}" for n in range(6)]
        prompt: list[Any] = [Text(text(120))]
        user = Item(id=ids[0], type="user", turn=turn, status="completed", content=tuple(prompt))
        events: list[Any] = [
            TurnStarted(turn, "user", prompt),
            ItemOpened(user),
            ItemOpened(Item(id=ids[1], type="thought", turn=turn)),
            *(ThoughtDelta(ids[1], text(18)) for _ in range(20)),
            ItemClosed(ids[1], "completed"),
        ]
        for call, id in enumerate(ids[2:5]):
            tool = ToolCall(
                call=f"toolu_{chance.getrandbits(80):x}",
                name="Bash",
                kind="execute",
                title=text(40),
                input={"command": text(60), "description": text(40)},
            )
            events.append(ItemOpened(Item(id=id, type="tool", turn=turn, tool=tool)))
            if call == 0:
                options = [
                    PermissionOption("a", "Allow", "allow_once"),
                    PermissionOption("b", "Always", "allow_always"),
                    PermissionOption("c", "Reject", "reject_once"),
                ]
                asked = f"r{number}"
                events += (
                    PermissionOpened(request=asked, title=text(30), item=id, options=options),
                    PermissionClosed(request=asked, outcome="selected", option="a", by="user"),
                )
            place = chance.randrange(len(code) - 1600)
            output = [ToolText(Text(code[place : place + 1500]))]
            events += (
                ItemUpdated(id, {"status": "running"}),
                ItemUpdated(id, {"tool": {"content": output}}),
                ItemClosed(id, "completed"),
            )
        used = Usage(input_tokens=999, output_tokens=1234)
        events += (
            ItemOpened(Item(id=ids[5], type="text", turn=turn)),
            *(TextDelta(ids[5], text(18)) for _ in range(60)),
            ItemClosed(ids[5], "completed"),
            UsageChanged(used),
            TurnEnded(turn=turn, outcome="completed", stop_reason="end_turn", usage=used),
        )
        yield events


def child(told: str) -> None:
    """Do one work, and print what it cost."""
    import trio

    spec = json.loads(told)
    one = Child(agent=spec["agent"], store=spec["store"], folder=spec["folder"], url=spec["url"])
    work = getattr(one, spec["work"])

    async def run() -> None:
        await work(**spec["size"])

    trio.run(run)
    print(json.dumps(one.out))


# --- who measures


class Build(NamedTuple):
    name: str
    python: str
    path: str | None

    def environment(self) -> dict[str, str]:
        return {**os.environ, **({"PYTHONPATH": self.path} if self.path is not None else {})}

    def stores(self) -> bool:
        """Whether it has stores at all."""
        asked = subprocess.run(
            [self.python, "-c", "import agentrt; agentrt.store.open_store"],
            env=self.environment(),
            capture_output=True,
        )
        return not asked.returncode


_SERVER = "this one in PostgreSQL"


def build(where: str) -> Build:
    """`where`: a Python that has agentrt, or a folder that has the package."""
    if Path(where).is_dir():
        return Build(where, sys.executable, where)
    return Build(where, where, None)


@contextlib.contextmanager
def schema_of(url: str | None) -> Iterator[str | None]:
    """A schema of a server for one work."""
    if url is None:
        yield None
        return
    import psycopg

    name = f"bench_{os.getpid()}"
    try:
        yield f"{url}{'&' if '?' in url else '?'}schema={name}"
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())


def measure(
    each: Build,
    work: str,
    *,
    store: bool,
    size: dict[str, Any],
    agent: Path,
    place: str | None,
    url: str | None = None,
) -> Out:
    with (
        tempfile.TemporaryDirectory(prefix="store-", dir=place or agent) as folder,
        schema_of(url) as kept,
    ):
        told = {"agent": str(agent), "store": store, "folder": folder, "work": work, "size": size}
        told["url"] = kept
        ran = subprocess.run(
            [each.python, __file__, "--child", json.dumps(told)],
            env=each.environment(),
            capture_output=True,
            text=True,
            timeout=120,
        )
    if ran.returncode:
        sys.exit(f"{work} of {each.name}: {ran.stderr.strip()[-2000:]}")
    out: Out = json.loads(ran.stdout.splitlines()[-1])
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, help="default: 5, quick: 2")
    parser.add_argument("--quick", action="store_true", help="smaller works, fewer rounds")
    parser.add_argument("--works", default=",".join(WORKS))
    parser.add_argument("--folder", help="where the store's files are")
    parser.add_argument("--agentrt", action="append", default=[], help="a build to compare with")
    parser.add_argument("--postgres", metavar="URL", help="a server to measure, too")
    parser.add_argument("--rows", help=lab.ROWS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        child(asked.child)
        return 0
    works = asked.works.split(",")
    if unknown := [work for work in works if work not in WORKS]:
        parser.error(f"there is no work {', '.join(unknown)}: {', '.join(WORKS)}")
    if "schema=" in (asked.postgres or ""):
        parser.error("each work has a schema of its own: leave `schema=` out of the URL")
    agent = lab.build_agent()
    here = Build("this one", sys.executable, None)
    builds = [here, *map(build, asked.agentrt)]
    variants = [(each, store) for each in builds for store in (False, True)]
    variants = [(each, store) for each, store in variants if not store or each.stores()]
    server = Build(_SERVER, sys.executable, None)
    sizes = QUICK if asked.quick else SIZES
    missed = False
    for work in works:
        targets = [target for target in TARGETS if target.work == work]
        alone = not any(target.ratio for target in targets)  # nothing to compare with
        measured = [*variants]
        if asked.postgres is not None and work in IN_POSTGRES:
            measured.append((server, True))
        rounds: list[dict[tuple[str, bool], Out]] = []
        for _ in range(asked.rounds or (2 if asked.quick else 5)):
            rounds.append({})
            for each, store in measured:
                if store or not alone:
                    rounds[-1][each.name, store] = measure(
                        each,
                        work,
                        store=store,
                        size=sizes[work],
                        agent=agent,
                        place=asked.folder,
                        url=asked.postgres if each is server else None,
                    )
        print(f"\n{work} {sizes[work]}")
        for each, store in measured:
            outs = [one[each.name, store] for one in rounds if (each.name, store) in one]
            for figure in outs[0] if outs else ():
                values = [out[figure] for out in outs]
                by = [
                    one[each.name, store][figure] / other[figure]
                    for one in rounds
                    if (other := one.get((here.name, False))) is not None and figure in other
                ]
                ratio = f"  ×{statistics.median(by):.2f}" if by else ""
                name = f"{each.name}, {'stored' if store else 'not stored'}"
                print(f"  {name:40} {figure:10} {statistics.median(values):10.2f}{ratio}")
        for target in targets:
            values = [
                one[here.name, True][target.figure]
                / (one[here.name, False][target.figure] if target.ratio else 1)
                for one in rounds
            ]
            good = statistics.median(values) <= target.bound
            missed = missed or not good
            spread = f"{min(values):.2f} to {max(values):.2f}"
            print(
                f"{'PASS' if good else 'FAIL'}  {target.title}:"
                f" {'× ' if target.ratio else ''}{statistics.median(values):.2f} ({spread}),"
                f" at most {target.bound:g}"
            )
            than = ", times that without a store" if target.ratio else ""
            lab.keep(asked.rows, "store", f"{target.title}{than}", values, target.bound)
    return missed


if __name__ == "__main__":
    sys.exit(main())
