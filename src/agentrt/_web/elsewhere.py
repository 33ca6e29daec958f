"""A session of another server, for dialects whose clients do not speak in commands: what they ask
of it becomes commands, and what it is, is what is known of it here.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeAlias

from .._errors import AgentrtError, LocalProtocolError, SessionElsewhere, SessionNotFound
from .._logging import get_logger
from .._model.content import Block, JsonObject
from .._model.events import Modes, PermissionOpened, State
from .._session.core import TakenBack, When
from .._session.session import Session
from .._session.turn import Turn
from . import commands as c
from .answers import Fields, Refused
from .client import Client, Fail
from .feed import Feed
from .hub import Hub
from .operations import carry_out

logger = get_logger("server")


class Shows(Protocol):
    """The viewer for whose client it is."""

    def follow(self, feed: Feed) -> None: ...


def new_id() -> str:
    """Of a command that has none of the client's own."""
    return secrets.token_hex(16)


class ElsewhereTurn:
    """A prompt that was sent to another server: what the dialects need of a `Turn`."""

    def __init__(self, session: ElsewhereSession, content: list[Block]) -> None:
        self.entry = ""
        self.failure: AgentrtError | None = None
        """Why it will not run."""
        self._session = session
        self._content = content
        self._known = session.turns()
        self._id = ""
        self._unwanted = False

    @property
    def id(self) -> str:
        """Its turn's; empty until it has begun, as far as that is known here."""
        if not self._id and self.entry and not self.failure:
            self._look()
        return self._id

    def _look(self) -> None:
        """One that waited has begun, or was taken back, when it does not wait any more."""
        state = self._session.feed.log.state
        if any(entry.id == self.entry for entry in state.queue):
            return
        begun = [
            turn.id
            for turn in state.turns.values()
            if turn.id not in self._known and turn.origin == "user"
        ]
        prompts = {item.turn: item.content for item in state.items.values() if item.type == "user"}
        same = [turn for turn in begun if prompts.get(turn) == self._content]
        if begun:
            self._id = (same or begun)[0]
        else:
            self.failure = TakenBack("the prompt was taken out of the queue")

    def taken(self, fields: Fields) -> None:
        """How it stands, by the other server's word."""
        self._id = str(fields.get("turn") or "")
        self.entry = str(fields.get("entry") or "")
        if self._unwanted:
            self.cancel()
        self._session.show()

    def refused(self, error: Refused) -> None:
        self.failure = AgentrtError(error.message)
        self._session.show()

    def cancel(self) -> None:
        """Take it back, or cancel it."""
        if self.id:
            id = self._session.id
            self._session.command(c.Cancel(id=new_id(), session=id, turn=self.id, pause=False))
        elif self.entry:
            remove = c.QueueRemove(id=new_id(), session=self._session.id, entry=self.entry)
            self._session.command(remove)
        else:
            self._unwanted = True


class ElsewhereSession:
    """What the dialects need of a `Session`."""

    def __init__(self, hub: Hub, client: Client, viewer: Shows, feed: Feed) -> None:
        self.feed = feed
        self._hub = hub
        self._client = client
        self._viewer = viewer

    @property
    def id(self) -> str:
        return self.feed.log.session

    @property
    def state(self) -> State:
        return self.feed.log.state.state

    @property
    def modes(self) -> Modes | None:
        return self.feed.log.state.modes

    @property
    def permissions(self) -> dict[str, PermissionOpened]:
        return dict(self.feed.log.state.permissions)

    def turns(self) -> frozenset[str]:
        """Those that are known."""
        return frozenset(self.feed.log.state.turns)

    def show(self) -> None:
        """Something is known that the log does not say."""
        self._viewer.follow(self.feed)

    def submit(self, content: list[Block], *, when: When = "queue") -> ElsewhereTurn:
        """As `Session.submit`; what it would raise is the turn's `failure`."""
        turn = ElsewhereTurn(self, content)
        prompt = c.Prompt(id=new_id(), session=self.id, content=content, when=when)
        carry_out(self._hub, self._client, prompt, turn.taken, turn.refused)
        return turn

    def cancel(self) -> None:
        running = self.state.turn
        turn = None if running is None else running.id
        self.command(c.Cancel(id=new_id(), session=self.id, turn=turn))

    def answer(self, request: str, option: str, *, note: str = "") -> None:
        """As `Session.answer`, by what is known here."""
        asked = self.feed.log.state.permissions.get(request)
        if asked is None:
            raise LocalProtocolError(f"the request {request!r} is not open")
        for each in asked.options:
            if option in (each.id, each.kind):
                self._resolve(request, option=each.id, note=note)
                return
        raise LocalProtocolError(f"the request {request!r} has no option {option!r}")

    def fill(self, request: str, content: JsonObject) -> None:
        self._resolve(request, content=content)

    def dismiss(self, request: str, message: str = "") -> None:
        self._resolve(request, cancel=True, note=message)

    def _resolve(
        self,
        request: str,
        *,
        option: str | None = None,
        content: JsonObject | None = None,
        cancel: bool = False,
        note: str = "",
    ) -> None:
        self.command(
            c.Permission(
                id=new_id(),
                session=self.id,
                request=request,
                option=option,
                content=content,
                cancel=cancel,
                note=note,
            )
        )

    def command(self, command: c.Command) -> None:
        """Have something done of which the session's events say what comes of it."""
        carry_out(self._hub, self._client, command, lambda fields: None, self._refused)

    def _refused(self, error: Refused) -> None:
        logger.info("the session %s: %s", self.id, error.message)


AnySession: TypeAlias = Session | ElsewhereSession
AnyTurn: TypeAlias = Turn | ElsewhereTurn


def is_paused(feed: Feed, turn: AnyTurn) -> bool:
    """True if a prompt waits that somebody has paused. The clients of foreign dialects cannot
    resume the queue, so they are answered; the prompt stays in the queue for those who can."""
    return not turn.id and any(
        entry.id == turn.entry and entry.paused for entry in feed.log.state.queue
    )


def stop(session: AnySession, turn: AnyTurn | str) -> None:
    """A user's Stop of a turn, by itself or its id: of the running one, or one that waits."""
    running = session.state.turn
    if running is not None and running.id == (turn if isinstance(turn, str) else turn.id):
        session.cancel()
    elif not isinstance(turn, str):
        turn.cancel()


class Sessions:
    """The sessions of one viewer, here or at other servers."""

    def __init__(self, hub: Hub, client: Callable[[], Client], viewer: Shows) -> None:
        self._hub = hub
        self._client = client
        self._viewer = viewer

    def get(self, id: str) -> AnySession:
        """One that is open here, or that is followed. Raises `Refused`."""
        hub = self._hub
        if hub.runtime.is_shared and not hub.is_open(id):
            return ElsewhereSession(hub, self._client(), self._viewer, hub.feed(id))
        return hub.session(id)

    def when_there(self, id: str, then: Callable[[AnySession], None], fail: Fail) -> None:
        """Have `then` called with a session that can be prompted: now, or when it is opened here,
        if it is only stored, or followed, if it is another server's to open it. Raises `Refused`,
        as `then` may if it is called now."""
        hub, client = self._hub, self._client()
        if hub.runtime.is_shared and not hub.is_open(id):
            client.start(partial(self._find, id), lambda _: then(self.get(id)), fail)
        else:
            hub.when_open(client, id, then, fail)

    async def _find(self, id: str) -> Fields:
        hub, store = self._hub, self._hub.runtime.store
        assert store is not None
        assert store.port is not None
        owned = await store.port.owner(id) if await hub.runtime.find(id) else None
        if owned is None:
            raise SessionNotFound(f"no session {id!r} is open or stored")
        if owned.node is None and hub.runtime.runs_here(owned.home):
            with suppress(SessionElsewhere):
                return await hub.reopen(self._client(), id)
        return await hub.read(id)

    def waits(self, id: str, item: str | None = None) -> bool:
        """Whether a call (any, without an item) waits for this client."""
        if self._hub.is_open(id):
            return self._client().calls.waits(id, item)
        feed = self._hub.feeds.get(id)
        if feed is None:
            return False
        items, offers = feed.log.state.items, self._client().offers
        found = items.values() if item is None else filter(None, [items.get(item)])
        return any(
            each.status == "waiting"
            and each.tool is not None
            and each.tool.owner == "client"
            and each.tool.name in offers
            for each in found
        )

    def finish(self, id: str, item: str, content: list[Block], *, error: bool) -> None:
        """This client's result of a call, if that waits for it."""
        if self._hub.is_open(id):
            self._client().calls.finish(id, item, content, error=error)
        elif self.waits(id, item):
            session = self.get(id)
            assert isinstance(session, ElsewhereSession)
            session.command(
                c.ToolResult(id=new_id(), session=id, item=item, content=content, error=error)
            )
