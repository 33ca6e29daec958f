"""The hub: every session of a runtime, and everything that views them.

It does no networking. Sessions notify it synchronously; it notifies the viewers immediately or when
their pause is over. Nothing here waits for a client.

A session has a `Feed`, which knows its viewers and encodes each event once for all of them. The
feed of an open session listens to the session's log. The feed of a session that is only stored, or
open on another server, listens to a copy of the log that the runtime keeps up to date
(`Runtime.follow`); these are the keys of `_resting`. When a session is opened, closed or moved to
another server, `_sessions_changed` moves its feed from one kind to the other, and its viewers stay
where they are.

Clients outlive their connections: `_clients` keeps the newest of those that left, so that a client
that comes back under its name finds its answers, its tools and its unfinished commands.

There is one hub for the operator and one for each tenant (`of`). A tenant's hub sees the runtime
through a view that contains only the tenant's sessions, and clients' names have the tenant's
prefix, so the other methods need no checks of a session's tenant.

All work that is due later, such as a paced frame or the next list of the sessions, is a job in
`_jobs`: one task sleeps until the earliest of them.
"""

from __future__ import annotations

import logging
import math
import os
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final, Protocol

import msgspec
import trio
from msgspec import Struct

from .._base.tenant import Tenant
from .._public import Runtime, Session, SessionInfo
from ..agents import AgentInfo
from ..errors import SessionNotFound, StoreError, StoreUnavailable
from ..hosting import RuntimeHost, SessionControl, runtime_host
from ..jsonrpc import encode_json
from ..lowlevel import CommandFields, CommandRefused, Log, SessionState, Steps
from ..store import CommandAnswer, StoreStatus
from .client import AnswerRoom, Client
from .feed import BYTE_COST_S, FRAME_COST_S, MAX_PACE_S, PACE_RATIO, Feed
from .files import FileFinder, FileViewer
from .folders import Folders
from .live_traces import LiveTraces
from .native_frames import SessionsFrame, StoreFrame
from .refusal import CloseCode
from .remote_command import announce
from .security import Role
from .viewer import Viewer

logger = logging.getLogger("agentrt.server")

DISCONNECTED_CLIENTS: Final = 256
"""Number of disconnected clients that are remembered, so that they can come back."""

LIST_INTERVAL_S: Final = 0.02
"""Minimum seconds between two lists of the sessions."""

LISTED_SESSIONS: Final = 200
"""Number of stored sessions in the list, newest ones; `list` returns the others."""

UNSEEN_S: Final = 30.0
"""Seconds after which a session that is read or followed, and has no viewers, is dropped. It is
dropped sooner if another one is read.
"""

AGENTS_CACHE_S: Final = 30.0
"""Seconds for which the list of installed agents is cached: making it searches for programs."""


class ServedDialect(Struct, frozen=True):
    """A protocol that clients use to view the sessions, as the server's connections use it: either
    `agentrt.v1` or made from a `Dialect`.

    - `path`, `protocol`, `connection_header`: as in `Dialect`.
    - `viewer`: creates the viewer of a connection.
    - `says_closing`: true if its clients know the message `closing`; other clients get the reason
      in the close frame only.
    """

    path: str
    protocol: str
    viewer: Callable[[Hub, Role], Viewer]
    says_closing: bool = False
    connection_header: str | None = None


class OtherStores(Protocol):
    """Sessions that are stored outside the runtime's own store."""

    async def sessions(self, cwd: str | None) -> CommandFields:
        """Return the sessions of a folder (None: of all folders) as `sessions`, the newest last."""
        ...

    async def fetch(self, session: str) -> CommandFields:
        """Add this session to the runtime's stored ones, if it exists. Raises if that fails."""
        ...


class ChatOpening:
    """The opening of a chat's session, and the requests that wait for it, in their order."""

    def __init__(self) -> None:
        self.error: CommandRefused | None = None
        """The reason why it failed."""
        self.last = trio.Event()
        """Set when the last request that came so far has been carried out."""


class Hub:
    """All sessions and viewers of one `Runtime`. Close it before the runtime's block is left.

    `agent`: the agent of sessions that a client opens without naming one; by default the first
    installed one. `folders`: the folders where clients may open sessions. `other_stores`: the
    source of further sessions, if there is one.
    """

    def __init__(
        self,
        runtime: Runtime,
        agent: str | None = None,
        folders: Folders | None = None,
        other_stores: OtherStores | None = None,
    ) -> None:
        self.runtime: RuntimeHost = runtime_host(runtime)
        runtime = self.runtime
        self.folders = folders or Folders()
        self.files = FileFinder()
        self.file_viewer = FileViewer()
        self.live_traces = LiveTraces(runtime)
        self.limits = runtime.limits
        self.viewers: dict[Viewer, Client | None] = {}
        """All viewers, each with its client once that is known."""
        self.feeds: dict[str, Feed] = {}
        # The feeds of sessions that are not open here; the function stops following the session.
        self._resting: dict[str, Callable[[], None]] = {}
        self._prefix = "" if runtime.tenant is None else f"@{runtime.tenant.name}/"
        """Prefix of names that clients choose, in the store and for other servers."""
        self._tenants: dict[str, Hub] = {}
        self.chats: dict[str, str | ChatOpening] = {
            name.removeprefix(self._prefix): session
            for name, session in runtime.chats.items()
            if name.startswith(self._prefix)
        }
        """By name that AI SDK clients gave to a session: the session, or its opening."""
        self.other_stores = other_stores
        self._agent = agent
        self._clients: OrderedDict[tuple[Role, str], Client] = OrderedDict()
        self.answers = AnswerRoom(runtime.limits.client_answers_bytes)
        self._reading: dict[str, trio.Event] = {}
        self._listening: dict[str, Callable[[], None]] = {}  # by session
        self._list: bytes | None = None
        self._list_due = 0.0
        self._jobs: dict[Callable[[float], None], float] = {}
        self._wakes_at = math.inf
        self._lot = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()
        runtime.start_soon(self._keep_time)
        self._agents: tuple[float, list[AgentInfo]] = (-AGENTS_CACHE_S, [])
        self._stop_listening = [
            runtime.listen(self._sessions_changed),
            runtime.show(self._looked_at),
            runtime.listen_to_store(self._store_changed),
        ]
        self._sessions_changed()

    def attach_viewer(self, dialect: ServedDialect, *, role: Role = "controller") -> Viewer:
        """Add a connection. Its `role` is decided by the server, not by the client."""
        viewer = dialect.viewer(self, role)
        self.viewers.setdefault(viewer)
        return viewer

    def of(self, tenant: Tenant | None) -> Hub:
        """Return the hub of a tenant's clients, which shows only the tenant's sessions and knows
        nothing of this hub, the operator's.
        """
        if tenant is None:
            return self
        hub = self._tenants.get(tenant.name)
        if hub is None:
            hub = Hub(self.runtime.of(tenant), self._agent, self._folders_of(tenant))
            self._tenants[tenant.name] = hub
        elif hub.runtime.tenant != tenant:
            hub.runtime.set_tenant_limits(tenant)
            hub.folders = self._folders_of(tenant)
        return hub

    def _folders_of(self, tenant: Tenant) -> Folders:
        """Return the folders of a tenant.

        In a sandbox, agents can use the folders of their session: without roots, the tenant would
        choose the files of this machine that they can use.
        """
        sandbox = self.runtime.client_sandbox(None)
        roots = tenant.roots or self.folders.roots
        if sandbox is None:
            return Folders(roots, missing_ok=True) if tenant.roots else self.folders
        missing = (
            f"the tenant {tenant.name!r} has no folders, and agents can use the folder of their"
            f" session: set serve.tenants.{tenant.name}.root"
        )
        return Folders(roots, missing_ok=True, needs_roots=missing, hidden=sandbox.hide)

    def close(self, reason: str = "the server is shutting down") -> None:
        """End every viewer and stop listening to the runtime."""
        for hub in self._tenants.values():
            hub.close(reason)
        for viewer in list(self.viewers):
            viewer.end(CloseCode.SHUTDOWN, reason)
        for stop in (*self._stop_listening, *self._listening.values()):
            stop()
        self._stop_listening = []
        # Commands that were received earlier may still run, and drop sessions without viewers.
        self._listening = dict.fromkeys(self._listening, lambda: None)
        self.live_traces.close()
        self._scope.cancel()

    def is_open(self, id: str) -> bool:
        """True if a session is open here and not over. This asks the runtime, which may outlive the
        hub.
        """
        return self.runtime.is_open(id)

    def session(self, id: str) -> Session:
        """Return an open session. Raises `CommandRefused` if it is not open."""
        if id in self._resting:
            raise CommandRefused("unknown_session", f"the session {id!r} is not open")
        self.feed(id)
        return self.runtime.get(id)

    def open_session(self, feed: Feed) -> Session | None:
        """Return the session of a feed if it is open, else None."""
        id = feed.log.session
        there = self.feeds.get(id) is feed and id not in self._resting
        return self.runtime.get(id) if there else None

    def is_in(self, id: str, folder: str) -> bool:
        """True if a session is in this folder."""
        named = os.path.normpath(folder)
        info = self.info(id)
        return info is not None and info.cwd == named

    def info(self, id: str) -> SessionInfo | None:
        """Return the entry of a session in the list, or None if there is none."""
        here = (info for info in self.runtime.list_open() if info.session == id)
        return self.runtime.stored(id) or next(here, None)

    def feed(self, id: str) -> Feed:
        """Return the feed of a session that is open or being read. Raises `CommandRefused` if there
        is none.
        """
        feed = self.feeds.get(id)
        if feed is None:
            raise CommandRefused("unknown_session", f"no session {id!r} is open")
        return feed

    def is_unread(self, id: str) -> bool:
        """True if a session is, as far as known, not open here and has no feed."""
        if id in self.feeds:
            return False
        return self.runtime.stored(id) is not None or self.runtime.is_shared

    async def read(self, id: str) -> CommandFields:
        """Make sure that a session has a feed. Raises `SessionNotFound` or `StoreError`."""
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
        """True if a client knows more of a session than this server shows, because it saw that on
        another server.
        """
        feed = self.feeds.get(id) if self.runtime.is_shared else None
        if feed is None or epoch != feed.log.epoch or seq is None or feed.log.seq >= seq:
            return False
        # An open session may be stored up to there, without this server being notified yet.
        return id in self._resting or seq <= SessionControl(self.runtime.get(id)).seq

    async def reach(self, id: str, seq: int) -> bool:
        """Wait until this server knows a session up to an event, or the store has no such event.

        Returns False if the session has left this server in the meantime and must be `read`. Raises
        `StoreUnavailable` if that cannot be known now, because the store is unavailable or this
        server is ending.
        """
        feed, cluster = self.feeds.get(id), self.runtime.cluster
        if feed is None or feed.log.seq >= seq or cluster is None:
            return True
        session = self.open_session(feed)
        control = None if session is None else SessionControl(session)
        if control is None or not control.is_stored:
            if await cluster.caught_up(feed.log):
                return True
            if self.feeds.get(id) is feed:
                raise StoreUnavailable("this server no longer follows the session")
        elif await control.wait_until_kept(seq):
            return True
        elif not control.has_moved:
            control.check_stored()  # raises the reason
        else:
            await self.runtime.find(id)  # another server has it now; wait for its end here
        return False

    async def _read(self, id: str) -> None:
        """Begin to follow a session that is not open here, and create its feed.

        Other feeds without viewers are dropped first, so that reading many sessions one after the
        other keeps only one of them in memory. Raises `SessionNotFound` or `StoreError`.
        """
        if not await self.runtime.find(id):
            raise SessionNotFound(f"no session {id!r} is open or stored")
        log, stop = await self.runtime.follow(id, partial(self._ended, id))
        if id in self.feeds:  # it was opened in the meantime
            stop()
            return
        now = trio.current_time()
        self._drop_unseen(now)
        self._resting[id] = stop
        self._add(log)
        self._list_changed()  # the list contains all sessions that are read
        self._schedule(self._drop_unseen, now + UNSEEN_S)

    def _read_over(self, id: str, reading: trio.Event) -> None:
        """Wake those who wait for the reading of a session.

        The entry may belong to a later reading already; it is removed only if it is this one.
        """
        reading.set()
        if self._reading.get(id) is reading:  # it may have come and left again
            del self._reading[id]

    def _ended(self, id: str) -> None:
        """Handle the end of following a session."""
        if id in self._resting:
            self._drop(id)

    def _drop_unseen(self, now: float) -> None:
        """Drop followed sessions without viewers, and look again after `UNSEEN_S` if any
        are left.
        """
        for id in [each for each in self._resting if not self.feeds[each].viewers]:
            self._drop(id)
        if self._resting:
            self._schedule(self._drop_unseen, now + UNSEEN_S)

    def known(
        self, client: Client, id: str, before: str | None, *, turns: int | None = None
    ) -> Steps[Feed]:
        """Return a session's feed, after its stored part has been read if necessary.

        Reading includes the turns that the log's `history` would need for `before` and `turns`
        (None: all). The session is not opened. Raises `CommandRefused`, or the error of reading.
        """
        if self.is_unread(id) or self.feed(id).log.lacks(before, turns):
            yield from client.wait(partial(self._look_back, id, before, turns))
        return self.feed(id)

    async def _look_back(self, id: str, before: str | None, turns: int | None) -> CommandFields:
        """Read a session and its history until nothing that was requested is missing.

        The session may be dropped while its history is read, because it has no viewer yet; then it
        is read again.
        """
        while True:
            await self.read(id)
            log = self.feed(id).log
            if not log.lacks(before, turns):  # no checkpoint before it is used
                return {"session": id}
            await self.runtime.load_history(log, before, turns)

    def opened(self, client: Client, id: str) -> Steps[Session]:
        """Return a session, after it has been opened if it was only stored.

        Raises `CommandRefused`, or the errors of `Runtime.reopen`.
        """
        if self.runtime.stored(id) is not None:
            yield from client.wait(partial(self.reopen, client, id))
        return self.session(id)

    async def reopen(self, client: Client, id: str) -> CommandFields:
        """Open a session that is only stored.

        Raises the errors of `Runtime.reopen`, or `CommandRefused` if its folders are not the
        tenant's any more.
        """
        servers, roots = client.mcp_servers.get(id, ()), client.roots.get(id)
        stored = self.runtime.stored(id)
        if self.runtime.tenant is not None and stored is not None:
            for folder in (stored.cwd, *stored.roots):  # a link may be in its place now
                self.folders.resolve(folder)
        await self.runtime.reopen(id, tools=client.tools, mcp_servers=servers, roots=roots)
        return {"session": id}

    # --- sent to all viewers

    def default_agent(self) -> str:
        """Return the agent for sessions that name none.

        Raises `CommandRefused` if none is installed.
        """
        if self._agent is not None:
            return self._agent
        for info in self.agents():
            if info.available:
                return info.name
        raise CommandRefused("agent_failed", "no agent is installed")

    def agents(self) -> list[AgentInfo]:
        """Return the agents of the catalogue."""
        made, agents = self._agents
        now = trio.current_time()
        if now - made >= AGENTS_CACHE_S:
            agents = self.runtime.agents()
            self._agents = (now, agents)
        return agents

    def list_frame(self) -> bytes:
        """Return the list of sessions as a frame."""
        if self._list is None:
            self._list = encode_json(SessionsFrame(self.sessions()))
        return self._list

    def store_frame(self) -> bytes | None:
        """Return the store's state as a frame; None if it is fine or there is no store."""
        store = self.runtime.store
        return None if store is None or store.status.state == "ok" else _store_frame(store.status)

    def name_chat(self, chat: str, session: str) -> None:
        """Bind a client's name for a session, also for the next server."""
        self.chats[chat] = session
        self.runtime.name_chat(self._prefix + chat, session)

    async def find_chat(self, chat: str) -> CommandFields:
        """Find the session that another server has under this name or id, if there is one. Raises
        `StoreError`.
        """
        cluster = self.runtime.cluster
        session = None if cluster is None else await cluster.chat(self._prefix + chat)
        if await self.runtime.find(session or chat) and session is not None:
            self.chats.setdefault(chat, session)
        return {}

    def page(self, before: str | None, limit: int) -> CommandFields:
        """Return the result of `ListSessions`.

        Raises `CommandRefused` if `before` is not stored.
        """
        if before is None:
            sessions = self.sessions()
            shown = {info.session for info in sessions}
            more = any(info.session not in shown for info in self.runtime.newest_stored())
            return {"sessions": sessions, "more": more}
        try:
            found = [*islice(self.runtime.newest_stored(before), limit + 1)]
        except KeyError:
            raise CommandRefused("unknown_session", f"no session {before!r} is stored") from None
        return {"sessions": found[:limit][::-1], "more": len(found) > limit}

    async def search(self, query: str, limit: int) -> CommandFields:
        """Return the sessions that contain these words, the latest first, each with a snippet.
        Raises `StoreError`.
        """
        if self.runtime.store is None:
            raise CommandRefused("unsupported", "the sessions are not stored")
        whose = None if self.runtime.tenant is None else self.runtime.tenant.name
        hits = await self.runtime.store.search(query, limit=limit, tenant=whose)
        found = [(self.info(hit.entry.session), hit.snippet) for hit in hits]
        return {"found": [{"session": info, "snippet": text} for info, text in found if info]}

    def sessions(self) -> list[SessionInfo]:
        """Return the list for all viewers: the newest stored sessions, all that are being read,
        then the open ones.
        """
        newest = [*islice(self.runtime.newest_stored(), LISTED_SESSIONS)]
        read = map(self.runtime.stored, self._resting.keys() - {info.session for info in newest})
        older = sorted(filter(None, read), key=_updated_at)
        return [*older, *reversed(newest), *self.runtime.list_open()]

    def _looked_at(self, id: str) -> float:
        """Return the time at which a session last had a viewer: infinity if it has one now, minus
        infinity if it is not known here. The runtime removes sessions from memory that no viewer
        has looked at for a time.
        """
        feed = self.feeds.get(id)
        if feed is None:
            return -math.inf
        return math.inf if feed.viewers else feed.left_at

    def _sessions_changed(self) -> None:
        """Update feeds, names and the list after sessions have come or gone."""
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
            session = self.runtime.get(id)
            self.feeds[id].switch_log(session.log)
            self._listen(self.feeds[id], session)
        for chat, known in list(self.chats.items()):
            if isinstance(known, str) and known not in now and not self.runtime.stored(known):
                del self.chats[chat]
        for id in now - self.feeds.keys():
            session = self.runtime.get(id)
            self._add(session.log, session)
        self._list_changed()

    def _hand_on(self, id: str) -> None:
        """Keep the viewers of a session that left this server, and may continue on another one:
        they continue with its stored log.
        """
        waiting = self._resting[id] = _Waiting()
        self._reading[id] = waiting.over
        self._listening.pop(id)()
        self._listening[id] = lambda: None
        self.runtime.start_soon(self._go_on, id, self.feeds[id], waiting)

    async def _go_on(self, id: str, feed: Feed, waiting: _Waiting) -> None:
        """Let the viewers of a session continue with the log that another server writes.

        A log with another epoch or fewer events cannot continue the one that they know: they are
        then dropped, and their clients load the session again.
        """
        try:
            log, stop = await self.runtime.follow(id, partial(self._ended, id))
        except (SessionNotFound, StoreError) as error:
            logger.info("the session %s is not followed: %s", id, error)
            if self._resting.get(id) is waiting:
                self._drop(id)
            return
        finally:
            self._read_over(id, waiting.over)
        if self._resting.get(id) is not waiting:  # it is here again, or has no viewers
            stop()
        elif log.epoch != feed.log.epoch or log.seq < feed.log.seq:
            stop()
            self._drop(id)
        else:
            self._resting[id] = stop
            feed.switch_log(log)
            self._listen(feed)

    def _store_changed(self) -> None:
        """Send the new state of the store to all viewers."""
        assert self.runtime.store is not None
        frame = _store_frame(self.runtime.store.status)
        for viewer in list(self.viewers):
            viewer.store_changed(frame)

    def _add(self, log: Log, session: Session | None = None) -> None:
        """Create the feed of a session and listen to its log."""
        feed = self.feeds[log.session] = Feed(log, self.limits, self._schedule)
        self._listen(feed, session)

    def _drop(self, id: str) -> None:
        """Remove a session that no longer exists or has no viewers."""
        if (stop := self._resting.pop(id, None)) is not None:
            stop()
        feed = self.feeds.pop(id)
        feed.over = True
        feed.notify(trio.current_time())
        self._listening.pop(id)()

    def _listen(self, feed: Feed, session: Session | None = None) -> None:
        """Publish the events of a feed's log. `session`: None if it is not open here."""
        log, state = feed.log, feed.log.state
        listed = _listed(state, session)

        def published() -> None:
            """Notify the viewers of new events, and update the list if it shows what they
            changed.
            """
            nonlocal listed
            feed.publish(trio.current_time())
            if listed != (now := _listed(state, session)):
                listed = now
                self._list_changed()

        self._listening[log.session] = log.listen(published)
        if feed.waiting:
            published()  # it may be ahead of the previous log

    def _list_changed(self) -> None:
        """Discard the encoded list, and schedule sending a new one."""
        self._list = None
        if self.viewers:
            self._schedule(self._send_list, self._list_due)

    def _send_list(self, now: float) -> None:
        """Send the list to all viewers, at a pace that its size and their number determine.

        Many viewers of many sessions would otherwise cost the server all of its time.
        """
        cost = (FRAME_COST_S + len(self.list_frame()) * BYTE_COST_S) * len(self.viewers)
        self._list_due = now + min(MAX_PACE_S, max(LIST_INTERVAL_S, PACE_RATIO * cost))
        for viewer in list(self.viewers):
            viewer.list_changed()

    # --- scheduled jobs

    def _schedule(self, job: Callable[[float], None], at: float) -> None:
        """Call `job` at that time, or earlier if it is already scheduled for an earlier time."""
        known = self._jobs.get(job)
        if known is None or at < known:
            self._jobs[job] = at
            if at < self._wakes_at:
                self._lot.unpark_all()

    async def _keep_time(self) -> None:
        """Run the scheduled jobs at their times, in one task for the life of the hub."""
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
        """Return the client of a viewer. A client's new connection replaces an older one."""
        client = self.client(viewer.role, None if token is None else self._prefix + token)
        client.join(viewer)
        self.viewers[viewer] = client
        return client

    def client(self, role: Role, token: str | None) -> Client:
        """Return the client of that name, as other servers know it, or a new one."""
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

    def _holds(self, answer: CommandAnswer) -> bool:
        """True if an earlier server's answer is still valid. A session that was opened and never
        had a turn ended with that server and must be opened again.
        """
        opened = _opened.decode(answer.body).session
        return opened is None or opened in self.feeds or self.runtime.stored(opened) is not None

    def forget(self, viewer: Viewer) -> None:
        """Handle the end of a connection."""
        client = self.viewers.pop(viewer, None)
        if client is not None and client.viewer is viewer:
            self.left(client)

    def left(self, client: Client) -> None:
        """Handle the departure of a client."""
        client.leave()
        if not client.can_return:
            client.end()
        if client.tool_names:
            announce(self.runtime, client, tuple(client.away), there=False)

    def arrived(self, client: Client, session: str) -> None:
        """Note that a client views a session."""
        if client.tool_names and not self.is_open(session):
            client.away.add(session)
            announce(self.runtime, client, [session], there=True)

    def _forget_oldest(self) -> None:
        """Forget the oldest of the clients that are not needed, beyond `DISCONNECTED_CLIENTS`."""
        gone = [key for key, client in self._clients.items() if not client.is_needed]
        for key in gone[: max(0, len(gone) - DISCONNECTED_CLIENTS)]:
            self._clients.pop(key).end()


class _Waiting:
    """A placeholder for the function that stops following a session, until it is followed."""

    def __init__(self) -> None:
        self.over = trio.Event()

    def __call__(self) -> None:
        pass


class _Opened(Struct):
    """The part of an answer that names the opened session, if there is one."""

    session: str | None = None


_opened: Final = msgspec.json.Decoder(_Opened)


def _listed(state: SessionState, session: Session | None) -> tuple[object, ...]:
    """Return the fields of the list of sessions that an event of their logs can change."""
    sandbox = None if session is None else session.sandbox
    granted = () if sandbox is None else sandbox.granted
    return state.state.phase, state.turn_count, state.title, granted


def _updated_at(info: SessionInfo) -> float:
    return info.updated or info.created


def _store_frame(status: StoreStatus) -> bytes:
    return encode_json(StoreFrame(status.state, status.since, status.message))
