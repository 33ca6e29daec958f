"""The slash commands of codex's terminal that its server has calls for.

`codex app-server` takes no slash commands in prompts: to the model, `/compact` is a word. The
driver translates those below.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..model.content import Block, Text
from ..model.events import Command, Modes, Usage

COMMANDS: Final = [
    Command("compact", "Summarize the conversation to free its context window"),
    Command(
        "review", "Review the uncommitted changes, or follow your instructions", "what to review"
    ),
    Command("init", "Write an AGENTS.md with instructions for agents in this folder"),
    Command("status", "Show the model, the mode and the tokens used"),
]

INIT: Final = """\
Write a file AGENTS.md in the root of this repository: a short guide for coding agents that work \
here. Describe how the project is built, tested and checked, how its source is arranged, the style \
that its code and commit messages follow, and whatever else a newcomer gets wrong. Look at the \
repository first, state only what you have seen there, and keep it under 400 words. If the file \
exists already, improve it instead of replacing it.\
"""


def command_of(content: Sequence[Block]) -> tuple[str, str] | None:
    """Return the command of a prompt with its argument, or None if the prompt is no command."""
    match content:
        case [Text(text=text)] if text.startswith("/"):
            name, _, argument = text[1:].strip().partition(" ")
            if any(name == command.name for command in COMMANDS):
                return name, argument.strip()
    return None


def status_text(modes: Modes, usage: Usage | None) -> str:
    """Return the answer to `/status`, in Markdown."""
    rows = [("Model", modes.model), ("Mode", modes.mode)]
    rows += [(option.name, str(option.value)) for option in modes.options]
    if usage is not None:
        rows.append(("Tokens", None if usage.total_tokens is None else f"{usage.total_tokens:,}"))
        if usage.used is not None and usage.size:
            rows.append(("Context", f"{usage.used:,} of {usage.size:,} tokens"))
        for limit in usage.limits or ():
            if limit.used_percent is not None:
                rows.append((f"Limit {limit.name}", f"{limit.used_percent:g} % used"))
    return "\n".join(f"- {name}: {value}" for name, value in rows if value is not None)
