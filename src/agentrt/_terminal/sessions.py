"""`agentrt sessions`: earlier sessions, as the agents themselves keep them."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

import msgspec
import trio
from msgspec import Struct

from .._acp.messages import ListSessionsResponse
from .._agents import Agent, find_agents
from .._config import Config
from .._errors import AgentrtError, SessionNotFound
from .._nesting import bare_errors
from .._permissions.policies import deny_all
from .._runtime.claude_sessions import ClaudeSessions
from .._session.session import Session
from .agents import print_table
from .export import ExportFormat, exported
from .setup import Setup, exit_code
from .text import escaped, one_line, plain

AT_ONCE = 2
"""Agents asked at the same time: more would only wait for each other."""
PAGES = 100
"""Answers that one list may come in: an agent must not be able to keep us asking for ever."""


class Unable(AgentrtError):
    """The agent has nothing for what is asked of it."""


class Stored(Struct, kw_only=True):
    """An earlier session. `updated`: seconds since the Unix epoch."""

    agent: str
    id: str
    title: str = ""
    cwd: str | None = None
    updated: float | None = None


async def stored_sessions(agent: Agent, config: Config, cwd: str | None) -> list[Stored]:
    """The sessions of a folder (None: of all) that the agent still knows, the newest first.

    An ACP agent is started for it, without a session. Raises `AgentrtError`: it keeps no list, or
    does not start.
    """
    if agent.protocol == "claude":
        found = [
            Stored(agent=agent.name, id=s.id, title=s.title, cwd=s.cwd, updated=s.modified)
            for s in await _of_claude(agent).list(cwd)
        ]
    else:
        async with _bare(agent, config, cwd) as session:
            found = await listed(session, cwd)
            await session.aclose()
    return sorted(found, key=lambda each: each.updated or 0, reverse=True)


async def listed(session: Session, cwd: str | None) -> list[Stored]:
    """The same from an ACP agent that runs already, in the agent's order."""
    if not session.capabilities.get("list_sessions"):
        raise Unable(f"{session.agent.name} keeps no list of its sessions")
    wanted = _real(cwd)
    found: list[Stored] = []
    cursors: set[str | None] = set()
    cursor: str | None = None
    while cursor not in cursors and len(cursors) < PAGES:
        cursors.add(cursor)
        answer = await session.call("list_sessions", cwd=wanted, cursor=cursor)
        try:
            page = msgspec.convert(answer, ListSessionsResponse)
        except msgspec.ValidationError as error:
            raise Unable(f"{session.agent.name}'s list makes no sense: {error}") from error
        for each in page.sessions:
            if wanted is None or _real(each.cwd) in (None, wanted):
                found.append(
                    Stored(
                        agent=session.agent.name,
                        id=each.session_id,
                        title=each.title or "",
                        cwd=each.cwd,
                        updated=_seconds(each.updated_at),
                    )
                )
        cursor = page.next_cursor
    return found


# --- the commands


async def show_list(agents: list[Agent], config: Config, cwd: str | None, *, as_json: bool) -> int:
    """Print the sessions of these agents, or of all that keep a list. 1 if one that was named
    cannot list them."""
    found, failures = await _ask_all(agents, config, cwd)
    if as_json:
        print(escaped(msgspec.json.format(msgspec.json.encode(found)).decode()))
    elif found:
        print_table(
            ("UPDATED", "AGENT", "SESSION", "TITLE") + (("FOLDER",) if cwd is None else ()),
            [
                (when(s.updated), s.agent, one_line(s.id), one_line(s.title, 60) or "-")
                + ((one_line(s.cwd or "?"),) if cwd is None else ())
                for s in found
            ],
        )
        print("\nTo go on with one: agentrt --agent AGENT --resume SESSION")
    for name, error in failures.items():
        if agents or not isinstance(error, Unable):
            print(f"agentrt: {name}: {_short(error)}", file=sys.stderr)
    if not found and not as_json:
        where = "" if cwd is None else " in this folder (--all: in any)"
        print(f"agentrt: no session is stored{where}", file=sys.stderr)
    return exit_code(next(iter(failures.values()))) if agents and failures else 0


async def export(
    agents: list[Agent], config: Config, cwd: str, id: str, format: ExportFormat
) -> int:
    """Print one session. It is loaded by its agent, to which no prompt is sent."""
    try:
        agent = await _agent_of(agents, config, cwd, id)
        setup = Setup(agent=agent, config=config, cwd=cwd, resume=id)
        async with setup.open(deny_all, limits=setup.limits, replay=True) as session:
            text = exported(session.snapshot(), format)
            await session.aclose()
    except AgentrtError as error:
        return failed(error)
    print_document(text, format)
    return 0


async def delete(agents: list[Agent], config: Config, cwd: str, id: str) -> int:
    """Have one deleted by its agent."""
    try:
        agent = await _agent_of(agents, config, cwd, id)
        if agent.protocol == "claude":
            await _of_claude(agent).delete(id)
        else:
            async with _bare(agent, config, cwd) as session:
                if not session.capabilities.get("delete_session"):
                    raise Unable(f"{agent.name} cannot delete a session")
                lists = session.capabilities.get("list_sessions")
                if lists and id not in {each.id for each in await listed(session, None)}:
                    raise SessionNotFound(f"{agent.name} lists no session {id!r}")
                await session.call("delete_session", session=id)
                await session.aclose()
    except AgentrtError as error:
        return failed(error)
    print(f"deleted {one_line(id)} of {agent.name}")
    return 0


# --- the agents


async def _agent_of(agents: list[Agent], config: Config, cwd: str, id: str) -> Agent:
    """The agent that has the session: the one that was named, or the one that lists it."""
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
) -> tuple[list[Stored], dict[str, AgentrtError]]:
    """The sessions of all, the newest first, and why some agents could not list theirs."""
    found: list[Stored] = []
    failures: dict[str, AgentrtError] = {}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def ask(agent: Agent) -> None:
        async with limit:
            try:
                found.extend(await stored_sessions(agent, config, cwd))
            except AgentrtError as error:
                failures[agent.name] = error

    async with bare_errors(), trio.open_nursery() as nursery:
        for agent in agents or [each.agent for each in find_agents(config) if each.available]:
            nursery.start_soon(ask, agent)
    return sorted(found, key=lambda each: each.updated or 0, reverse=True), failures


def _of_claude(agent: Agent) -> ClaudeSessions:
    options = agent.claude
    env = {**os.environ, **agent.env, **(options.env if options is not None else {})}
    return ClaudeSessions(env.get("CLAUDE_CONFIG_DIR"))


def _bare(agent: Agent, config: Config, cwd: str | None) -> AbstractAsyncContextManager[Session]:
    """The agent without a session, to be asked about others."""
    setup = Setup(agent=agent, config=config, cwd=cwd or ".", options={"session": False})
    return setup.open(deny_all, limits=setup.limits, replay=True)


def _real(folder: str | None) -> str | None:
    return None if folder is None else os.path.realpath(folder)


def _seconds(text: str | None) -> float | None:
    """A point in time, out of ISO 8601."""
    try:
        when = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()


def print_document(text: str, format: ExportFormat) -> None:
    """To a terminal without any power over it."""
    if os.isatty(1):
        text = escaped(text) if format == "json" else plain(text)
    sys.stdout.write(text)


def when(seconds: float | None) -> str:
    """A point in time, for people."""
    if seconds is None:
        return "?"
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


def _short(error: AgentrtError) -> str:
    return plain(str(error).partition("\n---")[0])


def failed(error: AgentrtError) -> int:
    """Say why it failed; returns the exit status."""
    print(f"agentrt: {_short(error)}", file=sys.stderr)
    return exit_code(error)
