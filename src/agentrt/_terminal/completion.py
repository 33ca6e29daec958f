"""Completion of the command line in a shell: `agentrt completion SHELL`, and what a shell asks."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from .._errors import AgentrtError

PROGRAM = "agentrt"
MISSING = 'agentrt: completion needs argcomplete: pip install "agentrt[repl]"'


async def print_script(shell: str) -> int:
    """Print what a shell is to run."""
    try:
        from argcomplete.shell_integration import shellcode
    except ModuleNotFoundError:
        print(MISSING, file=sys.stderr)
        return 1
    print(shellcode([PROGRAM], shell=shell))
    return 0


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell that runs this program to complete its command line, and exit."""
    try:
        from argcomplete import autocomplete
        from argcomplete.completers import DirectoriesCompleter
    except ModuleNotFoundError:
        sys.exit(1)
    completers = {
        "agent": _agents,
        "agents": _agents,
        "cwd": DirectoriesCompleter(),
        "resume": _nothing,
        "session": _nothing,
        "words": _nothing,
    }
    for each in _parsers(parser):
        for action in each._actions:
            if action.dest in completers:
                action.completer = completers[action.dest]  # type: ignore[attr-defined]
            elif action.metavar == "TEXT":
                action.completer = _nothing  # type: ignore[attr-defined]
    autocomplete(parser)


def _parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parser and those of its commands, all the way down."""
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name in action.choices:
                found += _parsers(action.choices[name])
    return found


def _agents(**asked: Any) -> dict[str, str]:
    """The names of the agents, the installed ones only."""
    from .._agents import find_agents
    from .._config import load_config

    try:
        found = find_agents(load_config())
    except AgentrtError:
        found = find_agents()
    return {each.agent.name: each.agent.title for each in found if each.available}


def _nothing(**asked: Any) -> list[str]:
    """Where file names would be wrong."""
    return []
