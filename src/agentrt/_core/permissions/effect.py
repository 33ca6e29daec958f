"""The effect of one rule on one request, as a value to show."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ..agents.agent import Agent
from .policies import PermissionRequest
from .programs import Verdict
from .reach import unreachable
from .request_facts import RequestFacts
from .rules import PermissionRule


class RuleEffect(Struct, frozen=True, kw_only=True):
    """The effect of a rule on a request, as an allow rule and as a deny rule."""

    allows: bool
    """True if it allows the request."""
    denies: Literal["yes", "may", "hidden", "no"] | None
    """`yes`: it denies the request. `may`: it may match. `hidden`: it may match, unless an allow
    rule names the command. None: it is not accepted as a deny rule."""
    reason: str = ""
    """The reason for `denies`."""
    doubt: str = ""
    """A warning about the rule itself; empty if there is none."""


def rule_effect(rule: str, request: PermissionRequest) -> RuleEffect:
    """Return the effect of a rule on a request. Raises `ValueError` if it is not a rule."""
    seen = RequestFacts(request)
    parsed = PermissionRule(rule)
    allows, doubt = parsed.covers(seen), parsed.doubt
    try:
        found = PermissionRule(rule, denies=True).touches(seen)
    except ValueError as error:
        return RuleEffect(allows=allows, denies=None, reason=str(error), doubt=doubt)
    names: dict[Verdict, Literal["yes", "may", "hidden", "no"]] = {
        Verdict.YES: "yes",
        Verdict.MAY: "may",
        Verdict.HIDDEN: "hidden",
        Verdict.NO: "no",
    }
    return RuleEffect(allows=allows, denies=names[found.verdict], reason=found.why, doubt=doubt)


def unreachable_rule(rule: str, agent: Agent, *, denies: bool) -> str | None:
    """Return the reason why a rule can never apply to an agent; None if it can.

    Raises `ValueError` if it is not a rule.
    """
    return unreachable(PermissionRule(rule), agent, denies=denies)
