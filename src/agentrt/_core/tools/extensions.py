"""Functions of the program that an agent calls, other than tools, and the checks of all of them.

An *extension* serves requests beyond the agent's protocol. Claude Code calls a *hook* at a certain
moment of its work. The checks report a wrong tool, hook or extension at the program's own call.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from ..errors import RequestError
from ..model.content import JsonObject
from ..model.driver import ServiceRequested
from ..session.session import Session
from ..session.turn import Turn
from ..wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from .tools import OWN_NAME, Provided, Tool, as_provided_server, split

if TYPE_CHECKING:
    from ..claude.options import HookMatcher


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
    serve: Callable[[Any, ExtensionContext], Awaitable[object]]
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
        raise TypeError('an extension has a name: @agentrt.tools.extension("_name/of/the/method")')

    def make(function: Callable[..., Awaitable[object]]) -> Extension:
        """Make the extension of a function."""
        return Extension(method, _served(method, function), function)

    return make


def _served(
    method: str, function: Callable[..., Awaitable[object]]
) -> Callable[[Any, ExtensionContext], Awaitable[object]]:
    """Return the function that serves a method: it converts the parameters and calls the extension.

    Raises `TypeError` now for a function that is not async or has unsuitable parameters, and
    `RequestError` later for parameters that do not fit.
    """
    if not _is_async(function):
        raise TypeError(f"{method}: an extension must be an async function, not {function!r:.100}")
    taken = list(inspect.signature(function).parameters.values())
    by_place = [
        each for each in taken if each.kind in (each.POSITIONAL_OR_KEYWORD, each.POSITIONAL_ONLY)
    ]
    if by_place != taken or len(taken) not in (1, 2):
        raise TypeError(f"{method}: an extension takes its parameters and, optionally, the context")
    wanted = _wanted(function, taken[0])
    try:
        msgspec.json.Decoder(wanted)
    except (TypeError, NameError) as error:
        raise TypeError(f"{method}: its parameters cannot be {wanted!r:.100}: {error}") from None

    async def serve(params: Any, context: ExtensionContext) -> object:
        """Convert the parameters and call the function."""
        try:
            given = msgspec.convert({} if params is None else params, wanted)
        except msgspec.ValidationError as error:
            raise RequestError(INVALID_PARAMS, f"Invalid parameters: {error}") from error
        if len(taken) == 1:
            return await function(given)
        return await function(given, context)

    return serve


def _is_async(function: object) -> bool:
    """Return True for an async function, or an object with an async `__call__`."""
    called = getattr(function, "__call__", None)  # noqa: B004 - the method of a callable object
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _wanted(function: Callable[..., object], first: inspect.Parameter) -> Any:
    """Return the type of the first parameter; `Any` without an annotation."""
    if first.annotation is first.empty:
        return Any
    if not isinstance(first.annotation, str):
        return first.annotation
    target: Any = function if inspect.isroutine(function) else type(function).__call__
    return typing.get_type_hints(target, include_extras=True).get(first.name, Any)


class ExtensionTable:
    """The extensions of one session, by method."""

    def __init__(self, extensions: Iterable[Extension]) -> None:
        """`extensions`: as `checked_extensions` returns them."""
        self._by_method = {each.method: each for each in extensions}

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


_GOES_ON = frozenset({"Stop", "SubagentStop"})
"""Events for which "block" means that the agent must continue."""

HookFunction = Callable[..., Awaitable[JsonObject | None]]
"""A function that serves a hook.

It takes the hook's input, and a `HookContext` if it has a second parameter, and returns its output.
"""


class HookContext(Struct, frozen=True):
    """The context of a hook call; passed to a second parameter."""

    event: str
    """The event of the hook."""
    tool_call: str | None
    """The agent's id of the tool call, or None."""
    turn: Turn | None
    """None if the agent calls outside turns."""


class Hook(Struct, frozen=True):
    """A function that is called at `event`. Created by `hook`."""

    event: str
    """Name of the event."""
    function: HookFunction
    """The function to call."""
    matcher: str | None = None
    """Regular expression over tool names; None matches all."""
    timeout: float | None = None
    """Claude Code's time limit in seconds; None is its default."""
    on_failure: Literal["block", "continue"] | None = None
    """`"block"` makes an exception block, too."""

    @property
    def takes_context(self) -> bool:
        """True if the function takes a `HookContext`."""
        return len(inspect.signature(self.function).parameters) > 1


def hook(
    event: str,
    *,
    matcher: str | None = None,
    timeout: float | None = None,
    on_failure: Literal["block", "continue"] | None = None,
) -> Callable[[HookFunction], Hook]:
    """Make a hook from an async function::

        @agentrt.hook("PreToolUse", matcher="Bash")
        async def no_sudo(input):
            if "sudo" in input["tool_input"]["command"]:
                return {
                    "hookSpecificOutput": {
                        "hookEventName": "PreToolUse",
                        "permissionDecision": "deny",
                        "permissionDecisionReason": "not here",
                    }
                }

    The function is called with the event's input as documented by Claude Code, and with a
    `HookContext` if it takes two parameters. Return None for no decision.

    - `matcher`: a regular expression over tool names.
    - `timeout`: Claude Code's time limit in seconds. After it the hook is cancelled and, for a hook
      that runs before a tool, the tool is blocked.
    - `on_failure`: `"block"` makes an exception block, too.

    Raises `ValueError` for an unknown event.
    """
    from ..claude.options import HOOK_EVENTS

    if event not in HOOK_EVENTS:
        raise ValueError(f"{event!r} is not a hook event; choose from: {', '.join(HOOK_EVENTS)}")

    def make(function: HookFunction) -> Hook:
        """Make the hook of a function."""
        return Hook(event, function, matcher, timeout, on_failure)

    return make


class HookTable:
    """The hooks of one session, by the ids that the agent uses."""

    def __init__(self, hooks: Iterable[Hook]) -> None:
        """Give each hook an id that the agent calls it by."""
        self._hooks = {f"hook{n}": each for n, each in enumerate(hooks, 1)}

    @property
    def matchers(self) -> dict[str, tuple[HookMatcher, ...]]:
        """The registration for the agent: one matcher for each hook, by event."""
        from ..claude.options import HookMatcher

        found: dict[str, tuple[HookMatcher, ...]] = {}
        for id, each in self._hooks.items():
            matcher = HookMatcher(
                callbacks=(id,),
                matcher=each.matcher,
                timeout=each.timeout,
                on_failure=each.on_failure,
            )
            found[each.event] = (*found.get(each.event, ()), matcher)
        return found

    async def serve(
        self, request: ServiceRequested, turn: Turn | None, stored: Callable[[], Awaitable[None]]
    ) -> Any:
        """Call the requested hook and return its answer. An exception becomes an error answer.

        `stored` is awaited before an answer that may allow something: the hook writes no event of
        its own, but the action that it was asked about is an event.
        """
        params = request.params
        each = self._hooks[params["callback_id"]]
        if not each.takes_context:
            answer = await each.function(params["input"]) or {}
        else:
            context = HookContext(each.event, params.get("tool_use_id"), turn)
            answer = await each.function(params["input"], context) or {}
        if not allows_nothing(each.event, answer):
            await stored()
        return answer


def allows_nothing(event: str, answer: object) -> bool:
    """Return True if a hook's answer has no decision, or only restricts the agent."""
    match answer:
        case {"continue": False}:
            return True
        case {"decision": "block"}:
            return event not in _GOES_ON
        case {"hookSpecificOutput": {"permissionDecision": "deny" | "ask"}}:
            return True
        case {"hookSpecificOutput": {"decision": {"behavior": "deny"}}}:
            return True
    return answer == {}


T = TypeVar("T")


def checked_tools(given: Iterable[object]) -> tuple[Tool, ...]:
    """Return the tools. Raises `TypeError` for anything else."""

    def right(value: object) -> str:
        """Return the remedy for a value that is not a tool."""
        if as_provided_server(value) is not None:
            return "must be a function; pass servers when you open the session"
        return (
            f"must be made with agentrt.tool({_name(value)})"
            if callable(value)
            else "must be an agentrt.Tool"
        )

    return _checked(Tool, "tool", given, right)


def checked_tools_and_servers(given: object) -> tuple[Provided, ...]:
    """Return the tools and servers of the package `mcp`; a single server is also accepted.

    Raises `TypeError` for anything else, `ValueError` for two servers with the same name.
    """
    single = as_provided_server(given)
    if single is not None:
        return (single,)
    if isinstance(given, Tool) or callable(given) or not isinstance(given, Iterable):
        return checked_tools(given)  # type: ignore[arg-type]
    provided = [as_provided_server(value) or checked_tools([value])[0] for value in given]
    tools, servers = split(provided)
    names = [OWN_NAME] if tools else []
    for server in servers:
        if server.name in names:
            raise ValueError(f"two MCP servers are called {server.name!r}")
        names.append(server.name)
    return tuple(provided)


def checked_hooks(given: Iterable[object]) -> tuple[Hook, ...]:
    """Return the hooks. Raises `TypeError` for anything else."""
    made = 'must be made with @agentrt.hook("PreToolUse")'
    return _checked(Hook, "hook", given, lambda value: made)


def checked_extensions(given: Iterable[object]) -> tuple[Extension, ...]:
    """Return the extensions.

    Raises `TypeError` for anything else, `ValueError` for two extensions with the same method.
    """
    made = 'must be made with @agentrt.tools.extension("_method")'
    extensions = _checked(Extension, "extension", given, lambda value: made)
    methods: set[str] = set()
    for each in extensions:
        if each.method in methods:
            raise ValueError(f"two extensions serve {each.method!r}; pass only one of them")
        methods.add(each.method)
    return extensions


def _checked(
    kind: type[T], word: str, given: Iterable[object], right: Callable[[object], str]
) -> tuple[T, ...]:
    """Return the values if all are of a kind. Raises `TypeError` with the remedy."""
    if isinstance(given, kind) or callable(given):
        raise TypeError(f"`{word}s` must be a list: [{_name(given)}]")
    if not isinstance(given, Iterable):
        raise TypeError(f"`{word}s` must be a list, not {_kind(given)}")
    checked = []
    for value in given:
        if not isinstance(value, kind):
            article = "an" if word[0] in "aeiou" else "a"
            raise TypeError(f"{article} {word} {right(value)}, not {_kind(value)}")
        checked.append(value)
    return tuple(checked)


def _kind(value: object) -> str:
    """Describe a value in an error."""
    return f"the function {_name(value)}" if callable(value) else type(value).__name__


def _name(value: object) -> str:
    """Return the name of a value in an error."""
    return getattr(value, "__name__", None) or getattr(value, "name", None) or repr(value)
