"""Hints about output of a command to which the sandbox has refused something.

The kernel does not report a refused write to agentrt, so it is found in the text that programs
print. A hint gives no access; it names the setting that would.
"""

from __future__ import annotations

import os
import re
from typing import Final

from msgspec import Struct

from .access import NETWORK, PROGRAM, WRITE

SEARCHED_CHARS: Final = 16 * 1024
"""Characters at the end of an output that are searched."""

MAX_HINTS: Final = 3
"""Number of hints about one call."""

_NAME: Final = r"(?:['\"`‘](?P<quoted>[^'\"`‘’\n]{1,1000})['\"`’]|(?P<path>[^\s'\"`‘’:,;]{1,1000}))"
_ERROR: Final = r"read-only file system"
_PATTERNS: Final = tuple(
    (tool, re.compile(pattern, re.IGNORECASE))
    for tool, pattern in (
        (WRITE, rf"(?<!\w)(?!EROFS){_NAME}:\s{_ERROR}(?!:\s['\"])"),
        (WRITE, rf"{_ERROR}(?::\s(?=['\"/])|,\s\w{{1,20}}\s){_NAME}"),
        (NETWORK, r"sandbox: (?P<path>\[?[\w.:-]{1,260}\]?:\d{1,5}) is not allowed"),
        (PROGRAM, r"sandbox: (?P<path>[\w.+-]{1,255}) may not be run"),
    )
)
"""The messages of shells, of `perror`, of Python, of Node and of agentrt itself."""


class Refusal(Struct, frozen=True):
    """Access that a command did not get."""

    tool: str
    """The kind of access, as in `Granted`."""
    target: str
    """The path, the host with its port, or the name of the program."""

    def hint(self, *, for_good: bool) -> str:
        """Return the message for people: what was refused, and how to allow it.

        `for_good`: no setting allows it.
        """
        if for_good:
            return (
                f"the sandbox keeps {self.target} read-only, because programs are run from it"
                " later: change it yourself, outside the sandbox"
            )
        if self.tool == WRITE:
            folder = os.path.dirname(self.target) or "/"
            return (
                f"the sandbox refused to write {self.target}. To allow it, tell the agent to call"
                f" `request_access`, or open the session with {folder} in `write` of the sandbox"
                f" (--allow-write {folder})"
            )
        if self.tool == NETWORK:
            return (
                f"the sandbox refused a connection to {self.target}. To allow it, answer the"
                " question when it is repeated, or open the session with the host in `network` of"
                f" the sandbox (--allow-network {self.target})"
            )
        return (
            f"the sandbox refused to run {self.target}, because a rule or `programs` of the sandbox"
            " denies it. To allow it, remove the rule and open the session again"
        )


def find_refusals(output: str, cwd: str) -> list[Refusal]:
    """Return the refusals in the output of a command that ran in `cwd`, each once."""
    text = output[-SEARCHED_CHARS:]
    found: dict[Refusal, int] = {}
    for tool, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            named = match.groupdict()
            target = named.get("quoted") or match["path"]
            if tool == WRITE:
                target = os.path.normpath(os.path.join(cwd, target))
            found.setdefault(Refusal(tool, target), match.start())
    return sorted(found, key=found.__getitem__)[:MAX_HINTS]
