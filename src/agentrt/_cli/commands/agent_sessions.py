"""`agentrt sessions --agent`: sessions that the agents have stored themselves."""

from __future__ import annotations

import sys

import trio

from ..._base.nesting import bare_errors
from ...agents import Agent, AgentSession, delete_session, find_agents, list_sessions
from ...config import Config
from ...errors import AgentrtError, RequestError, SessionNotFound, TraceError
from ...jsonrpc import METHOD_NOT_FOUND
from ...permissions import deny_all
from ...tracing import Trace
from ..exit_status import exit_code
from ..printing import as_date, first_part, print_document, print_error, print_json, print_table
from ..repl.export import ExportFormat, exported
from ..setup import Setup, agents_environment
from ..text import one_line
from ..tracing import command_trace

PARALLEL_AGENTS_ASKED = 2
"""Agents asked at the same time: more would only wait for each other."""


# --- the commands


async def show_list(agents: list[Agent], config: Config, cwd: str | None, *, as_json: bool) -> int:
    """Print the sessions of these agents, or of all that have a list; returns the exit status.

    The status is not 0 if one of the given agents cannot list its sessions.
    """
    try:
        found, failures = await _ask_all(agents, config, cwd)
    except TraceError as why:
        return print_error(why)
    if as_json:
        print_json(found)
    elif found:
        _print_table(found, folders=cwd is None)
    for name, error in failures.items():
        able = not isinstance(error, RequestError) or error.code != METHOD_NOT_FOUND
        if agents or able:
            print(f"agentrt: {name}: {first_part(error)}", file=sys.stderr)
    if not found and not as_json:
        where = "" if cwd is None else " in this folder (--all: in any)"
        print(f"agentrt: no session is stored{where}", file=sys.stderr)
    return exit_code(next(iter(failures.values()))) if agents and failures else 0


def _print_table(found: list[AgentSession], *, folders: bool) -> None:
    print_table(
        ("UPDATED", "AGENT", "SESSION", "TITLE") + (("FOLDER",) if folders else ()),
        [
            (as_date(each.updated), each.agent, one_line(each.id), one_line(each.title, 60) or "-")
            + ((one_line(each.cwd or "?"),) if folders else ())
            for each in found
        ],
    )
    print("\nResume one: agentrt --agent AGENT --resume SESSION")


async def export(
    agents: list[Agent], config: Config, cwd: str, id: str, format: ExportFormat
) -> int:
    """Print one session; returns the exit status.

    Its agent loads it and gets no prompt.
    """
    try:
        agent = await _agent_of(agents, config, cwd, id)
        setup = Setup(agent=agent, config=config, cwd=cwd, resume=id)
        async with setup.open(deny_all, limits=setup.limits, replay=True) as session:
            text = exported(await session.full_snapshot(), format)
            await session.aclose()
    except AgentrtError as error:
        return print_error(error)
    print_document(text, format)
    return 0


async def delete(agents: list[Agent], config: Config, cwd: str, id: str) -> int:
    """Have the agent delete a session; returns the exit status."""
    try:
        agent = await _agent_of(agents, config, cwd, id)
        limits = Setup(agent=agent, config=config).limits
        env = agents_environment(config)
        async with command_trace(config) as trace:
            await delete_session(agent, id, env=env, limits=limits, trace=trace)
    except AgentrtError as error:
        return print_error(error)
    print(f"deleted {one_line(id)} of {agent.name}")
    return 0


# --- the agents


async def _agent_of(agents: list[Agent], config: Config, cwd: str, id: str) -> Agent:
    """Return the agent of a session: the given one, or the one that lists the session.

    Raises `SessionNotFound`.
    """
    if len(agents) == 1:
        return agents[0]
    found, _ = await _ask_all(agents, config, None)
    names = {each.agent for each in found if each.id == id}
    for each in find_agents(config):
        if each.agent.name in names:
            return each.agent
    raise SessionNotFound(
        f"no agent lists a session {id!r} (`agentrt sessions --all` shows all; an agent that keeps"
        " no list must be named: --agent NAME)"
    )


async def _ask_all(
    agents: list[Agent], config: Config, cwd: str | None
) -> tuple[list[AgentSession], dict[str, AgentrtError]]:
    """Return the sessions of all agents, newest first, and the errors of agents that cannot list
    them.
    """
    found: list[AgentSession] = []
    failures: dict[str, AgentrtError] = {}
    limit = trio.CapacityLimiter(PARALLEL_AGENTS_ASKED)

    async def ask(agent: Agent, trace: Trace | None) -> None:
        async with limit:
            try:
                limits = Setup(agent=agent, config=config).limits
                env = agents_environment(config)
                found.extend(
                    await list_sessions(agent, cwd=cwd, env=env, limits=limits, trace=trace)
                )
            except AgentrtError as error:
                failures[agent.name] = error

    async with bare_errors(), command_trace(config) as trace, trio.open_nursery() as nursery:
        for agent in agents or [each.agent for each in find_agents(config) if each.available]:
            nursery.start_soon(ask, agent, trace)
    return sorted(found, key=lambda each: each.updated or 0, reverse=True), failures
