"""Host-provided policies, tools and hooks that are asyncio coroutines.

The program's functions are wrapped: the wrapper is a Trio function that calls the original in
asyncio's loop (`Guest.call_back`). Synchronous functions stay as they are. The session and turn in
a wrapped function's context are views, so that asyncio can await their methods.

Cancellation passes through: a turn that is cancelled while its tool runs cancels the tool's asyncio
task and waits for its end. An error of the function is an error of the wrapper, so it is reported
as it would be in a Trio program.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from msgspec import structs

from ..events import JsonObject
from ..hosting import (
    Provided,
    ProvidedServer,
    checked_extensions,
    checked_hooks,
    checked_service,
    checked_tools,
    checked_tools_and_servers,
)
from ..permissions import Decision, PermissionRequest, Policy
from ..tools import (
    Extension,
    ExtensionContext,
    Files,
    Hook,
    HookContext,
    Terminal,
    TerminalExit,
    TerminalOutput,
    Terminals,
    Tool,
    ToolContext,
)
from .guest import Guest

T = TypeVar("T")
View = Callable[[Any], Any]


def adapt_arguments(guest: Guest, named: dict[str, Any], view: View) -> dict[str, Any]:
    """Adapt the keyword arguments of a call into Trio: asyncio awaits those that are functions.

    Returns a copy of `named` in which `permissions`, `tools`, `hooks`, `extensions`, `files` and
    `terminals` are wrapped; other arguments are passed on. `view` makes the view of a session or a
    turn. Raises the `TypeError` of `agentrt.open_session` for values of wrong types, before a
    session is opened.
    """
    changed = dict(named)
    if callable(policy := named.get("permissions")):
        changed["permissions"] = _policy(guest, cast("Policy", policy))
    if (tools := named.get("tools")) is not None:
        changed["tools"] = [
            _provided(guest, each, view) for each in checked_tools_and_servers(tools)
        ]
    if (hooks := named.get("hooks")) is not None:
        changed["hooks"] = [_hook(guest, each, view) for each in checked_hooks(hooks)]
    if (extensions := named.get("extensions")) is not None:
        changed["extensions"] = [
            _extension(guest, each, view) for each in checked_extensions(extensions)
        ]
    for name, kind in (("files", _FilesAdapter), ("terminals", _TerminalsAdapter)):
        if (given := named.get(name)) is not None and not isinstance(given, bool):
            changed[name] = kind(guest, checked_service(name, given))
    return changed


def adapt_tools(guest: Guest, tools: Iterable[object], view: View) -> list[Tool]:
    """Adapt tools, as `adapt_arguments` does."""
    return [_tool(guest, each, view) for each in checked_tools(tools)]


class _AwaitableAnswer:
    """The awaitable that a policy returned. Asyncio awaits it, and only if this is awaited."""

    def __init__(self, guest: Guest, pending: Awaitable[Decision]) -> None:
        self._guest = guest
        self._pending = pending

    def __await__(self) -> Generator[Any, Any, Decision]:
        """Await the answer in asyncio, from a Trio task."""
        return self._guest.call_back(lambda: self._pending).__await__()


def _is_async(function: object) -> bool:
    """True for a coroutine function, or an object with an asynchronous `__call__`."""
    called = getattr(function, "__call__", None)  # noqa: B004 - the method of an object
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _policy(guest: Guest, policy: Policy) -> Policy:
    """Return a policy for Trio's side that calls the program's policy.

    An async policy is called in asyncio's loop. One that only returns an awaitable is called here,
    and its answer is awaited there.
    """

    async def later(request: PermissionRequest) -> Decision:
        """Call the async policy in asyncio's loop."""
        decision: Decision = await guest.call_back(policy, request)  # type: ignore[arg-type]
        return decision

    def decide(request: PermissionRequest) -> Decision | Awaitable[Decision]:
        """Call the policy here; if it returns an awaitable, that is awaited in asyncio."""
        decision = policy(request)
        return _AwaitableAnswer(guest, decision) if inspect.isawaitable(decision) else decision

    wrapped = later if _is_async(policy) else decide
    wrapped.__qualname__ = getattr(policy, "__qualname__", None) or repr(policy)
    wrapped.__wrapped__ = policy  # type: ignore[attr-defined]
    return wrapped


def _provided(guest: Guest, given: Provided, view: View) -> Provided:
    """Adapt a tool, or a server of tools, which asyncio's loop runs."""
    if isinstance(given, ProvidedServer):
        return structs.replace(given, run=guest.call_back)
    return _tool(guest, given, view)


def _tool(guest: Guest, tool: Tool, view: View) -> Tool:
    """Return the tool with its function called in asyncio's loop.

    A function that is not async stays as it is, since it runs in a thread. The context shows views
    of the session and the turn.
    """
    if tool.function is not None and not _is_async(inspect.unwrap(tool.function)):
        return tool  # it runs in a thread

    async def call(arguments: JsonObject, context: ToolContext) -> object:
        """Call the tool in asyncio's loop, with views in its context."""
        shown = copy.copy(context)
        shown.session, shown.turn = view(context.session), view(context.turn)
        return await guest.call_back(tool.fn, arguments, shown)

    return structs.replace(tool, fn=call)


def _hook(guest: Guest, hook: Hook, view: View) -> Hook:
    """Return the hook with its function called in asyncio's loop, and a view of the turn."""

    async def ask(given: JsonObject) -> JsonObject | None:
        """Call a hook without a context in asyncio's loop."""
        return await guest.call_back(hook.function, given)

    async def ask_with(given: JsonObject, context: HookContext) -> JsonObject | None:
        """Call a hook in asyncio's loop, with a view of the turn in its context."""
        shown = structs.replace(context, turn=view(context.turn))
        return await guest.call_back(hook.function, given, shown)

    return structs.replace(hook, function=ask_with if hook.takes_context else ask)


def _extension(guest: Guest, extension: Extension, view: View) -> Extension:
    """Return the extension with its function called in asyncio's loop."""

    async def serve(params: Any, context: ExtensionContext) -> object:
        shown = structs.replace(context, session=view(context.session), turn=view(context.turn))
        return await guest.call_back(extension.serve, params, shown)

    return structs.replace(extension, serve=serve)


class _FilesAdapter:
    """A program's `Files` service, awaited by asyncio.

    Errors of the service reach the agent as under Trio.
    """

    def __init__(self, guest: Guest, files: Files) -> None:
        self._guest = guest
        self._files = files

    async def read_text_file(self, path: str) -> str:
        return await self._guest.call_back(self._files.read_text_file, path)

    async def write_text_file(self, path: str, content: str) -> None:
        await self._guest.call_back(self._files.write_text_file, path, content)


class _TerminalsAdapter:
    """A program's `Terminals` service, awaited by asyncio.

    The terminals that it creates are adapted, too, since the agent's later requests go to them.
    """

    def __init__(self, guest: Guest, terminals: Terminals) -> None:
        self._guest = guest
        self._terminals = terminals

    async def create(
        self, command: Sequence[str], *, cwd: str, env: Mapping[str, str], output_limit: int
    ) -> Terminal:
        """Create a terminal in asyncio, and adapt that as well."""
        start = partial(self._terminals.create, cwd=cwd, env=env, output_limit=output_limit)
        return _TerminalAdapter(self._guest, await self._guest.call_back(start, command))


class _TerminalAdapter:
    """A program's `Terminal`, awaited by asyncio."""

    def __init__(self, guest: Guest, terminal: Terminal) -> None:
        self._guest = guest
        self._terminal = terminal

    async def output(self) -> TerminalOutput:
        return await self._guest.call_back(self._terminal.output)

    async def wait(self) -> TerminalExit:
        return await self._guest.call_back(self._terminal.wait)

    async def kill(self) -> None:
        await self._guest.call_back(self._terminal.kill)

    async def release(self) -> None:
        await self._guest.call_back(self._terminal.release)
