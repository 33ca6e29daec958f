"""Permission policies, which answer the permission requests of an agent.

Before an agent acts, it may ask for permission. A *policy* is a function of the `PermissionRequest`
that returns a `Decision`: `Allow`, `Deny` (with a message that the agent reads) or `Ask`, which
leaves the request open for a person. It may be asynchronous. If it raises, or takes too long, the
request is denied.

Most policies are made by `rules` from texts such as `Bash(git push:*)` or `Edit(src/**)`. A rule
means the same for every agent: it is matched with the parsed command or the paths. An agent's own
description of a request can cause a denial, but never an approval. A `deny` rule wins over every
`allow` rule, and a command that cannot be parsed is asked about or denied.

A policy decides only on requests. An agent may act without asking, by its own settings or in some
of its modes; `unreachable_rules` finds rules that could never apply, and a sandbox
(`agentrt.sandbox`) protects against everything that is not asked. `rule_effect` explains the effect
of one rule on one call, as `agentrt rules check` does on the command line.
"""

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
