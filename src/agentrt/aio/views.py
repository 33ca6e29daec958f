"""Views: agentrt's own objects, with asynchronous methods that asyncio can await.

A *view* has the class of its object, and shares all of its attributes. Its class is created here:
each asynchronous method runs in Trio, and methods that return other objects return their views.

A view is not a proxy: it is a second object of a subclass, with the same `__dict__`. Attributes,
properties and synchronous methods therefore work without any code here, and `isinstance` holds.
Only asynchronous methods, and methods that return an object with asynchronous methods, are
replaced.

Each replacement looks at the kind of task that it is called in. Code of the same program may run in
both: a tool that Trio calls in one of its tasks gets the behaviour that it has in `agentrt`.

Iterating over events does not go through Trio for each event, because that would cost two switches
between the loops. Events that are there already are taken from the log directly, and only waiting
for more uses a callback.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, TypeVar, cast

import trio

from .._public import Query, Runtime, Session, Turn
from .._serve.site import Site
from ..events import Event, Subscription
from ..hosting import RuntimeHost, call_when_more, has_yielded, must_yield, next_event
from ..sandbox import SandboxStatus
from ..store import Store
from ..tools import Tool
from ..tracing import Trace, TraceSubscription, WireSubscription
from ..unattended import SessionCheckpoints, Worktree
from .guest import Waiter, the_guest
from .handlers import adapt_arguments, adapt_tools

T = TypeVar("T")


def view(value: T) -> T:
    """Return the view of a value, or the value itself if it has no view."""
    if type(value).__module__ == __name__:
        return value  # it is a view
    kind = next((_VIEWS[each] for each in type(value).__mro__ if each in _VIEWS), None)
    if isinstance(value, Store):
        kind = _view_of_store(type(value))
    if kind is None:
        return cast("T", _query_view(value)) if isinstance(value, Query) else value
    shown = object.__new__(kind)
    shown.__dict__ = value.__dict__
    return cast("T", shown)


def carried(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make an asynchronous Trio method or function callable from asyncio.

    In a Trio task it behaves as before.
    """

    @functools.wraps(method)
    async def call(*args: Any, **named: Any) -> Any:
        """Call the method through the guest of this loop, or directly from a Trio task."""
        if trio.lowlevel.in_trio_task():
            return await method(*args, **named)
        guest = the_guest()
        return view(await guest.call(method, *args, **adapt_arguments(guest, named, view)))

    return call


def _giving(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method that returns an object, so that asyncio gets a view of it."""

    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        """Call the method, and return the view of its result to asyncio."""
        value = method(*args, **named)
        return value if trio.lowlevel.in_trio_task() else view(value)

    return call


def _view_of(kind: type[Any], *giving: str, **own: Any) -> type[Any]:
    """Return a subclass whose coroutines can be awaited from asyncio.

    `giving`: names of methods that return objects of Trio, which get views, too. `own`: members
    that replace others. Names, docstrings and `isinstance` stay those of the class.
    """
    members = {
        name: carried(member)
        for name, member in inspect.getmembers(kind, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    members |= {name: _giving(getattr(kind, name)) for name in giving}
    about = {"__doc__": kind.__doc__, "__module__": __name__}
    return type(kind.__name__, (kind,), {**about, **members, **own})


def _events(kind: type[Any]) -> Callable[[Any], Any]:
    """Make the iteration of a turn or a subscription.

    Available events are taken directly from the session's bounded log; asyncio waits only for later
    ones.
    """

    async def step(self: Turn | Subscription) -> Event:
        """Return the next event, from a task of asyncio or of Trio.

        A task that reads without waiting yields to the loop from time to time, as `must_yield`
        decides.
        """
        if trio.lowlevel.in_trio_task():
            return cast("Event", await kind.__anext__(self))
        if must_yield(self):
            await asyncio.sleep(0)
            has_yielded(self)
        while (event := next_event(self)) is None:
            the_guest()
            more = Waiter()
            stop = call_when_more(self, more.set)
            try:
                if (cancelled := await more.wait(more.set)) is not None:
                    raise cancelled
            finally:
                stop()
                has_yielded(self)
        return event

    return step


async def _enter(self: Turn) -> Turn:
    """Enter a turn, from a task of asyncio or of Trio.

    A cancellation by asyncio may arrive in the same moment in which the turn was entered. The turn
    is then left again, because the caller's block never starts.
    """
    entered = False

    async def enter() -> None:
        """Enter the turn, and note that, in one step without a checkpoint in between."""
        nonlocal entered
        await Turn.__aenter__(self)
        entered = True

    if trio.lowlevel.in_trio_task():
        return await Turn.__aenter__(self)
    guest = the_guest()
    try:
        await guest.call(enter)
    except asyncio.CancelledError as cancelled:
        if entered:  # in the same moment: no other code would leave the block
            await guest.call(Turn.__aexit__, self, type(cancelled), cancelled, None)  # noqa: ASYNC102 - the turn's
        raise
    return self


async def _leave(
    self: Turn,
    kind: type[BaseException] | None,
    error: BaseException | None,
    traceback: TracebackType | None,
) -> None:
    """Leave a turn, from a task of asyncio or of Trio; the counterpart of `_enter`."""
    if trio.lowlevel.in_trio_task():
        await Turn.__aexit__(self, kind, error, traceback)
    else:
        await the_guest().call(Turn.__aexit__, self, kind, error, traceback)


def _set_tools(self: Session, tools: Iterable[Tool]) -> None:
    """Set tools; their functions may be asyncio coroutines."""
    if not trio.lowlevel.in_trio_task():
        tools = adapt_tools(the_guest(), tools, view)
    Session.set_tools(self, tools)


def _checkpoints(self: Session) -> SessionCheckpoints:
    """The view of the session's checkpoints."""
    found = cast("SessionCheckpoints", vars(Session)["checkpoints"].__get__(self))
    return found if trio.lowlevel.in_trio_task() else view(found)


def _sandbox(self: Session) -> SandboxStatus | None:
    """The view of the session's sandbox, or None."""
    found = cast("SandboxStatus | None", vars(Session)["sandbox"].__get__(self))
    return found if found is None or trio.lowlevel.in_trio_task() else view(found)


def _query_view(query: Query) -> Query:
    """Return a query with views of its parts; it collects the results in the same list."""
    shown = Query(view(query.session), view(query.events))
    shown.results = query.results
    return shown


_VIEWS: Final[dict[type, type[Any]]] = {
    Session: _view_of(
        Session,
        "prompt",
        "submit",
        "send_history",
        "subscribe",
        "subscribe_all",
        set_tools=_set_tools,
        checkpoints=property(_checkpoints),
        sandbox=property(_sandbox),
    ),
    Turn: _view_of(Turn, __aenter__=_enter, __aexit__=_leave, __anext__=_events(Turn)),
    Subscription: _view_of(Subscription, __anext__=_events(Subscription)),
    Runtime: _view_of(RuntimeHost, "get"),
    SessionCheckpoints: _view_of(SessionCheckpoints),
    SandboxStatus: _view_of(SandboxStatus),
    Store: _view_of(Store),
    Worktree: _view_of(Worktree),
    Site: _view_of(Site),
    Trace: _view_of(Trace),
    TraceSubscription: _view_of(TraceSubscription, __anext__=carried(TraceSubscription.__anext__)),
    WireSubscription: _view_of(WireSubscription, __anext__=carried(WireSubscription.__anext__)),
}
"""The views' classes, by the classes of their objects. Every public asynchronous method is
wrapped."""


@functools.cache
def _view_of_store(kind: type[Any]) -> type[Any]:
    """Return the class of the view of a store; each kind of store gets one."""
    return _view_of(kind)  # the class of an open store, which implements `Store`
