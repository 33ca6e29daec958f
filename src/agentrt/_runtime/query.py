"""One conversation from a program that has all its prompts: open, prompt, read, done."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Unpack

import trio

from .._model.content import Prompt
from .._model.events import Event, PermissionOpened
from .._model.result import TurnResult
from .._nesting import bare_errors
from .._permissions.policies import ask
from .._session.session import Session, host_of
from .._session.subscription import Subscription
from .drain import wait_for_rest
from .open import open_session
from .options import SessionOptions

if TYPE_CHECKING:
    from .._agents import Agent
    from .._journal.store import Store

Prompts = str | Iterable[Prompt] | AsyncIterable[Prompt]


class Query:
    """The events of a conversation, from its beginning until the agent has nothing left to do.

    An async iterator. `results` grows by one `TurnResult` for each prompt; `session` answers
    permission requests and cancels.

    Without a `permissions` policy its reader is asked: call `session.answer` for a
    `PermissionOpened` before you take the next event, or the request is rejected.
    """

    def __init__(self, session: Session, events: Subscription, *, asked: bool = False) -> None:
        """`asked`: its reader answers permission requests, in place of a policy."""
        self.session = session
        self._asked = asked
        self._offered: str | None = None
        self.results: list[TurnResult] = []
        self.events = events
        """The subscription that it reads."""

    @property
    def seq(self) -> int:
        """The number of the last event given."""
        return self.events.seq

    def __aiter__(self) -> Query:
        return self

    async def __anext__(self) -> Event:
        """Return the next event. Cancelling it loses none."""
        if self._offered is not None:
            host_of(self.session).core.questions.unanswered(self._offered)
            self._offered = None
        event = await self.events.__anext__()
        if self._asked and isinstance(event, PermissionOpened):
            self._offered = event.request
        return event


@asynccontextmanager
async def query(
    prompts: Prompts,
    *,
    agent: str | Agent,
    journal: Store | None = None,
    **options: Unpack[SessionOptions],
) -> AsyncIterator[Query]:
    """Send `prompts`, one turn after the other, and give every event::

        async with agentrt.query("Why does test_io fail?", agent="claude") as events:
            async for event in events:
                ...
        print(events.results[-1].text)

    `prompts` is one string, or any iterable of prompts, also an asynchronous one. `journal` and
    `options` are those of `open_session`. The events end when the last prompt's turn is over and,
    by its own word, the agent rests: what it goes on with in the background, and the turns that
    follow from that, belong to the conversation. Background work that never ends, such as a server,
    is ended after `limits.drain` seconds (a notice says that it is waited for); or break off
    earlier, when you have what you want. A failed turn does not raise; look at `results`.

    Without `permissions`, your loop answers what the agent asks: call `events.session.answer(event,
    "allow_once")` for a `PermissionOpened`. A request that is still open when you take the next
    event is rejected.

    Leaving the block early, or cancelling it, ends the session now.
    """
    asked = options.get("permissions") is None
    if asked:
        options["permissions"] = ask
    async with open_session(agent, journal=journal, **options) as session:
        query = Query(session, session.subscribe_all(), asked=asked)
        async with bare_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(_feed, query, prompts)
            yield query
            nursery.cancel_scope.cancel()
        await session.aclose()  # what was to be waited for, `_feed` has waited for


async def _feed(query: Query, prompts: Prompts) -> None:
    session = query.session
    if isinstance(prompts, str):
        prompts = [prompts]
    if isinstance(prompts, AsyncIterable):
        async for prompt in prompts:
            query.results.append(await session.run(prompt, check=False))
    else:
        for prompt in prompts:
            query.results.append(await session.run(prompt, check=False))
    await wait_for_rest(host_of(session))
    query.events.finish()
