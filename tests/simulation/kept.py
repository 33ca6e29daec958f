"""A store that takes time, fails, and is in doubt, as the seed says; and what must hold of it.

Its file and its SQLite are real. Its thread is not: what that would do is done here, in simulated
time. J1 to J8 are the names of what it promises.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import trio

from agentrt import Limits
from agentrt import events as e
from agentrt._core.process.pipes import READ_BYTES
from agentrt._core.store import schema
from agentrt._core.store.persister import LogPersister, Persist
from agentrt._core.store.writer import Batch, WriterJob, gathered
from agentrt.lowlevel import Flush, Log, SessionState
from inside.model import Conversation
from journal.stepped import SteppedStore

from .agent import AGENTRT, TOKEN
from .fold import Fold, as_json

if TYPE_CHECKING:
    from .world import World

MOODS = ("prompt", "prompt", "slow", "failing", "in doubt", "stalled")
"""How a store does for a while."""


class Tap:
    """Gives the events when they happen, and not when they are shown."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.seq = 0

    def pop(self) -> Any:
        if self.seq == len(self.events):
            return None
        self.seq += 1
        return self.events[self.seq - 1]


class SimulatedStore(SteppedStore):
    """Writes in simulated time. `stored` is the number of the last event that is on the disk."""

    def __init__(self, world: World, path: Path, rng: Random) -> None:
        super().__init__(path, world.limits)
        self.world = world
        self.rng = rng
        self.tap = Tap()
        self.stored = 0
        self.sent_at = 0.0
        """When something that had waited for the disk was sent to the agent, or it was read on."""
        self.lost = False
        """Whether it has ever failed for longer than anybody waits."""
        self.mood = "prompt"
        self.engine: Log
        self.keeper: LogPersister | None = None
        self.session = ""
        self.in_doubt: Flush | None = None
        """What is being written now: nobody knows whether it is on the disk."""
        self._given = trio.Event()

    @asynccontextmanager
    async def keeping(self, *args: Any) -> AsyncIterator[Persist]:
        async with super().keeping(*args) as persist:

            def watched(session: Any, about: Any) -> LogPersister:
                keeper = persist(session, about)
                self._watch_log(keeper)
                return keeper

            yield watched

    def _watch_log(self, keeper: LogPersister) -> None:
        self.keeper, self.engine, put = keeper, keeper._log, keeper.put
        self.session = self.engine.session
        self.world.checker.log, before = self.engine, self.world.checker.log
        if before is not None and before.epoch != self.engine.epoch:
            self.world.fail("W4", "another epoch, and nothing was lost that anybody saw")
        last = self.engine.shown.seq

        def shown() -> None:
            seq = keeper._log.shown.seq
            if seq > max(self.stored, last):
                self.world.fail("J1", f"event {seq} is shown, and {self.stored} is stored")

        def tapped(first: int, events: list[Any], size: int) -> None:
            self.tap.events += events
            self.world.checker.catch_up()
            put(first, events, size)

        keeper.put = tapped  # type: ignore[method-assign]
        self.engine.shown.listen(shown)

    @property
    def withholds(self) -> bool:
        """Whether something for the agent waits for the disk."""
        world = self.world
        return hasattr(world, "session") and bool(world.session._host.core._unsent)

    @property
    def unread(self) -> bool:
        """Whether the agent is not read on."""
        return self.keeper is not None and self.keeper.unread

    def well(self) -> None:
        self.lost = self.lost or self.waited
        super().well()

    # --- the thread

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
                    item.done(item.job(self.backend), None)
                else:
                    await self._commit(self._gathered(item))

    def _gathered(self, batch: Batch) -> list[Batch]:
        batches = [batch]
        while self._waiting and isinstance(self._waiting[0], Batch) and self.rng.random() < 0.8:
            item = self._waiting.popleft()
            assert isinstance(item, Batch)
            batches.append(item)
        return batches

    async def _commit(self, batches: list[Batch]) -> None:
        flush, rng = gathered(batches), self.rng
        self.in_doubt = flush
        if self.world.over:
            self.mood = "prompt"  # the session's end is not what is waited for any more
        elif rng.random() < 0.1:
            self.mood = rng.choice(MOODS)
            self.world.note("store", self.mood)
        match self.mood:
            case "slow":
                await trio.sleep(rng.choice((0.001, 0.05, 0.5)))
            case "stalled":
                await trio.sleep(rng.choice((1.0, 4.0)))
            case "failing" | "in doubt":
                for _ in range(rng.randint(1, 3)):
                    if self.mood == "in doubt" and rng.random() < 0.5:
                        self.write_now(flush)  # and nobody is told
                    self.failing(OSError("not now"), final=False)
                    await trio.sleep(rng.choice((0.1, 0.4, 1.0)))
            case _:
                await trio.lowlevel.checkpoint()
        self.write_now(flush)
        self.in_doubt = None
        if self.trouble is not None:
            self.well()
        self.world.note("stored", str(self.stored))
        if self.withholds or self.unread:
            self.sent_at = trio.current_time()
        for source, last in {b.source: b.first + len(b.events) - 1 for b in batches}.items():
            source.committed(last)

    def write_now(self, flush: Flush) -> None:
        self.backend.commit(flush)
        self.look()

    def look(self) -> None:
        """See what is on the disk."""
        [[following]] = self._database._execute(f"SELECT {schema.NEXT} FROM session")
        self.stored = following - 1


class Book:
    """Which event says what reaches the agent."""

    def __init__(self) -> None:
        self.prompts: dict[str, int] = {}
        """The events that show the prompts, by their tokens."""
        self.allows: dict[str, int] = {}
        """Those that show that something is allowed, by its tag."""
        self.named: list[int] = []
        """Those in which a person gave the title."""
        self.accepted: dict[str, int] = {}
        """Those that first show a prompt, in the queue or in its turn, by its token."""
        self.began = math.inf
        """The one with which the first turn began."""


def saw(world: World, event: Any) -> None:
    """An event has happened."""
    book, seq = world.book_of_store, world.checker.seq
    content: Any = ()
    turn = ""
    if isinstance(event, e.TurnStarted):
        content, turn = event.prompt or (), event.turn
        book.began = min(book.began, seq)
    elif isinstance(event, e.ItemOpened) and event.item.type == "user":
        content, turn = event.item.content, event.item.turn or ""
    elif isinstance(event, e.QueueChanged):
        for token in world.checker.tokens_in(event):
            book.accepted.setdefault(token, seq)
    elif isinstance(event, e.TitleChanged) and re.fullmatch(r"named \d", event.title or ""):
        book.named.append(seq)
    text = "".join(getattr(block, "text", "") for block in content)
    tokens = [found[1] for found in TOKEN.finditer(text)]
    if text.startswith(AGENTRT):
        tokens = [world.book.token_of_own_words(turn, text)]
    for token in tokens:
        book.prompts.setdefault(token, seq)
        book.accepted.setdefault(token, seq)
    if isinstance(event, e.PermissionClosed):
        question = world.checker.questions.get(event.request)
        if question is not None and question.tag is not None and event.outcome == "selected":
            book.allows.setdefault(question.tag, seq)


def after_a_restart(events: list[Any], agent: e.AgentState, limits: Limits) -> Log:
    """Return the log of the host that comes after one with these events."""
    log = Log("again", "e2", limits, SessionState(agent))
    conversation = Conversation(log, agent=agent, now=trio.current_time)
    conversation.restore(events)
    conversation.orphan()
    return log


def prompted(world: World, token: str) -> None:
    """J7: an agent has got a prompt."""
    _stored(world, world.book_of_store.prompts.get(token), f"the prompt {token}")


def allowed(world: World, tag: str) -> None:
    """J7: an agent has been allowed something."""
    _stored(world, world.book_of_store.allows.get(tag), f"what allows {tag}")


def _stored(world: World, seq: int | None, what: str) -> None:
    assert world.store is not None
    if seq is None or seq > world.store.stored:
        world.fail("J7", f"somebody has {what}, of event {seq}: {world.store.stored} is stored")


def acknowledged(world: World, token: str) -> None:
    """J1: a client was told that its prompt is taken."""
    _stored(world, world.book_of_store.accepted.get(token), f"the answer that {token} is taken")


def check(world: World) -> None:
    """When nothing moves: J2, and that what is stored is what was."""
    store = world.store
    assert store is not None
    turn = world.checker.turn
    if turn is not None and turn.wishes and turn.cancelling is None:
        world.fail("J2", f"{turn.id} is to stop by {turn.wishes}, and is not being cancelled")
    keeper = world.session._host.keeper
    if keeper is not None and keeper._bytes > world.limits.store_session_bytes + 2 * READ_BYTES:
        world.fail("J10", f"{keeper._bytes} bytes wait for being stored")
    stored = store._database.load(store.session)
    if stored is None:
        return
    book, events = world.book_of_store, world.checker.events
    last = stored.next - 1
    if last != store.stored:
        world.fail("J4", f"{store.stored} was stored, and {last} is read")
    if store.engine.shown.seq > last:
        world.fail("J1", f"event {store.engine.shown.seq} is shown, and {last} is stored")
    if stored.head.seq + len(stored.events) != last:
        behind = f"{len(stored.events)} events behind {stored.head.seq}"
        world.fail("J3", f"{behind} make {last}")
    for seq, event in store._database.events(store.session, 0) or ():
        if as_json(event) != as_json(events[seq - 1]):
            world.fail("J4", f"event {seq} is stored as {event}, and was {events[seq - 1]}")
            return
    fold = Fold()
    fold.advance(events[:last])
    difference = fold.differs(as_json(stored.snapshot(store.session)))
    if difference:
        world.fail("J6", f"what is stored at {last} has {difference}")
    named = any(seq <= last for seq in book.named)
    if stored.about.named != named and last:
        world.fail("J6", f"a person's title: {named}, is stored as {stored.about.named}")
    for token, prompt in world.book.prompts.items():
        if book.prompts.get(token, last + 1) > last:
            world.fail("J7", f"process {prompt.process} knows {token}, the store does not")
