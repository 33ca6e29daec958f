"""The common part of the viewers of all dialects: positions, answers, limits, and the end.

A viewer has no socket. The connection passes each frame that arrives to `receive`, which never
waits, and sends the result of `next_frame`, until that raises the `ConnectionRefusal` that ends the
connection.

A viewer pulls: nothing is queued for it but the answers to its own commands, which are bounded
because the connection stops reading while too many are unsent (`caught_up`). Events stay in the
feeds until the viewer makes a frame of them, so each frame is as current as when it is sent.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import trio

from .._public import Limits
from ..display import cut
from .feed import Feed
from .refusal import ConnectionRefusal
from .security import Role

CLIENT_NAME_CHARS: Final = 100
"""Maximum characters of a client's own name."""


class Outlet(Protocol):
    """The destination of a viewer's frames."""

    def put(self, text: bytes) -> None:
        """Queue a text to be sent as one frame. Never waits."""
        ...

    @property
    def written(self) -> bool:
        """True if the network has taken everything."""
        ...


class Viewer(ABC):
    """One connection's view of the sessions, made by `Hub.attach_viewer`.

    Close it when its socket is gone, or use it as a context manager; `gone` is called then.
    """

    protocol: str = ""
    """The protocol that its client speaks."""

    def __init__(self, role: Role, limits: Limits, gone: Callable[[Viewer], None]) -> None:
        self.role: Role = role
        self.via = self.protocol
        """The origin of its client's answers, for the log."""
        self._limits = limits
        self._gone = gone
        self._places: dict[Feed, int | None] = {}  # the position up to which each session is known
        # Sessions with new events; true if an overtaken viewer is notified.
        self._changed: dict[Feed, bool] = {}
        self._replies: deque[bytes] = deque()
        self._unsent = 0
        self._sent = trio.lowlevel.ParkingLot()
        self._ended: ConnectionRefusal | None = None
        self._closed = False
        self._beat_at = math.inf
        self._at_once = False  # true if the last frame was ready without waiting
        self._lot = trio.lowlevel.ParkingLot()

    def identify(self, name: str) -> None:
        """Set the client's name. The log keeps it with the client's answers."""
        name = cut(name, CLIENT_NAME_CHARS)
        self.via = f"{self.protocol} ({name})" if name else self.protocol

    def connect(self, outlet: Outlet) -> None:  # noqa: B027 - most make each frame when asked
        """Set the outlet for frames that can be sent immediately; other frames wait for
        `next_frame`.
        """

    def receive(self, text: str) -> None:
        """Take one text frame of the client. Errors in it are answered; it never raises."""
        if self._ended is None and not self._closed:
            self._receive(text)

    @abstractmethod
    def _receive(self, text: str) -> None:
        """Take one text frame, on a connection that has not ended."""

    def list_changed(self) -> None:  # noqa: B027 - most protocols do not send it
        """Handle a change of the list of sessions."""

    def store_changed(self, frame: bytes) -> None:  # noqa: B027 - most protocols do not send it
        """Handle a change of the store's state; `frame` reports it in `agentrt.v1`."""

    async def next_frame(self) -> bytes:
        """Return the next frame to send, waiting for it if necessary.

        Raises `ConnectionRefusal` after the last one, and `trio.ClosedResourceError` after `close`.
        Cancelling it loses nothing.
        """
        if self._at_once:  # let other viewers run
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
        """Return one frame that is due now, or None."""

    def reply(self, frame: bytes) -> None:
        """Send this before all events."""
        if self._ended is not None:
            return
        self._replies.append(frame)
        self._unsent += len(frame)
        self._push()

    async def caught_up(self) -> None:
        """Wait while more answers are unsent than `limits.viewer_outbox_bytes`, before the
        client's next frame is taken. A client that reads none of them loses its connection in the
        meantime.
        """
        while self._unsent > self._limits.viewer_outbox_bytes:
            await self._sent.park()

    def next_reply(self) -> bytes:
        """Take the oldest unsent answer. There must be one."""
        frame = self._replies.popleft()
        self._unsent -= len(frame)
        self._sent.unpark_all()
        return frame

    def unfollow(self, feed: Feed, /) -> None:
        """Stop sending a session."""
        self._places.pop(feed, None)
        self._changed.pop(feed, None)
        feed.drop(self, trio.current_time())

    def changed(self, feed: Feed, *, overtaken: bool = False) -> None:
        """Note new events of a session. `overtaken`: also send them to an overtaken viewer."""
        self._changed[feed] = overtaken
        self._push()

    def end(self, code: int, reason: str) -> None:
        """End the connection once the answers already given are sent. Idempotent."""
        if self._ended is None:
            self._ended = ConnectionRefusal(code, reason)
            self._leave()

    def close(self) -> None:
        """Handle the end of the socket. It ends no turn, but the calls of the client's tools."""
        self._closed = True
        self._leave()
        self._gone(self)

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the viewer."""
        self.close()

    def _push(self) -> None:
        """Wake the task that sends."""
        self._lot.unpark_all()

    def _leave(self) -> None:
        """Stop viewing all sessions, and wake the task that waits for frames."""
        for feed in list(self._places):
            self.unfollow(feed)
        self._lot.unpark_all()
