"""Folders that a user trusts, and what agents would do with the files of other folders."""

from ._core.agents.projects import is_trusted, repository
from ._core.runtime.project_report import (
    AgentProjectReport,
    ProjectFileReport,
    ProjectOutcome,
    report_project,
)
from ._core.runtime.project_start import HOW_TO_TRUST

__all__ = [
    # folders
    "is_trusted",
    "repository",
    "HOW_TO_TRUST",
    # what an agent would do
    "report_project",
    "AgentProjectReport",
    "ProjectFileReport",
    "ProjectOutcome",
]
