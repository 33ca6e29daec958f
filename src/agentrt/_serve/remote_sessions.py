"""A session of another server, for dialects whose clients do not send commands. Method calls become
commands, and attributes return the state that is known here.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeAlias

from .._public import Session, Turn, When
from ..errors import AgentrtError, LocalProtocolError, SessionElsewhere, SessionNotFound
from ..events import Block, JsonObject, Modes, PermissionOpened, State
from ..hosting import PromptRemoved, SessionControl
from ..lowlevel import CommandFields, Steps
from . import commands as c
from .answers import as_refusal
from .client import Client
from .feed import Feed
from .hub import Hub
from .operations import carry_out

logger = logging.getLogger("agentrt.server")


class FollowingViewer(Protocol):
    """The viewer whose client uses the session."""

    def follow(self, feed: Feed, /) -> None: ...


def new_id() -> str:
    """Return an id for a command that has none from the client."""
    return secrets.token_hex(16)


class RemoteTurnProxy:
    """A prompt that was sent to another server: the part of a `Turn` that the dialects need."""

    def __init__(self, session: RemoteSessionProxy, content: list[Block]) -> None:
        self.entry = ""
        self.failure: AgentrtError | None = None
        """The reason why it will not run."""
        self._session = session
        self._content = content
        self._known = session.turns()
        self._id = ""
        self._unwanted = False

    @property
    def id(self) -> str:
        """The id of its turn; empty until that is known to have begun."""
        if not self._id and self.entry and not self.failure:
            self._look()
        return self._id

    def _look(self) -> None:
        """Find the turn of a prompt that has left the queue: it has begun, or it was taken back."""
        state = self._session.feed.log.state
        if any(entry.id == self.entry for entry in state.queue):
            return
        begun = [
            turn.id
            for turn in state.turns.values()
            if turn.id not in self._known and turn.origin == "user"
        ]
        prompts = {item.turn: item.content for item in state.items.values() if item.type == "user"}
        same = [turn for turn in begun if prompts.get(turn) == tuple(self._content)]
        if begun:
            self._id = (same or begun)[0]
        else:
            self.failure = PromptRemoved("the prompt was removed from the queue")

    def send(self, prompt: Steps[CommandFields]) -> Steps[None]:
        """Send the prompt and take the other server's answer."""
        try:
            fields = yield from prompt
        except Exception as error:
            self.failure = AgentrtError(as_refusal(error).message)
        else:
            self._id = str(fields.get("turn") or "")
            self.entry = str(fields.get("entry") or "")
            if self._unwanted:
                self.cancel()
        self._session.show()

    def cancel(self) -> None:
        """Take the prompt back, or cancel its turn."""
        if self.id:
            id = self._session.id
            self._session.command(c.Cancel(id=new_id(), session=id, turn=self.id, pause=False))
        elif self.entry:
            remove = c.QueueRemove(id=new_id(), session=self._session.id, entry=self.entry)
            self._session.command(remove)
        else:
            self._unwanted = True


class RemoteSessionProxy:
    """The part of a `Session` that the dialects need."""

    def __init__(self, hub: Hub, client: Client, viewer: FollowingViewer, feed: Feed) -> None:
        self.feed = feed
        self._hub = hub
        self._client = client
        self._viewer = viewer

    @property
    def id(self) -> str:
        """The session's id."""
        return self.feed.log.session

    @property
    def state(self) -> State:
        """The session's state, as known here."""
        return self.feed.log.state.state

    @property
    def modes(self) -> Modes | None:
        """The modes, models and options, if known."""
        return self.feed.log.state.modes

    @property
    def pending_permissions(self) -> dict[str, PermissionOpened]:
        """The open permission requests, by id."""
        return dict(self.feed.log.state.permissions)

    def turns(self) -> frozenset[str]:
        """Return the ids of the known turns."""
        return frozenset(self.feed.log.state.turns)

    def show(self) -> None:
        """Send the session again, because something is known that is not in the log."""
        self._viewer.follow(self.feed)

    def submit(self, content: list[Block], *, when: When = "queue") -> RemoteTurnProxy:
        """Send a prompt, as `Session.submit`; an error becomes the turn's `failure`."""
        turn = RemoteTurnProxy(self, content)
        prompt = c.Prompt(id=new_id(), session=self.id, content=content, when=when)
        self._client.serve(turn.send(carry_out(self._hub, self._client, prompt)))
        return turn

    def cancel(self) -> None:
        """Cancel the running turn."""
        running = self.state.turn
        turn = None if running is None else running.id
        self.command(c.Cancel(id=new_id(), session=self.id, turn=turn))

    def answer(self, request: str, option: str, *, note: str = "") -> None:
        """Answer a permission request, as `Session.answer`, by the state known here. Raises
        `LocalProtocolError`.
        """
        asked = self.feed.log.state.permissions.get(request)
        if asked is None:
            raise LocalProtocolError(f"the request {request!r} is not open")
        for each in asked.options:
            if option in (each.id, each.kind):
                self._resolve(request, option=each.id, note=note)
                return
        raise LocalProtocolError(f"the request {request!r} has no option {option!r}")

    def submit_form(self, request: str, content: JsonObject) -> None:
        """Answer the form of an elicitation."""
        self._resolve(request, content=content)

    def dismiss(self, request: str, message: str = "") -> None:
        """Dismiss a request without an answer."""
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
        """Send the answer to a permission request. If another client was faster, it is
        only logged.
        """
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

    def command(self, command: c.ViewerCommand) -> None:
        """Send a command whose effects the session's events report."""
        self._client.serve(self._send(command))

    def _send(self, command: c.ViewerCommand) -> Steps[None]:
        """Carry out a command and log its refusal: the dialects have no place to report it."""
        try:
            yield from carry_out(self._hub, self._client, command)
        except Exception as error:
            logger.info("the session %s: %s", self.id, as_refusal(error).message)


AnySession: TypeAlias = Session | RemoteSessionProxy
AnyTurn: TypeAlias = Turn | RemoteTurnProxy


def is_paused(feed: Feed, turn: AnyTurn) -> bool:
    """True if a prompt is queued and paused. Clients of foreign dialects cannot resume the queue,
    so their request is answered; the prompt stays in the queue for clients that can.
    """
    return not turn.id and any(
        entry.id == turn.entry and entry.paused for entry in feed.log.state.queue
    )


def stop(session: AnySession, turn: AnyTurn | str) -> None:
    """Stop a turn for the user, given as a turn or by its id: the running one or a queued one."""
    running = session.state.turn
    if running is not None and running.id == (turn if isinstance(turn, str) else turn.id):
        session.cancel()
    elif not isinstance(turn, str):
        turn.cancel()


class Sessions:
    """The sessions of one viewer, on this server or on others."""

    def __init__(self, hub: Hub, client: Callable[[], Client], viewer: FollowingViewer) -> None:
        self._hub = hub
        self._client = client
        self._viewer = viewer

    def get(self, id: str) -> AnySession:
        """Return a session that is open here or followed. Raises `CommandRefused`."""
        hub = self._hub
        if hub.runtime.is_shared and not hub.is_open(id):
            return RemoteSessionProxy(hub, self._client(), self._viewer, hub.feed(id))
        return hub.session(id)

    def open(self, id: str) -> Steps[AnySession]:
        """Return a session that accepts prompts.

        A stored session is opened here, or followed if another server opens it. Raises the error if
        that fails.
        """
        hub, client = self._hub, self._client()
        if hub.runtime.is_shared and not hub.is_open(id):
            yield from client.wait(partial(self._find, id))
            return self.get(id)
        return (yield from hub.opened(client, id))

    async def _find(self, id: str) -> CommandFields:
        """Open a session here if no server has it and this server may, else follow it.

        Another server may open it between the look-up and the attempt; then it is followed there.
        Raises `SessionNotFound`.
        """
        hub, cluster = self._hub, self._hub.runtime.cluster
        assert cluster is not None
        owned = await cluster.owner(id) if await hub.runtime.find(id) else None
        if owned is None:
            raise SessionNotFound(f"no session {id!r} is open or stored")
        if owned.node is None and hub.runtime.runs_here(owned.home):
            with suppress(SessionElsewhere):
                return await hub.reopen(self._client(), id)
        return await hub.read(id)

    def waits(self, id: str, item: str | None = None) -> bool:
        """True if a call waits for this client; without `item`, any call."""
        if self._hub.is_open(id):
            return self._client().calls.waits(id, item)
        feed = self._hub.feeds.get(id)
        if feed is None:
            return False
        items, names = feed.log.state.items, self._client().tool_names
        found = items.values() if item is None else filter(None, [items.get(item)])
        return any(
            each.status == "waiting"
            and each.tool is not None
            and each.tool.owner == "client"
            and each.tool.name in names
            for each in found
        )

    def finish(self, id: str, item: str, content: list[Block], *, error: bool) -> None:
        """Pass on this client's result of a call, if the call waits for it."""
        if self._hub.is_open(id):
            calls = self._client().calls
            if calls.waits(id, item):
                with SessionControl(self._hub.session(id)).acting("tool_result", item=item):
                    calls.finish(id, item, content, error=error)
        elif self.waits(id, item):
            session = self.get(id)
            assert isinstance(session, RemoteSessionProxy)
            session.command(
                c.ToolResult(id=new_id(), session=id, item=item, content=content, error=error)
            )
