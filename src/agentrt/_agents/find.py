"""Finding agents by name, and their programs on this machine."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from typing import Protocol

import trio
from msgspec import Struct, structs

from .._errors import AgentNotFound
from .._nesting import check_trio
from .agent import Agent
from .catalogue import BUILT_IN

VERSION = 10.0
"""Seconds to say a version: the Node agents take one or two on a machine at rest."""


unstarted = False
"""Whether programs are not looked for, because none is started: tests put scripts in their place
(`agentrt.testing.scripted_agents`)."""


class OwnAgents(Protocol):
    """Where a user's own agents are named: a `Config`."""

    @property
    def agents(self) -> Mapping[str, Agent]: ...


class FoundAgent(Struct, frozen=True, kw_only=True):
    """What `find_agents` says of one agent. `agent.command` begins with `path`, if there is one."""

    agent: Agent
    path: str | None
    """The program's absolute path; None if it is not installed."""

    @property
    def available(self) -> bool:
        return self.path is not None


def find_agents(config: OwnAgents | None = None) -> list[FoundAgent]:
    """All known agents, the user's own first, and whether each is installed. Starts nothing."""
    return [_find(agent) for agent in _known(config).values()]


def resolve_agent(agent: str | Agent, config: OwnAgents | None = None) -> Agent:
    """The agent of that name, ready to be started: its program is there, as an absolute path.

    Raises `AgentNotFound`, with close names, with how to get it, or with why it cannot be run.
    """
    name_of(agent)
    wanted = _named(agent, _known(config)) if isinstance(agent, str) else agent
    if unstarted or wanted.connect is not None:
        return wanted
    found = _find(wanted)
    if not found.available:
        if why := _unusable(wanted.command[0]):
            raise AgentNotFound(f"the program of agent {wanted.name!r} cannot be run: {why}")
        how = f" To get it: {wanted.install}" if wanted.install else ""
        raise AgentNotFound(
            f"the program of agent {wanted.name!r} is not installed:"
            f" {wanted.command[0]!r} was not found.{how}"
        )
    return found.agent


def resolve_stored_agent(name: str, config: OwnAgents | None = None) -> Agent:
    """Return the agent of an earlier session, ready to be started.

    A session that was run with a command of its own has an agent that no catalogue knows. Raises
    `AgentNotFound`, with the ways to name it.
    """
    if not is_known(name, config):
        raise AgentNotFound(
            f"the session's agent {name!r} is not known here; give its command again (--command"
            f" 'CMD ARGS', or agent=agentrt.acp(…)), or define [agents.{name}] in the configuration"
            " file"
        )
    return resolve_agent(name, config)


def is_known(name: str, config: OwnAgents | None = None) -> bool:
    """Whether an agent is called so, installed or not."""
    return any(name in (each.name, *each.aliases) for each in _known(config).values())


def name_of(agent: str | Agent) -> str:
    """What an agent is called. Raises `TypeError` for what is none."""
    if isinstance(agent, str):
        return agent
    if isinstance(agent, Agent):
        return agent.name
    right = "a name such as 'claude', or what agentrt.acp([…]) or agentrt.claude() makes"
    raise TypeError(f"an agent is {right}, not {type(agent).__name__}")


async def agent_version(agent: Agent) -> str | None:
    """The version that the agent's program prints, or None if it prints none in `VERSION` seconds.

    Runs it. Cancelling kills what was started.
    """
    check_trio("agent_version")
    if not agent.version_args:
        await trio.lowlevel.checkpoint()
        return None
    environment = {k: v for k, v in os.environ.items() if k not in agent.unset_env} | agent.env
    with trio.move_on_after(VERSION):
        try:
            done = await trio.run_process(
                [agent.command[0], *agent.version_args],
                cwd=os.sep,  # some read settings of the folder that they are started in
                env=environment,
                capture_stdout=True,
                stderr=subprocess.DEVNULL,
                check=False,
                start_new_session=True,  # a launcher's children die with it
                deliver_cancel=_kill_group,
            )
        except OSError:
            return None
        text = done.stdout.decode(errors="replace")
        found = re.search(r"(?<!\d)\d++\.\d++(?:[.+-]\w++|\w++)*+", text)
        return found[0] if found and done.returncode == 0 else None
    return None


async def _kill_group(process: trio.Process) -> None:
    os.killpg(process.pid, signal.SIGKILL)


def _known(config: OwnAgents | None) -> dict[str, Agent]:
    """By name: the user's own agents, then the built-in ones that they do not replace."""
    own = config.agents if config is not None else {}
    return {**own, **{name: agent for name, agent in BUILT_IN.items() if name not in own}}


def _named(name: str, known: Mapping[str, Agent]) -> Agent:
    if name in known:
        return known[name]
    aliases = {alias: agent for agent in known.values() for alias in agent.aliases}
    if name in aliases:
        return aliases[name]
    import difflib  # for the few who mistype a name

    found = difflib.get_close_matches(name, [*known, *aliases], cutoff=0.5)
    close = dict.fromkeys(aliases[each].name if each in aliases else each for each in found)
    hint = (
        f"did you mean {' or '.join(map(repr, close))}?" if close else f"known: {', '.join(known)}"
    )
    raise AgentNotFound(f"no agent is called {name!r}; {hint}")


def _find(agent: Agent) -> FoundAgent:
    for program, *arguments in (agent.command, *agent.alternatives):
        for path in _programs(agent, program):
            named = os.path.basename(program) == program
            if named and not re.search(agent.installed_as or "", os.path.realpath(path)):
                continue  # another program of that name
            return FoundAgent(agent=structs.replace(agent, command=(path, *arguments)), path=path)
    return FoundAgent(agent=agent, path=None)


def _programs(agent: Agent, program: str) -> Iterator[str]:
    """Absolute paths of programs of that name, the first to be preferred."""
    # A relative path is meant from here, but the agent is started in the session's folder.
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for folder in folders if os.path.basename(program) == program else [os.curdir]:
        if path := shutil.which(program, path=folder):
            yield os.path.abspath(path)
    if agent.protocol == "claude" and program == "claude":
        for place in _claude_places():
            if path := shutil.which(place):
                yield path


def _unusable(program: str) -> str:
    """Why a program that is there cannot be run; empty if it is not there."""
    named = os.path.basename(program) == program
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if named else [os.curdir]:
        path = os.path.join(folder, program)
        if os.path.isdir(path):
            if not named:  # every PATH may have a folder of some name
                return f"{path!r} is a folder"
        elif os.path.exists(path) and not os.access(path, os.X_OK):
            return f"{path!r} is not executable (chmod +x)"
    return ""


def _claude_places() -> Iterator[str]:
    """Where else Claude Code may be: in the installed Python SDK, and where its own installers put
    it without changing PATH."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield os.path.join(folder, "_bundled", "claude")
    yield os.path.expanduser("~/.local/bin/claude")
    yield os.path.expanduser("~/.claude/local/claude")
