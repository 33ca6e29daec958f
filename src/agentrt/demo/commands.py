"""All `/commands`, how they are run, and `/help`."""

from __future__ import annotations

from . import client, faults, shows
from .command import DemoCommand
from .files import FileRefused
from .jobs import say_what_i_can
from .turn import DemoTurn, StopReason
from .wire import JsonObject


async def help(turn: DemoTurn, argument: str) -> None:
    """List the understood sentences and all commands."""
    await say_what_i_can(turn)
    rows = [
        f"- `/{command.name}{f' {command.hint}' if command.hint else ''}`: {command.description}"
        for command in COMMANDS.values()
    ]
    await turn.say("\n\n" + "\n".join(rows))


COMMANDS = {
    command.name: command
    for command in (
        DemoCommand("help", "the sentences and commands that I understand", help),
        *shows.COMMANDS,
        *client.COMMANDS,
        *faults.COMMANDS,
    )
}


def available() -> JsonObject:
    """Return the update that lists the commands."""
    listed = [
        {
            "name": c.name,
            "description": c.description,
            "input": {"hint": c.hint} if c.hint else None,
        }
        for c in COMMANDS.values()
    ]
    return {"sessionUpdate": "available_commands_update", "availableCommands": listed}


async def run(turn: DemoTurn, text: str) -> StopReason:
    """Run `/name argument`. Raises `FileRefused` for an unknown name."""
    name, _, argument = text.removeprefix("/").partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        raise FileRefused(f"I have no command `/{name}`; `/help` lists those I have.")
    return await command.run(turn, argument.strip()) or "end_turn"
