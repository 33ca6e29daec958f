"""The interface of the protocols in which clients view and control sessions over a WebSocket.

A *dialect* is such a protocol. For each connection, the server makes a `DialectHost`, and the
dialect makes a `DialectViewer` for it. The viewer translates between its client and the host: a
client's message becomes a command of `agentrt.v1` (`DialectHost.command`), and the state of a
session becomes messages (`DialectViewer.messages`). It does no I/O and has no tasks; the server
owns the socket, the limits and the order of messages.

No events are queued for a client. When the network has taken the last message, the server asks for
the next one, which is made from the current state of the session. So a slow client gets fewer and
larger messages, and never delays the agent or other clients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from .model.log import Log

if TYPE_CHECKING:
    from .runtime.registry import SessionInfo

T = TypeVar("T")

CommandFields: TypeAlias = dict[str, Any]
"""The fields of an answer to a command, by name, as `agentrt.v1` documents them."""

Steps: TypeAlias = Generator[Callable[[], Awaitable[CommandFields]], CommandFields, T]
"""A request that may have to wait, as a generator; see `DialectHost.start`."""

CLOSE_CODE: Final = 1008
"""The default WebSocket close code for a connection that a dialect ends: policy violation."""


class CommandRefused(Exception):
    """A command was not carried out.

    - `code`: the reason for programs, one of the codes of `agentrt.v1`.
    - `message`: the reason for people.
    - `data`: further information, if there is any.
    """

    def __init__(self, code: str, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ViewedSession(Protocol):
    """A session that a client can follow, whether it is open, stored, or on another server.

    The same object represents the session for as long as the connection follows it.
    """

    @property
    def log(self) -> Log:
        """The session's log.

        Read it again for each message: it is another object after a stored session was opened. The
        numbers of its events continue.
        """
        ...

    @property
    def over(self) -> bool:
        """True if the session is closed and no more events follow."""
        ...


class DialectHost(Protocol):
    """One connection, as the server presents it to the dialect's viewer. All calls are synchronous
    and none of them waits for the client.
    """

    @property
    def role(self) -> Literal["controller", "viewer"]:
        """The permissions of the client, which the server has checked: a viewer only reads."""
        ...

    def identify(self, name: str) -> None:
        """Set the name that the client gives itself. The log keeps it with the client's answers."""
        ...

    def send(self, message: bytes) -> None:
        """Queue a message, UTF-8 text, to be sent before all further messages of sessions."""
        ...

    def end(self, code: int = CLOSE_CODE, reason: str = "") -> None:
        """Close the connection once the queued messages are sent. The first call counts.

        `code` and `reason` are those of the WebSocket close frame; a reason may have 123 bytes.
        """
        ...

    def sessions(self) -> list[SessionInfo]:
        """Return the sessions that the client may use: the newest stored ones, then the open
        ones.
        """
        ...

    def find(self, session: str) -> Steps[ViewedSession]:
        """Return a session by its id, with its complete history, without opening it.

        To be used with `yield from` in `start`. Raises `CommandRefused` if it does not exist.
        """
        ...

    def follow(self, session: ViewedSession, *, anew: bool = False) -> None:
        """Send the messages of a session: `DialectViewer.messages` is called now and whenever the
        session has changed.

        For a session that is followed already, it is called once more. `anew`: drop the rest of the
        iteration that is being sent.
        """
        ...

    def unfollow(self, session: ViewedSession) -> None:
        """Stop sending the messages of a session."""
        ...

    def command(self, type: str, /, **fields: Any) -> Steps[CommandFields]:
        """Carry out a command of `agentrt.v1`, such as `prompt` or `cancel`, and return the fields
        of its answer.

        `fields` are those of the command, without its `id`. To be used with `yield from` in
        `start`. Raises `CommandRefused`, for example if the client is only a viewer, or if the
        command is malformed.
        """
        ...

    def start(self, steps: Steps[None]) -> None:
        """Carry out a request, given as a generator.

        It runs synchronously until it has to wait, so requests begin in the order in which they
        arrive; then a task continues it, even if the connection ends in the meantime. If it raises,
        the connection is closed with the error; handle `CommandRefused` in it to tell the client.
        """
        ...


class DialectViewer(ABC):
    """One client's side of a dialect, made for each connection by `Dialect.open`.

    Its methods are called synchronously and must not block. If one raises, the error is logged and
    only this connection is closed.
    """

    @abstractmethod
    def receive(self, text: str) -> None:
        """Handle one text message of the client."""

    @abstractmethod
    def messages(self, session: ViewedSession) -> Iterator[bytes]:
        """Yield messages, UTF-8 text, with everything about a followed session that the client does
        not know yet.

        Each message should be made when it is requested, from the state at that time: the next one
        is requested when the network has taken the last one.
        """

    def sessions_changed(self) -> None:  # noqa: B027 - most dialects do not send a list
        """Handle a change of `DialectHost.sessions`."""

    def unfollowed(self, session: ViewedSession) -> None:  # noqa: B027 - optional
        """Handle that a session is not followed any more, for whatever reason."""


class Dialect(Struct, frozen=True):
    """A protocol in which clients view and control sessions over a WebSocket.

    Pass it to `agentrt.web.serve` or `agentrt.asgi.Application` as one of `dialects`.

    - `path`: the path of its WebSocket, beginning with a slash.
    - `protocol`: the name of the WebSocket subprotocol, which is accepted if the client offers it.
      (A browser that sends its token as a subprotocol must offer another one, too.) The log keeps
      it with the answers of clients.
    - `open`: makes the viewer of a connection.
    - `connection_header`: the name of a header in the handshake's response that has a fresh id.
    """

    path: str
    protocol: str
    open: Callable[[DialectHost], DialectViewer]
    connection_header: str | None = None
