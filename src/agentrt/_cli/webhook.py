"""Webhooks: a POST to an address when a question waits for an answer, or a turn has ended."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

import h11
import msgspec
import trio
from msgspec import Struct

from .._version import __version__
from ..events import Event, PermissionClosed, PermissionOpened, TitleChanged, TurnEnded
from ..telemetry import Observation, ViewerAction
from .text import one_line

if TYPE_CHECKING:
    from ..lowlevel import Log
    from ..store import Store

ATTEMPTS: Final = 3
RETRY_S: Final = 2.0
"""Seconds before a message is sent again that was not accepted."""

TIMEOUT_S: Final = 10.0
"""Seconds for one attempt."""

MAX_WAITING: Final = 100
"""Messages that wait to be sent; further ones are dropped."""

MAX_TITLE_CHARS: Final = 200

_logger: Final = logging.getLogger("agentrt.server")


class WebhookMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The JSON body of a request. Fields that do not apply to its `event` are left out."""

    event: str
    """`question` or `turn_ended`."""
    session: str
    """The id of the session."""
    title: str = ""
    """The title of the session, or the name of its agent."""
    text: str = ""
    """The message in one line, which chat services show as it is."""
    url: str = ""
    """The address of the session on the page."""
    question: str = ""
    """The title of the question."""
    outcome: str = ""
    """The outcome of the turn."""


class Webhook:
    """Sends messages about sessions to an address. Pass it as `telemetry` to `open_runtime`."""

    def __init__(self, url: str) -> None:
        """Check the address. Raises `ValueError`."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"webhook must be a URL such as https://example.com/hook, got {url!r}")
        self._tls = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port or (443 if self._tls else 80)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._netloc = parts.netloc.rpartition("@")[2]
        self._send, self._receive = trio.open_memory_channel[WebhookMessage](MAX_WAITING)

    def observe(self, agent: str, log: Log) -> Observation:
        """Return the observer of a new session."""
        return _SessionMessages(agent, log, self._put)

    def environment(self) -> Mapping[str, str]:
        """Return no variables."""
        return {}

    def keeps(self, store: Store) -> None:
        """Ignore the store."""

    def acted(self, agent: str, session: str, action: ViewerAction) -> None:
        """Ignore the change."""

    def _put(self, message: WebhookMessage) -> None:
        """Queue a message; with too many waiting ones it is dropped, so that a session never waits
        for it.
        """
        try:
            self._send.send_nowait(message)
        except trio.WouldBlock:
            _logger.warning("webhook: %d messages are waiting; one was dropped", MAX_WAITING)

    async def send_all(self, page_url: str) -> None:
        """Send messages until cancelled. `page_url`: the address of the page."""
        async for message in self._receive:
            url = f"{page_url.rstrip('/')}/#/s/{quote(message.session, safe='')}"
            await self._deliver(msgspec.json.encode(msgspec.structs.replace(message, url=url)))

    async def _deliver(self, body: bytes) -> None:
        """Post one message, and try again after failures that may pass.

        These are errors of the network, timeouts, status 429 and those from 500. The log names the
        host only: the address may contain a key.
        """
        reason = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await trio.sleep(RETRY_S)
            try:
                with trio.fail_after(TIMEOUT_S):
                    status = await self._post(body)
            except trio.TooSlowError:
                reason = f"no answer within {TIMEOUT_S:g} s"
            except (OSError, trio.BrokenResourceError, h11.RemoteProtocolError) as error:
                reason = str(error) or type(error).__name__
            else:
                if status < 400:
                    return
                reason = f"status {status}"
                if status < 500 and status != 429:
                    break  # it will not be accepted later, either
        _logger.warning("webhook: a message to %s was not delivered: %s", self._host, reason)

    async def _post(self, body: bytes) -> int:
        """Send one request and return the status of its response."""
        stream: trio.abc.Stream = await trio.open_tcp_stream(self._host, self._port)
        async with stream:
            if self._tls:
                context = ssl.create_default_context()
                stream = trio.SSLStream(
                    stream, context, server_hostname=self._host, https_compatible=True
                )
            connection = h11.Connection(h11.CLIENT)
            headers = [
                ("Host", self._netloc),
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(body))),
                ("User-Agent", f"agentrt/{__version__}"),
                ("Connection", "close"),
            ]
            request = h11.Request(method="POST", target=self._target, headers=headers)
            parts = (request, h11.Data(data=body), h11.EndOfMessage())
            await stream.send_all(b"".join(connection.send(part) or b"" for part in parts))
            while not isinstance(event := connection.next_event(), h11.Response):
                if event is h11.NEED_DATA:
                    connection.receive_data(bytes(await stream.receive_some()))
            return event.status_code


class _SessionMessages(Observation):
    """Makes the messages about one session."""

    def __init__(self, agent: str, log: Log, put: Callable[[WebhookMessage], None]) -> None:
        self._agent = agent
        self._session = log.session
        self._put = put
        self._title = agent
        self._open: dict[str, PermissionOpened] = {}

    def events(self, events: list[Event], size: int) -> None:
        """Make the messages for a batch of events: ended turns and unanswered questions."""
        for event in events:
            match event:
                case TitleChanged():
                    self._title = one_line(event.title or self._agent)[:MAX_TITLE_CHARS]
                case PermissionOpened():
                    self._open[event.request] = event
                case PermissionClosed():
                    self._open.pop(event.request, None)
                case TurnEnded():
                    outcome = event.outcome
                    self._message("turn_ended", f"turn ended ({outcome})", outcome=outcome)
        # A question that a rule has answered opens and closes in one batch.
        for request in self._open.values():
            title = one_line(request.title)[:MAX_TITLE_CHARS]
            self._message("question", f"needs your answer: {title}", question=title)
        self._open.clear()

    def _message(self, kind: str, words: str, **fields: str) -> None:
        """Send a message about the session; `words` follow its title in the text."""
        self._put(
            WebhookMessage(
                event=kind,
                session=self._session,
                title=self._title,
                text=f"{self._title}: {words}",
                **fields,
            )
        )
