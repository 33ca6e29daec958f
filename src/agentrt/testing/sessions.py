"""Sessions and runtimes with agents in memory."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, Unpack

from .._public import Limits, Runtime, Session, SessionOptions
from ..agents import ProtocolName, Transport
from ..effects import ServiceRequested
from ..hosting import open_runtime_over, open_session_over
from ..permissions import Policy, ask
from ..tools import Tools
from .memory import MemoryAgent

if TYPE_CHECKING:
    from ..store import Store


def open_fake_session(
    start: Callable[[], MemoryAgent],
    *,
    name: str = "fake",
    protocol: ProtocolName = "acp",
    acp_version: Literal[1, 2] = 1,
    id: str = "id",
    now: Callable[[], float] = time.time,
    services: Mapping[str, Callable[[ServiceRequested], Awaitable[Any]]] | None = None,
    **options: Unpack[SessionOptions],
) -> AbstractAsyncContextManager[Session]:
    """Open a session with an agent in memory.

    - `start`: called for each start and restart of the agent; returns its process.
    - `name`, `protocol`, `acp_version`: those of the `Agent`.
    - `id`: prefix of the ids in the log, which are the same in every run.
    - `now`: clock for the times in the log.
    - `services`: replace agentrt's own handlers for requests of the agent, by the first word of the
      method (`fs`, `terminal`).
    - `options`: those of a real session (`SessionOptions`), except `hooks`, `env`, `trust`,
      `trusted`, `on_stderr`, `trace` and those of a worktree, which apply to processes. `cwd` is
      `/` by default.

    Yields the `Session`. Raises `TypeError` for an unknown option or one that applies to processes.
    """
    return open_session_over(
        _connecting(start),
        name=name,
        protocol=protocol,
        acp_version=acp_version,
        id=id,
        now=now,
        services=services,
        **options,
    )


def open_fake_runtime(
    agents: Mapping[str, Callable[[], MemoryAgent]],
    *,
    permissions: Policy | None = ask,
    limits: Limits | None = None,
    tools: Tools = (),
    store: Store | None = None,
) -> AbstractAsyncContextManager[Runtime]:
    """Open a runtime with agents in memory.

    `agents` maps each name to a function that makes a process. Session ids are `s1-1`, `s2-1`, …;
    with a `store`, the numbers start after the stored sessions. If other servers share the store,
    the node's name comes first. A session with a name that is not in `agents` raises
    `AgentNotFound`. Yields the `Runtime`.
    """
    return open_runtime_over(
        {name: _connecting(start) for name, start in agents.items()},
        permissions=permissions,
        limits=limits,
        tools=tools,
        store=store,
    )


def _connecting(
    start: Callable[[], MemoryAgent],
) -> Callable[[], AbstractAsyncContextManager[Transport]]:
    return lambda: start().connect()
