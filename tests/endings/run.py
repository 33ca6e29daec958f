"""Servers that end at random with acknowledged prompts in their queues; what is there afterwards.

    python -m endings --rounds 150 --store sqlite --seed 1
    python -m endings --rounds 150 --store postgres --seed 1

Each round opens some sessions, sends each of them one to five prompts, and ends the server. In
some sessions a turn runs that does not end, in others the prompts run one after the other; in some
the agent has been killed and is just being started again, before its first prompt or after it; some
were stopped. The next server, or the other one of a rolling restart, must have each acknowledged
prompt, once and in order.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import trio
from msgspec import Struct, field

from web.killable import SeenView, Tab
from web.wire_client import Wire

from .judge import Session, Verdict, judge
from .server import Server

WAYS: Final = ("SIGTERM", "SIGINT", "SIGKILL")
SHARED_WAYS: Final = (*WAYS, "drain", "rolling")
KINDS: Final = ("held", "stopped", "flowing", "restarting", "first")
SILENCE: Final = 10.0
"""Seconds without an expected event until a client attaches to the session again."""
PATIENCE: Final = 180.0
"""Seconds for one round."""


class Plan(Struct, kw_only=True):
    """`store`: the path of a file, or a URL. `sessions`: of each round."""

    store: str
    rounds: int = 6
    seed: int = 1
    sessions: int = 3


class Outcome(Struct):
    """The result of all rounds."""

    verdict: Verdict = field(default_factory=Verdict)
    counts: Counter[str] = field(default_factory=Counter)


class Leave(EOFError):
    """The server ends this connection."""


class EndingWire(Wire):
    """A connection that a server may end in order."""

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "closing":
            raise Leave(message["reason"])
        if message["type"] != "beat":  # it may be of a moment before a session was followed again
            super()._take(message)


class Client(Tab):
    """A client that may go to another server."""

    def __init__(self, name: str, port: int) -> None:
        super().__init__(name, port)
        self._scope = trio.CancelScope()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            with trio.CancelScope() as self._scope:
                await super().run()
            self._out = None

    def make_wire(self) -> Wire:
        return EndingWire(self.client, self)

    def move(self, port: int) -> None:
        """Connect to another server."""
        if port != self.port:
            self.port = port
            self._out = None
            self._scope.cancel(reason="another server")

    async def ask(self, type: str, **fields: Any) -> dict[str, Any]:
        """Have a command carried out; again, under its id, while the server cannot."""
        id = None
        answers: list[dict[str, Any]] = []
        while True:
            await self.until(lambda: self._out is not None)
            id = self.wire.send(type, again=id, **fields)
            while id not in self.client.acks:
                await self._changed.wait()
            answer = self.client.acks[id]
            answers.append(answer)
            if answer["ok"] or answer["error"]["code"] != "unavailable":
                break
            await trio.sleep(0.2)
        assert answer["ok"], answers
        return answer

    def put(self, type: str, **fields: Any) -> str:
        """Send a command without waiting for its answer; returns its id."""
        return self.wire.send(type, **fields)

    async def put_connected(self, type: str, **fields: Any) -> str:
        """The same when there is a connection."""
        await self.until(lambda: self._out is not None)
        return self.put(type, **fields)


class Endings:
    """Servers and one client for all rounds."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.chance = random.Random(plan.seed)
        self.outcome = Outcome()
        shared = plan.store.startswith("postgresql:")
        names = ("a", "b") if shared else ("a",)
        self.servers = [Server(name, folder, plan.store) for name in names]
        self.client = Client("client", self.servers[0].port)
        self._number = 0

    async def run(self) -> Outcome:
        """Do all rounds."""
        async with trio.open_nursery() as nursery:
            try:
                for server in self.servers:
                    await server.start()
                await nursery.start(self.client.run)
                for number in range(self.plan.rounds):
                    with trio.fail_after(PATIENCE):
                        await self.round()
                    if number % 10 == 9:
                        print(f"{number + 1} rounds: {self.outcome}", flush=True)
            finally:
                with trio.CancelScope(shield=True):
                    for server in self.servers:
                        await server.kill()
            nursery.cancel_scope.cancel(reason="all rounds are done")
        return self.outcome

    async def round(self) -> None:
        """Open sessions, have prompts wait in them, end the server and look."""
        chance, counts = self.chance, self.outcome.counts
        ending = chance.choice(self.servers)
        how = chance.choice(SHARED_WAYS if ending.is_shared else WAYS)
        if how == "SIGINT" and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            how = "SIGTERM"  # a shell has started this in the background, and the server heeds that
        self.client.move(ending.port)
        sessions = [await self.open(chance.choice(KINDS)) for _ in range(self.plan.sessions)]
        ids = {id: (session, await self.send(session, id)) for session, id in sessions}
        if chance.random() < 0.7:
            await self.until_answered(command for _, sent in ids.values() for command in sent)
        await trio.sleep(chance.choice((0.0, 0.0, 0.05, 0.3)))
        others = [server for server in self.servers if server is not ending]
        counts[how] += 1
        if how == "rolling":
            self.client.move(others[0].port)
            await ending.end("SIGTERM")
        else:
            await ending.end(how)
        for session, sent in ids.values():
            self.acknowledge(session, sent)
            counts["prompts acknowledged"] += len(session.acknowledged)
        if how != "rolling":
            await ending.start()
            self.client.move(chance.choice(self.servers).port)
        there = [id for id, (session, sent) in ids.items() if await self.look(session, id, sent)]
        if how == "rolling":
            await ending.start()
        received = ending.record.read_text().split()
        for session, _ in ids.values():
            session.received = [text for text in received if text in session.sent]
            counts["prompts that waited"] += len(session.queue)
            self.outcome.verdict.add(judge(session))
        for id in ids:
            if id in there:
                await self.client.ask("session", op="delete", session=id)
            self.client.client.views.pop(id)

    # --- before the end

    async def open(self, kind: str) -> tuple[Session, str]:
        """A session in which further prompts will wait."""
        client, counts = self.client, self.outcome.counts
        counts[f"sessions: {kind}"] += 1
        answer = await client.ask("session", op="new", agent="recording")
        id = answer["session"]
        client.watch(id)
        view = client.view(id)
        await client.until(lambda: view.epoch is not None)
        session = Session(f"{kind}-{id[:4]}")
        if kind in ("held", "stopped"):
            self.name(session, "hold")
            await client.ask("prompt", session=id, content=content(f"{session.sent[0]} hold"))
        elif kind == "restarting":
            self.name(session, "before")
            await client.ask("prompt", session=id, content=content(session.sent[0]))
            await client.until(lambda: len(view.shown["turns"]) == 1 and not view.busy)
        if kind in ("restarting", "first"):
            os.kill(view.shown["state"]["agent"]["pid"], signal.SIGKILL)
            await client.until(lambda: view.phase == "dead")
        session.acknowledged = list(session.sent)
        return session, id

    async def send(self, session: Session, id: str) -> dict[str, str]:
        """Send one to five prompts; returns them by their commands. A Stop follows when they are
        acknowledged: servers let it overtake prompts, which would count as new ones then."""
        sent = {}
        for _ in range(self.chance.randint(1, 5)):
            text = self.name(session, "p")
            words = f"{text} work" if "flowing" in session.name else text
            sent[self.client.put("prompt", session=id, content=content(words))] = text
        if "stopped" in session.name:
            await self.until_answered(sent)
            self.client.put("cancel", session=id)
        return sent

    def name(self, session: Session, kind: str) -> str:
        """A word that no other prompt has."""
        self._number += 1
        session.sent.append(text := f"{kind}{self._number}")
        return text

    async def until_answered(self, commands: Iterable[str]) -> None:
        acks, wanted = self.client.client.acks, list(commands)
        await self.client.until(lambda: all(each in acks for each in wanted))

    def acknowledge(self, session: Session, sent: dict[str, str]) -> None:
        """Note what the server has acknowledged until now."""
        acks = self.client.client.acks
        session.acknowledged += [text for id, text in sent.items() if id in acks and acks[id]["ok"]]

    # --- after the end

    async def look(self, session: Session, id: str, sent: dict[str, str]) -> bool:
        """See what the next server has, and have it run. False: it does not know the session."""
        client, view = self.client, self.client.view(id)
        if not await self.is_there(id):
            return False
        await self.until_answered(sent)  # what had no answer was sent again
        await client.until(lambda: not view.busy and rests(view))
        session.turns = [
            words(item["content"])
            for item in view.shown["items"].values()
            if item["type"] == "user"
        ]
        session.queue = [words(entry["content"]) for entry in view.shown["queue"]]
        session.paused = all(entry.get("paused") for entry in view.shown["queue"])
        if session.queue:
            await client.ask("queue", session=id, op="resume")
        await client.until(lambda: not view.shown["queue"] and not view.busy)
        return True

    async def is_there(self, id: str) -> bool:
        """Open the session at the next server, and wait until all of it is shown; false if that
        server does not know it."""
        view = self.client.view(id)
        self._number += 1
        title = f"title {self._number}"
        while True:
            command = await self.client.put_connected(
                "session", op="rename", session=id, title=title
            )
            await self.until_answered([command])
            answer = self.client.client.acks[command]
            if answer["ok"]:
                break
            if answer["error"]["code"] == "unknown_session":
                return False
            await trio.sleep(0.1)  # the server that had it is still waited for
        while True:  # the server that shows it may lose its lease, and the view its session
            with trio.move_on_after(SILENCE):
                await self.client.until(
                    lambda: view.epoch is not None and view.shown["title"] == title
                )
                return True
            self.outcome.counts["attached again"] += 1
            await self.client.put_connected("attach", session=id)


def rests(view: SeenView) -> bool:
    """True if nothing is about to be sent."""
    return all(entry.get("paused") for entry in view.shown["queue"])


def words(content: list[dict[str, str]]) -> str:
    """The word by which a prompt is known."""
    return content[0]["text"].split()[0]


def content(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


async def run(plan: Plan, folder: Path) -> Outcome:
    """Do all rounds of a plan, in a folder."""
    return await Endings(plan, folder).run()
