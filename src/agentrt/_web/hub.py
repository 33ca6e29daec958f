"""The hub: every session of a runtime, and all who look at them.

It has no network. Sessions notify it synchronously, and it notifies the viewers, at
once or when they have rested; none of that waits for anybody.
"""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

import msgspec
import trio
from msgspec import Struct

from .._errors import SessionNotFound, StoreError, StoreUnavailable
from .._journal.base import Answer, StoreStatus
from .._limits import Tenant
from .._logging import get_logger
from .._model.log import Log
from .._runtime.register import SessionInfo
from .._runtime.resting import look_back
from .._runtime.runtime import AgentInfo, Runtime
from .._session.session import Session, host_of
from .answers import Fields, Refused, pack
from .client import AnswerRoom, Client, Done, Fail
from .feed import BYTE_COST, FRAME_COST, MOST, SHARE, Feed
from .files import Files
from .folders import Folders
from .refusal import Code
from .security import Role
from .viewer import Viewer
from .wires import Wires

logger = get_logger("server")

CLIENTS: Final = 256
"""Clients that are remembered after they have gone, so that they can come back."""

LIST: Final = 0.02
"""Seconds between two lists of the sessions, at least."""

STORED: Final = 200
"""How many of the sessions that are only stored are in the list, the newest ones: `list` gives the
others."""

UNSEEN: Final = 30.0
"""Seconds after which a session that is read or followed, and that nobody looks at, is dropped; and
sooner if another one is read."""

AGENTS: Final = 30.0
"""Seconds for which the list of installed agents holds: making it is looking for programs."""


class Dialect(Struct, frozen=True):
    """A protocol in which clients see the sessions.

    - `path`: where its WebSocket is.
    - `protocol`: the subprotocol's name, for clients that offer any: browsers that offer their
      token so want one of what they offer to be accepted.
    - `viewer`: what makes the viewer of a connection.
    - `says_closing`: whether its clients know the message `closing`; the others have the reason in
      the close frame only.
    - `names_connection`: a header of the handshake's answer that carries a fresh id, if any.
    """

    path: str
    protocol: str
    viewer: Callable[[Hub, Role], Viewer]
    says_closing: bool = False
    names_connection: str | None = None


class Elsewhere(Protocol):
    """Sessions that are stored, but not where the runtime keeps its own."""

    async def sessions(self, cwd: str | None) -> Fields:
        """As `sessions` what there is in a folder (None: anywhere), the newest last."""
        ...

    async def fetch(self, session: str) -> Fields:
        """See to it that the runtime has this session among those that it has stored, if there is
        such a session. Raises what keeps it from that."""
        ...


class Hub:
    """One for each `Runtime`. Close it before the runtime's block is left.

    `agent`: whom the clients get that open a session without saying with whom; by default the first
    one that is installed. `folders`: where they may.
    """

    def __init__(
        self, runtime: Runtime, agent: str | None = None, folders: Folders | None = None
    ) -> None:
        self.runtime = runtime
        self.folders = folders or Folders()
        self.files = Files()
        self.wires = Wires(runtime)
        self.limits = runtime.limits
        self.viewers: dict[Viewer, Client | None] = {}
        """All, with the client that each is, once that is known."""
        self.feeds: dict[str, Feed] = {}
        # Of those: the sessions that are not open here, and what ends their being followed.
        self._resting: dict[str, Callable[[], None]] = {}
        self._prefix = "" if runtime.tenant is None else f"@{runtime.tenant.name}/"
        """Ahead of the names that clients choose, in the store and for other servers."""
        self._tenants: dict[str, Hub] = {}
        self.chats: dict[str, str | list[tuple[Done, Fail]]] = {
            name.removeprefix(self._prefix): session
            for name, session in runtime.chats.items()
            if name.startswith(self._prefix)
        }
        """Names that clients of the AI SDK have for their sessions; while one is opened, who waits
        for it."""
        self.elsewhere: Elsewhere | None = None
        """Where further sessions can be had from, if anywhere."""
        self.present: Callable[[Hub, Client, Iterable[str], bool], None] = lambda *about: None
        """Called when a client that runs tools is there or gone, with sessions that are not open
        here."""
        self._agent = agent
        self._clients: OrderedDict[tuple[Role, str], Client] = OrderedDict()
        self.answers = AnswerRoom(runtime.limits.client_answers)
        self._reading: dict[str, trio.Event] = {}
        self._listening: dict[str, Callable[[], None]] = {}  # by session
        self._list: bytes | None = None
        self._list_due = 0.0
        self._jobs: dict[Callable[[float], None], float] = {}
        self._wakes_at = math.inf
        self._lot = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()
        runtime.start_soon(self._keep_time)
        self._agents: tuple[float, list[AgentInfo]] = (-AGENTS, [])
        self._stop_listening = [
            runtime.listen(self._sessions_changed),
            runtime.show(self._looked_at),
        ]
        if runtime.store is not None:
            self._stop_listening.append(runtime.store.listen(self._store_changed))
        self._sessions_changed()

    def attach_viewer(self, dialect: Dialect, *, role: Role = "controller") -> Viewer:
        """A new connection. What it may do is the server's to say, not the client's."""
        viewer = dialect.viewer(self, role)
        self.viewers.setdefault(viewer)
        return viewer

    def of(self, tenant: Tenant | None) -> Hub:
        """The hub of a tenant's clients, to whom all others' sessions are not there. It knows
        nothing of this one, which is the operator's."""
        if tenant is None:
            return self
        hub = self._tenants.get(tenant.name)
        if hub is None:
            hub = Hub(self.runtime.of(tenant), self._agent, self._folders_of(tenant))
            hub.present = self.present
            self._tenants[tenant.name] = hub
        elif hub.runtime.tenant != tenant:
            hub.runtime.know(tenant)
            hub.folders = self._folders_of(tenant)
        return hub

    def _folders_of(self, tenant: Tenant) -> Folders:
        return Folders(tenant.roots, missing_ok=True) if tenant.roots else self.folders

    def close(self, reason: str = "the server is shutting down") -> None:
        """Send every viewer away and listen to the runtime no more."""
        for hub in self._tenants.values():
            hub.close(reason)
        for viewer in list(self.viewers):
            viewer.end(Code.SHUTDOWN, reason)
        for stop in (*self._stop_listening, *self._listening.values()):
            stop()
        # What was asked for before may still be carried out, and drop what nobody looks at.
        self._listening = dict.fromkeys(self._listening, lambda: None)
        self.wires.close()
        self._scope.cancel()

    def is_open(self, id: str) -> bool:
        """Whether a session is open here, and not over. The runtime says so, which may outlive the
        hub."""
        return self.runtime.is_open(id)

    def session(self, id: str) -> Session:
        """One that is open. Raises `Refused`."""
        if id in self._resting:
            raise Refused("unknown_session", f"the session {id!r} is not open")
        self.feed(id)
        return self.runtime.get(id)

    def open_session(self, feed: Feed) -> Session | None:
        """The session of a feed, if it is open."""
        id = feed.log.session
        there = self.feeds.get(id) is feed and id not in self._resting
        return self.runtime.get(id) if there else None

    def is_in(self, id: str, folder: str) -> bool:
        """Whether a session's folder is this one."""
        named = os.path.normpath(folder)
        return any(i.session == id and i.cwd == named for i in self.runtime.list())

    def feed(self, id: str) -> Feed:
        """Of a session that is open or being read. Raises `Refused`."""
        feed = self.feeds.get(id)
        if feed is None:
            raise Refused("unknown_session", f"no session {id!r} is open")
        return feed

    def is_unread(self, id: str) -> bool:
        """Whether a session is not open here, as far as it is known, and nobody looks at it."""
        if id in self.feeds:
            return False
        return self.runtime.stored(id) is not None or self.runtime.is_shared

    async def read(self, id: str) -> Fields:
        """See to it that a session has a feed. Raises `SessionNotFound` or `StoreError`."""
        while (reading := self._reading.get(id)) is not None:
            await reading.wait()
        if id not in self.feeds:
            reading = self._reading[id] = trio.Event()
            try:
                await self._read(id)
            finally:
                self._read_over(id, reading)
        return {"session": id}

    def is_behind(self, id: str, epoch: str | None, seq: int | None) -> bool:
        """Whether a client knows more of a session than is shown here: it has seen that at another
        server."""
        feed = self.feeds.get(id) if self.runtime.is_shared else None
        if feed is None or epoch != feed.log.epoch or seq is None or feed.log.seq >= seq:
            return False
        # One that is open here may be stored up to there, and nobody has said so yet.
        return id in self._resting or seq <= host_of(self.runtime.get(id)).log.seq

    async def reach(self, id: str, seq: int) -> bool:
        """Wait until a session is known here, too, up to an event, or the store has no such one.
        False: it has left this server meanwhile, and has to be `read`. Raises `StoreUnavailable` if
        it cannot be known now, as the store is away, or this server is about to end."""
        feed, store = self.feeds.get(id), self.runtime.store
        if feed is None or feed.log.seq >= seq or store is None or store.port is None:
            return True
        session = self.open_session(feed)
        keeper = None if session is None else host_of(session).keeper
        if keeper is None:
            if await store.port.caught_up(feed.log):
                return True
            if self.feeds.get(id) is feed:
                raise StoreUnavailable("the session is not followed here any more")
        elif await keeper.wait_until_kept(seq):
            return True
        elif keeper.moved is None:
            keeper.check()  # says why
        else:
            await self.runtime.find(id)  # it is another server's now: its end here is waited for
        return False

    async def _read(self, id: str) -> None:
        if not await self.runtime.find(id):
            raise SessionNotFound(f"no session {id!r} is open or stored")
        log, stop = await self.runtime.follow(id, partial(self._ended, id))
        if id in self.feeds:  # it was opened meanwhile
            stop()
            return
        now = trio.current_time()
        self._drop_unseen(now)
        self._resting[id] = stop
        self._add(log)
        self._list_changed()  # which has all that somebody reads
        self._schedule(self._drop_unseen, now + UNSEEN)

    def _read_over(self, id: str, reading: trio.Event) -> None:
        reading.set()
        if self._reading.get(id) is reading:  # it may have come and left again meanwhile
            del self._reading[id]

    def _ended(self, id: str) -> None:
        """A session that is followed does not go on as it was."""
        if id in self._resting:
            self._drop(id)

    def _drop_unseen(self, now: float) -> None:
        for id in [each for each in self._resting if not self.feeds[each].viewers]:
            self._drop(id)
        if self._resting:
            self._schedule(self._drop_unseen, now + UNSEEN)

    def when_known(
        self,
        client: Client,
        id: str,
        before: str | None,
        then: Callable[[Feed], None],
        fail: Fail,
        *,
        turns: int | None = None,
    ) -> None:
        """Have `then` called with a session's feed: now, or when what is stored of it is read, and
        what the log's `history` is asked for; None: all. It is not opened by that. Raises
        `Refused`, as `then` may if it is called now."""
        if self.is_unread(id) or self.feed(id).log.lacks(before, turns):
            job = partial(self._look_back, id, before, turns)
            client.start(job, lambda _: then(self.feed(id)), fail)
        else:
            then(self.feed(id))

    async def _look_back(self, id: str, before: str | None, turns: int | None) -> Fields:
        while True:
            await self.read(id)
            log = self.feed(id).log
            if not log.lacks(before, turns):  # in the same step as what is done with it
                return {"session": id}
            assert self.runtime.store is not None
            await look_back(self.runtime.store, log, before, turns, self.limits)

    def when_open(
        self, client: Client, id: str, then: Callable[[Session], None], fail: Fail
    ) -> None:
        """Have `then` called with a session: now, or when it is opened, if it is only stored.
        Raises `Refused`, as `then` may if it is called now."""
        if self.runtime.stored(id) is None:
            then(self.session(id))
        else:
            client.start(partial(self.reopen, client, id), lambda _: then(self.session(id)), fail)

    async def reopen(self, client: Client, id: str) -> Fields:
        """Open a session that is only stored. Raises what `Runtime.reopen` does."""
        servers, roots = client.mcp_servers.get(id, ()), client.roots.get(id)
        await self.runtime.reopen(id, tools=client.tools, mcp_servers=servers, roots=roots)
        return {"session": id}

    # --- what is sent to all

    def default_agent(self) -> str:
        """Raises `Refused`."""
        if self._agent is not None:
            return self._agent
        for info in self.agents():
            if info.available:
                return info.name
        raise Refused("agent_failed", "no agent is installed")

    def agents(self) -> list[AgentInfo]:
        """Those of the catalogue."""
        made, agents = self._agents
        now = trio.current_time()
        if now - made >= AGENTS:
            agents = self.runtime.agents()
            self._agents = (now, agents)
        return agents

    def list_frame(self) -> bytes:
        if self._list is None:
            self._list = pack(type="sessions", sessions=self.sessions())
        return self._list

    def store_frame(self) -> bytes | None:
        """How the store does; None if it does well, or there is none."""
        store = self.runtime.store
        return None if store is None or store.status.state == "ok" else _store_frame(store.status)

    def name_chat(self, chat: str, session: str) -> None:
        """A session is what a client calls so, also for the next server."""
        self.chats[chat] = session
        if self.runtime.store is not None:
            self.runtime.store.name_chat(self._prefix + chat, session)

    async def find_chat(self, chat: str) -> Fields:
        """See to it that a session is known which another server has by that name, or id, if there
        is one. Raises `StoreError`."""
        port = None if self.runtime.store is None else self.runtime.store.port
        session = None if port is None else await port.chat(self._prefix + chat)
        if await self.runtime.find(session or chat) and session is not None:
            self.chats.setdefault(chat, session)
        return {}

    def page(self, before: str | None, limit: int) -> Fields:
        """What `ListSessions` asks for. Raises `Refused`."""
        stored = self.runtime.list_stored()
        if before is None:
            shown = {info.session for info in self.sessions()}
            more = any(info.session not in shown for info in stored)
            return {"sessions": self.sessions(), "more": more}
        places = [place for place, info in enumerate(stored) if info.session == before]
        if not places:
            raise Refused("unknown_session", f"no session {before!r} is stored")
        end = places[0]
        return {"sessions": stored[max(0, end - limit) : end], "more": end > limit}

    async def search(self, query: str, limit: int) -> Fields:
        """The sessions in which these words are, the latest first, with a piece of what was said.
        Raises `StoreError`."""
        if self.runtime.store is None:
            raise Refused("unsupported", "the sessions are not stored")
        whose = None if self.runtime.tenant is None else self.runtime.tenant.name
        hits = await self.runtime.store.search(query, limit=limit, tenant=whose)
        now = {info.session: info for info in self.runtime.list()}
        found = [(now.get(hit.entry.session), hit.snippet) for hit in hits]
        return {"found": [{"session": info, "snippet": text} for info, text in found if info]}

    def sessions(self) -> list[SessionInfo]:
        """What everybody is sent: the newest of those that are stored, all that somebody reads,
        and then those that are open."""
        stored, now = self.runtime.list_stored(), self.runtime.list_open()
        read = [info for info in stored[:-STORED] if info.session in self._resting]
        return [*read, *stored[-STORED:], *now]

    def _looked_at(self, id: str) -> float:
        feed = self.feeds.get(id)
        if feed is None:
            return -math.inf
        return math.inf if feed.viewers else feed.left_at

    def _sessions_changed(self) -> None:
        """Sessions have come or gone."""
        now = {info.session for info in self.runtime.list_open()}
        rest = {id for id in self._resting.keys() - now if self.runtime.stored(id) is not None}
        for id in self.feeds.keys() - now - rest:
            if self.runtime.is_shared and self.feeds[id].viewers and self.runtime.stored(id):
                self._hand_on(id)
            else:
                self._drop(id)
        for id in self._resting.keys() & now:
            self._resting.pop(id)()
            self._listening.pop(id)()
            log = self.runtime.get(id).log
            self.feeds[id].go_on(log)
            self._listen(self.feeds[id])
        for chat, known in list(self.chats.items()):
            if isinstance(known, str) and known not in now and not self.runtime.stored(known):
                del self.chats[chat]
        for id in now - self.feeds.keys():
            self._add(self.runtime.get(id).log)
        self._list_changed()

    def _hand_on(self, id: str) -> None:
        """A session has left this server, and may go on at another one: those who look at it look
        on at what is stored of it."""
        waiting = self._resting[id] = _Waiting()
        self._reading[id] = waiting.over
        self._listening.pop(id)()
        self._listening[id] = lambda: None
        self.runtime.start_soon(self._go_on, id, self.feeds[id], waiting)

    async def _go_on(self, id: str, feed: Feed, waiting: _Waiting) -> None:
        try:
            log, stop = await self.runtime.follow(id, partial(self._ended, id))
        except (SessionNotFound, StoreError) as error:
            logger.info("the session %s is not followed: %s", id, error)
            if self._resting.get(id) is waiting:
                self._drop(id)
            return
        finally:
            self._read_over(id, waiting.over)
        if self._resting.get(id) is not waiting:  # it is here again, or nobody looks at it
            stop()
        elif log.epoch != feed.log.epoch or log.seq < feed.log.seq:
            stop()
            self._drop(id)
        else:
            self._resting[id] = stop
            feed.go_on(log)
            self._listen(feed)

    def _store_changed(self) -> None:
        assert self.runtime.store is not None
        frame = _store_frame(self.runtime.store.status)
        for viewer in list(self.viewers):
            viewer.store_changed(frame)

    def _add(self, log: Log) -> None:
        feed = self.feeds[log.session] = Feed(log, self.limits.viewer_outbox, self._schedule)
        self._listen(feed)

    def _drop(self, id: str) -> None:
        """There is no such session any more, or nobody looks at it."""
        if (stop := self._resting.pop(id, None)) is not None:
            stop()
        feed = self.feeds.pop(id)
        feed.over = True
        feed.notify(trio.current_time())
        self._listening.pop(id)()

    def _listen(self, feed: Feed) -> None:
        log = feed.log
        listed = _listed(log)

        def published() -> None:
            nonlocal listed
            feed.publish(trio.current_time())
            if listed != (now := _listed(log)):
                listed = now
                self._list_changed()

        self._listening[log.session] = log.listen(published)
        if feed.waiting:
            published()  # it may be further than the one before

    def _list_changed(self) -> None:
        self._list = None
        if self.viewers:
            self._schedule(self._send_list, self._list_due)

    def _send_list(self, now: float) -> None:
        cost = (FRAME_COST + len(self.list_frame()) * BYTE_COST) * len(self.viewers)
        self._list_due = now + min(MOST, max(LIST, SHARE * cost))
        for viewer in list(self.viewers):
            viewer.list_changed()

    # --- what is done later

    def _schedule(self, job: Callable[[float], None], at: float) -> None:
        """Have `job` called at that time or, if it is to be called anyway, at the earlier one."""
        known = self._jobs.get(job)
        if known is None or at < known:
            self._jobs[job] = at
            if at < self._wakes_at:
                self._lot.unpark_all()

    async def _keep_time(self) -> None:
        with self._scope:
            while True:
                now = trio.current_time()
                for job in [job for job, at in self._jobs.items() if at <= now]:
                    del self._jobs[job]
                    job(now)
                self._wakes_at = min(self._jobs.values(), default=math.inf)
                with trio.move_on_at(self._wakes_at):
                    await self._lot.park()

    # --- clients, which outlive their connections

    def recognise(self, viewer: Viewer, token: str | None) -> Client:
        """The client that a viewer is. The newest connection of a client is the one that counts."""
        client = self.client(viewer.role, None if token is None else self._prefix + token)
        if client.viewer is not None:
            client.viewer.end(Code.REPLACED, "this client has connected again")
            client.leave()
        client.viewer = viewer
        self.viewers[viewer] = client
        return client

    def client(self, role: Role, token: str | None) -> Client:
        """The client of that name, as other servers know it, or a new one."""
        client = None if token is None else self._clients.get((role, token))
        if client is None:
            kept = self.runtime.answers if role == "controller" else {}
            answered = filter(self._holds, kept.pop(token or "", ()))
            client = Client(self.runtime, self.answers, name=token, answered=answered)
        if token is not None:
            self._clients[role, token] = client
            self._clients.move_to_end((role, token))
            self._forget_oldest()
        return client

    def _holds(self, answer: Answer) -> bool:
        """Whether what an earlier server has answered is still so: a session that was opened and
        never had a turn has gone with it, and is to be opened again."""
        opened = _opened.decode(answer.body).session
        return opened is None or opened in self.feeds or self.runtime.stored(opened) is not None

    def forget(self, viewer: Viewer) -> None:
        """A connection is gone."""
        client = self.viewers.pop(viewer, None)
        if client is not None and client.viewer is viewer:
            self.left(client)

    def left(self, client: Client) -> None:
        """A client is not there any more."""
        client.leave()
        if not client.can_return:
            client.end()
        if client.offers:
            self.present(self, client, tuple(client.away), False)

    def arrived(self, client: Client, session: str) -> None:
        """A client looks at a session."""
        if client.offers and not self.is_open(session):
            client.away.add(session)
            self.present(self, client, [session], True)

    def _forget_oldest(self) -> None:
        gone = [key for key, client in self._clients.items() if not client.is_needed]
        for key in gone[: max(0, len(gone) - CLIENTS)]:
            self._clients.pop(key).end()


class _Waiting:
    """In the place of what ends that a session is followed, until it is."""

    def __init__(self) -> None:
        self.over = trio.Event()

    def __call__(self) -> None:
        pass


class _Opened(Struct):
    """What an answer says of the session that was opened, if one was."""

    session: str | None = None


_opened: Final = msgspec.json.Decoder(_Opened)


def _listed(log: Log) -> tuple[object, ...]:
    """What of a log is in the list of sessions, as far as it changes."""
    state = log.state
    return state.state.phase, state.turn_count, state.title


def _store_frame(status: StoreStatus) -> bytes:
    about = {} if status.message is None else {"message": status.message}
    return pack(type="store", state=status.state, since=status.since, **about)
