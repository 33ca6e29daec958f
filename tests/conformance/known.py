"""The names of all checks: no report leaves one out, and each has an agent that fails it.

A report names only the checks that were made.
"""

from __future__ import annotations

from typing import Literal

from agentrt._lab.conformance.checks import checks_of


def names_of_checks(
    protocol: Literal["acp", "codex"], version: Literal[1, 2] = 1, *, can_fail: bool = False
) -> list[str]:
    """Return the names of all checks, or of those that an agent can fail, in order."""
    checks = checks_of(protocol, version)
    return [each.name for each in checks if each.level != "open" or not can_fail]
