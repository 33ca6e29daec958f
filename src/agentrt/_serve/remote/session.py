"""A session on a server, with the interface of one in this process.

`RemoteSession` keeps a `SessionState` that it builds from the server's events, and queues the same
events for its reader. Three mechanisms make it look like a session without a network in between:

- *Gaps.* After a cut connection the server may send a snapshot instead of the missed events.
  `difference` makes events of it that lead from the known state to the snapshot's. If the snapshot
  does not reach back to the known items, its history is requested first; events that arrive in the
  meantime wait in `_pending_events`.
- *Prompts.* A prompt is shown as queued before the server has answered it. The answer names its
  turn or its place in the queue. Events show its further way, and may arrive before the answer.
  `SentPrompt` has the state of each prompt until its turn is known.
- *Commands.* They are sent without waiting. A refusal by the server arrives later, as a notice
  among the events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec
import trio
from msgspec import structs

from ..._public import Prompt
from ...display import difference
from ...errors import AgentrtError, LocalProtocolError, SessionNotFound
from ...events import (
    TERMINAL,
    AgentState,
    Block,
    Event,
    History,
    JsonObject,
    Modes,
    Notice,
    PermissionOpened,
    QueueChanged,
    QueueEntry,
    Snapshot,
    State,
    StateChanged,
    Task,
    TurnStarted,
    blocks,
)
from ...hosting import left_open
from ...lowlevel import SessionState
from .. import commands as c
from ..native_frames import ContentResult
from .checkpoints import RemoteCheckpoints, RemoteSandbox
from .contents import completed, shows
from .history import earlier_of, with_earlier
from .line import OutOfOrder, ServerLine
from .queue import RemoteQueue

MAX_UNREAD_EVENTS: Final = 4000
"""Maximum number of unread events before the client stops reading from the server."""


class SentPrompt:
    """A prompt that was sent. `id`: the id of its turn, once known. `failure`: the reason why it
    will not have a turn.
    """

    def __init__(self, entry: str, content: list[Block]) -> None:
        self.id = ""
        self.failure: AgentrtError | None = None
        self.entry = entry
        self.content = content
        self.seq: int | None = None
        """Once the session is known up to this number, the prompt is visible in it. None: not
        answered.
        """
        self.unwanted = False
        """True if it must be taken back once the server has named it."""
        self.stopped = False
        """True if its turn must be cancelled once that is known."""
        self.left = False
        """True if it has left the queue: its turn begins now, or never."""


class RemoteSession:
    """The part of a session that the terminal needs.

    Its methods send commands to the server, which answers with events. If a command fails, either
    the method raises or a `Notice` is among the events.

    It is an async iterator of the events after the first snapshot, without gaps or repetitions.
    After a cut connection, the missed events follow later, either as they were or as events with
    the same effect.
    """

    def __init__(
        self,
        line: ServerLine,
        session: str,
        *,
        prompt_answered: Callable[[], None] | None = None,
    ) -> None:
        """Set up a session that `ServerLine.follow` will follow.

        `prompt_answered`: called when the server has answered a prompt. The waiting prompts have
        changed then, and no event reports it if the turn began or even ended earlier.
        """
        self.id = session
        self._prompt_answered = prompt_answered
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
        self._refused: AgentrtError | None = None  # the reason why it did not begin
        self._cut = False
        self._pending_snapshot: Snapshot | None = None  # a snapshot while the history before it
        self._pending_events: list[Event] = []  # is requested, and the events after it
        self.queue = RemoteQueue(self._queued, self._unqueue, self._resume_queue)
        """The queued prompts."""
        self._sent: list[SentPrompt] = []
        self._waiting: list[SentPrompt] = []  # their turns are not known to have begun
        self._unqueued: set[str] = set()
        self._contents: dict[str, list[Block]] = {}  # of prompts sent here, by queue entry
        self._sends = 0
        self.seq = 0
        """The number of the server's event up to which the iterator has returned events. The notice
        of a gap has the number after it.
        """

    # --- state

    @property
    def state(self) -> State:
        """The session's state, as far as it is known here."""
        return self._state.state

    @property
    def agent(self) -> AgentState:
        """The state of the agent."""
        return self.state.agent

    @property
    def agent_session(self) -> None:
        """Always None: the server does not send the agent's own id."""
        return

    @property
    def title(self) -> str | None:
        """The title, if there is one."""
        return self._state.title

    @property
    def modes(self) -> Modes | None:
        """The modes, models and options, if known."""
        return self._state.modes

    @property
    def background_tasks(self) -> dict[str, Task]:
        """The background tasks, by id."""
        return dict(self._state.tasks)

    @property
    def pending_permissions(self) -> dict[str, PermissionOpened]:
        """The open permission requests, by id."""
        return dict(self._state.permissions)

    def _queued(self) -> list[QueueEntry]:
        """Return the queued prompts, including those that were sent and may not have to wait."""
        there = [
            structs.replace(entry, content=self._contents.get(entry.id, entry.content))
            for entry in self._state.queue
            if entry.id not in self._unqueued
        ]
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
        """Prompts that the server has not confirmed, oldest first. They may not have reached it."""
        return [sent.content for sent in self._sent if sent.seq is None and not sent.unwanted]

    @property
    def capabilities(self) -> JsonObject:
        """Always empty: clients do not get the agent's capabilities, but notices when it lacks
        one.
        """
        return {}

    def snapshot(self) -> Snapshot:
        """Return the part of the session that is known here. `full_snapshot` returns everything."""
        now = self._state.snapshot(self.id, self._epoch or "", self._seq or 0)
        return structs.replace(now, earlier=self._earlier)

    async def full_snapshot(self) -> Snapshot:
        """Return the complete session, with its large contents. Cancelling it changes nothing."""
        now = self.snapshot()
        while now.earlier is not None:
            now = with_earlier(now, await self._history(now.earlier))
        items = [await completed(item, self._fetch) for item in now.items]
        return structs.replace(now, items=items)

    async def _fetch(self, at: str, start: int) -> tuple[str, int | None]:
        """Return a piece of a large content from a position, and the position of the next one, or
        None.
        """
        read = c.ReadContent(id="", session=self.id, at=at, start=start)
        piece = msgspec.convert(await self._line.ask(read), ContentResult)
        return piece.text, piece.next

    async def _history(self, before: str) -> History:
        """Request the history before an item."""
        look = c.LookBack(id="", session=self.id, before=before)
        return earlier_of(await self._line.ask(look))

    # --- commands

    def submit(
        self,
        content: Prompt,
        *,
        when: Literal["queue", "interrupt"] = "queue",
    ) -> SentPrompt:
        """Send a prompt. Raises `LimitExceeded` if it is too long."""
        self._sends += 1
        sent = SentPrompt(f"sent-{self._sends}", blocks(content))

        def done(fields: JsonObject) -> None:
            """Take the server's answer: the turn, or the entry in the queue. A prompt that was
            taken back or stopped before the answer came is taken back or stopped now.
            """
            sent.id = str(fields.get("turn") or sent.id)
            sent.entry = str(fields.get("entry") or sent.entry)
            if "entry" in fields:  # the server's list may have only a preview
                self._contents[sent.entry] = sent.content
            seq = fields.get("seq")
            sent.seq = seq if isinstance(seq, int) else 0
            if sent.id:
                self._begun_with(sent, sent.id)
            if sent.stopped:
                self.stop(sent)
            if sent.unwanted and "entry" in fields:
                self._unqueue(sent.entry)
            elif sent.unwanted:
                self._add_notice(
                    "warning", "not_taken_back", "the prompt was not taken back: it is running"
                )
            self._forget_confirmed()
            if self._prompt_answered is not None:
                self._prompt_answered()

        def fail(error: AgentrtError) -> None:
            """Remove the prompt that the server refused, and report it."""
            self._sent.remove(sent)
            if sent in self._waiting:
                self._waiting.remove(sent)
            sent.failure = error
            self._add_notice("error", "prompt_refused", f"the prompt was not accepted: {error}")

        prompt = c.Prompt(id="", session=self.id, content=sent.content, when=when)
        self._line.send(prompt, done, fail)
        self._sent.append(sent)
        self._waiting.append(sent)
        return sent

    def stop(self, sent: SentPrompt) -> None:
        """Cancel the turn of a prompt, whatever its state; a queued prompt is removed."""
        sent.stopped = True
        if sent.id:
            cancel = c.Cancel(id="", session=self.id, turn=sent.id)
            self._send_or_notice(cancel, "it could not be stopped")
        elif sent.seq is not None:

            def done(_: JsonObject) -> None:
                if sent in self._waiting:
                    self._dropped(sent, "the prompt was taken back")
                self._add_notice("info", "taken_back", "the prompt was taken back")

            remove = c.QueueRemove(id="", session=self.id, entry=sent.entry)
            self._line.send(remove, done, _nothing)  # refused if its turn has begun

    def steer(self, content: Prompt) -> None:
        """Send a prompt into the running turn.

        Raises `LocalProtocolError` if no turn is known to run. If the agent cannot take a prompt
        then, a notice reports it.
        """
        if self.state.turn is None:
            raise LocalProtocolError("no turn is running that could be steered")
        prompt = c.Prompt(id="", session=self.id, content=blocks(content), when="steer")
        self._send_or_notice(prompt, "the turn was not steered")

    def send_history(self) -> None:
        """Repeat the conversation to an agent that does not remember it."""
        self._send_or_notice(
            c.Retell(id="", session=self.id), "the conversation could not be repeated to the agent"
        )

    def cancel(self, *, now: bool = False) -> None:
        """Stop the running turn for the user, as far as it is known here. `now`: do not wait for
        the agent to end it.
        """
        turn = self.state.turn
        self._send_or_notice(
            c.Cancel(id="", session=self.id, turn=turn.id if turn is not None else None, now=now),
            "it could not be stopped",
        )

    def _resume_queue(self) -> None:
        """Resume a paused queue."""
        self._send_or_notice(c.QueueResume(id="", session=self.id), "the queue stays as it is")

    def _unqueue(self, entry: str) -> None:
        """Take back a queued prompt, if it is still queued when the command reaches the server."""
        for sent in self._sent:
            if sent.entry == entry and sent.seq is None:
                sent.unwanted = True
                return
        self._unqueued.add(entry)

        def fail(error: AgentrtError) -> None:
            self._unqueued.discard(entry)
            self._add_notice("warning", "not_taken_back", f"the prompt was not taken back: {error}")

        self._line.send(c.QueueRemove(id="", session=self.id, entry=entry), _nothing, fail)

    def answer(self, request: str, option: str, *, note: str = "") -> None:
        """Answer a permission request.

        Raises `LocalProtocolError` if it is not known to be open. If another client was faster, a
        notice reports it.
        """
        self._answer(
            c.Permission(id="", session=self.id, request=request, option=option, note=note)
        )

    def submit_form(self, request: str, content: JsonObject) -> None:
        """Answer the form of an elicitation."""
        self._answer(c.Permission(id="", session=self.id, request=request, content=content))

    def dismiss(self, request: str, message: str = "") -> None:
        """Dismiss a request without an answer."""
        self._answer(
            c.Permission(id="", session=self.id, request=request, cancel=True, note=message)
        )

    def _answer(self, command: c.Permission) -> None:
        """Send an answer to a question. Raises `LocalProtocolError` if it is not known to
        be open.
        """
        if command.request not in self._state.permissions:
            raise LocalProtocolError("the question is no longer open")
        self._send_or_notice(command, "the answer was not accepted")

    def rename(self, title: str) -> None:
        """Change the session's title."""
        command = c.RenameSession(id="", session=self.id, title=title[: c.MAX_TITLE_CHARS])
        self._send_or_notice(command, "the title was not changed")

    async def set_mode(self, mode: str) -> None:
        """Change the agent's mode. Raises the error with which the server refuses it."""
        await self._line.ask(c.SetMode(id="", session=self.id, mode=mode))

    async def set_model(self, model: str) -> None:
        """Change the agent's model. Raises the error with which the server refuses it."""
        await self._line.ask(c.SetModel(id="", session=self.id, model=model))

    async def stop_task(self, task: str) -> None:
        """Stop a background task. Raises the error with which the server refuses it."""
        await self._line.ask(c.StopTask(id="", session=self.id, task=task))

    @property
    def sandbox(self) -> RemoteSandbox:
        """The sandbox on the server, if the session has one."""
        return RemoteSandbox(self._line, self.id)

    @property
    def checkpoints(self) -> RemoteCheckpoints:
        """The checkpoints of the session's folder on the server."""
        return RemoteCheckpoints(self._line, self.id)

    def _send_or_notice(self, command: c.ViewerCommand, otherwise: str) -> None:
        """Send a command; if it is refused, a notice that begins with `otherwise` reports it."""

        def fail(error: AgentrtError) -> None:
            self._add_notice("warning", "not_done", f"{otherwise}: {error}")

        self._line.send(command, _nothing, fail)

    # --- events

    def __aiter__(self) -> RemoteSession:
        return self

    async def __anext__(self) -> Event:
        """Return the next event. Cancelling it loses none."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._events:
            if self._closed:
                await trio.lowlevel.checkpoint()
                raise StopAsyncIteration
            self._news = trio.Event()
            await self._news.wait()
        if len(self._events) == MAX_UNREAD_EVENTS:
            self._read.set()
        self.seq, event = self._events.popleft()
        return event

    async def begun(self) -> None:
        """Wait until the session is known here. Raises the error that keeps the server from showing
        it, such as `SessionNotFound` or `StoreUnavailable`.
        """
        await self._begun.wait()
        if self._refused is not None:
            raise self._refused
        if self._gone:
            raise SessionNotFound(f"the server has no session {self.id!r}")

    def close(self) -> None:
        """Stop following the session. It continues on the server."""
        self._line.unfollow(self.id)
        self._closed = True
        self._news.set()
        self._read.set()

    async def aclose(self) -> None:
        """Call `close`, as a coroutine."""
        self.close()
        await trio.lowlevel.checkpoint()

    # --- called by the line

    @property
    def cursor(self) -> c.Known:
        """The session, and the position up to which it is known."""
        return c.Known(session=self.id, epoch=self._epoch, seq=self._seq)

    def attached(self, answer: str) -> None:
        """Handle the server's answer to attaching, as `FollowedSession.attached`."""
        if answer == "unknown_session":
            if self._gone:
                return
            self._gone = True
            self._begun.set()
            if self._seq is not None:
                closed = structs.replace(self.state, phase="closed", turn=None)
                for sent in [each for each in self._waiting if each.seq is not None]:
                    self._dropped(sent, "the server no longer has this session")
                self._add_events([*left_open(self._state), StateChanged(closed)])
                self._add_notice("error", "session_gone", "the server no longer has this session")
        else:
            self._gone = False
        if self._cut:
            self._cut = False
            self._add_notice("info", "connected_again", "connected again")

    def refused(self, error: AgentrtError) -> None:
        """Handle the server's refusal to show the session, as `FollowedSession.refused`."""
        if isinstance(error, SessionNotFound):
            self.attached("unknown_session")
        elif self._seq is None:
            self._refused = error
            self._begun.set()
        else:
            raise error

    def cut(self, why: str) -> None:
        """Report the loss of the connection, once."""
        if self._cut:
            return
        self._cut = True
        self._add_notice(
            "warning", "connection_cut", f"no connection to the server ({why}): trying again"
        )

    def take_event(self, epoch: str, seq: int, event: Event | None, since: int) -> None:
        """Take the next event, as `FollowedSession.take_event`."""
        if self._seq is None:
            return  # from an earlier attachment; the requested snapshot follows
        if seq <= self._seq and epoch == self._epoch:
            return
        if epoch != self._epoch or since != self._seq:
            raise OutOfOrder(f"event {seq} follows event {since}, not {self._seq}")
        self._seq = seq
        if event is not None:
            self._add_events([event])
        self._forget_confirmed()

    def take_snapshot(self, snapshot: Snapshot) -> None:
        """Take a snapshot; if events before it are missing, request its history first."""
        self._epoch, self._seq = snapshot.epoch, snapshot.seq
        self._pending_events.clear()
        asked, self._pending_snapshot = self._pending_snapshot is not None, snapshot
        if _reaches(self._state, snapshot):
            self._catch_up(snapshot)
        elif not asked:
            self._look_back(snapshot)

    def _look_back(self, snapshot: Snapshot) -> None:
        """The session has advanced further than the snapshot reaches back: request its history."""
        assert snapshot.earlier is not None

        def done(fields: JsonObject) -> None:
            """Prepend the history, and request more of it until it reaches the known items.

            A newer snapshot may have arrived since the request; the history then does not fit to it
            and is requested again for the new one.
            """
            now = self._pending_snapshot
            if now is None:
                return
            if now is snapshot:
                now = self._pending_snapshot = with_earlier(now, earlier_of(fields))
            if _reaches(self._state, now):
                self._catch_up(now)
            else:
                self._look_back(now)

        def fail(_: AgentrtError) -> None:
            """Continue with a gap: the history is not available."""
            if self._pending_snapshot is not None:
                self._catch_up(self._pending_snapshot)

        look = c.LookBack(id="", session=self.id, before=snapshot.earlier)
        self._line.send(look, done, fail)

    def _catch_up(self, snapshot: Snapshot) -> None:
        """Apply the difference to the snapshot, then the events that arrived while its history was
        requested.

        The first snapshot becomes the initial state instead, without events for the reader.
        """
        if not self._begun.is_set():
            self._earlier = snapshot.earlier
        held, self._pending_snapshot, self._pending_events = self._pending_events, None, []
        missed = difference(self._state, snapshot)
        if self._begun.is_set():
            self._add_events([*missed, *held], gap=True)
        else:
            for event in [*missed, *held]:
                self._state.apply(event)
            self._begun.set()
        self._forget_confirmed()

    def _add_events(self, events: Sequence[Event], *, gap: bool = False) -> None:
        """Apply events and queue them for the reader. `gap`: they stand for events that were
        missed.
        """
        if self._pending_snapshot is not None:
            self._pending_events += events
            return
        seq = self._seq or 0
        for event in events:
            self._follow_sent(event, gap=gap)
            self._state.apply(event)
            self._events.append((seq, event))
        self._news.set()

    def _follow_sent(self, event: Event, *, gap: bool) -> None:
        """Follow the prompts without a turn. A turn may begin before its prompt is
        answered; the turn of a queued prompt begins right after the prompt has left the queue.
        """
        queued = {entry.id for entry in self._state.queue} if not gap else set()
        for sent in list(self._waiting):
            match event:
                case TurnStarted(turn=turn, prompt=prompt) if sent.entry not in queued and shows(
                    prompt, sent.content
                ):
                    self._begun_with(sent, turn)
                    return
                case Notice(code="prompt_dropped", data={"entry": sent.entry}, message=why):
                    self._dropped(sent, why)
                case _ if sent.left:
                    self._dropped(sent, "the prompt was removed from the queue")
                case QueueChanged(queue=queue) if sent.seq is not None:
                    sent.left = all(entry.id != sent.entry for entry in queue)
                case _:
                    pass

    def _begun_with(self, sent: SentPrompt, turn: str) -> None:
        """Note the turn of a prompt, and cancel it if the user has stopped the prompt in the
        meantime.
        """
        if sent in self._waiting:
            self._waiting.remove(sent)
            sent.id = turn
            if sent.stopped:
                self.stop(sent)

    def _dropped(self, sent: SentPrompt, why: str) -> None:
        """Note that a prompt will have no turn."""
        self._waiting.remove(sent)
        sent.failure = AgentrtError(why)

    def _forget_confirmed(self) -> None:
        """Forget sent prompts and removals that are now visible in the session."""
        seq = self._seq or 0
        if self._pending_snapshot is None:
            self._sent = [sent for sent in self._sent if sent.seq is None or sent.seq > seq]
            waiting = {entry.id for entry in self._state.queue}
            self._unqueued &= waiting | {sent.entry for sent in self._sent}
            known = {*waiting, *(sent.entry for sent in [*self._sent, *self._waiting])}
            self._contents = {id: each for id, each in self._contents.items() if id in known}

    def _add_notice(
        self, level: Literal["info", "warning", "error"], code: str, words: str
    ) -> None:
        """Add a notice of this client to the events; it is not part of the session's state."""
        self._events.append((self._seq or 0, Notice(level, code, words)))
        self._news.set()

    async def room(self) -> None:
        """Wait until at most `MAX_UNREAD_EVENTS` events are unread."""
        while len(self._events) > MAX_UNREAD_EVENTS and not self._closed:
            self._read = trio.Event()
            await self._read.wait()


def _reaches(known: SessionState, snapshot: Snapshot) -> bool:
    """True if nothing is missing between the known state and the snapshot's first item."""
    if snapshot.earlier is None or not known.items:
        return True
    there = {item.id for item in snapshot.items}
    still = [item.id for item in known.items.values() if item.status not in TERMINAL]
    ids = {item.id for item in snapshot.items[_place(snapshot) :]}
    return not ids.isdisjoint(known.items) and there.issuperset(still)


def _place(snapshot: Snapshot) -> int:
    """Return the index of the first item of the gapless part. Items before it are still open."""
    for place, item in enumerate(snapshot.items):
        if item.id == snapshot.earlier:
            return place
    return 0


def _nothing(_: object) -> None:
    pass
