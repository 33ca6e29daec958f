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

MAX_NAME_CHARS: Final = 1_000

_ERROR: Final = re.compile("read-only file system", re.IGNORECASE)
_NAME_AFTER: Final = re.compile(
    r"(?::\s(?=['\"/])|,\s\w{1,20}\s)"
    r"(?:['\"`‘](?P<quoted>[^'\"`‘’\n]{1,1000})['\"`’]|(?P<path>[^\s'\"`‘’:,;]{1,1000}))"
)
"""The name after the error, as Python and Node print it."""
_NAME_BEFORE: Final = re.compile(
    r"\s:(?:['\"`’](?P<quoted>[^'\"`‘’\n]{1,1000})['\"`‘]|(?P<path>[^\s'\"`‘’:,;]{1,1000}))"
)
"""The name before the error, as shells and `perror` print it, in reversed text."""
_OWN: Final = (
    (NETWORK, re.compile(r"sandbox: (?P<path>\[?[\w.:-]{1,260}\]?:\d{1,5}) is not allowed")),
    (PROGRAM, re.compile(r"sandbox: (?P<path>[\w.+-]{1,255}) may not be run")),
)
"""The messages of agentrt itself."""


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
    for error in _ERROR.finditer(text):
        if name := _name_at(text, error.start(), error.end()):
            path = os.path.normpath(os.path.join(cwd, name))
            found.setdefault(Refusal(WRITE, path), error.start())
    for tool, pattern in _OWN:
        for match in pattern.finditer(text):
            found.setdefault(Refusal(tool, match["path"]), match.start())
    return sorted(found, key=found.__getitem__)[:MAX_HINTS]


def _name_at(text: str, start: int, end: int) -> str | None:
    """Return the path that the error between two places of a text is about."""
    if match := _NAME_AFTER.match(text, end):
        return match["quoted"] or match["path"]
    before = text[max(0, start - MAX_NAME_CHARS - 4) : start][::-1]
    if match := _NAME_BEFORE.match(before):
        name: str = (match["quoted"] or match["path"])[::-1]
        return None if name.upper().startswith("EROFS") else name
    return None
