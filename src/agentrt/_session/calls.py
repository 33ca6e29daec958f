"""Requests of ours to the agent, outside its turns: settings, lists, tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from .._errors import RequestError
from .._model.content import JsonObject
from .._model.driver import Returned
from .._wire.jsonrpc import METHOD_NOT_FOUND
from .core import SessionCore


async def call(
    core: SessionCore,
    method: str,
    params: JsonObject,
    *,
    succeeded: Callable[[], None] = lambda: None,
) -> Any:
    """Ask, and return the result in the protocol's own shape. A checkpoint. `succeeded` is called
    in the step in which a good answer comes: what it changes is stored with the answer's events.

    Raises `RequestError` with the agent's error, `SessionClosed` if no agent runs. Cancelling it
    notifies the agent, where the protocol can.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    answers: list[Returned] = []
    done = trio.Event()

    def returned(answer: Returned) -> None:
        answers.append(answer)
        if answer.error is None:
            succeeded()
        done.set()

    forget = core.requests.call(method, params, returned)
    try:
        await done.wait()
    finally:
        forget()
    [answer] = answers
    if answer.error is not None:
        error = answer.error
        code = error.data.get("code") if isinstance(error.data, dict) else None
        if not isinstance(code, int):
            code = METHOD_NOT_FOUND if error.code == "unsupported" else 0
        raise RequestError(code, error.message, error.data)
    return answer.value
