"""`agentrt rules check`: the effect of a rule on a call, with the reason."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ...agents import Agent, find_agents
from ...config import Config
from ...events import JsonObject
from ...permissions import TOOL_CLASSES, PermissionRequest, rule_effect, unreachable_rule
from ..exit_status import UsageError
from ..options import Work
from ..printing import print_json

_CALL: Final = re.compile(
    r"(Edit|Write|Read|Fetch|mcp__[\w.-]+|[A-Za-z_]\w*)(?:\((.*)\))?", re.DOTALL
)
_WORDS: Final = {
    "yes": "denies it",
    "may": "might match: asks, or denies if nobody can be asked",
    "hidden": "might match, unless an --allow rule names the command",
    "no": "does not match",
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
    try:
        effect = rule_effect(rule, request)
    except ValueError as error:
        raise UsageError(str(error)) from None
    never = {}
    for agent in agents.values():
        reasons = {
            side: reason
            for side, denies in (("allow", False), ("deny", True))
            if (reason := unreachable_rule(rule, agent, denies=denies)) is not None
        }
        if reasons:
            never[agent.name] = reasons
    status = 0 if effect.allows or effect.denies not in (None, "no") else 1

    async def show() -> int:
        if as_json:
            shown: JsonObject = {
                "rule": rule,
                "call": {"tool": request.tool, "input": request.input},
                "allow": effect.allows,
                "deny": effect.denies,
                "why": effect.reason,
                "never": never,
                "doubt": effect.doubt,
            }
            print_json(shown)
        else:
            print(f"--allow {rule!r} {'allows it' if effect.allows else 'does not allow it'}")
            if effect.denies is None:
                print(f"--deny  {rule!r} is refused: {effect.reason}")
            else:
                why = f" ({effect.reason})" if effect.reason else ""
                print(f"--deny  {rule!r} {_WORDS[effect.denies]}{why}")
            if effect.doubt:
                print(f"warning: {effect.doubt}")
            for name, reasons in never.items():
                for side, reason in reasons.items():
                    print(f"never applies to {name} as --{side}: {reason}")
        return status

    return show


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
    if found and (found[1] in TOOL_CLASSES or found[1].startswith("mcp__") or found[2] is not None):
        tool, what = found[1], found[2]
        key = {"Bash": "command", "Fetch": "url"}.get(tool, "path")
        return PermissionRequest(
            title="", tool=tool, input={} if what is None else {key: what}, cwd=cwd
        )
    return PermissionRequest(title="", tool="Bash", input={"command": call}, cwd=cwd)
