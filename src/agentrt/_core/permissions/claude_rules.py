"""Deny rules in Claude Code's own notation, for agents that run it.

They are a second line of defence after agentrt's own decision. Only rules that mean the same there
are translated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_BASH: Final = re.compile(r"Bash\((?P<words>[\w./ :=@+-]+?)(?P<more>(?::| )\*)?\)", re.ASCII)
_PATHS: Final = re.compile(r"(?P<name>Edit|Read)\((?P<path>[\w./~*@+-]+)\)", re.ASCII)
_MCP: Final = re.compile(r"(?P<server>mcp__[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*)__(?P<tool>[\w.-]+|\*)")
_TOOLS: Final = {
    "Bash": ("Bash",),
    "Edit": ("Edit", "MultiEdit", "Write", "NotebookEdit"),
    "Write": ("Write",),
    "Fetch": ("WebFetch",),
    "Read": ("Read",),
}


def as_claude_rules(rules: Iterable[str], *, whole_tools: bool) -> list[str]:
    """Translate the rules that Claude Code also has into its notation.

    `whole_tools`: also translate rules that name only a tool. Claude Code hides such a tool from
    the model.
    """
    found: list[str] = []
    for rule in rules:
        if bash := _BASH.fullmatch(rule):
            found.append(f"Bash({bash['words']}:*)" if bash["more"] else rule)
        elif paths := _PATHS.fullmatch(rule):
            absolute = "/" if paths["path"].startswith("/") else ""
            found.append(f"{paths['name']}({absolute}{paths['path']})")
        elif mcp := _MCP.fullmatch(rule):
            if mcp["tool"] != "*":
                found.append(rule)
            elif whole_tools:
                found.append(mcp["server"])
        elif whole_tools:
            found += _TOOLS.get(rule, ())
    return found
