"""Permission policies, which answer the permission requests of an agent."""

from ._core.permissions.effect import RuleEffect, rule_effect, unreachable_rule
from ._core.permissions.policies import (
    NOTHING_IS_ALLOWED,
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
    check_decision,
    check_policy,
    choose_option,
    deny_all,
    rules,
)
from ._core.permissions.reach import unreachable_rules
from ._core.permissions.words import TOOL_CLASSES
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
    # using a policy
    "check_policy",
    "check_decision",
    "choose_option",
    "NOTHING_IS_ALLOWED",
    # explaining rules
    "rule_effect",
    "RuleEffect",
    "unreachable_rule",
    "unreachable_rules",
    "TOOL_CLASSES",
    # arguments
    "RuleLike",
    "NamedTool",
    "OnViolation",
    "Trusted",
]
