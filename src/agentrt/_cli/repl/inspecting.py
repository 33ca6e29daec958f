"""`/tasks`, `/export`, `/debug`: background work, files and internals of an interactive session."""

from __future__ import annotations

import re
import shlex
from typing import Final

import trio

from ..._public import Session
from ...events import TERMINAL
from ...tracing import RecentWire
from ..console import quoted
from ..exit_status import UsageError
from ..text import as_json, one_line, plain
from ..tracing import row_text
from .conversation import Repl
from .export import exported

WIRE_ROWS: Final = 30
"""The default number of protocol messages."""
DEBUG: Final = "/debug shows internals, /debug wire [N] the last protocol messages"
FILE_NAME_CHARS: Final = 40
"""Characters of a title that are used in a file's name."""


async def tasks(repl: Repl, argument: str) -> None:
    """Run `/tasks [stop N]`: list the background work that the agent reports, or stop some."""
    session = repl.session
    if session is None:
        return
    found = list(session.background_tasks.values())
    word, _, number = argument.partition(" ")
    if word == "stop" and number.isdecimal() and 0 < int(number) <= len(found):
        await session.stop_task(found[int(number) - 1].id)
        return
    if argument:
        raise UsageError("/tasks shows them, /tasks stop N stops one")
    for place, task in enumerate(found, 1):
        over = "" if task.status in TERMINAL else "   (/tasks stop N)"
        repl.say(f"{place:3}  {one_line(task.title or task.id, 70)}: {plain(task.status)}{over}")
    if not found:
        repl.say("The agent has no background work.")


async def export(repl: Repl, argument: str) -> None:
    """Run `/export [FILE]`: write the conversation as Markdown, or as JSON for a name in
    `.json`.
    """
    session = repl.session
    if session is None:
        return
    snapshot = await session.full_snapshot()
    title = re.sub(r"[^A-Za-z0-9]+", "-", snapshot.title or "conversation").strip("-").lower()
    name = argument or f"{title[:FILE_NAME_CHARS] or 'conversation'}.md"
    text = exported(snapshot, "json" if name.endswith(".json") else "markdown")
    path = trio.Path(repl.setup.cwd) / await trio.Path(name).expanduser()
    try:
        async with await path.open("x", encoding="utf-8", errors="replace") as file:
            await file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists; use /export OTHER-NAME") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    repl.say(f"written: {one_line(str(path), 1000)}")


def _wire(repl: Repl, most: int) -> None:
    """Show recent protocol messages.

    The first call starts recording them, until the session ends.
    """
    session = repl.session
    if session is None:
        return
    if repl.wire is None:
        assert isinstance(session, Session)
        repl.record_wire(RecentWire(session.trace()))
        file = repl.setup.config.trace.file
        before = f" (all of it: agentrt trace show {one_line(str(file), 1000)})" if file else ""
        repl.say(f"Recording protocol messages from now on; /debug wire shows them{before}.")
        return
    rows = repl.wire.rows()[-most:] if most else []
    for row in rows:
        repl.say(row_text(row))
    if not rows:
        repl.say("No protocol messages since then.")


async def debug(repl: Repl, argument: str) -> None:
    """Run `/debug [wire [N]]`: show the agent's process and the session, or protocol messages."""
    word, _, number = argument.partition(" ")
    if word == "wire" and (not number or number.isdecimal()):
        _wire(repl, int(number or WIRE_ROWS))
        return
    if argument:
        raise UsageError(DEBUG)
    session, setup = repl.session, repl.setup
    agent = session.agent if session is not None else None
    repl.say(f"agent    {one_line(setup.agent.name)}, {setup.agent.protocol}")
    repl.say(f"command  {one_line(shlex.join(setup.agent.command), 500)}")
    if session is None or agent is None:
        return
    snapshot = session.snapshot()
    state = "alive" if agent.alive else "not running"
    repl.say(
        f"process  {agent.pid or '-'}, {state}; version {one_line(agent.version or 'unknown')}"
    )
    repl.say(f"session  {one_line(session.agent_session or '-')} (for agentrt --resume)")
    repl.say(
        f"log      {snapshot.seq} events, {len(snapshot.items)} items, {len(snapshot.turns)} turns"
    )
    repl.say(f"phase    {snapshot.state.phase}")
    repl.say("it can   " + one_line(as_json(session.capabilities), 2000))
    lines = quoted(repl.stderr)
    repl.say("on standard error" if lines else "nothing on standard error")
    for line in lines:
        repl.say(line)
