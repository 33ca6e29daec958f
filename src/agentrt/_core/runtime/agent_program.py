"""An agent's program without a session."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import trio

from ..agents import Agent, ProtocolName
from ..limits import Limits
from ..model.driver import Opening
from ..process.pipes import Transport, Watcher
from ..process.process import open_process
from ..process.tap import Tap
from ..trace.trace import Trace, tapped
from .offer import environment


@asynccontextmanager
async def open_agent_program(
    agent: Agent,
    *,
    cwd: str | os.PathLike[str],
    env: Mapping[str, str],
    limits: Limits | None = None,
    watcher: Watcher | None = None,
) -> AsyncIterator[Transport]:
    """Start an agent's program, and end it with everything that it started after the block.

    - `env`: its environment, to which the agent's own variables are added.
    - `watcher`: receives everything that is read and written.

    Raises `AgentNotFound` if the program does not exist, `AgentStartError` if it cannot be run.
    """
    argv: tuple[str, ...] | list[str] = agent.command
    variables = environment(agent, env)
    if agent.protocol == "claude":
        from ..claude.command import build_command
        from ..claude.options import ClaudeOptions, effective

        opening = Opening(cwd=os.fspath(cwd))
        options = effective(agent.claude or ClaudeOptions(), opening)
        command = build_command(agent.command, opening, options)
        argv = command.argv
        variables = {**environment(agent, env, command.env_unset), **command.env_set}
    async with open_process(
        argv, cwd=cwd, env=variables, limits=limits or Limits(), watcher=watcher
    ) as process:
        yield process


@asynccontextmanager
async def trace_process(
    traces: Iterable[Trace | str | os.PathLike[str]],
    *,
    session: str,
    agent: str,
    protocol: ProtocolName,
) -> AsyncIterator[Watcher]:
    """Yield a watcher that records one process of an agent in these traces.

    `session`, `agent`, `protocol`: its names in the records.
    """
    tap = Tap()
    tap.agent, tap.protocol = agent, protocol
    tap.begin(session, time.time, trio.current_time)
    async with AsyncExitStack() as stack:
        for trace in traces:
            await stack.enter_async_context(tapped(trace, tap))
        yield tap.next_process()
