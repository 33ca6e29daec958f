"""`agentrt rules check`: the effect of a rule on a call, with the reason."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ..._core.permissions.programs import Verdict
from ..._core.permissions.reach import unreachable
from ..._core.permissions.request_facts import RequestFacts
from ..._core.permissions.rules import PermissionRule
from ..._core.permissions.words import CLASSES
from ...agents import Agent, find_agents
from ...config import Config
from ...events import JsonObject
from ...permissions import PermissionRequest
from ..exit_status import UsageError
from ..options import Work

_CALL: Final = re.compile(
    r"(Edit|Write|Read|Fetch|mcp__[\w.-]+|[A-Za-z_]\w*)(?:\((.*)\))?", re.DOTALL
)
_WORDS: Final = {
    Verdict.YES: "denies it",
    Verdict.MAY: "might match: asks, or denies if nobody can be asked",
    Verdict.HIDDEN: "might match, unless an --allow rule names the command",
    Verdict.NO: "does not match",
}


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand. Raises `UsageError` for an invalid rule."""
    agents = {each.agent.name: each.agent for each in find_agents(config)}
    return check_rule(options.rule, options.call, agents, cwd=options.cwd, as_json=options.json)


def check_rule(
    rule: str, call: str, agents: Mapping[str, Agent], *, cwd: str, as_json: bool
) -> Work:
    """Return a function that prints the effect of a rule on a call, as an allow and as a deny rule.

    Its exit status is 1 if the rule neither allows nor denies the call. Raises `UsageError` for an
    invalid rule.
    """
    request = _request(call, os.path.abspath(cwd))
    seen = RequestFacts(request)
    why_not = ""
    try:
        parsed = PermissionRule(rule)
        allows, doubt = parsed.covers(seen), parsed.doubt
    except ValueError as error:
        raise UsageError(str(error)) from None
    try:
        found = PermissionRule(rule, denies=True).touches(seen)
    except ValueError as error:
        found, why_not = None, str(error)
    never = {}
    for agent in agents.values():
        reasons = {
            side: reason
            for side, denies in (("allow", False), ("deny", True))
            if (reason := never_applies(rule, agent, denies=denies)) is not None
        }
        if reasons:
            never[agent.name] = reasons
    status = 0 if allows or (found is not None and found.verdict is not Verdict.NO) else 1

    async def show() -> int:
        if as_json:
            shown: JsonObject = {
                "rule": rule,
                "call": {"tool": request.tool, "input": request.input},
                "allow": allows,
                "deny": found.verdict.name.lower() if found is not None else None,
                "why": found.why if found is not None else why_not,
                "never": never,
                "doubt": doubt,
            }
            print(msgspec.json.format(msgspec.json.encode(shown)).decode())
        else:
            print(f"--allow {rule!r} {'allows it' if allows else 'does not allow it'}")
            if found is None:
                print(f"--deny  {rule!r} is refused: {why_not}")
            else:
                why = f" ({found.why})" if found.why else ""
                print(f"--deny  {rule!r} {_WORDS[found.verdict]}{why}")
            if doubt:
                print(f"warning: {doubt}")
            for name, reasons in never.items():
                for side, reason in reasons.items():
                    print(f"never applies to {name} as --{side}: {reason}")
        return status

    return show


def never_applies(rule: str, agent: Agent, *, denies: bool) -> str | None:
    """Return the reason why a rule can never apply to an agent; None if it can.

    Raises `ValueError` if it is not a rule.
    """
    return unreachable(PermissionRule(rule), agent, denies=denies)


def _request(call: str, cwd: str) -> PermissionRequest:
    """Return the permission request of a call.

    A call is a tool call such as `Edit(a.py)`, one as JSON (`{"tool", "input"}`), or else a shell
    command.
    """
    if call.lstrip().startswith("{"):
        try:
            given: Any = msgspec.json.decode(call)
            return PermissionRequest(
                title="", tool=str(given["tool"]), input=given.get("input"), cwd=cwd
            )
        except (msgspec.DecodeError, KeyError):
            pass
    found = _CALL.fullmatch(call.strip())
    if found and (found[1] in CLASSES or found[1].startswith("mcp__") or found[2] is not None):
        tool, what = found[1], found[2]
        key = {"Bash": "command", "Fetch": "url"}.get(tool, "path")
        return PermissionRequest(
            title="", tool=tool, input={} if what is None else {key: what}, cwd=cwd
        )
    return PermissionRequest(title="", tool="Bash", input={"command": call}, cwd=cwd)
