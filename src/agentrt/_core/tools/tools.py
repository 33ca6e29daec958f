"""In-process tools: Python functions that a model can call.

A tool is a name, a description, a JSON schema and an async function of the parsed arguments. `tool`
creates one from a function's signature; `Tool(...)` creates one from an existing schema.

A program may also provide servers of the package `mcp`.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, overload

import msgspec
import trio
from msgspec import UNSET, Struct, UnsetType

from ..errors import ToolError
from ..model.content import Audio, Block, Image, JsonObject, Resource, ResourceLink, Text
from ..model.content import blocks as content_blocks
from ..permissions.policies import OWN_NAME as OWN_NAME
from ..session.session import Session
from ..session.turn import Turn
from ..wire.json import encode_line
from ..wire.mcp import ToolInfo, ToolOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp.server import Server

ToolFunction: TypeAlias = "Callable[[JsonObject, ToolContext], Awaitable[object]]"
"""A function that carries out a tool call, given the arguments and the context of the call."""
ReportProgress: TypeAlias = Callable[[float, float | None, str | None], None]
"""A function that reports progress: the amount so far, the total or None, and a message or None."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""Characters and length allowed in a tool's name by the protocol and the model APIs."""


class ToolContext:
    """The context of a running tool call; passed to a parameter annotated with `ToolContext`."""

    def __init__(
        self,
        *,
        session: Session | None = None,
        turn: Turn | None = None,
        tool_call: str | None = None,
        report: ReportProgress | None = None,
    ) -> None:
        """Create the context of a call. `report` takes its progress; None: it is ignored."""
        self.session = session
        self.turn = turn
        """The turn that the call belongs to; None if the agent called outside turns."""
        self.tool_call = tool_call
        """The agent's own id of the call, if it reports one."""
        self.cancel_scope: trio.CancelScope = trio.CancelScope()
        """The scope that the tool runs in, cancelled with the call or the turn.

        A sync tool can check `cancel_scope.cancel_called`.
        """
        self._report = report

    def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report the progress of the call to the agent and the session's log.

        `progress` should increase. Agents that do not listen get nothing, and reports after the end
        of the call are ignored. Sync tools may call this, too.
        """
        if self._report is None:
            return
        if trio.lowlevel.in_trio_run():
            self._report(progress, total, message)
        else:
            trio.from_thread.run_sync(self._report, progress, total, message)


class Tool(Struct, frozen=True):
    """A tool that the model can call.

    `fn` is called with the arguments, a dict as sent by the model, and the context. The arguments
    are not checked against `input_schema`. See `outcome_of` for the possible return values.
    """

    name: str
    """Name of the tool: 1 to 128 of A-Z a-z 0-9 _ . -"""
    description: str
    """Description for the model."""
    input_schema: JsonObject
    """JSON schema of the arguments."""
    fn: ToolFunction
    """Async function of the arguments and the context."""
    timeout: float | None = None
    """Maximum duration in seconds; None means the session's `limits.tool_timeout_s`."""
    annotations: JsonObject | None = None
    """MCP's hints for clients, such as `{"readOnlyHint": True}`."""
    function: Callable[..., object] | None = None
    """The function that `tool` decorated, to be called directly in tests."""

    def __post_init__(self) -> None:
        """Check the name. Raises `ValueError`."""
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"a tool's name is 1 to 128 of A-Z a-z 0-9 _ . -, not {self.name!r}")

    @property
    def info(self) -> ToolInfo:
        """The tool as described to agents."""
        return ToolInfo(self.name, self.description, self.input_schema, self.annotations)


@overload
def tool(function: Callable[..., object], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    annotations: JsonObject | None = None,
) -> Callable[[Callable[..., object]], Tool]: ...


def tool(
    function: Callable[..., object] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    annotations: JsonObject | None = None,
) -> Tool | Callable[[Callable[..., object]], Tool]:
    """Create a `Tool` from an async or sync function.

    The name is that of the function, the description its docstring, the schema its signature: type
    hints that msgspec supports (also dataclasses, enums, `Optional`, and `pathlib.Path`), with
    `Annotated[int, msgspec.Meta(ge=1, description="...")]` for constraints and descriptions.
    Arguments are converted to these types; invalid ones are reported to the model and never reach
    the function. To use a method, pass the bound method (`tool(obj.method)`); the model cannot set
    arguments bound by `functools.partial`. Raises `TypeError`, with the function and the parameter,
    for a signature that cannot be described.

    A sync function runs in a worker thread. A thread cannot be stopped: when the call is cancelled
    or times out, the thread is abandoned. It runs until it returns, and its result is dropped.
    """

    def make(function: Callable[..., object]) -> Tool:
        """Make the tool of a function."""
        signature = _Signature(function)
        return Tool(
            name or _name(function),
            _doc(function) if description is None else description,
            signature.schema,
            signature.call,
            timeout=timeout,
            annotations=annotations,
            function=function,
        )

    return make if function is None else make(function)


async def call_tool(
    tool: Tool,
    arguments: JsonObject,
    context: ToolContext | None = None,
    *,
    default_timeout: float | None = None,
    on_error: Callable[[Tool, Exception], None] | None = None,
) -> ToolOutcome:
    """Run a tool and return its outcome.

    If the tool fails, or exceeds its own timeout (or else `default_timeout`, in seconds), the
    outcome reports this to the model; `on_error` gets the exception. Exceptions that are not an
    `Exception` propagate.

    Cancelling `context.cancel_scope` ends the call with an error outcome; cancelling the caller
    cancels the tool and propagates.
    """
    context = context or ToolContext()
    scope = context.cancel_scope
    seconds = tool.timeout if tool.timeout is not None else default_timeout
    if seconds is not None:
        scope.deadline = min(scope.deadline, trio.current_time() + seconds)
    try:
        with scope:
            # A call that was cancelled before it started must have no effect.
            await trio.lowlevel.checkpoint_if_cancelled()
            return outcome_of(await tool.fn(arguments, context))
    except trio.Cancelled:
        scope.cancel()  # shows it to the tool, also to an abandoned thread
        raise
    except ToolError as error:
        return ToolOutcome.error(str(error))
    except Exception as error:
        if on_error is not None:
            on_error(tool, error)
        return ToolOutcome.error(_describe(error))
    if trio.current_time() >= scope.deadline:
        return ToolOutcome.error(f"{tool.name} timed out after {seconds:g} s")
    return ToolOutcome.error(f"{tool.name} was cancelled")


def outcome_of(value: object) -> ToolOutcome:
    """Convert a tool's return value.

    None is no content, a string is text, a content block or a list with content blocks is content,
    a `ToolOutcome` is returned unchanged. Everything else becomes JSON: text and, for an object (a
    dict, a dataclass, a struct), also structured content. Raises `TypeError` for a value that is
    not JSON.
    """
    match value:
        case ToolOutcome():
            return value
        case None:
            return ToolOutcome([])
        case str() | Text() | Image() | Audio() | ResourceLink() | Resource():
            return ToolOutcome(content_blocks(value))
        case list() | tuple() if any(isinstance(part, Block) for part in value):
            return ToolOutcome(content_blocks(value))
        case bytes() | bytearray() | memoryview():
            raise TypeError("a tool returned bytes; return an Image, Audio or Resource block")
    plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_path)
    text = encode_line(plain).decode().rstrip("\n")
    structured = plain if isinstance(plain, dict) else UNSET
    return ToolOutcome([Text(text)], structured=structured)


class _Signature:
    """A function's parameters as a JSON schema, and the call itself."""

    def __init__(self, function: Callable[..., object]) -> None:
        """Read the parameters of a function. Raises `TypeError` for those that cannot be
        described.
        """
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__
        )
        name, parameters = _name(function), _parameters(function)
        contexts = [each.name for each in parameters if each.annotation is ToolContext]
        if len(contexts) > 1:
            raise TypeError(f"{name}: only one parameter can be the ToolContext")
        self._context = contexts[0] if contexts else None
        fields = []
        for parameter in parameters:
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(
                    f"{name}: a tool's parameters are passed by name; {parameter} cannot be"
                )
            if parameter.name != self._context:
                fields.append(_field(name, parameter))
        self._arguments = msgspec.defstruct(
            "Arguments", fields, kw_only=True, forbid_unknown_fields=True
        )
        self.schema = _schema(
            self._arguments, [each for each in parameters if each.name != self._context]
        )

    async def call(self, arguments: JsonObject, context: ToolContext) -> object:
        """Call the function with converted arguments; a sync one runs in a thread.

        Raises `ToolError` for arguments that do not fit, so that the model can correct them.
        """
        try:
            given = msgspec.convert(arguments, self._arguments, strict=False, dec_hook=_decode_path)
        except msgspec.ValidationError as error:
            raise ToolError(f"Invalid arguments: {error}") from error
        keywords = {
            name: value
            for name in self._arguments.__struct_fields__
            if (value := getattr(given, name)) is not UNSET
        }
        if self._context is not None:
            keywords[self._context] = context
        if self._is_async:
            return await self._function(**keywords)  # type: ignore[misc]
        return await trio.to_thread.run_sync(
            lambda: self._function(**keywords), abandon_on_cancel=True
        )


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    """Return the parameters that the model or the context fills in."""
    name = _name(function)
    if not callable(function):
        raise TypeError(f"a tool must be made from a function, not from {type(function).__name__}")
    try:
        found = inspect.signature(function, eval_str=True).parameters
    except NameError as error:
        raise TypeError(f"{name} has an unknown type hint: {error}") from error
    except Exception as error:  # a hint in a string may be any code; some have no signature
        raise TypeError(f"{name} has no signature that can be read: {error}") from error
    bound = function.keywords if isinstance(function, functools.partial) else {}
    parameters = [each for each in found.values() if each.name not in bound]
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    if parameters and parameters[0].name in ("self", "cls") and not owner.endswith("<locals>"):
        if owner and parameters[0].annotation is inspect.Parameter.empty:
            raise TypeError(
                f"{owner}.{name} is a method, and {parameters[0].name!r} would be chosen"
                f" by the model: make the tool from an object's method, tool(obj.{name})"
            )
    return parameters


def _name(function: object) -> str:
    """Return the name of a function, also of a partial or callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _doc(function: object) -> str:
    """Return the docstring of a function, or of the class of a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    if hasattr(function, "__name__"):
        return inspect.getdoc(function) or ""
    call = getattr(type(function), "__call__", None)  # noqa: B004 - its docstring is needed
    return inspect.cleandoc(getattr(call, "__doc__", None) or type(function).__doc__ or "")


def _field(
    function: str, parameter: inspect.Parameter
) -> tuple[str, Any] | tuple[str, Any, UnsetType]:
    """Return one parameter as a struct field.

    An argument that the model omits stays unset and is not passed on, so that the function's own
    default applies.
    """
    hint = Any if parameter.annotation is parameter.empty else parameter.annotation
    try:
        optional = parameter.default is None and not _takes_none(hint)
        wanted = hint | None if optional else hint
        msgspec.json.schema_components([wanted], schema_hook=_path_schema)
        if parameter.default is parameter.empty:
            return parameter.name, wanted
        return parameter.name, wanted | UnsetType, UNSET
    except (TypeError, ValueError, RecursionError) as error:
        words = getattr(hint, "__name__", None) or repr(hint)
        raise TypeError(
            f"{function}: parameter {parameter.name!r} has a type without JSON Schema ({words}):"
            " use built-in types, list[…], dict[str, …], Literal, enums, dataclasses,"
            " TypedDict, msgspec.Struct and Path; or give the schema yourself: agentrt.Tool(…)"
        ) from error


def _takes_none(hint: Any) -> bool:
    """Return True if a type accepts None."""
    try:
        msgspec.convert(None, hint, dec_hook=_decode_path)
    except msgspec.ValidationError:
        return False
    return True


def _schema(arguments: type[msgspec.Struct], parameters: list[inspect.Parameter]) -> JsonObject:
    """Return the JSON schema of the arguments, with an object at the top as MCP requires."""
    (top,), components = msgspec.json.schema_components(
        [arguments], schema_hook=_path_schema, ref_template="#/$defs/{name}"
    )
    schema: JsonObject = components.pop(top["$ref"].rpartition("/")[2])
    del schema["title"]
    for parameter in parameters:
        if parameter.default not in (parameter.empty, None):
            try:
                default = msgspec.to_builtins(parameter.default, enc_hook=_encode_path)
            except TypeError:
                continue  # not JSON, and the model does not need it
            schema["properties"][parameter.name]["default"] = default
    if components:
        schema["$defs"] = components
    return schema


def _path_schema(kind: type) -> JsonObject:
    """Describe a path as a string, for msgspec."""
    if issubclass(kind, Path):
        return {"type": "string", "format": "path"}
    raise NotImplementedError  # tells msgspec that the type is not supported here either


def _decode_path(kind: type, value: object) -> object:
    """Convert a string to a path, for msgspec."""
    if issubclass(kind, Path) and isinstance(value, str):
        return kind(value)
    raise TypeError("Expected a path, as a string")


def _encode_path(value: object) -> str:
    """Convert a path to a string, for msgspec."""
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")


def _describe(error: BaseException) -> str:
    """Describe an error for the model, without a traceback."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_describe(part) for part in error.exceptions)
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


_MAX_NAME_CHARS: Final = 64
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")


class McpServer(Protocol):
    """A server of the package `mcp`: an `mcp.server.MCPServer`, or an `mcp.server.Server`."""

    @property
    def name(self) -> str:
        """The server's own name."""
        ...

    @property
    def instructions(self) -> str | None:
        """The server's instructions for clients."""
        ...


class ProvidedServer(Struct, frozen=True):
    """A server, and its name for agents."""

    name: str
    """The server's name for agents."""
    server: Server[Any]
    """The server of the `mcp` package."""
    run: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]] | None = None
    """Runs the server outside Trio."""

    @property
    def instructions(self) -> str | None:
        """The server's instructions for clients."""
        return self.server.instructions


Provided: TypeAlias = Tool | ProvidedServer
Tools: TypeAlias = "Iterable[Tool | McpServer] | McpServer"
"""The tools and servers accepted by `open_session`."""


def as_provided_server(value: object) -> ProvidedServer | None:
    """Return the server, or None if the value is not one.

    Raises `TypeError` for a server that cannot be served, with the remedy, and `ValueError` for one
    without a usable name.
    """
    if isinstance(value, ProvidedServer):
        return value
    packages = {each.__module__.partition(".")[0] for each in type(value).__mro__}
    if not packages & {"mcp", "fastmcp"}:
        return None
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    try:
        from mcp.server import MCPServer, Server
    except ImportError as error:
        raise TypeError(
            f"{kind} needs a newer version of `mcp`: pip install 'agentrt[mcp]'"
        ) from error
    # The package's own client and transports take it from there, too.
    low = value._lowlevel_server if isinstance(value, MCPServer) else value
    if not isinstance(low, Server):
        raise TypeError(
            f"{kind} is not a server that agentrt can provide to an agent; use an"
            " mcp.server.MCPServer or an mcp.server.Server"
        )
    name = _NOT_IN_NAMES.sub("-", low.name)[:_MAX_NAME_CHARS].strip("-")
    if not name:
        raise ValueError(f"an MCP server needs a name with letters or digits, not {low.name!r}")
    return ProvidedServer(name, low)


def split(provided: Iterable[Provided]) -> tuple[tuple[Tool, ...], tuple[ProvidedServer, ...]]:
    """Split the values into tools and servers."""
    provided = tuple(provided)
    tools = tuple(each for each in provided if isinstance(each, Tool))
    return tools, tuple(each for each in provided if isinstance(each, ProvidedServer))
