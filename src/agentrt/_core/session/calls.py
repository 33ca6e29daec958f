"""Requests from agentrt to the agent outside turns: settings, lists, tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from ..errors import RequestError
from ..model.content import JsonObject
from ..model.driver import CallReturned
from ..model.events import Notice
from ..wire.jsonrpc import METHOD_NOT_FOUND
from .core import SessionCore


async def call(
    core: SessionCore,
    method: str,
    params: JsonObject,
    *,
    succeeded: Callable[[], None] = lambda: None,
) -> Any:
    """Send a request and return its result in the protocol's own shape.

    `succeeded` is called in the same step as a successful answer, so that its changes are stored
    together with the answer's events.

    Raises `RequestError` with the agent's error, or `SessionClosed` if no agent runs. Always a
    checkpoint. Cancelling this call notifies the agent if the protocol supports it.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    asked = _PendingCall(succeeded)
    forget = core.requests.call(method, params, asked.returned)
    try:
        await asked.done.wait()
    finally:
        forget()
    return asked.result()


async def change(
    core: SessionCore, setting: str, method: str, params: JsonObject, succeeded: Callable[[], None]
) -> None:
    """Change one setting of the agent. Arguments and errors are those of `call`.

    Cancelling this call does not withdraw the request: the agent may still carry it out. Until it
    answers or its process ends, the session's state shows the setting as unconfirmed, and a late
    answer counts like any other.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    asked = _PendingCall(succeeded)

    def returned(answer: CallReturned) -> None:
        asked.returned(answer)
        if given_up:
            core.conversation.confirm(setting)
            if answer.error is not None:
                words = f"the change of {setting!r} was not carried out: {answer.error.message}"
                core.add_notice(Notice("warning", "setting_refused", words, {"setting": setting}))

    given_up = False
    core.requests.call(method, params, returned)
    try:
        await asked.done.wait()
    finally:
        if asked.answer is None:
            given_up = True
            with core.step():
                core.conversation.unconfirm(setting)
    asked.result()


class _PendingCall:
    """A request to the agent, and its answer once it has come."""

    def __init__(self, succeeded: Callable[[], None]) -> None:
        self.done = trio.Event()
        self.answer: CallReturned | None = None
        self._succeeded = succeeded

    def returned(self, answer: CallReturned) -> None:
        self.answer = answer
        if answer.error is None:
            self._succeeded()
        self.done.set()

    def result(self) -> Any:
        """Return the value of a successful answer. Raises `RequestError` for an error."""
        assert self.answer is not None
        error = self.answer.error
        if error is None:
            return self.answer.value
        code = error.data.get("code") if isinstance(error.data, dict) else None
        if not isinstance(code, int):
            code = METHOD_NOT_FOUND if error.code == "unsupported" else 0
        raise RequestError(code, error.message, error.data)
