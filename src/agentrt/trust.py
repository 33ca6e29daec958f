"""Folders that a user trusts, and what agents would do with the files of other folders.

Agents act on files of the folder that they work in: hooks run commands, and MCP servers are
started. Unless the user trusts a folder, agentrt keeps an agent from these files, or does not start
it.

`is_trusted` compares a folder with the trusted ones, among which the root of a repository stands
for all folders in it. `report_project` lists the files that each agent would act on, with the
outcome for each, as `agentrt doctor --project` does; nothing is started. The decisions about single
files are in `agentrt.unattended` (`TrustRecords`).
"""

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
