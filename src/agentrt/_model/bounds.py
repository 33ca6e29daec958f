"""How long the words may be that lists repeat to everybody: a title, the names of commands and
modes. What an agent says once, as an answer or a tool's output, is not cut."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from .events import Choice, Command, Modes, Task

NAME: Final = 256
"""Characters of a title, of a name that is shown, of a version."""

DESCRIPTION: Final = 2048
"""Characters of the words beside a name."""

ID: Final = 1024
"""Characters of an id that a client sends back. It cannot be cut: what has a longer one is left
out."""

ENTRIES: Final = 2048
"""Entries of a list."""


def cut(text: str, limit: int = NAME) -> str:
    """The text, or its beginning with a mark that there was more."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def cut_commands(commands: list[Command]) -> list[Command]:
    return [
        replace(
            command,
            description=cut(command.description, DESCRIPTION),
            hint=command.hint and cut(command.hint),
        )
        for command in commands[:ENTRIES]
        if len(command.name) <= NAME
    ]


def cut_modes(modes: Modes) -> Modes:
    return replace(
        modes,
        modes=_choices(modes.modes),
        models=_choices(modes.models),
        options=[
            replace(
                option,
                name=cut(option.name),
                description=option.description and cut(option.description, DESCRIPTION),
                choices=_choices(option.choices),
            )
            for option in modes.options[:NAME]
            if len(option.id) <= ID
        ],
    )


def cut_task(task: Task) -> Task:
    """A task's detail is its output, and stays."""
    return replace(task, title=cut(task.title)) if len(task.title) > NAME else task


def _choices(choices: list[Choice]) -> list[Choice]:
    return [
        replace(
            choice,
            name=cut(choice.name),
            description=choice.description and cut(choice.description, DESCRIPTION),
        )
        for choice in choices[:ENTRIES]
        if len(choice.id) <= ID
    ]
