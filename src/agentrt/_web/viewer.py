"""What the viewers of all dialects share: places in the sessions, answers, bounds, and the end.

A viewer has no socket. Whoever has one hands in each frame that arrives (`receive`, which never
waits) and sends what `next_frame` gives, until that raises the `Refusal` that ends the connection.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import ClassVar, Final, Protocol

import trio

from .._limits import Limits
from .._model.bounds import cut
from .feed import Feed
from .refusal import Code, Refusal
from .security import Role

NAME_CHARS: Final = 100
"""Characters of a client's own name that are kept."""


class Outlet(Protocol):
    """Where a viewer's frames go."""

    def put(self, text: bytes) -> None:
        """Have a text sent as one frame behind all others. Never waits."""
        ...

    @property
    def written(self) -> bool:
        """Whether the network has taken everything."""
        ...


class Viewer(ABC):
    """Made by `Hub.attach_viewer`. Close it when its socket is gone, or use it as a block; `gone`
    is called then."""

    protocol: ClassVar[str] = ""
    """The protocol that its client speaks."""

    def __init__(self, role: Role, limits: Limits, gone: Callable[[Viewer], None]) -> None:
        self.role: Role = role
        self.client_name = ""
        """The name that the client gave itself."""
        self._limits = limits
        self._gone = gone
        self._places: dict[Feed, int | None] = {}  # up to where each session is known
        # Those that have more; whether for an overtaken viewer.
        self._changed: dict[Feed, bool] = {}
        self._replies: deque[bytes] = deque()
        self._unsent = 0
        self._sent = trio.lowlevel.ParkingLot()
        self._ended: Refusal | None = None
        self._closed = False
        self._beat_at = math.inf
        self._at_once = False  # whether the last frame was there without a wait
        self._lot = trio.lowlevel.ParkingLot()

    @property
    def via(self) -> str:
        """Where its client's answers come from, for the log."""
        name = cut(self.client_name, NAME_CHARS)
        return f"{self.protocol} ({name})" if name else self.protocol

    def connect(self, outlet: Outlet) -> None:  # noqa: B027 - most make each frame when asked
        """Where frames may go that can be sent at once; the others wait for `next_frame`."""

    def receive(self, text: str) -> None:
        """Take one text frame of the client. Whatever is wrong with it is answered; it never
        raises."""
        if self._ended is None and not self._closed:
            self._receive(text)

    @abstractmethod
    def _receive(self, text: str) -> None:
        """As `receive`, of a connection that has not ended."""

    def list_changed(self) -> None:  # noqa: B027 - most protocols do not send it
        """The list of sessions is another one."""

    def store_changed(self, frame: bytes) -> None:  # noqa: B027 - most protocols do not send it
        """The store does better or worse; `frame` says it in `agentrt.v1`."""

    async def next_frame(self) -> bytes:
        """What waits, as one frame. Raises `Refusal` behind the last one, and
        `trio.ClosedResourceError` after `close`. Cancelling it loses nothing."""
        if self._at_once:  # the others' turn
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        self._at_once = True
        while not self._closed:
            if (frame := self._frame()) is not None:
                return frame
            if self._ended is not None:
                raise self._ended
            with trio.move_on_at(self._beat_at):
                await self._lot.park()
            self._at_once = False
        raise trio.ClosedResourceError("the viewer is closed")

    @abstractmethod
    def _frame(self) -> bytes | None:
        """What is due now, as far as it makes one frame."""

    def reply(self, frame: bytes) -> None:
        """Send this ahead of all events."""
        if self._ended is not None:
            return
        self._replies.append(frame)
        self._unsent += len(frame)
        self._push()

    async def caught_up(self) -> None:
        """Wait while more answers are unsent than `limits.viewer_outbox`, before the next frame of
        the client is taken. A client that reads none at all loses its connection meanwhile."""
        while self._unsent > self._limits.viewer_outbox:
            await self._sent.park()

    def next_reply(self) -> bytes:
        """Take the oldest answer that is unsent; there must be one."""
        frame = self._replies.popleft()
        self._unsent -= len(frame)
        self._sent.unpark_all()
        return frame

    def unfollow(self, feed: Feed) -> None:
        self._places.pop(feed, None)
        self._changed.pop(feed, None)
        feed.drop(self, trio.current_time())

    def changed(self, feed: Feed, *, overtaken: bool = False) -> None:
        """There is more of a session. `overtaken`: also for a viewer that is far behind."""
        self._changed[feed] = overtaken
        self._push()

    def end(self, code: Code, reason: str) -> None:
        """Have the connection ended when what is answered already is sent. Idempotent."""
        if self._ended is None:
            self._ended = Refusal(code, reason)
            self._leave()

    def close(self) -> None:
        """The socket is gone. No turn ends by that; the calls of its client's tools do."""
        self._closed = True
        self._leave()
        self._gone(self)

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _push(self) -> None:
        """There is something to be sent."""
        self._lot.unpark_all()

    def _leave(self) -> None:
        for feed in list(self._places):
            self.unfollow(feed)
        self._lot.unpark_all()
