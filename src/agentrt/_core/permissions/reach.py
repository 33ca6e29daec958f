"""Detection of rules that can never apply to an agent, by its catalogue entry."""

from __future__ import annotations

from collections.abc import Iterable

from ..agents.agent import Agent
from .rules import PermissionRule
from .words import CLAUDE_TOOLS, TOOL_CLASSES


def unreachable(rule: PermissionRule, agent: Agent, *, denies: bool) -> str | None:
    """Return the reason why a rule can never apply to an agent; None if it can, or is unknown."""
    if "*" in agent.quirks.unasked_modes:
        return f"{agent.name} never asks for permission"
    name = rule.name
    if not denies and (why := _unshown(rule, agent)):
        return why
    if name in TOOL_CLASSES or "*" in name or name.startswith("mcp__"):
        return None
    if agent.protocol == "claude":
        return None
    if agent.quirks.kinds_hold and not denies:
        return f"{agent.name} does not name its tools; write {', '.join(TOOL_CLASSES)}"
    if agent.tools and name not in agent.tools and name not in CLAUDE_TOOLS:
        return f"{agent.name} has no tool {name}; write {', '.join(TOOL_CLASSES)}"
    return None


def _unshown(rule: PermissionRule, agent: Agent) -> str:
    """Return the part of a request that an allow rule needs and the agent does not show."""
    shown = agent.quirks.command_shown
    if shown is not None and rule.is_about("Bash"):
        return f"{agent.name} does not say which command it wants to run"
    if shown == "text" and (rule.is_about("Edit") or rule.is_about("Write")):
        return f"{agent.name} does not say which files it writes"
    if agent.quirks.kinds_hold and not agent.tools:
        if rule.is_about("Read") or rule.is_about("Fetch"):
            return f"{agent.name} does not say which page or file it wants, or names no tool"
    return ""


def unreachable_rules(
    allow: Iterable[str], deny: Iterable[str], agent: Agent
) -> list[tuple[str, str]]:
    """Return the rules that can never apply to an agent, each with the reason."""
    found: list[tuple[str, str]] = []
    for texts, denies in ((allow, False), (deny, True)):
        for text in texts:
            why = unreachable(PermissionRule(text, denies=denies), agent, denies=denies)
            if why is not None:
                found.append((text, why))
    return found
