"""A report on what an agent would do with the files of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from ..agents import Agent
from ..agents.projects import describe_measures, is_trusted, judge, project_rules
from .offer import environment

ProjectOutcome: TypeAlias = Literal["acted on", "ignored", "not started", "unknown"]
"""The fate of a folder's files when an agent is started in it."""


class ProjectFileReport(Struct, kw_only=True):
    """One file of a directory, or of one above it."""

    path: str
    """Its absolute path."""
    effect: str
    """The effect on the agent, if agentrt does not prevent it."""
    outcome: ProjectOutcome
    """The fate of the file, given the trust in the directory."""


class AgentProjectReport(Struct, kw_only=True):
    """An agent, and the files that it would act on."""

    name: str
    """The agent's name."""
    starts: bool
    """True if agentrt starts it in the folder."""
    reason: str = ""
    """The reason why it is not started; empty if it is."""
    measures: list[str] = []
    """The measures of agentrt that keep it from the files, in Markdown."""
    lost: str = ""
    """The features that are missing in the directory while it is not trusted."""
    residue: str = ""
    """The effects that agentrt cannot prevent."""
    files: list[ProjectFileReport] = []
    """The files that it would act on."""


def report_project(
    agent: Agent,
    folder: str,
    env: Mapping[str, str],
    trusted_folders: Iterable[str | os.PathLike[str]],
) -> AgentProjectReport:
    """Report what an agent would do with a folder's files. Starts nothing. Blocks.

    `env`: the environment in which agents are started. `trusted_folders`: those that the user
    trusts.
    """
    trusted = is_trusted(folder, trusted_folders)
    rules = project_rules(agent)
    verdict = judge(rules, (folder,), environment(agent, env))
    refusal = "" if trusted else verdict.refusal
    outcome: ProjectOutcome = "ignored" if rules.known else "unknown"
    if trusted:
        outcome = "acted on"
    elif refusal:
        outcome = "not started"
    return AgentProjectReport(
        name=agent.name,
        starts=not refusal,
        reason=refusal,
        measures=[] if trusted or not rules.known else describe_measures(rules),
        lost="" if trusted else rules.lost,
        residue="" if trusted else rules.residue,
        files=[
            ProjectFileReport(path=each.path, effect=each.file.effect, outcome=outcome)
            for each in verdict.found
        ],
    )
