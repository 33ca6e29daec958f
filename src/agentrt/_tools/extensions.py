"""Extensions: functions that serve what an agent asks beside its protocol."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from .._errors import RequestError
from .._model.driver import Requested
from .._session.session import Session
from .._session.turn import Turn
from .._wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS

Serve: TypeAlias = "Callable[[Any, ExtensionContext], Awaitable[object]]"


class ExtensionContext(Struct, frozen=True):
    """What an extension may know beside its parameters: a second parameter gets it."""

    method: str
    session: Session
    turn: Turn | None
    """The turn that ran when the agent asked; None if none did."""


class Extension(Struct, frozen=True):
    """A function that serves a method of the agent's own. Made by `extension`.

    `serve` is called with the parameters as the agent sent them, and the context.
    """

    method: str
    serve: Serve
    function: Callable[..., object] | None = None
    """The function that `extension` decorated, to be called directly in tests."""


def extension(method: str) -> Callable[[Callable[..., Awaitable[object]]], Extension]:
    """Serve requests and notifications of the agent's own, by an async function::

        @agentrt.extension("_acme.dev/review")
        async def review(params: Review) -> Verdict:
            return Verdict(await look_at(params.path))

    `method` is the name on the wire: with ACP it begins with `_`, with Codex it is one of
    `codex app-server`'s, with Claude Code the subtype of a control request. What agentrt serves
    itself cannot be taken from it.

    The function is called with the parameters, converted to what its first parameter is annotated
    with (anything that msgspec understands; without annotation, as they came), and with an
    `ExtensionContext` if it takes two. What it returns is the result, None an empty one. Raise
    `RequestError` for an error of your choice; parameters that do not fit are the error -32602, and
    every other exception is -32603 and a notice (`handler_failed`) in the log.

    A request is cancelled with its turn, and when the agent withdraws it. Notifications are served
    one after the other, in the order of their arrival, also behind the end of their turn; a cancel
    of the turn ends them, and drops those that wait.

    Raises `TypeError` for a function that cannot be called so.
    """
    if not isinstance(method, str) or not method:
        raise TypeError('an extension is named: @agentrt.extension("_name/of/the/method")')

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
    called = getattr(function, "__call__", None)  # noqa: B004 - of an object, its method
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _wanted(function: Callable[..., object], first: inspect.Parameter) -> Any:
    if first.annotation is first.empty:
        return Any
    if not isinstance(first.annotation, str):
        return first.annotation
    target: Any = function if inspect.isroutine(function) else type(function).__call__
    return typing.get_type_hints(target, include_extras=True).get(first.name, Any)


class ExtensionTable:
    """The extensions of one session, by their methods."""

    def __init__(self, extensions: Iterable[Extension]) -> None:
        """Raises ValueError for two of one method."""
        self._by_method: dict[str, Extension] = {}
        for each in extensions:
            if each.method in self._by_method:
                raise ValueError(f"two extensions serve {each.method!r}: an agent asks one")
            self._by_method[each.method] = each

    @property
    def methods(self) -> frozenset[str]:
        return frozenset(self._by_method)

    async def serve(
        self,
        asked: Requested,
        session: Session,
        turn: Turn | None,
        failed: Callable[[str, Exception], None],
    ) -> Any:
        """The result of a request, ready for JSON. Raises `RequestError`; `failed` gets what else
        the function raised."""
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
