"""`agentrt doctor --project`: the files of a directory that agents would act on, and the measures
of agentrt against them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

import trio
from msgspec import Struct

from ...agents import Agent
from ...config import Config
from ...trust import HOW_TO_TRUST, AgentProjectReport, ProjectOutcome, is_trusted, report_project
from ..printing import print_json
from ..setup import agents_environment
from ..text import one_line, plain

WORDS: Final[Mapping[ProjectOutcome, str]] = {
    "acted on": "the agent acts on {files}",
    "ignored": "the agent is started so that it ignores {files}",
    "not started": "the agent is not started",
    "unknown": "it is not known whether the agent acts on {files}",
}


class ProjectReport(Struct, kw_only=True):
    """The effects of a directory's files on agents."""

    folder: str
    trusted: bool
    agents: list[AgentProjectReport]


async def examine_project(
    agents: Sequence[Agent], config: Config, folder: str, *, as_json: bool
) -> int:
    """Report the effects of a directory's files on each agent. Starts nothing."""
    report = await trio.to_thread.run_sync(_examine, agents, config, folder)
    if as_json:
        print_json(report)
    else:
        print("\n".join(_lines(report)))
    return 0


def _examine(agents: Sequence[Agent], config: Config, folder: str) -> ProjectReport:
    """Examine a directory. Blocks."""
    real = os.path.realpath(folder)
    base = agents_environment(config)
    reports = [report_project(agent, real, base, config.trusted) for agent in agents]
    trusted = is_trusted(real, config.trusted)
    return ProjectReport(folder=real, trusted=trusted, agents=reports)


def _lines(report: ProjectReport) -> list[str]:
    state = "trusted" if report.trusted else "not trusted"
    lines = [f"{plain(report.folder)} is {state}"]
    if not report.trusted:
        lines[0] += f" ({HOW_TO_TRUST})"
    for agent in report.agents:
        if not agent.files and agent.starts:
            lines.append(f"✓ {agent.name}: no file that it acts on")
            continue
        mark = "✓" if agent.starts and not report.trusted else "!" if agent.starts else "✗"
        lines.append(f"{mark} {agent.name}: {_summary(agent)}")
        if agent.reason:
            lines.append(f"    reason   {one_line(agent.reason, 1000)}")
        for file in agent.files:
            path = os.path.relpath(file.path, report.folder)
            lines.append(f"    {one_line(path)}  {file.effect}")
        if agent.lost and agent.starts:
            lines.append(f"    lost     {agent.lost}")
    return lines


def _summary(agent: AgentProjectReport) -> str:
    if not agent.files:
        return WORDS["not started"]
    files = "these files" if len(agent.files) > 1 else "this file"
    return WORDS[agent.files[0].outcome].format(files=files)
