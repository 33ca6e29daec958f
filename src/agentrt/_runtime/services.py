"""What the agent may ask of its host: files, terminals, tools, hooks; each by a handler.

`table` says who serves what; it is filled when the session is opened.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from .._errors import RequestError
from .._model.driver import Requested
from .._model.events import Notice
from .._wire.jsonrpc import METHOD_NOT_FOUND
from .handlers import CANCELLED, INTERNAL, Handlers, OnError, Refuse, Reply, Starter, Until

if TYPE_CHECKING:
    from .engine import Engine
    from .turn import Turn

logger = logging.getLogger(__name__)

_EFFECTS: Final = frozenset({"fs/write_text_file", "terminal/create"})
"""What a stopped turn must not begin any more; what it has begun it may look at and end."""

_STOPPED: Final = "the turn was cancelled"

Service = Callable[[Requested], Awaitable[Any]]
"""Answers one kind of request; an exception is an error answer."""


class Services:
    """Starts the handlers of the agent's requests, where they belong."""

    def __init__(self, engine: Engine) -> None:
        self.handlers = Handlers()
        self.table: dict[str, Service] = {}
        """By method, or by the part before its slash."""
        self.hook: Callable[[Requested, Turn | None], Awaitable[Any]] | None = None
        """Who answers hooks. They are told the turn in which they were asked, which may be over
        when they run."""
        self.when_gone: list[Callable[[], None]] = []
        """Called when the agent's process is gone: what it left here is of no use any more."""
        self._engine = engine
        self._requested: deque[Requested] = deque()

    def agent_gone(self) -> None:
        self.handlers.cancel_all()
        for forget in self.when_gone:
            forget()

    def requested(self, effect: Requested) -> None:
        """The agent asks for a service; what is not offered is refused at once."""
        self._requested.append(effect)
        if len(self._requested) == 1:  # else below: a refusal lets the driver pass on the next one
            try:
                while self._requested:
                    self._take(self._requested[0])
                    self._requested.popleft()
            finally:
                self._requested.clear()

    def _take(self, effect: Requested) -> None:
        engine, link, key = self._engine, self._engine.link, effect.key
        assert link is not None
        driver = link.driver
        service = self._service(effect)
        if service is None:
            message = f"{effect.method} is not offered here"
            engine.received(link, driver.refuse(key, METHOD_NOT_FOUND, message))
            return
        if len(self.handlers) >= engine.limits.requests:
            message = f"{engine.limits.requests} requests are open: wait for their answers"
            engine.received(link, driver.refuse(key, INTERNAL, message))
            return
        if effect.method in _EFFECTS and self.stopped:
            engine.received(link, driver.refuse(key, CANCELLED, _STOPPED))
            return
        self.spawn(
            key,
            partial(service, effect),
            lambda result: engine.received(link, driver.reply(key, result)),
            lambda code, message, data: engine.received(
                link, driver.refuse(key, code, message, data)
            ),
            on_error=partial(self.tell_error, effect.method),
            background=effect.background,
            unawaited=effect.unawaited,
        )

    def _service(self, effect: Requested) -> Service | None:
        engine, hook, method = self._engine, self.hook, effect.method
        if method != "hook" or hook is None:
            return self.table.get(method) or self.table.get(method.partition("/")[0])
        turn = engine.turn  # None also for one that began in this very batch
        return lambda asked: hook(asked, None if asked.background else turn or engine.turn)

    @property
    def stopped(self) -> bool:
        """True from a turn's cancel until the agent has ended it, or is gone."""
        turn, conductor = self._engine.turn, self._engine.conductor
        return conductor.quarantine if turn is None else turn._verdict is not None

    def begin_tool(self) -> None:
        """Raises `RequestError` if no tool may be called any more."""
        if self.stopped:
            raise RequestError(CANCELLED, _STOPPED)

    def spawn(
        self,
        key: str,
        service: Callable[[], Awaitable[Any]],
        reply: Reply,
        refuse: Refuse,
        *,
        on_error: OnError,
        background: bool = False,
        unawaited: bool = False,
    ) -> None:
        """Serve a request in the running turn's nursery and context, or in the session's, where
        one of `background` work always is. An `unawaited` one has the turn's context only."""

        async def serve() -> Any:
            await trio.lowlevel.checkpoint_if_cancelled()  # it may have been withdrawn by now
            return await service()

        until: Until = "cancel" if unawaited else "turn"
        if background or self._engine.conversation.turn is None:
            until = "itself" if unawaited else "session"
        start = self.handlers.prepare(key, serve, reply, refuse, on_error, until=until)
        self._start(start, until)

    def spawn_tool(self, call: Callable[..., Awaitable[None]], /, *args: object) -> None:
        """Run a tool call, which answers by itself. Raises `RequestError`.

        It comes over a channel of its own: nobody knows whether it was made before the turn's end
        or behind it, or in the background. So only a cancel of the turn ends it.
        """
        self.begin_tool()
        until: Until = "session" if self._engine.conversation.turn is None else "cancel"
        start = self.handlers.prepare(
            self._engine.conversation.new_id("tool"),
            lambda: call(*args),
            lambda result: self._engine.publish(),  # the end of the session may wait for it
            lambda *refusal: self._engine.publish(),
            partial(self.tell_error, "a tool call"),
            until=until,
        )
        self._start(start, until)

    def _start(self, start: Callable[[Starter], None], until: Until) -> None:
        engine = self._engine
        turn = engine.turn
        if turn is None or until in ("session", "itself"):
            start(engine.nursery)
        elif until == "cancel":
            turn._context.run(start, engine.nursery)
        else:
            engine.conductor.start_handler(turn, start)

    def terminal_output(self, terminal: str, text: str) -> None:
        """Show what a program writes that the agent had us run."""
        self._engine.log.arrived(len(text))
        self._engine.conversation.items.append_output(terminal, text)
        self._engine.publish()

    def tell_error(self, what: str, error: Exception) -> None:
        """A handler failed: its caller got an error answer, and whoever watches is told."""
        logger.error("%s failed", what, exc_info=error)
        message = f"{what} failed: {type(error).__name__}: {error}"
        self._engine.log.append(Notice("error", "handler_failed", message))
        self._engine.publish()
