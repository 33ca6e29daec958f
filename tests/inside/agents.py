"""What a project's files can make each agent do.

Tests check the table of every known agent, also of those that cannot be installed here.
"""

from __future__ import annotations

from agentrt._core.agents.projects import PROJECT_RULES, describe_measures

__all__ = ["PROJECT_RULES", "describe_measures"]
