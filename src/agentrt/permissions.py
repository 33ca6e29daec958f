"""Permission policies: who answers the permission requests of an agent, and how."""

from ._core.permissions.policies import (
    Allow,
    Ask,
    Decision,
    Deny,
    NamedTool,
    OnViolation,
    PermissionRequest,
    Policy,
    RuleLike,
    allow_all,
    ask,
    deny_all,
    rules,
)
from ._core.runtime.project_start import Trusted

__all__ = [
    # ready-made policies
    "rules",
    "allow_all",
    "deny_all",
    "ask",
    # writing a policy
    "Policy",
    "PermissionRequest",
    "Decision",
    "Allow",
    "Deny",
    "Ask",
    # arguments
    "RuleLike",
    "NamedTool",
    "OnViolation",
    "Trusted",
]
