"""Finding agents by name, and their programs on this machine.

A name is looked up among the user's own agents first, then in the catalogue. The agent that is
found has the absolute path of its program, because it is started in another folder. Only
`agent_version` starts a program.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

import trio
from msgspec import Struct, structs

from ..errors import AgentNotFound
from ..trio_task import check_trio
from .agent import Agent, Replaceable
from .catalogue import BUILT_IN

VERSION_TIMEOUT_S = 10.0
"""Seconds for a program to print its version; the Node agents take one or two on an idle
machine.
"""


class OwnAgents(Protocol):
    """A source of the user's own agents, such as a `Config`."""

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The user's own agents, by name."""
        ...


class FoundAgent(Struct, frozen=True, kw_only=True):
    """A result of `find_agents` for one agent. If there is a `path`, `agent.command` begins with
    it.
    """

    agent: Agent
    """The agent."""
    path: str | None
    """The program's absolute path; None if it is not installed."""

    @property
    def available(self) -> bool:
        """True if the program is installed."""
        return self.path is not None


def find_agents(config: OwnAgents | None = None) -> list[FoundAgent]:
    """Return all known agents, the user's own first, with the paths of their programs.

    Starts nothing.
    """
    return [_find(agent) for agent in _known(config).values()]


def resolve_agent(agent: str | Agent, config: OwnAgents | None = None) -> Agent:
    """Return the agent with this name, with the absolute path of its program.

    Raises `AgentNotFound`, with similar names, installation instructions, or the reason why it
    cannot be run, and `TypeError` for a value that is not an agent.
    """
    name_of(agent)
    wanted = _named(agent, _known(config)) if isinstance(agent, str) else agent
    return wanted if wanted.connect is not None else PROGRAMS.current(wanted)


def _installed(agent: Agent) -> Agent:
    """Return the agent with the absolute path of its program. Raises `AgentNotFound`."""
    found = _find(agent)
    if not found.available:
        if why := _unusable(agent.command[0]):
            raise AgentNotFound(f"the program of agent {agent.name!r} cannot be run: {why}")
        how = f" To get it: {agent.install}" if agent.install else ""
        raise AgentNotFound(
            f"the program of agent {agent.name!r} is not installed:"
            f" {agent.command[0]!r} was not found.{how}"
        )
    return found.agent


PROGRAMS: Final[Replaceable[Callable[[Agent], Agent]]] = Replaceable(_installed)
"""Looks up the program of an agent, usually on this machine, and returns the agent with its
absolute path. Raises `AgentNotFound`.
"""


def resolve_stored_agent(name: str, config: OwnAgents | None = None) -> Agent:
    """Return the agent of an earlier session, ready to be started.

    The catalogue does not know the agent of a session that was run with its own command. Raises
    `AgentNotFound`, with the ways to specify it.
    """
    if not is_known(name, config):
        raise AgentNotFound(
            f"the session's agent {name!r} is not known here; give its command again (--command"
            f" 'CMD ARGS', or agent=agentrt.agents.acp(…)), or define [agents.{name}] in the"
            " configuration file"
        )
    return resolve_agent(name, config)


def is_known(name: str, config: OwnAgents | None = None) -> bool:
    """Return True if an agent has this name or alias, installed or not."""
    return any(name in (each.name, *each.aliases) for each in _known(config).values())


def name_of(agent: str | Agent) -> str:
    """Return the name of an agent. Raises `TypeError` for a value that is not an agent."""
    if isinstance(agent, str):
        return agent
    if isinstance(agent, Agent):
        return agent.name
    right = (
        "a name such as 'claude', or the result of agentrt.agents.acp([…]) or"
        " agentrt.agents.claude()"
    )
    raise TypeError(f"an agent must be {right}, not {type(agent).__name__}")


async def agent_version(agent: Agent) -> str | None:
    """Return the version that the agent's program prints.

    None if it prints none in `VERSION_TIMEOUT_S` seconds.

    Runs the program. Cancelling this kills it.
    """
    check_trio("agent_version")
    if not agent.version_args:
        await trio.lowlevel.checkpoint()
        return None
    environment = {k: v for k, v in os.environ.items() if k not in agent.unset_env} | agent.env
    with trio.move_on_after(VERSION_TIMEOUT_S):
        try:
            done = await trio.run_process(
                [agent.command[0], *agent.version_args],
                cwd=os.sep,  # some read settings from the folder that they are started in
                env=environment,
                capture_stdout=True,
                stderr=subprocess.DEVNULL,
                check=False,
                start_new_session=True,  # so that a launcher's children are killed with it
                deliver_cancel=_kill_group,
            )
        except OSError:
            return None
        text = done.stdout.decode(errors="replace")
        found = re.search(r"(?<!\d)\d++\.\d++(?:[.+-]\w++|\w++)*+", text)
        return found[0] if found and done.returncode == 0 else None
    return None


async def _kill_group(process: trio.Process) -> None:
    """Kill the program and its children; `trio.run_process` calls it at the end of the time."""
    os.killpg(process.pid, signal.SIGKILL)


def _known(config: OwnAgents | None) -> dict[str, Agent]:
    """Return all agents by name: the user's own, then the built-in ones that they do not
    replace.
    """
    own = config.agents if config is not None else {}
    return {**own, **{name: agent for name, agent in BUILT_IN.items() if name not in own}}


def _named(name: str, known: Mapping[str, Agent]) -> Agent:
    """Return the agent with this name or alias. Raises `AgentNotFound` with similar names."""
    if name in known:
        return known[name]
    aliases = {alias: agent for agent in known.values() for alias in agent.aliases}
    if name in aliases:
        return aliases[name]
    import difflib  # only needed for a mistyped name

    found = difflib.get_close_matches(name, [*known, *aliases], cutoff=0.5)
    close = dict.fromkeys(aliases[each].name if each in aliases else each for each in found)
    hint = (
        f"did you mean {' or '.join(map(repr, close))}?" if close else f"known: {', '.join(known)}"
    )
    raise AgentNotFound(f"no agent is called {name!r}; {hint}")


def _find(agent: Agent) -> FoundAgent:
    """Look for the programs of an agent: `command` first, then `alternatives`, in order.

    Programs of different projects may have the same name. `installed_as` is therefore searched for
    in the real path of a program.
    """
    for program, *arguments in (agent.command, *agent.alternatives):
        for path in _programs(agent, program):
            named = os.path.basename(program) == program
            if named and not re.search(agent.installed_as or "", os.path.realpath(path)):
                continue  # another program with the same name
            command = (path, *arguments)
            if command != agent.command:
                agent = structs.replace(agent, command=command)
            return FoundAgent(agent=agent, path=path)
    return FoundAgent(agent=agent, path=None)


def _programs(agent: Agent, program: str) -> Iterator[str]:
    """Yield the absolute paths of programs with this name, the preferred one first."""
    # A relative path is relative to this folder, but the agent is started in the session's folder.
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for folder in folders if os.path.basename(program) == program else [os.curdir]:
        if path := shutil.which(program, path=folder):
            yield os.path.abspath(path)
    if agent.protocol == "claude" and program == "claude":
        for place in _claude_places():
            if path := shutil.which(place):
                yield path


def _unusable(program: str) -> str:
    """Return the reason why an existing program cannot be run; empty if it does not exist."""
    named = os.path.basename(program) == program
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if named else [os.curdir]:
        path = os.path.join(folder, program)
        if os.path.isdir(path):
            if not named:  # any folder in PATH may have a folder with this name
                return f"{path!r} is a folder"
        elif os.path.exists(path) and not os.access(path, os.X_OK):
            return f"{path!r} is not executable (chmod +x)"
    return ""


def _claude_places() -> Iterator[str]:
    """Yield further paths of Claude Code.

    They are in the installed Python SDK, and where Claude's own installers put it without changing
    PATH.
    """
    spec = importlib.util.find_spec("claude_agent_sdk")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield os.path.join(folder, "_bundled", "claude")
    yield os.path.expanduser("~/.local/bin/claude")
    yield os.path.expanduser("~/.claude/local/claude")
