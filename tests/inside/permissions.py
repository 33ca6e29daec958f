"""The judgement of commands.

Tests compare it with the real shell for many commands, without a session for each.
"""

from __future__ import annotations

from agentrt._core.permissions.programs import Verdict
from agentrt._core.permissions.request_facts import RequestFacts
from agentrt._core.permissions.rules import PermissionRule
from agentrt._core.sandbox.hosts import HostRefused

__all__ = ["HostRefused", "PermissionRule", "RequestFacts", "Verdict"]
