"""A single conversation for a program that knows all its prompts in advance."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Unpack

import trio

from ..._base.nesting import bare_errors
from ..model.content import Prompt
from ..model.events import Event, PermissionOpened
from ..model.result import TurnResult
from ..permissions.policies import ask
from ..session.session import Session, host_of
from ..session.subscription import Subscription
from .open import open_session, wait_for_rest
from .options import SessionOptions

if TYPE_CHECKING:
    from ..agents import Agent

Prompts = str | Iterable[Prompt] | AsyncIterable[Prompt]


class Query:
    """The events of a conversation, from its start until the agent has finished.

    An async iterator. `results` gets one `TurnResult` for each prompt; use `session` to answer
    permission requests and to cancel.

    Without a `permissions` policy, answer each `PermissionOpened` with `session.answer` before you
    take the next event; otherwise the request is rejected.
    """

    def __init__(self, session: Session, events: Subscription, *, asked: bool = False) -> None:
        """`asked`: the reader answers permission requests, in place of a policy."""
        self.session = session
        self._asked = asked
        self._offered: str | None = None
        self.results: list[TurnResult] = []
        self.events = events
        """The subscription that provides the events."""

    @property
    def seq(self) -> int:
        """The number of the most recently returned event."""
        return self.events.seq

    def __aiter__(self) -> Query:
        return self

    async def __anext__(self) -> Event:
        """Return the next event. Cancelling this loses no event."""
        if self._offered is not None:
            host_of(self.session).core.questions.reject_if_open(self._offered)
            self._offered = None
        event = await self.events.__anext__()
        if self._asked and isinstance(event, PermissionOpened):
            self._offered = event.request
        return event


@asynccontextmanager
async def query(
    prompts: str | Iterable[Prompt] | AsyncIterable[Prompt],
    *,
    agent: str | Agent,
    **options: Unpack[SessionOptions],
) -> AsyncIterator[Query]:
    """Send `prompts`, one turn after the other, and return all events::

        async with agentrt.query("Why does test_io fail?", agent="claude") as events:
            async for event in events:
                ...
        print(events.results[-1].text)

    `prompts` is one string or an iterable of prompts, which may be asynchronous. `options` are
    those of `open_session`.

    The events end when the turn of the last prompt is over and the agent reports that it is idle.
    Background work, and the turns that follow from it, belong to the conversation. Background work
    that never ends, such as a server, is ended after `limits.drain_timeout_s` seconds, with a
    notice about the wait; leave the block earlier if you have the result. A failed turn does not
    raise; see `results`.

    Without `permissions`, your loop answers permission requests: call `events.session.answer(event,
    "allow_once")` for a `PermissionOpened`. A request that is still open when you take the next
    event is rejected.

    Leaving the block early, or cancelling it, ends the session immediately.
    """
    asked = options.get("permissions") is None
    if asked:
        options["permissions"] = ask
    async with open_session(agent, **options) as session:
        query = Query(session, session.subscribe_all(), asked=asked)
        async with bare_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(_feed, query, prompts)
            yield query
            nursery.cancel_scope.cancel()
        await session.aclose()  # `_feed` has already waited for background work


async def _feed(query: Query, prompts: Prompts) -> None:
    """Send the prompts one after the other, wait for background work, and end the events."""
    session = query.session
    if isinstance(prompts, str):
        prompts = [prompts]
    if isinstance(prompts, AsyncIterable):
        async for prompt in prompts:
            query.results.append(await session.run(prompt, check=False))
    else:
        for prompt in prompts:
            query.results.append(await session.run(prompt, check=False))
    await wait_for_rest(session)
    query.events.finish()
