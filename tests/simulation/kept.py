"""A store that takes time, fails, and is in doubt, as the seed says; and what must hold of it.

Its file and its SQLite are real. Its thread is not: what that would do is done here, in simulated
time. J1 to J8 are the names of what it promises.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from msgspec.structs import replace
from trio.testing import wait_all_tasks_blocked

from agentrt._journal import schema
from agentrt._journal.base import Flush
from agentrt._journal.keeper import StoreKeeper
from agentrt._journal.store import snapshot_of
from agentrt._journal.writer import Batch, Call, gathered
from agentrt._model import events as e
from agentrt._model.conversation import Conversation
from agentrt._model.log import Log
from agentrt._process.pipes import READ_SIZE
from agentrt._runtime.stored import Again
from journal.stepped import Puppet, SteppedStore
from journal.stepped import kept as kept_on_a_puppet

from .agent import TOKEN
from .checker import TERMINAL
from .fold import Fold

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
        self.keeper: StoreKeeper | None = None
        self.session = ""
        self._given = trio.Event()

    @asynccontextmanager
    async def keeping(self, *args: Any) -> AsyncIterator[StoreKeeper]:
        async with super().keeping(*args) as keeper:
            self.keeper, self.engine, put = keeper, keeper._log, keeper.put
            self.session = self.engine.session

            def tapped(first: int, events: list[Any], size: int) -> None:
                self.tap.events += events
                self.world.checker.catch_up()
                put(first, events, size)

            keeper.put = tapped  # type: ignore[method-assign]
            self.engine.shown.listen(self._shown)
            yield keeper

    def _shown(self) -> None:
        shown = self.engine.shown.seq
        if shown > self.stored:
            self.world.fail("J1", f"event {shown} is shown, and {self.stored} is stored")

    @property
    def withholds(self) -> bool:
        """Whether something for the agent waits for the disk."""
        world = self.world
        return hasattr(world, "session") and bool(world.session._host.core._withheld)

    @property
    def unread(self) -> bool:
        """Whether the agent is not read on."""
        return self.keeper is not None and self.keeper.unread

    def well(self) -> None:
        self.lost = self.lost or self.waited
        super().well()

    # --- the thread

    def _put(self, item: Batch | Call) -> None:
        self._waiting.append(item)
        self._given.set()

    async def run(self) -> None:
        while True:
            await self._given.wait()
            self._given = trio.Event()
            while self._waiting:
                item = self._waiting.popleft()
                if isinstance(item, Call):
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
                        self._write(flush)  # and nobody is told
                    self.failing(OSError("not now"), final=False)
                    await trio.sleep(rng.choice((0.1, 0.4, 1.0)))
            case _:
                await trio.lowlevel.checkpoint()
        self._write(flush)
        if self.trouble is not None:
            self.well()
        last = batches[-1].first + len(batches[-1].events) - 1
        self.world.note("stored", str(last))
        if self.withholds or self.unread:
            self.sent_at = trio.current_time()
        batches[-1].source.kept(last)

    def _write(self, flush: Flush) -> None:
        self.backend.commit(flush)
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


def saw(world: World, event: Any) -> None:
    """An event has happened."""
    book, seq = world.book_of_store, world.checker.seq
    content: Any = ()
    if isinstance(event, e.TurnStarted):
        content = event.prompt or ()
    elif isinstance(event, e.ItemOpened) and event.item.type == "user":
        content = event.item.content
    elif isinstance(event, e.TitleChanged) and re.fullmatch(r"named \d", event.title or ""):
        book.named.append(seq)
    for found in TOKEN.finditer("".join(getattr(block, "text", "") for block in content)):
        book.prompts.setdefault(found[1], seq)
    if isinstance(event, e.PermissionClosed):
        question = world.checker.questions.get(event.request)
        if question is not None and question.tag is not None and event.outcome == "selected":
            book.allows.setdefault(question.tag, seq)


def prompted(world: World, token: str) -> None:
    """J7: an agent has got a prompt."""
    _stored(world, world.book_of_store.prompts.get(token), f"the prompt {token}")


def allowed(world: World, tag: str) -> None:
    """J7: an agent has been allowed something."""
    _stored(world, world.book_of_store.allows.get(tag), f"what allows {tag}")


def _stored(world: World, seq: int | None, what: str) -> None:
    assert world.store is not None
    if seq is None or seq > world.store.stored:
        world.fail("J7", f"the agent has {what}, of event {seq}: {world.store.stored} is stored")


def check(world: World) -> None:
    """When nothing moves: J2, and that whatever is killed now can be gone on with."""
    store = world.store
    assert store is not None
    turn = world.checker.turn
    if turn is not None and turn.wishes and turn.cancelling is None:
        world.fail("J2", f"{turn.id} is to stop by {turn.wishes}, and is not being cancelled")
    keeper = world.session._host.keeper
    if keeper is not None and keeper._bytes > world.limits.store_session + 2 * READ_SIZE:
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
        real = msgspec.to_builtins(events[seq - 1])
        if msgspec.to_builtins(event) != _plain(real):
            world.fail("J4", f"event {seq} is stored as {event}, and was {events[seq - 1]}")
            return
    fold = Fold()
    fold.advance(events[:last])
    difference = fold.differs(msgspec.to_builtins(snapshot_of(store.session, stored)))
    if difference:
        world.fail("J6", f"what is stored at {last} has {difference}")
    named = any(seq <= last for seq in book.named)
    if stored.about.named != named and last:
        world.fail("J6", f"a person's title: {named}, is stored as {stored.about.named}")
    for token, prompt in world.book.prompts.items():
        if book.prompts.get(token, last + 1) > last:
            world.fail("J7", f"process {prompt.process} knows {token}, the store does not")


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def copied(store: str, copy: Path) -> None:
    for end in ("", "-wal"):
        shutil.copyfile(f"{store}{end}", f"{copy}{end}")


async def kill(world: World, folder: Path) -> None:
    """J6 and J7: go on with a copy of the file, as another process would after a kill. What the
    first one does meanwhile is not in it."""
    store = world.store
    assert store is not None
    if not store._database._execute("SELECT turns FROM session WHERE turns>0"):
        return
    copy = folder / f"copy-{world.step_number}.db"
    copied(store.path, copy)
    limits = replace(world.limits, hard=None, idle=None, queue=100, line=1 << 20)
    after = SteppedStore(copy, limits)
    try:
        await _go_on(world, after, store.session)
    finally:
        after.close()


async def _go_on(world: World, after: SteppedStore, id: str) -> None:
    puppet = Puppet(world.driver)
    again = Again(id, *await after.claim(id))
    last, named = again.stored.next - 1, again.stored.about.named
    titled = again.stored.head.title if not again.stored.events else None
    async with kept_on_a_puppet(after, puppet, limits=after._limits, again=again) as session:
        shown = session.snapshot()
        left: list[Any] = [item.id for item in shown.items if item.status not in TERMINAL]
        left += [turn.id for turn in shown.turns if turn.outcome is None]
        left += [ask.request for ask in shown.permissions if not ask.orphaned]
        if left:
            world.fail("J6", f"killed behind {last}, {left} are open")
        if shown.seq < last:
            world.fail("J6", f"killed behind {last}, it goes on at {shown.seq}")
        conversation = session._host.core.conversation
        if titled is not None and conversation.log.state.title != titled:
            world.fail("J6", f"the title {titled} became {conversation.log.state.title}")
        if named:
            _agent_names(world, conversation)
        known = {turn.id for turn in shown.turns}
        turn = session.submit("and now", held=False)
        await wait_all_tasks_blocked()
        if puppet.prompts != ["and now"]:
            world.fail("J7", f"killed behind {last}, the next process got {puppet.prompts}")
        if turn.id in known:
            world.fail("J6", f"killed behind {last}, {turn.id} begins once more")
        session.cancel(now=True)
        await wait_all_tasks_blocked()


def _agent_names(world: World, conversation: Conversation) -> None:
    before = conversation.log.state.title
    conversation._titled(e.TitleChanged("the agent's"))  # type: ignore[arg-type]
    if conversation.log.state.title != before:
        world.fail("J6", f"the agent's title replaces {before!r}, which a person gave")
