"""Limits for texts in lists that every viewer gets again and again: titles, commands, modes.

Output that an agent sends once, such as an answer or a tool's output, is not cut.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from .events import Choice, Command, Modes, Task

NAME_CHARS: Final = 256
"""Characters of a title, a display name or a version."""

DESCRIPTION_CHARS: Final = 2048
"""Characters of a description."""

ID_CHARS: Final = 1024
"""Characters of an id that a client sends back. It cannot be cut: an entry with a longer one is
left out.
"""

MAX_ENTRIES: Final = 2048
"""Entries of a list."""


def cut(text: str, limit: int = NAME_CHARS) -> str:
    """Return the text, cut to `limit` characters with an ellipsis at the end if it is longer."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def cut_commands(commands: list[Command]) -> list[Command]:
    """Apply the limits to slash commands."""
    return [
        replace(
            command,
            description=cut(command.description, DESCRIPTION_CHARS),
            hint=command.hint and cut(command.hint),
        )
        for command in commands[:MAX_ENTRIES]
        if len(command.name) <= NAME_CHARS
    ]


def cut_modes(modes: Modes) -> Modes:
    """Apply the limits to the settings."""
    return replace(
        modes,
        modes=_choices(modes.modes),
        models=_choices(modes.models),
        options=[
            replace(
                option,
                name=cut(option.name),
                description=option.description and cut(option.description, DESCRIPTION_CHARS),
                choices=_choices(option.choices),
            )
            for option in modes.options[:NAME_CHARS]
            if len(option.id) <= ID_CHARS
        ],
    )


def cut_task(task: Task) -> Task:
    """Apply the limits to a task. Its detail is output and is not cut."""
    return replace(task, title=cut(task.title)) if len(task.title) > NAME_CHARS else task


def _choices(choices: list[Choice]) -> list[Choice]:
    return [
        replace(
            choice,
            name=cut(choice.name),
            description=choice.description and cut(choice.description, DESCRIPTION_CHARS),
        )
        for choice in choices[:MAX_ENTRIES]
        if len(choice.id) <= ID_CHARS
    ]
