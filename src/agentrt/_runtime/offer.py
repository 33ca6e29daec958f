"""What a session offers to its agent, and what the agent's protocol makes of it: the words that the
assemblies of both protocols share.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from .._agents import Agent
from .._limits import Limits
from .._model.driver import Driver, Opening, ToolCalled
from .._model.events import Notice
from .._session.host import SessionHost
from .._session.link import Connect
from .._session.turn import Turn
from .._tools.hooks import Hook
from .._tools.tools import Tool
from .._trace.tap import Tap

if TYPE_CHECKING:
    from .._session.session import Session
    from .._tools.server import ToolServer

NOTHING_TO_FORK = "fork=True copies an earlier session: give its id as `resume`, too"
Attach = Callable[[SessionHost, "Session"], AbstractAsyncContextManager[Opening]]


def _new_uuid() -> str:
    """A random UUID. What `uuid4` makes on the way to its text costs five times as much."""
    digits = secrets.token_hex(16)
    variant = "89ab"[int(digits[16], 16) & 3]
    head, middle, tail = digits[:8], digits[8:12], digits[20:]
    return f"{head}-{middle}-4{digits[13:16]}-{variant}{digits[17:20]}-{tail}"


@dataclass(frozen=True)
class Offer:
    """What a session offers to its agent, and where the agent's process is to live."""

    tools: tuple[Tool, ...] = ()
    hooks: tuple[Hook, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    on_stderr: Callable[[bytes], None] | None = None
    files: bool = True
    terminals: bool = True
    connect: Connect | None = None
    """How to reach the agent instead of starting its program."""
    variables: Callable[[], Mapping[str, str]] = dict
    """Gives further variables of its environment, when its process is started."""
    first_key: str = "r"
    """What the keys of the agent's requests begin with: no earlier process's may be the same."""
    new_uuid: Callable[[], str] = _new_uuid
    """Names Claude's sessions and prompts."""
    tap: Tap = field(default_factory=Tap)
    """What a trace of the session is made from."""


@dataclass(frozen=True)
class Assembly:
    """The protocol's part of a session."""

    opening: Opening
    make_driver: Callable[[], Driver]
    connect: Connect
    attach: Attach
    """Opened around the session: brings in what needs a running one, and gives the opening."""
    tap: Tap


def environment(agent: Agent, base: Mapping[str, str], unset: frozenset[str]) -> dict[str, str]:
    dropped = unset.union(agent.unset_env)
    return {k: v for k, v in base.items() if k not in dropped} | agent.env


def keys(first: str) -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"{first}{next(numbers)}"


def _show_progress(
    host: SessionHost,
    tool: Tool,
    call: str | None,
    progress: float,
    total: float | None,
    message: str | None,
) -> None:
    """In the item of the call, where the agent says which one it is; else as a notice."""
    of = f" of {total:g}" if total is not None else ""
    words = f"{message} ({progress:g}{of})" if message else f"{progress:g}{of}"
    core = host.core
    with core:
        items = core.conversation.items
        if call is not None and items.open_call(call) is not None:
            items.tool_called(ToolCalled(id=call, append=f"{words}\n"))
        else:
            data = {"tool": tool.name, "progress": progress, "total": total, "message": message}
            core.log.append(Notice("info", "tool_progress", f"{tool.name}: {words}", data))


def tool_server(host: SessionHost, session: Session, offer: Offer) -> ToolServer:
    from .._tools.server import ToolServer

    observer = host.core.observer
    server = ToolServer(
        offer.tools,
        session=session,
        turn=lambda: Turn.of(host, host.core.turn),
        timeout=offer.limits.tool,
        on_error=lambda tool, error: host.handler_failed(f"the tool {tool.name}", error),
        on_progress=partial(_show_progress, host),
        around=None if observer is None else observer.calling,
    )
    session.offer_tools(server.set_tools)
    return server
