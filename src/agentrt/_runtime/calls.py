"""Requests of ours to the agent, outside its turns: settings, lists, tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from .._errors import RequestError, SessionClosed
from .._model.content import JsonObject
from .._model.driver import Returned
from .._model.events import Error
from .._wire.jsonrpc import METHOD_NOT_FOUND

if TYPE_CHECKING:
    from .engine import Engine


class Calls:
    """The calls that wait for their answer. The agent's end answers them all."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[str, _Call] = {}

    async def call(self, method: str, params: JsonObject) -> Any:
        """Ask, and return the result in the protocol's own shape.

        Raises `RequestError` with the agent's error. Cancelling it tells the agent, where the
        protocol can.
        """
        engine, link = self._engine, self._engine.link
        if link is None or not engine.ready:
            raise SessionClosed("the agent does not run; the next prompt starts it again")
        id = engine.conversation.new_id("c")
        call = self._waiting[id] = _Call()
        try:
            engine.received(link, link.driver.call(id, method, params))
            await call.done.wait()
        finally:
            if self._waiting.pop(id, None) is not None:
                engine.received(link, link.driver.uncall(id))
        returned = call.returned
        assert returned is not None
        if returned.error is not None:
            error = returned.error
            code = error.data.get("code") if isinstance(error.data, dict) else None
            if not isinstance(code, int):
                code = METHOD_NOT_FOUND if error.code == "unsupported" else 0
            raise RequestError(code, error.message, error.data)
        return returned.value

    def returned(self, effect: Returned) -> None:
        call = self._waiting.pop(effect.call, None)
        if call is not None:
            call.returned = effect
            call.done.set()

    def fail_all(self, error: Error) -> None:
        """There will be no answers any more."""
        for id in list(self._waiting):
            self.returned(Returned(id, error=error))


class _Call:
    def __init__(self) -> None:
        self.done = trio.Event()
        self.returned: Returned | None = None
