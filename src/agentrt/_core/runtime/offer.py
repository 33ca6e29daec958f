"""The resources that a session provides to its agent, and helpers shared by all protocols' setup.

An `Offer` has the program's arguments, in the same form for all protocols. The setup of the agent's
protocol (`acp_setup.py`, `claude_setup.py`, `codex_setup.py`, `own_setup.py`) makes a
`ProtocolSetup` of it: functions that make a driver and connect to the agent at each start, and a
block around the session, which serves the agent's requests.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar, cast
from uuid import UUID

from msgspec import Struct, field

from ..._base.nesting import ExitStack
from ..agents import Agent
from ..errors import LocalProtocolError
from ..limits import Limits
from ..model.driver import Driver, Opening, ToolCalled
from ..model.events import Notice
from ..permissions.policies import Policy
from ..permissions.standing import OwnTools, Standing
from ..process.pipes import Transport
from ..process.process import open_process
from ..process.tap import Tap
from ..session.host import SessionHost
from ..session.interfaces import StartGate
from ..session.link import Connect
from ..session.turn import turn_of

if TYPE_CHECKING:
    from ..acp.terminals import JoinSandbox
    from ..process.streams import OpenStreams
    from ..sandbox.wall import Wall
    from ..session.session import Session
    from ..tools.extensions import Extension, Hook
    from ..tools.relay import McpRelay
    from ..tools.server import ToolServer
    from ..tools.tools import ProvidedServer, Tool
    from .client_services import Files, Terminals
    from .project_start import ProjectStart

T = TypeVar("T")

NOTHING_TO_FORK = "fork=True copies an earlier session: give its id as `resume`, too"
NO_FORK = "fork_at sets the end of a copy: give fork=True, too"


def check_fork(opening: Opening, *, goes_on: bool = False) -> None:
    """Raise `ValueError` for invalid fork options. `goes_on`: a session is resumed without an
    id.
    """
    if opening.fork and opening.resume is None and not goes_on:
        raise ValueError(NOTHING_TO_FORK)
    if opening.fork_at is not None and not opening.fork:
        raise ValueError(NO_FORK)


def check_dicts(agent: Agent, opening: Opening, *names: str) -> None:
    """Raise `TypeError` unless the options of these names are dicts."""
    for name in names:
        value = opening.options.get(name)
        if not isinstance(value, dict | None):
            raise TypeError(
                f"option {name!r} of {agent.name} must be a dict, not {type(value).__name__}"
            )


AroundSession = Callable[[SessionHost, "Session"], AbstractAsyncContextManager[Opening]]


def random_uuids() -> Callable[[], str]:
    """Return a function that makes UUIDs with a random head and counting last digits.

    Each prompt needs one, and asking the system for a random number every time would cost more than
    the rest of the work.
    """
    head = str(UUID(bytes=secrets.token_bytes(16), version=4))[:24]
    numbers = count(secrets.randbits(47))
    return lambda: f"{head}{next(numbers):012x}"


class Offer(Struct, frozen=True, kw_only=True):
    """The resources that a session provides to its agent, and the environment of the agent's
    process.
    """

    tools: tuple[Tool, ...] = ()
    own_tools: tuple[Tool, ...] = ()
    """Tools of agentrt itself, which are also in `tools`."""
    servers: tuple[ProvidedServer, ...] = ()
    hooks: tuple[Hook, ...] = ()
    extensions: tuple[Extension, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    on_stderr: Callable[[bytes], None] | None = None
    files: bool | Files = True
    terminals: bool | Terminals = True
    connect: Connect | None = None
    """Function that connects to the agent instead of starting its program."""
    variables: Callable[[], Mapping[str, str]] = dict
    """Returns further environment variables when the agent's process is started."""
    money_left: Callable[[], float | None] = lambda: None
    """Returns what the session's budgets have left, in USD, when the process is started."""
    first_key: str = "r"
    """Prefix of the keys of the agent's requests; must differ from those of earlier processes."""
    new_uuid: Callable[[], str] | None = None
    """Returns ids for Claude's sessions and prompts; None for random ones."""
    standing: Standing = field(default_factory=lambda: Standing(None))
    """Denials that apply even if the agent does not ask, for agents that accept such rules."""
    tap: Tap = field(default_factory=Tap)
    """The source of the session's trace."""
    wall: Wall | None = None
    """The sandbox around the agent; None: none."""
    project: ProjectStart | None = None
    """Changes of the agent's start that depend on the trust in the session's folders; None: no
    change.
    """

    @property
    def extension_methods(self) -> tuple[str, ...]:
        """The methods of the agent's own that the extensions serve."""
        return tuple(each.method for each in self.extensions)

    def inside(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """Return the environment of the agent's programs, in the sandbox if there is one."""
        return env if self.wall is None else self.wall.environment(env)

    @property
    def hides(self) -> bool:
        """True if there is a sandbox, and it can hide files from the agent."""
        return self.wall is not None and self.wall.tier == "bwrap"

    @property
    def join(self) -> JoinSandbox | None:
        """Function that returns the command to run a program in the sandbox; None without one."""
        return None if self.wall is None else self.wall.join


class ProtocolSetup(Struct, frozen=True):
    """The protocol-specific part of a session."""

    opening: Opening
    make_driver: Callable[[], Driver]
    connect: Connect
    around_session: AroundSession
    """Context manager around the session: sets up everything that needs a running one, and returns
    the opening.
    """
    offer: Offer
    gate: StartGate[SessionHost] | None = None
    """Decides before each start if the agent may act on the project's files."""

    @property
    def tap(self) -> Tap:
        """The source of the session's trace."""
        return self.offer.tap

    def own_tools(self, policy: Policy | None, agent: Agent) -> OwnTools:
        """Return the program's own tools in this session, with the rules of its policy."""
        return OwnTools(
            own_names(self.offer.tools),
            [server.name for server in self.offer.servers],
            policy=policy,
            cwd=self.opening.cwd,
            kind_holds=agent.quirks.kinds_hold,
        )


def own_names(tools: Iterable[Tool]) -> list[str]:
    """Return the names of the tools that this program runs; those of viewers run in their
    clients.
    """
    if not (tools := tuple(tools)):
        return []
    from ..tools.client_tools import ClientTool

    return [tool.name for tool in tools if not isinstance(tool, ClientTool)]


def environment(
    agent: Agent,
    base: Mapping[str, str],
    unset: frozenset[str] = frozenset(),
    project: ProjectStart | None = None,
) -> Mapping[str, str]:
    """Return the environment of an agent's process.

    It consists of `base` without `unset`, the variables of `project`, and those of the agent's
    entry, which win. It is `base` itself if nothing differs: many sessions then share one.
    """
    dropped = unset.union(agent.unset_env)
    given: Mapping[str, str] = {}
    if project is not None:
        dropped |= project.unset_env
        given = project.env
    if not given and not agent.env and dropped.isdisjoint(base):
        return base
    return {**{k: v for k, v in base.items() if k not in dropped}, **given, **agent.env}


def connection(
    agent: Agent,
    offer: Offer,
    program: Callable[[Opening], tuple[Sequence[str], Mapping[str, str]]],
) -> Connect:
    """Return the function that connects to the agent.

    It uses the connection of the offer, existing streams, or starts a program. `program` returns
    the command and environment for each start.
    """
    if offer.connect is not None:
        return offer.connect
    if agent.connect is not None:
        from ..process.streams import open_streams

        return lambda opening: open_streams(cast("OpenStreams", agent.connect))

    return partial(_started, offer, program)


@asynccontextmanager
async def _started(
    offer: Offer,
    program: Callable[[Opening], tuple[Sequence[str], Mapping[str, str]]],
    opening: Opening,
) -> AsyncIterator[Transport]:
    """Start the program, and yield its transport until it has ended.

    The files for an untrusted folder are written, and the sandbox is prepared, for each start anew.
    """
    command, env = program(opening)
    hidden: Sequence[str] = ()
    async with ExitStack() as stack:
        if (project := offer.project) is not None:
            command = (*command, *project.arguments)
            hidden = await project.files_to_hide(env, hides=offer.hides)
            if project.writes_files:
                env = await stack.enter_async_context(project.written_files(env))
        offer.tap.env = env
        start = None
        if offer.wall is not None:
            start = await stack.enter_async_context(offer.wall.start(command, env, hidden))
        async with open_process(
            command if start is None else start.argv,
            cwd=opening.cwd,
            env=env if start is None else start.env,
            limits=offer.limits,
            on_stderr=offer.on_stderr,
            watcher=offer.tap.process,
            entry=None if start is None else start.entry,
            pass_fds=() if start is None else start.pass_fds,
        ) as transport:
            if offer.wall is not None and start is not None:
                offer.wall.entered(start)
            yield transport


class RequestKeys:
    """Makes the keys of an agent's requests, consecutive numbers with a prefix."""

    __slots__ = ("_first", "_last")

    def __init__(self, first: str) -> None:
        self._first = first
        self._last = 0

    def __call__(self) -> str:
        """Return the next key."""
        self._last += 1
        return f"{self._first}{self._last}"


def _show_progress(
    host: SessionHost,
    tool: Tool,
    call: str | None,
    progress: float,
    total: float | None,
    message: str | None,
) -> None:
    """Show progress in the item of the call if the agent reports its id, otherwise as a notice."""
    of = f" of {total:g}" if total is not None else ""
    words = f"{message} ({progress:g}{of})" if message else f"{progress:g}{of}"
    core = host.core
    with core.step():
        items = core.conversation.items
        if call is not None and items.open_call(call) is not None:
            items.tool_called(ToolCalled(id=call, append=f"{words}\n"))
        else:
            data = {"tool": tool.name, "progress": progress, "total": total, "message": message}
            core.log.append(Notice("info", "tool_progress", f"{tool.name}: {words}", data))


def tool_server(
    host: SessionHost, session: Session, offer: Offer, *, sent: bool = False
) -> ToolServer:
    """Create the MCP server for the program's tools.

    `sent`: the agent gets them with the request that opens the session, so it need not ask.
    """
    from ..tools.server import ToolServer

    observer = host.core.observer
    server = ToolServer(
        offer.tools,
        session=session,
        turn=lambda: turn_of(host, host.core.turn),
        timeout=offer.limits.tool_timeout_s,
        on_error=lambda tool, error: host.handler_failed(f"the tool {tool.name}", error),
        on_progress=partial(_show_progress, host),
        around=None if observer is None else observer.calling,
        refuse=host.own_tools.refusal,
        on_tools=lambda tools: host.own_tools.set_tools(own_names(tools)),
        own=offer.own_tools,
    )
    host.provide_tools(server.set_tools)
    own = {tool.name for tool in offer.own_tools}
    if not sent:
        host.completion_callbacks += (partial(_check_fetched, host, server, own),)
    return server


def _check_fetched(host: SessionHost, server: ToolServer, own: set[str]) -> None:
    """Report after the first turn if the agent has not fetched the tools."""
    host.completion_callbacks = ()
    names = [tool.name for tool in server.tools if tool.name not in own]
    if names and not server.fetched:
        host.core.add_notice(
            Notice(
                "warning",
                "tools_not_fetched",
                f"the agent never asked for the program's tools, so it cannot call them: "
                f"{', '.join(names)}. It may not support MCP servers that its client provides",
                {"tools": names},
            )
        )


async def relays(host: SessionHost, offer: Offer, stack: ExitStack) -> list[McpRelay]:
    """Serve the program's own MCP servers until the stack is closed."""
    if not offer.servers:
        return []
    from ..tools.relay import open_relay

    observer = host.core.observer
    around = None if observer is None else observer.calling
    return [
        await stack.enter_async_context(
            open_relay(
                server,
                timeout=offer.limits.tool_timeout_s,
                around=around,
                refuse=host.own_tools.refusal,
            )
        )
        for server in offer.servers
    ]


def serve_extensions(host: SessionHost, session: Session, offer: Offer) -> None:
    """Serve the requests known to the driver with the program's extensions."""
    if not offer.extensions:
        return
    from ..tools.extensions import ExtensionTable

    table = ExtensionTable(offer.extensions)
    host.turn_services["extension"] = lambda asked, turn: table.serve(
        asked, session, turn_of(host, turn), host.handler_failed
    )


SERVICES: Final = {"files": ("read_text_file", "write_text_file"), "terminals": ("create",)}
"""Services that a program can provide as its own objects, and the methods of those objects."""


def checked_service(name: str, given: T) -> T:
    """Return the value of `files` or `terminals`.

    Raises `TypeError` if it is neither a bool nor an object with the required methods.
    """
    if isinstance(given, type):
        raise TypeError(f"`{name}` must be an instance of {given.__name__}, not the class")
    for method in SERVICES[name]:
        if not isinstance(given, bool) and not callable(getattr(given, method, None)):
            raise TypeError(
                f"{name} is True, False, or your own object with"
                f" {' and '.join(SERVICES[name])}: {type(given).__name__} has no {method}"
            )
    return given


def check_no_services(agent: Agent, offer: Offer) -> None:
    """Raise `LocalProtocolError` for services that this agent never requests."""
    for name in SERVICES:
        if not isinstance(getattr(offer, name), bool):
            raise LocalProtocolError(
                f"{agent.name} reads, writes and runs by itself: {name}=… is for agents that ask"
                " their client, as some that speak ACP do"
            )
