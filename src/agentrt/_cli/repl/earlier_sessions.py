"""Earlier sessions of this directory in an interactive session: `/sessions`, `/resume`.

Stored sessions of all agents have precedence. For other sessions the agent's own list counts; for
agents without a list, and for agents other than the current one, agentrt's own notes are used.
"""

from __future__ import annotations

import os
import time
from typing import Final

import trio
from msgspec import structs

from ..._public import Session
from ...agents import AgentSession, resolve_stored_agent
from ...errors import AgentrtError, SessionNotFound, StoreError
from ..console import LineReader
from ..exit_status import UsageError
from ..session_view import SessionView
from ..setup import Setup
from ..state import SESSION_TITLE_CHARS, remembered
from ..stores import EarlierSession, OwnStore, StoredRef, find, store_files
from ..stores import listed as kept_sessions
from ..text import one_line
from .conversation import Repl

LISTED_SESSIONS: Final = 20
"""The number of sessions that are offered."""


async def earlier_sessions(repl: Repl) -> list[EarlierSession]:
    """Return the earlier sessions of this folder, newest first, without the open one."""
    return await _earlier_sessions(repl.setup, repl.session, stored=repl.source.own is not None)


async def _earlier_sessions(
    setup: Setup, session: SessionView | None, *, stored: bool
) -> list[EarlierSession]:
    """List stored sessions, if there is a store, and those that `session`'s agent lists."""
    found: list[StoredRef] = []
    if stored:
        found, _ = await trio.to_thread.run_sync(_stored_here, setup)
    ours = [_past(ref) for ref in found if session is None or ref.entry.session != session.id]
    known = {(each.entry.agent, each.entry.agent_session) for each in found}
    others = [
        EarlierSession(**structs.asdict(each))
        for each in await _others(setup, session)
        if (each.agent, each.id) not in known
    ]
    return sorted(ours + others, key=lambda each: each.updated or 0, reverse=True)


async def pick_session(setup: Setup, own: OwnStore | None) -> Setup | None:
    """Let the user choose an earlier session of this folder before any agent is started.

    Returns the setup that resumes it, the given one for a new session, or None to leave. Raises
    `AgentrtError` if the chosen session cannot be resumed.
    """
    found = (await _earlier_sessions(setup, None, stored=own is not None))[:LISTED_SESSIONS]
    if not found:
        print("No earlier session in this folder; starting a new one.")
        return setup
    now = time.time()
    for number, each in enumerate(found, 1):
        print(f"{number:3}  {described(each, now)}")
    reader = LineReader(0)
    while True:
        print(f"Resume which session? [1–{len(found)}; Enter: a new one] ", end="", flush=True)
        line = await reader.readline()
        if line is None:
            print()
            return None
        if not line.strip():
            return setup
        if line.strip().isdecimal() and 0 < int(line) <= len(found):
            return await _setup_of(found[int(line) - 1], setup, own)
        print(f"Please enter a number from 1 to {len(found)}, or press Enter.")


async def _setup_of(past: EarlierSession, setup: Setup, own: OwnStore | None) -> Setup:
    """Return the setup that resumes an earlier session. Raises `AgentrtError`."""
    agent = resolve_stored_agent(past.agent, setup.config)
    if agent.name == setup.agent.name:
        agent = setup.agent
    if past.stored_ref is None or own is None:
        return structs.replace(setup.changed(agent), resume=past.id)
    await own.fetch(past.stored_ref)
    return setup.resuming(structs.replace(past.stored_ref, file=own.file), agent)


def _stored_here(setup: Setup) -> tuple[list[StoredRef], list[StoreError]]:
    """Return the stored sessions of the folder, and the errors of stores that cannot be read.

    One more than is listed is requested, to see if there are more.
    """
    return kept_sessions(
        store_files(setup.store, setup.config),
        cwd=os.path.abspath(setup.cwd),
        limit=LISTED_SESSIONS + 1,
    )


def _past(ref: StoredRef) -> EarlierSession:
    """Return a stored session as an entry of the list."""
    entry = ref.entry
    title = entry.title or entry.prompt
    return EarlierSession(
        agent=entry.agent,
        id=entry.session,
        title=title,
        cwd=entry.cwd,
        updated=entry.updated,
        stored_ref=ref,
    )


async def _others(setup: Setup, session: SessionView | None) -> list[AgentSession]:
    """Return the sessions that the agent of `session` lists, and the noted ones of other agents."""
    known = {
        (each.agent, each.id): each for each in await trio.to_thread.run_sync(remembered, setup.cwd)
    }
    if session is not None:
        try:
            found = []
            if isinstance(session, Session):
                found = await session.list_sessions(setup.cwd)
        except AgentrtError:
            pass  # the agent has no list
        else:
            known = {key: each for key, each in known.items() if key[0] != setup.agent.name}
            known |= {(setup.agent.name, each.id): each for each in found}
        known.pop((setup.agent.name, session.agent_session or ""), None)
    for name, id in list(known):
        known[name, id] = structs.replace(known[name, id], agent=name)
    return list(known.values())


def described(stored: AgentSession, now: float) -> str:
    """Return a short description of a session."""
    title = one_line(stored.title, SESSION_TITLE_CHARS) or "(no title)"
    return f"{title} · {stored.agent} · {_ago(stored.updated, now)}"


async def show_sessions(repl: Repl, argument: str) -> None:
    """Run `/sessions`: list the earlier sessions."""
    found = repl.offered = (await earlier_sessions(repl))[:LISTED_SESSIONS]
    now = time.time()
    for number, stored in enumerate(found, 1):
        repl.say(f"{number:3}  {described(stored, now)}")
    repl.say("/resume N resumes one." if found else "No earlier sessions in this folder.")


async def resume(repl: Repl, argument: str) -> None:
    """Run `/resume [N | ID]`: resume an earlier session, or list those that can be resumed."""
    if not argument:
        found = repl.offered = (await earlier_sessions(repl))[:LISTED_SESSIONS]
        now = time.time()
        rows = [(str(number), described(each, now)) for number, each in enumerate(found, 1)]
        if rows:
            repl.choose("/resume", rows)
        else:
            repl.say("No earlier sessions in this folder.")
        return
    number = argument.partition(" ")[0]
    if number.isdecimal() and 0 < int(number) <= len(repl.offered):
        stored = repl.offered[int(number) - 1]
    else:
        known = repl.offered or await earlier_sessions(repl)
        matches = [each for each in known if each.id == argument]
        if not matches and repl.source.own is not None:
            matches = await trio.to_thread.run_sync(_named, repl.setup, argument)
        stored = matches[0] if matches else EarlierSession(agent=repl.setup.agent.name, id=argument)
    if repl.busy:
        raise UsageError("the agent is working; stop it first")
    if repl.session is not None and stored.stored_ref is not None:
        if repl.session.id == stored.stored_ref.entry.session:
            raise UsageError("this session is already open")
    repl.leave(next=await _setup_of(stored, repl.setup, repl.source.own))


def _named(setup: Setup, prefix: str) -> list[EarlierSession]:
    """Return the stored session with this id prefix, from any directory; empty if there is none."""
    try:
        return [_past(find(store_files(setup.store, setup.config), prefix))]
    except SessionNotFound:
        return []


def _ago(when: float | None, now: float) -> str:
    """Return a time in words, in its largest unit."""
    if when is None:
        return "some time ago"
    seconds = max(0, int(now - when))
    for size, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {word}{'s' if count > 1 else ''} ago"
    return "just now"
