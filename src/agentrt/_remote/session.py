"""A session of a server, as if it were one of this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Literal

import trio
from msgspec import structs

from .._errors import AgentrtError, LocalProtocolError, SessionNotFound
from .._model.content import Block, JsonObject, Prompt, blocks
from .._model.difference import difference
from .._model.events import (
    TERMINAL,
    AgentState,
    Event,
    Modes,
    Notice,
    PermissionOpened,
    QueueChanged,
    QueueEntry,
    State,
    StateChanged,
    Task,
    TurnStarted,
)
from .._model.state import History, SessionState, Snapshot, left_open
from .._web import commands as c
from .history import earlier_of, with_earlier
from .line import Line, OutOfOrder

UNREAD: Final = 4000
"""Events that may wait to be read, before the server is kept waiting."""


class Sent:
    """A prompt that was sent. `id`: its turn's, once that is known. `failure`: why there will be
    none."""

    def __init__(self, entry: str, content: list[Block]) -> None:
        self.id = ""
        self.failure: AgentrtError | None = None
        self.entry = entry
        self.content = content
        self.seq: int | None = None
        """Up to there the session must be known for it to be seen; None: it is not answered."""
        self.unwanted = False
        """It is to be taken back, once the server says what it is called there."""
        self.stopped = False
        """Its turn is to be cancelled, once that is known."""
        self.left = False
        """It does not wait any more: its turn begins now, or never."""


class RemoteSession:
    """What the terminal needs of a session. What is asked of it is said to the server, which
    answers by events; what cannot be done is a `Notice` among them, where a method does not raise
    it.

    An async iterator of the events behind the first snapshot. They have no gap and none comes
    twice: what a cut line has kept from us is given later, as it was, or as what came of it.
    """

    def __init__(self, line: Line, session: str) -> None:
        self.id = session
        self._line = line
        self._state = SessionState()
        self._epoch: str | None = None
        self._seq: int | None = None
        self._earlier: str | None = None
        self._events: deque[tuple[int, Event]] = deque()
        self._news = trio.Event()
        self._read = trio.Event()
        self._closed = False
        self._begun = trio.Event()
        self._gone = False
        self._refused: AgentrtError | None = None  # why it did not begin
        self._cut = False
        self._behind: Snapshot | None = None  # a snapshot, and what follows it, ahead of which
        self._held: list[Event] = []  # there is more to be asked for
        self._sent: list[Sent] = []
        self._waiting: list[Sent] = []  # their turns have not begun, as far as that is known here
        self._unqueued: set[str] = set()
        self._sends = 0
        self.answered: Callable[[], None] = lambda: None
        """Called when a prompt was answered: another one waits then, or none, and no event says
        so where the turn has begun, or even ended, before."""
        self.seq = 0
        """Up to which number of the server's log the iterator has given it. The notice of a gap has
        the number behind it."""

    # --- what it is

    @property
    def state(self) -> State:
        return self._state.state

    @property
    def agent(self) -> AgentState:
        return self.state.agent

    @property
    def agent_session(self) -> None:
        """The agent's own id is the server's affair."""
        return

    @property
    def title(self) -> str | None:
        return self._state.title

    @property
    def modes(self) -> Modes | None:
        return self._state.modes

    @property
    def tasks(self) -> dict[str, Task]:
        return dict(self._state.tasks)

    @property
    def permissions(self) -> dict[str, PermissionOpened]:
        return dict(self._state.permissions)

    @property
    def queue(self) -> list[QueueEntry]:
        """The prompts that wait; those too that are on their way, and may not have to wait."""
        there = [entry for entry in self._state.queue if entry.id not in self._unqueued]
        known = {entry.id for entry in there}
        coming = [
            QueueEntry(sent.entry, sent.content)
            for sent in self._sent
            if not sent.unwanted and sent.entry not in known | self._unqueued
        ]
        ready = sum(not entry.paused for entry in there)
        return [*there[:ready], *coming, *there[ready:]]  # as `PromptQueue.put`

    @property
    def unconfirmed(self) -> list[list[Block]]:
        """Prompts that the server has not confirmed, oldest first: they may not have reached it."""
        return [sent.content for sent in self._sent if sent.seq is None and not sent.unwanted]

    @property
    def capabilities(self) -> JsonObject:
        """What the agent can do is not said to clients: they are notified when it cannot."""
        return {}

    def snapshot(self) -> Snapshot:
        """As far as it is known here: `whole` has all."""
        now = self._state.snapshot(self.id, self._epoch or "", self._seq or 0)
        return structs.replace(now, earlier=self._earlier)

    async def whole(self) -> Snapshot:
        """All that there is. Cancelling it changes nothing."""
        now = self.snapshot()
        while now.earlier is not None:
            now = with_earlier(now, await self._history(now.earlier))
        return now

    async def _history(self, before: str) -> History:
        look = c.LookBack(id="", session=self.id, before=before)
        return earlier_of(await self._line.ask(look))

    # --- what is asked of it

    def submit(
        self,
        content: Prompt,
        *,
        when: Literal["queue", "interrupt"] = "queue",
    ) -> Sent:
        """Send a prompt. Raises `LimitExceeded` for one that is too long."""
        self._sends += 1
        sent = Sent(f"sent-{self._sends}", blocks(content))

        def done(fields: JsonObject) -> None:
            sent.id = str(fields.get("turn") or sent.id)
            sent.entry = str(fields.get("entry") or sent.entry)
            seq = fields.get("seq")
            sent.seq = seq if isinstance(seq, int) else 0
            if sent.id:
                self._begun_with(sent, sent.id)
            if sent.stopped:
                self.stop(sent)
            if sent.unwanted and "entry" in fields:
                self.unqueue(sent.entry)
            elif sent.unwanted:
                self._tell("warning", "not_taken_back", "the prompt was not taken back: it runs")
            self._settle()
            self.answered()

        def fail(error: AgentrtError) -> None:
            self._sent.remove(sent)
            if sent in self._waiting:
                self._waiting.remove(sent)
            sent.failure = error
            self._tell("error", "prompt_refused", f"the prompt was not taken: {error}")

        prompt = c.Prompt(id="", session=self.id, content=sent.content, when=when)
        self._line.send(prompt, done, fail)
        self._sent.append(sent)
        self._waiting.append(sent)
        return sent

    def stop(self, sent: Sent) -> None:
        """Cancel the turn of a prompt, wherever it stands; one that waits is taken back."""
        sent.stopped = True
        if sent.id:
            cancel = c.Cancel(id="", session=self.id, turn=sent.id)
            self._say(cancel, "it could not be stopped")
        elif sent.seq is not None:

            def done(_: JsonObject) -> None:
                if sent in self._waiting:
                    self._dropped(sent, "the prompt was taken back")
                self._tell("info", "taken_back", "the prompt was taken back")

            remove = c.QueueRemove(id="", session=self.id, entry=sent.entry)
            self._line.send(remove, done, _nothing)  # refused where its turn has begun

    def steer(self, content: Prompt) -> None:
        """Send a prompt into the running turn. Raises `LocalProtocolError` if none is known to run
        here; that the agent cannot take one is reported."""
        if self.state.turn is None:
            raise LocalProtocolError("no turn runs that could be steered")
        prompt = c.Prompt(id="", session=self.id, content=blocks(content), when="steer")
        self._say(prompt, "the turn was not steered")

    def retell(self) -> None:
        """Tell an agent that does not remember it what was said."""
        self._say(c.Retell(id="", session=self.id), "it could not be told what was said")

    def cancel(self, *, now: bool = False) -> None:
        """A user's Stop of the turn that runs here, by what is known; `now`: do not wait for the
        agent to end it."""
        turn = self.state.turn
        self._say(
            c.Cancel(id="", session=self.id, turn=turn.id if turn is not None else None, now=now),
            "it could not be stopped",
        )

    def resume_queue(self) -> None:
        self._say(c.QueueResume(id="", session=self.id), "the queue stays as it is")

    def unqueue(self, entry: str) -> None:
        """Take a waiting prompt back, if it still waits when the server hears of it."""
        for sent in self._sent:
            if sent.entry == entry and sent.seq is None:
                sent.unwanted = True
                return
        self._unqueued.add(entry)

        def fail(error: AgentrtError) -> None:
            self._unqueued.discard(entry)
            self._tell("warning", "not_taken_back", f"the prompt was not taken back: {error}")

        self._line.send(c.QueueRemove(id="", session=self.id, entry=entry), _nothing, fail)

    def answer(self, request: str, option: str, *, note: str = "") -> None:
        """Answer a permission request. Raises `LocalProtocolError` if it is not open by what is
        known here; where somebody was faster, that is reported."""
        self._answer(
            c.Permission(id="", session=self.id, request=request, option=option, note=note)
        )

    def fill(self, request: str, content: JsonObject) -> None:
        self._answer(c.Permission(id="", session=self.id, request=request, content=content))

    def dismiss(self, request: str, message: str = "") -> None:
        self._answer(
            c.Permission(id="", session=self.id, request=request, cancel=True, note=message)
        )

    def _answer(self, command: c.Permission) -> None:
        if command.request not in self._state.permissions:
            raise LocalProtocolError("the question is not open any more")
        self._say(command, "the answer does not count")

    async def set_mode(self, mode: str) -> None:
        """Change the agent's mode. Raises what the server refuses it for."""
        await self._line.ask(c.SetMode(id="", session=self.id, mode=mode))

    async def set_model(self, model: str) -> None:
        await self._line.ask(c.SetModel(id="", session=self.id, model=model))

    async def stop_task(self, task: str) -> None:
        await self._line.ask(c.StopTask(id="", session=self.id, task=task))

    def _say(self, command: c.Command, otherwise: str) -> None:
        def fail(error: AgentrtError) -> None:
            self._tell("warning", "not_done", f"{otherwise}: {error}")

        self._line.send(command, _nothing, fail)

    # --- what comes of it

    def __aiter__(self) -> RemoteSession:
        return self

    async def __anext__(self) -> Event:
        """The next event. Cancelling it loses none."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._events:
            if self._closed:
                await trio.lowlevel.checkpoint()
                raise StopAsyncIteration
            self._news = trio.Event()
            await self._news.wait()
        if len(self._events) == UNREAD:
            self._read.set()
        self.seq, event = self._events.popleft()
        return event

    async def begun(self) -> None:
        """Wait until it is known here. Raises what keeps the server from showing it, as
        `SessionNotFound` and `StoreUnavailable`."""
        await self._begun.wait()
        if self._refused is not None:
            raise self._refused
        if self._gone:
            raise SessionNotFound(f"the server has no session {self.id!r}")

    def close(self) -> None:
        """Follow it no more. It goes on."""
        self._line.unfollow(self.id)
        self._closed = True
        self._news.set()
        self._read.set()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    # --- the line's side

    @property
    def cursor(self) -> c.Known:
        return c.Known(session=self.id, epoch=self._epoch, seq=self._seq)

    def attached(self, answer: str) -> None:
        if answer == "unknown_session":
            if self._gone:
                return
            self._gone = True
            self._begun.set()
            if self._seq is not None:
                closed = structs.replace(self.state, phase="closed", turn=None)
                for sent in [each for each in self._waiting if each.seq is not None]:
                    self._dropped(sent, "the server does not have this session any more")
                self._give([*left_open(self._state), StateChanged(closed)])
                self._tell(
                    "error", "session_gone", "the server does not have this session any more"
                )
        else:
            self._gone = False
        if self._cut:
            self._cut = False
            self._tell("info", "connected_again", "connected again")

    def refused(self, error: AgentrtError) -> None:
        if isinstance(error, SessionNotFound):
            self.attached("unknown_session")
        elif self._seq is None:
            self._refused = error
            self._begun.set()
        else:
            raise error

    def cut(self, why: str) -> None:
        if self._cut:
            return
        self._cut = True
        self._tell(
            "warning", "connection_cut", f"no connection to the server ({why}): trying again"
        )

    def take_event(self, epoch: str, seq: int, event: Event | None) -> None:
        if self._seq is None:
            return  # of an earlier time; the snapshot that was asked for comes behind it
        if epoch != self._epoch or seq > self._seq + 1:
            raise OutOfOrder(f"event {seq} behind {self._seq}")
        if seq <= self._seq:
            return
        self._seq = seq
        if event is not None:
            self._give([event])
        self._settle()

    def take_snapshot(self, snapshot: Snapshot) -> None:
        self._epoch, self._seq = snapshot.epoch, snapshot.seq
        self._held.clear()
        asked, self._behind = self._behind is not None, snapshot
        if _reaches(self._state, snapshot):
            self._catch_up(snapshot)
        elif not asked:
            self._look_back(snapshot)

    def _look_back(self, snapshot: Snapshot) -> None:
        """More has happened than a snapshot has: ask for what was ahead of it."""
        assert snapshot.earlier is not None

        def done(fields: JsonObject) -> None:
            now = self._behind
            if now is None:
                return
            if now is snapshot:
                now = self._behind = with_earlier(now, earlier_of(fields))
            if _reaches(self._state, now):
                self._catch_up(now)
            else:
                self._look_back(now)

        def fail(_: AgentrtError) -> None:
            if self._behind is not None:
                self._catch_up(self._behind)

        look = c.LookBack(id="", session=self.id, before=snapshot.earlier)
        self._line.send(look, done, fail)

    def _catch_up(self, snapshot: Snapshot) -> None:
        if not self._begun.is_set():
            self._earlier = snapshot.earlier
        held, self._behind, self._held = self._held, None, []
        missed = difference(self._state, snapshot)
        if self._begun.is_set():
            self._give([*missed, *held], gap=True)
        else:
            for event in [*missed, *held]:
                self._state.apply(event)
            self._begun.set()
        self._settle()

    def _give(self, events: Sequence[Event], *, gap: bool = False) -> None:
        """Fold events, and give them to the reader; `gap`: they stand for what was missed."""
        if self._behind is not None:
            self._held += events
            return
        seq = self._seq or 0
        for event in events:
            self._follow_sent(event, gap=gap)
            self._state.apply(event)
            self._events.append((seq, event))
        self._news.set()

    def _follow_sent(self, event: Event, *, gap: bool) -> None:
        """What becomes of the prompts whose turns have not begun. A turn may begin before its
        prompt is answered; that of one that waits does so right behind its leaving the queue."""
        queued = {entry.id for entry in self._state.queue} if not gap else set()
        for sent in list(self._waiting):
            match event:
                case TurnStarted(turn=turn, prompt=sent.content) if sent.entry not in queued:
                    self._begun_with(sent, turn)
                    return
                case Notice(code="prompt_dropped", data={"entry": sent.entry}, message=why):
                    self._dropped(sent, why)
                case _ if sent.left:
                    self._dropped(sent, "the prompt was taken out of the queue")
                case QueueChanged(queue=queue) if sent.seq is not None:
                    sent.left = all(entry.id != sent.entry for entry in queue)
                case _:
                    pass

    def _begun_with(self, sent: Sent, turn: str) -> None:
        if sent in self._waiting:
            self._waiting.remove(sent)
            sent.id = turn
            if sent.stopped:
                self.stop(sent)

    def _dropped(self, sent: Sent, why: str) -> None:
        self._waiting.remove(sent)
        sent.failure = AgentrtError(why)

    def _settle(self) -> None:
        """What was sent is no longer on its way once it is seen."""
        seq = self._seq or 0
        if self._behind is None:
            self._sent = [sent for sent in self._sent if sent.seq is None or sent.seq > seq]
            waiting = {entry.id for entry in self._state.queue}
            self._unqueued &= waiting | {sent.entry for sent in self._sent}

    def _tell(self, level: Literal["info", "warning", "error"], code: str, words: str) -> None:
        self._events.append((self._seq or 0, Notice(level, code, words)))
        self._news.set()

    async def room(self) -> None:
        while len(self._events) > UNREAD and not self._closed:
            self._read = trio.Event()
            await self._read.wait()


def _reaches(known: SessionState, snapshot: Snapshot) -> bool:
    """Whether nothing is missing between what is known and the snapshot's first item."""
    if snapshot.earlier is None or not known.items:
        return True
    there = {item.id for item in snapshot.items}
    still = [item.id for item in known.items.values() if item.status not in TERMINAL]
    ids = {item.id for item in snapshot.items[_place(snapshot) :]}
    return not ids.isdisjoint(known.items) and there.issuperset(still)


def _place(snapshot: Snapshot) -> int:
    """Where the items without a gap begin: ahead of them are those that are still open."""
    for place, item in enumerate(snapshot.items):
        if item.id == snapshot.earlier:
            return place
    return 0


def _nothing(_: object) -> None:
    pass
