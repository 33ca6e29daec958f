"""`agentrt doctor --project`: the files of a directory that agents would act on, and the measures
of agentrt against them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
import trio
from msgspec import Struct

from ..._core.agents.projects import describe_measures, is_trusted, judge, project_rules
from ..._core.runtime.offer import environment
from ..._core.runtime.project_start import HOW_TO_TRUST
from ...agents import Agent
from ...config import Config
from ..setup import agents_environment
from ..text import one_line, plain

Outcome: TypeAlias = Literal["acted on", "ignored", "not started", "unknown"]

WORDS: Final[Mapping[Outcome, str]] = {
    "acted on": "the agent acts on {files}",
    "ignored": "the agent is started so that it ignores {files}",
    "not started": "the agent is not started",
    "unknown": "it is not known whether the agent acts on {files}",
}


class ProjectFileReport(Struct, kw_only=True):
    """A file of the directory, or of one above it."""

    path: str
    effect: str
    """The effect on the agent, if agentrt does not prevent it."""
    outcome: Outcome


class AgentReport(Struct, kw_only=True):
    """An agent, and the files that it would act on."""

    name: str
    starts: bool
    reason: str = ""
    """The reason why it is not started; empty if it is."""
    describe_measures: list[str] = []
    """The measures of agentrt that keep it from the files, in Markdown."""
    lost: str = ""
    """The features that are missing in the directory while it is not trusted."""
    residue: str = ""
    """The effects that agentrt cannot prevent."""
    files: list[ProjectFileReport] = []


class ProjectReport(Struct, kw_only=True):
    """The effects of a directory's files on agents."""

    folder: str
    trusted: bool
    agents: list[AgentReport]


async def examine_project(
    agents: Sequence[Agent], config: Config, folder: str, *, as_json: bool
) -> int:
    """Report the effects of a directory's files on each agent. Starts nothing."""
    report = await trio.to_thread.run_sync(report_project, agents, config, folder)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        print("\n".join(_lines(report)))
    return 0


def report_project(agents: Sequence[Agent], config: Config, folder: str) -> ProjectReport:
    """Examine a directory. Blocks."""
    real = os.path.realpath(folder)
    base = agents_environment(config)
    reports = [_report(agent, config, real, base) for agent in agents]
    trusted = is_trusted(real, config.trusted)
    return ProjectReport(folder=real, trusted=trusted, agents=reports)


def _report(agent: Agent, config: Config, folder: str, base: Mapping[str, str]) -> AgentReport:
    trusted = is_trusted(folder, config.trusted)
    rules = project_rules(agent)
    verdict = judge(rules, (folder,), environment(agent, base))
    refusal = "" if trusted else verdict.refusal
    outcome: Outcome = "ignored" if rules.known else "unknown"
    if trusted:
        outcome = "acted on"
    elif refusal:
        outcome = "not started"
    return AgentReport(
        name=agent.name,
        starts=not refusal,
        reason=refusal,
        describe_measures=[] if trusted or not rules.known else describe_measures(rules),
        lost="" if trusted else rules.lost,
        residue="" if trusted else rules.residue,
        files=[
            ProjectFileReport(path=each.path, effect=each.file.effect, outcome=outcome)
            for each in verdict.found
        ],
    )


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


def _summary(agent: AgentReport) -> str:
    if not agent.files:
        return WORDS["not started"]
    files = "these files" if len(agent.files) > 1 else "this file"
    return WORDS[agent.files[0].outcome].format(files=files)
