"""Extensions: functions that serve an agent's requests beyond its protocol."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from ..errors import RequestError
from ..model.driver import ServiceRequested
from ..session.session import Session
from ..session.turn import Turn
from ..wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS

Serve: TypeAlias = "Callable[[Any, ExtensionContext], Awaitable[object]]"


class ExtensionContext(Struct, frozen=True):
    """The context of an extension call; passed to a second parameter."""

    method: str
    """The requested method."""
    session: Session
    """The session of the agent."""
    turn: Turn | None
    """The turn that was running when the agent sent the request, or None."""


class Extension(Struct, frozen=True):
    """A function that serves an agent-specific method. Created by `extension`.

    `serve` is called with the parameters as sent by the agent, and the context.
    """

    method: str
    """Name of the method in the protocol."""
    serve: Serve
    function: Callable[..., object] | None = None
    """The function that `extension` decorated, to be called directly in tests."""


def extension(method: str) -> Callable[[Callable[..., Awaitable[object]]], Extension]:
    """Serve agent-specific requests and notifications by an async function::

        @agentrt.tools.extension("_acme.dev/review")
        async def review(params: Review) -> Verdict:
            return Verdict(await look_at(params.path))

    `method` is the name in the protocol: with ACP it begins with `_`, with Codex it is one of
    `codex app-server`'s, with Claude Code the subtype of a control request. Methods that agentrt
    serves itself cannot be replaced.

    The function is called with the parameters, converted to the annotation of its first parameter
    (any type that msgspec supports; without annotation they are not converted), and with an
    `ExtensionContext` if it takes two parameters. Its return value is the result, None an empty
    one. Raise `RequestError` to return an error of your choice. Invalid parameters return the error
    -32602; every other exception returns -32603 and adds a notice (`handler_failed`) to the log.

    A request is cancelled with its turn, and when the agent withdraws it. Notifications are served
    one after the other, in order of arrival, even after the end of their turn; cancelling the turn
    ends them and drops the waiting ones.

    Raises `TypeError` for a function with an unsuitable signature.
    """
    if not isinstance(method, str) or not method:
        raise TypeError('an extension is named: @agentrt.tools.extension("_name/of/the/method")')

    def make(function: Callable[..., Awaitable[object]]) -> Extension:
        return Extension(method, _served(method, function), function)

    return make


def _served(method: str, function: Callable[..., Awaitable[object]]) -> Serve:
    if not _is_async(function):
        raise TypeError(f"{method}: an extension is an async function, not {function!r:.100}")
    taken = list(inspect.signature(function).parameters.values())
    by_place = [
        each for each in taken if each.kind in (each.POSITIONAL_OR_KEYWORD, each.POSITIONAL_ONLY)
    ]
    if by_place != taken or len(taken) not in (1, 2):
        raise TypeError(f"{method}: an extension takes its parameters, and perhaps the context")
    wanted = _wanted(function, taken[0])
    try:
        msgspec.json.Decoder(wanted)
    except (TypeError, NameError) as error:
        raise TypeError(f"{method}: its parameters cannot be {wanted!r:.100}: {error}") from None

    async def serve(params: Any, context: ExtensionContext) -> object:
        try:
            given = msgspec.convert({} if params is None else params, wanted)
        except msgspec.ValidationError as error:
            raise RequestError(INVALID_PARAMS, f"Invalid parameters: {error}") from error
        if len(taken) == 1:
            return await function(given)
        return await function(given, context)

    return serve


def _is_async(function: object) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004 - the method of a callable object
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _wanted(function: Callable[..., object], first: inspect.Parameter) -> Any:
    if first.annotation is first.empty:
        return Any
    if not isinstance(first.annotation, str):
        return first.annotation
    target: Any = function if inspect.isroutine(function) else type(function).__call__
    return typing.get_type_hints(target, include_extras=True).get(first.name, Any)


class ExtensionTable:
    """The extensions of one session, by method."""

    def __init__(self, extensions: Iterable[Extension]) -> None:
        """Raises `ValueError` for two extensions with the same method."""
        self._by_method: dict[str, Extension] = {}
        for each in extensions:
            if each.method in self._by_method:
                raise ValueError(f"two extensions serve {each.method!r}: an agent asks one")
            self._by_method[each.method] = each

    @property
    def methods(self) -> frozenset[str]:
        """The methods that are served."""
        return frozenset(self._by_method)

    async def serve(
        self,
        asked: ServiceRequested,
        session: Session,
        turn: Turn | None,
        failed: Callable[[str, Exception], None],
    ) -> Any:
        """Return the result of a request, ready for JSON.

        Raises `RequestError`; `failed` is called with other exceptions of the function.
        """
        method = asked.params["method"]
        context = ExtensionContext(method, session, turn)
        try:
            result = await self._by_method[method].serve(asked.params["params"], context)
            return msgspec.to_builtins(result, str_keys=True)
        except RequestError:
            raise
        except Exception as error:
            failed(f"the extension {method}", error)
            raise RequestError(INTERNAL_ERROR, f"{type(error).__name__}: {error}") from error
