"""A session's in-process tools as an MCP server, for all kinds of agents.

`ToolServer` holds the tools. `connect` gives each client (Claude, or each bridge that an ACP agent
started) a `ToolConnection`, which handles the client's messages and runs its calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final, Protocol, TypeAlias

from ..logging import get_logger
from ..model.content import JsonObject
from ..session.session import Session
from ..session.turn import Turn
from ..wire.jsonrpc import INTERNAL_ERROR, Id
from ..wire.mcp import CallTool, CancelTool, ListenForChanges, McpToolServer, Message, ToolOutcome
from .extensions import checked_tools
from .tools import OWN_NAME, Tool, ToolContext, call_tool

logger = get_logger("tools")

VERSION: Final = "1"
"""The server's version, required by MCP; nothing depends on it."""

Reply: TypeAlias = Callable[[Message | None], None]
"""Called exactly once for each message, with its answer.

The answer is None for a notification, or a call that its client has cancelled.
"""

Notify: TypeAlias = Callable[[Message], None]
"""Sends a notification to the client. Never blocks."""

OnToolError: TypeAlias = Callable[[Tool, Exception], None]

OnProgress: TypeAlias = Callable[[Tool, str | None, float, float | None, str | None], None]
"""Receives the progress of a tool call.

Arguments: the tool, the agent's id of the call (None if it gave none), the progress, the total, and
a message.
"""


Around: TypeAlias = Callable[[str, str | None, JsonObject], AbstractContextManager[object]]
"""Returns a context manager for a call.

Arguments: the tool's name, the agent's id of the call (None if it gave none), and the metadata of
the call.
"""


Refuse: TypeAlias = Callable[[str, object, str], "str | None"]
"""Returns the reason why a call must not run, or None if it may.

Arguments: the tool's name, the arguments of the call, and the server's name.
"""


class Spawn(Protocol):
    """Starts `async_fn(*args)` in the nursery and the context of the running turn.

    Provided by the session. Raising an exception refuses the call.
    """

    def __call__(self, async_fn: Callable[..., Awaitable[None]], /, *args: object) -> None:
        """Start the function, or raise if no call may run now."""
        ...


class InProcessConnection(Protocol):
    """One client of a server."""

    def handle(
        self,
        message: bytes | bytearray | JsonObject,
        spawn: Spawn,
        reply: Reply,
        *,
        background: bool = False,
    ) -> None:
        """Handle one message of the client, and call `reply` once with its answer.

        `spawn` runs tool calls. `background`: a call belongs to no turn.
        """
        ...

    def close(self) -> None:
        """End the work for a client that has gone. Idempotent."""
        ...


class InProcessServer(Protocol):
    """A server for agents: the program's tools, or a server of its own."""

    name: str

    def connect(self, notify: Notify, *, both_ways: bool = False) -> InProcessConnection:
        """Connect a new client. `both_ways`: it also answers requests."""
        ...


class ToolServer:
    """The tools of one session.

    - `turn`: returns the turn of a new call.
    - `timeout`: for tools without their own.
    - `on_error`: called with the exceptions of tools; by default they are logged.
    - `around`: returns the context manager for a call.
    - `refuse`: returns the reason why a call must not run.
    - `on_tools`: called with the tools whenever they are replaced.
    """

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        *,
        name: str = OWN_NAME,
        session: Session | None = None,
        turn: Callable[[], Turn | None] = lambda: None,
        timeout: float | None = None,
        on_error: OnToolError | None = None,
        on_progress: OnProgress | None = None,
        around: Around | None = None,
        refuse: Refuse | None = None,
        on_tools: Callable[[Iterable[Tool]], None] = lambda tools: None,
        own: Iterable[Tool] = (),
    ) -> None:
        """`own`: agentrt's own tools, which stay when the others are replaced."""
        self.name = name
        self._own = tuple(own)
        self._tools = {**_by_name(self._own), **_by_name(tools)}
        self._session = session
        self._turn = turn
        self._timeout = timeout
        self._on_error = on_error or _log_error
        self._on_progress = on_progress
        self._around = around or nothing_around
        self._refuse = refuse or nothing_refused
        self._on_tools = on_tools
        self._connections: set[ToolConnection] = set()
        self.fetched = False
        """True once a client has listed the tools or has called one."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The current tools."""
        return tuple(self._tools.values())

    def set_tools(self, tools: Iterable[object]) -> None:
        """Replace the tools and notify every client; running calls continue.

        Raises `TypeError` for a value that is not a tool, `ValueError` if two have the same name.
        """
        self._tools = {**_by_name(self._own), **_by_name(checked_tools(tools))}
        self._on_tools(self.tools)
        for connection in self._connections:
            connection._tools_changed()

    async def call(
        self, name: str, arguments: JsonObject, *, tool_call: str | None = None
    ) -> ToolOutcome:
        """Run a tool for an agent that calls it without MCP.

        `tool_call` is the agent's id of the call. Cancelling the caller cancels the tool and
        propagates.
        """
        tool = self._tools.get(name)
        if tool is None:
            return ToolOutcome.error(f"there is no tool {name}")
        if (why := self.refusal(name, arguments)) is not None:
            return ToolOutcome.error(why)
        report = None
        if self._on_progress is not None:
            report = partial(self._on_progress, tool, tool_call)
        context = ToolContext(
            session=self._session, turn=self._turn(), tool_call=tool_call, report=report
        )
        with self._around(name, tool_call, {}):
            return await call_tool(
                tool,
                arguments,
                context,
                default_timeout=self._timeout,
                on_error=self._on_error,
            )

    def refusal(self, name: str, arguments: JsonObject) -> str | None:
        """Return the reason why a call must not run, or None if it may."""
        return self._refuse(name, arguments, self.name)

    def connect(self, notify: Notify, *, both_ways: bool = False) -> ToolConnection:
        """Connect a new client. Close the connection when the client has gone."""
        return ToolConnection(self, notify)


class ToolConnection:
    """One client: its handshake and its calls."""

    def __init__(self, server: ToolServer, notify: Notify) -> None:
        """Connect a client of a server."""
        self._server = server
        self._notify = notify
        self._mcp = McpToolServer(server.name, VERSION, [tool.info for tool in server.tools])
        self._running: dict[Id, ToolContext] = {}
        self._listening: dict[Id, Reply] = {}
        server._connections.add(self)

    def handle(
        self,
        message: bytes | bytearray | JsonObject,
        spawn: Spawn,
        reply: Reply,
        *,
        background: bool = False,
    ) -> None:
        """Handle one message of the client.

        A tool call is started with `spawn` and answered when the tool is done. A request to listen
        is answered when this connection is closed. Other messages are answered before this returns.
        `background`: a call belongs to no turn, even if one is running.

        A call whose turn is cancelled is answered with an error immediately: an agent may wait for
        it before it ends its turn.
        """
        taken = self._mcp.receive(message)
        self._server.fetched |= self._mcp.listed or isinstance(taken, CallTool)
        match taken:
            case CallTool() as call:
                turn = None if background else self._server._turn()
                self._start(call, turn, spawn, reply)
            case ListenForChanges(request_id, acknowledgement):
                self._listening[request_id] = reply
                self._notify(acknowledgement)
            case CancelTool(request_id):
                if request_id in self._listening:
                    self._listening.pop(request_id)(None)
                else:
                    self._running.pop(request_id).cancel_scope.cancel()
                reply(None)
            case answer:
                reply(answer)

    def close(self) -> None:
        """Cancel the calls of a client that has gone. Idempotent."""
        self._server._connections.discard(self)
        for context in self._running.values():
            context.cancel_scope.cancel()
        while self._listening:
            id, reply = self._listening.popitem()
            reply(self._mcp.end_listening(id))

    def _start(self, call: CallTool, turn: Turn | None, spawn: Spawn, reply: Reply) -> None:
        """Start a call in its turn, or answer why it must not run."""
        server = self._server
        id = call.request_id
        if (why := server._refuse(call.name, call.arguments, server.name)) is not None:
            reply(self._mcp.reply(id, ToolOutcome.error(why)))
            return
        named = call.meta.get("claudecode/toolUseId")
        tool_call = named if isinstance(named, str) else None
        context = ToolContext(
            session=server._session,
            turn=turn,
            tool_call=tool_call,
            report=partial(self._progress, id, server._tools[call.name], tool_call),
        )
        try:
            spawn(self._run, server._tools[call.name], call, context, reply)
        except Exception as error:  # there is no longer a turn for it
            reply(self._mcp.refuse(id, INTERNAL_ERROR, f"{call.name} cannot run now: {error}"))
        else:
            self._running[id] = context

    async def _run(self, tool: Tool, call: CallTool, context: ToolContext, reply: Reply) -> None:
        """Run a tool and answer, in every case once."""
        outcome: ToolOutcome | None = None
        try:
            with self._server._around(tool.name, context.tool_call, call.meta):
                outcome = await call_tool(
                    tool,
                    call.arguments,
                    context,
                    default_timeout=self._server._timeout,
                    on_error=self._server._on_error,
                )
        finally:
            answer = None
            if self._running.get(call.request_id) is context:  # otherwise its client cancelled it
                del self._running[call.request_id]
                outcome = outcome or ToolOutcome.error(f"{tool.name} was cancelled")
                answer = self._mcp.reply(call.request_id, outcome)
            reply(answer)

    def _progress(
        self,
        id: Id,
        tool: Tool,
        tool_call: str | None,
        progress: float,
        total: float | None,
        message: str | None,
    ) -> None:
        """Pass the progress of a call to the session's log and to the client."""
        if id in self._running and self._server._on_progress is not None:
            self._server._on_progress(tool, tool_call, progress, total, message)
        notification = self._mcp.progress(id, progress, total, message)
        if notification is not None:
            self._notify(notification)

    def _tools_changed(self) -> None:
        """Notify the client of the new tools."""
        for notification in self._mcp.set_tools(tool.info for tool in self._server.tools):
            self._notify(notification)


def _by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Map tools to their names. Raises `ValueError` if two have the same one."""
    named: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in named:
            raise ValueError(f"two tools are called {tool.name!r}")
        named[tool.name] = tool
    return named


_NOTHING: Final = nullcontext()


def nothing_around(tool: str, call: str | None, meta: JsonObject) -> nullcontext[None]:
    """Do nothing around a call; the default of `around`."""
    return _NOTHING


def nothing_refused(tool: str, arguments: object, server: str) -> None:
    # The default of `refuse`: no call is refused.
    return None


def _log_error(tool: Tool, error: Exception) -> None:
    """Log the exception of a tool; the default of `on_error`."""
    logger.error("tool %s failed", tool.name, exc_info=error)
