"""Shell completion of the command line: `agentrt completion SHELL`, and the answers to the
shell.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...config import Config
    from ..options import Work

import argparse
import sys
from typing import Any

from ...errors import AgentrtError

PROGRAM = "agentrt"
MISSING = 'agentrt: completion needs argcomplete: pip install "agentrt[repl]"'


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand."""
    return partial(print_script, options.shell)


async def print_script(shell: str) -> int:
    """Print the completion script of a shell; returns the exit status."""
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
    """Return the parser and, recursively, those of its commands."""
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name in action.choices:
                found += _parsers(action.choices[name])
    return found


def _agents(**asked: Any) -> dict[str, str]:
    """Return the names of the installed agents."""
    from ...agents import find_agents
    from ...config import load_config

    try:
        found = find_agents(load_config())
    except AgentrtError:
        found = find_agents()
    return {each.agent.name: each.agent.title for each in found if each.available}


def _nothing(**asked: Any) -> list[str]:
    """Complete nothing, because file names would be wrong."""
    return []
