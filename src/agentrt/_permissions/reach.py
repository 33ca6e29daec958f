"""Which rules can never apply to an agent, as far as its catalogue's entry says."""

from __future__ import annotations

from collections.abc import Iterable

from .._agents.agent import Agent
from .rules import Rule
from .words import CLASSES, CLAUDE_TOOLS


def unreachable(rule: Rule, agent: Agent, *, denies: bool) -> str | None:
    """Why a rule can never apply to an agent; None if it can, or nobody knows."""
    if "*" in agent.quirks.unasked_modes:
        return f"{agent.name} asks for nothing"
    name = rule.name
    if agent.quirks.command_shown is not None and not denies and not rule.is_about_all:
        if rule.is_about("Bash"):
            return f"{agent.name} does not say which command it wants to run"
        if rule.is_about("Fetch") or (rule.is_about("Read") and not rule.is_about("Edit")):
            return f"{agent.name} does not say which page or file it wants"
    if name in CLASSES or "*" in name or name.startswith("mcp__"):
        return None
    if agent.protocol == "claude":
        return None
    if agent.quirks.kinds_hold and not denies:
        return f"{agent.name} does not name its tools; write {', '.join(CLASSES)}"
    if agent.tools and name not in agent.tools and name not in CLAUDE_TOOLS:
        return f"{agent.name} has no tool {name}; write {', '.join(CLASSES)}"
    return None


def unreachable_rules(
    allow: Iterable[str], deny: Iterable[str], agent: Agent
) -> list[tuple[str, str]]:
    """The rules that can never apply to an agent, each with the reason."""
    found: list[tuple[str, str]] = []
    for texts, denies in ((allow, False), (deny, True)):
        for text in texts:
            why = unreachable(Rule(text, denies=denies), agent, denies=denies)
            if why is not None:
                found.append((text, why))
    return found
