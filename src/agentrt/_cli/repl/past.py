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

from ..._agents import resolve_stored_agent
from ..._errors import AgentrtError, SessionNotFound, StoreError
from ..._session.agent_sessions import AgentSession
from ..._session.session import Session
from ..held import HeldSession
from ..kept import Kept
from ..lines import LineReader
from ..own import OwnStore
from ..setup import Setup, UsageError
from ..state import remembered
from ..stores import Past, find, store_files
from ..stores import listed as kept_sessions
from ..text import one_line
from .conversation import Repl
from .note import TITLE

SHOWN: Final = 20
"""The number of sessions that are offered."""


async def past_sessions(repl: Repl) -> list[Past]:
    """Return the earlier sessions of this folder, newest first, without the open one."""
    return await _past_sessions(repl.setup, repl.session, stored=repl.place.own is not None)


async def _past_sessions(setup: Setup, session: HeldSession | None, *, stored: bool) -> list[Past]:
    """List stored sessions, if there is a store, and those that `session`'s agent lists."""
    found: list[Kept] = []
    if stored:
        found, _ = await trio.to_thread.run_sync(_stored_here, setup)
    ours = [_past(kept) for kept in found if session is None or kept.entry.session != session.id]
    known = {(each.entry.agent, each.entry.agent_session) for each in found}
    others = [
        Past(**structs.asdict(each))
        for each in await _others(setup, session)
        if (each.agent, each.id) not in known
    ]
    return sorted(ours + others, key=lambda each: each.updated or 0, reverse=True)


async def pick_session(setup: Setup, own: OwnStore | None) -> Setup | None:
    """Let the user choose an earlier session of this folder before any agent is started.

    Returns the setup that resumes it, the given one for a new session, or None to leave. Raises
    `AgentrtError` if the chosen session cannot be resumed.
    """
    found = (await _past_sessions(setup, None, stored=own is not None))[:SHOWN]
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


async def _setup_of(past: Past, setup: Setup, own: OwnStore | None) -> Setup:
    """Return the setup that resumes an earlier session. Raises `AgentrtError`."""
    agent = resolve_stored_agent(past.agent, setup.config)
    if agent.name == setup.agent.name:
        agent = setup.agent
    if past.kept is None or own is None:
        return structs.replace(setup.changed(agent), resume=past.id)
    await own.fetch(past.kept)
    return setup.going_on(structs.replace(past.kept, file=own.file), agent)


def _stored_here(setup: Setup) -> tuple[list[Kept], list[StoreError]]:
    return kept_sessions(
        store_files(setup.store, setup.config), cwd=os.path.abspath(setup.cwd), limit=SHOWN + 1
    )


def _past(kept: Kept) -> Past:
    entry = kept.entry
    title = entry.title or entry.prompt
    return Past(
        agent=entry.agent,
        id=entry.session,
        title=title,
        cwd=entry.cwd,
        updated=entry.updated,
        kept=kept,
    )


async def _others(setup: Setup, session: HeldSession | None) -> list[AgentSession]:
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
    title = one_line(stored.title, TITLE) or "(no title)"
    return f"{title} · {stored.agent} · {_ago(stored.updated, now)}"


async def show_sessions(repl: Repl, argument: str) -> None:
    """Run `/sessions`: list the earlier sessions."""
    found = repl.offered = (await past_sessions(repl))[:SHOWN]
    now = time.time()
    for number, stored in enumerate(found, 1):
        repl.say(f"{number:3}  {described(stored, now)}")
    repl.say("/resume N goes on with one." if found else "There is no earlier session here.")


async def resume(repl: Repl, argument: str) -> None:
    """Run `/resume [N | ID]`: resume an earlier session, or list those that can be resumed."""
    if not argument:
        found = repl.offered = (await past_sessions(repl))[:SHOWN]
        now = time.time()
        rows = [(str(number), described(each, now)) for number, each in enumerate(found, 1)]
        if rows:
            repl.choose("/resume", rows)
        else:
            repl.say("There is no earlier session here.")
        return
    number = argument.partition(" ")[0]
    if number.isdecimal() and 0 < int(number) <= len(repl.offered):
        stored = repl.offered[int(number) - 1]
    else:
        known = repl.offered or await past_sessions(repl)
        matches = [each for each in known if each.id == argument]
        if not matches and repl.place.own is not None:
            matches = await trio.to_thread.run_sync(_named, repl.setup, argument)
        stored = matches[0] if matches else Past(agent=repl.setup.agent.name, id=argument)
    if repl.busy:
        raise UsageError("the agent is working; stop it first")
    if repl.session is not None and stored.kept is not None:
        if repl.session.id == stored.kept.entry.session:
            raise UsageError("this session is already open")
    repl.leave(next=await _setup_of(stored, repl.setup, repl.place.own))


def _named(setup: Setup, prefix: str) -> list[Past]:
    """Return the stored session with this id prefix, from any directory; empty if there is none."""
    try:
        return [_past(find(store_files(setup.store, setup.config), prefix))]
    except SessionNotFound:
        return []


def _ago(when: float | None, now: float) -> str:
    if when is None:
        return "some time ago"
    seconds = max(0, int(now - when))
    for size, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {word}{'s' if count > 1 else ''} ago"
    return "just now"
