"""`agentrt agents`: the known agents, and how to install the missing ones."""

from __future__ import annotations

import argparse
from functools import partial

import trio

from ..._base.nesting import bare_errors
from ...agents import FoundAgent, agent_version, find_agents
from ...config import Config
from ..options import Work
from ..printing import print_json, print_table

PARALLEL_PROGRAMS = 4
"""Programs asked for their version at the same time; the Node ones take a second of CPU each."""


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand."""
    return partial(list_agents, config, as_json=options.json)


async def list_agents(config: Config, *, as_json: bool) -> int:
    """Print the catalogue."""
    found = find_agents(config)
    versions = await _versions([each for each in found if each.available])
    if as_json:
        rows = [_as_object(each, versions.get(each.agent.name)) for each in found]
        print_json(rows)
        return 0
    installed = [each for each in found if each.available]
    missing = [each for each in found if not each.available]
    print_table(
        ("AGENT", "VERSION", "PROTOCOL", "PROGRAM"),
        [
            (each.agent.name, versions.get(each.agent.name) or "?", each.agent.protocol, each.path)
            for each in installed
        ],
    )
    if missing:
        print()
        print_table(
            ("NOT INSTALLED", "INSTALL"),
            [(each.agent.name, each.agent.install or each.agent.docs) for each in missing],
        )
    print("\nUse one: agentrt --agent NAME · Check them: agentrt doctor")
    return 0


async def _versions(found: list[FoundAgent]) -> dict[str, str | None]:
    """Ask the installed agents for their versions, some at a time. None for one that
    prints none.
    """
    versions: dict[str, str | None] = {}
    limit = trio.CapacityLimiter(PARALLEL_PROGRAMS)

    async def ask(each: FoundAgent) -> None:
        async with limit:
            versions[each.agent.name] = await agent_version(each.agent)

    async with bare_errors(), trio.open_nursery() as nursery:
        for each in found:
            nursery.start_soon(ask, each)
    return versions


def _as_object(found: FoundAgent, version: str | None) -> dict[str, object]:
    agent = found.agent
    return {
        "name": agent.name,
        "title": agent.title,
        "protocol": agent.protocol,
        "installed": found.available,
        "path": found.path,
        "version": version,
        "command": agent.command,
        "aliases": agent.aliases,
        "install": agent.install,
        "docs": agent.docs,
        "note": agent.note,
    }
