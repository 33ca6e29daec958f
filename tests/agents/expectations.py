"""What each real agent cannot do or does differently, at the version pinned.

The default is the best behaviour seen. Tests assert what is written here in both directions: an
agent that gets better fails its test, and then its line goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Expectation:
    stop_reason_when_denied: str = "end_turn"
    """What it says after a denial; some call that `cancelled`."""

    command_survives_cancel: bool = False
    """The command of a cancelled turn runs on, until the session ends it."""

    remembers_after_kill: bool | None = True
    """A new process can resume the conversation; None: only sometimes."""

    says_what_it_lost: bool = True
    """That it does not know a conversation; others only say that something went wrong."""

    finds_tools_late: bool = False
    """It looks for the tools of MCP servers behind its first turns."""

    asks: bool = True
    """It asks before it runs a command. Otherwise no denial holds, and nothing is asked."""

    takes_tools: bool = True
    """It offers the tools of MCP servers to its model."""

    notes: str = ""
    """For the table of agents in the README."""


EXPECTATIONS: Final[dict[str, Expectation]] = {
    "claude": Expectation(notes="Claude Code 2.1.332, from the package `claude-agent-sdk`"),
    "claude-agent-acp": Expectation(),
    "codex": Expectation(
        stop_reason_when_denied="completed",
        notes="asks before each command and edit; a cancel ends what it runs",
    ),
    "codex-acp": Expectation(
        stop_reason_when_denied="cancelled",
        command_survives_cancel=True,
        notes="a cancelled command runs on until the session ends",
    ),
    "codex-acp-zed": Expectation(
        stop_reason_when_denied="cancelled",
        command_survives_cancel=True,
        notes="a cancelled command runs on until the session ends",
    ),
    "copilot": Expectation(notes="takes MCP servers over HTTP only"),
    "fast-agent": Expectation(
        command_survives_cancel=True,
        notes="a cancelled command runs on until the session ends",
    ),
    "gemini": Expectation(
        remembers_after_kill=None,
        notes="loses a conversation that is loaded within the minute in which it began",
    ),
    "kilo": Expectation(),
    "kimi": Expectation(),
    "vibe": Expectation(notes="asks only in its mode `ask`"),
    "pi": Expectation(
        asks=False,
        takes_tools=False,
        notes="never asks, so that nothing can be denied; takes no MCP servers",
    ),
    "opencode": Expectation(says_what_it_lost=False),
    "qwen": Expectation(finds_tools_late=True, notes="offers MCP tools only after its first turns"),
}
