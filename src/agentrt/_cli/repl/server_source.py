"""The sessions of a server, in an interactive session or for a single prompt."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio
from msgspec import Struct, convert, structs

from ..._public import SessionInfo
from ..._serve import commands as c
from ..._serve.remote.line import ServerLine
from ..._serve.remote.session import RemoteSession
from ...agents import Agent
from ...config import Config
from ...errors import AgentNotFound, AgentrtError
from ...permissions import Policy
from ...tracing import TraceRow
from ..exit_status import UsageError
from ..servers import find_session, newest_sessions
from ..session_view import SessionView, text_of
from ..setup import DEMO, Setup
from ..text import one_line
from ..tracing import row_text
from .conversation import Repl, SlashCommand
from .inspecting import DEBUG, WIRE_ROWS
from .slash_commands import COMMANDS
from .sources import Opened, SessionSource

WIRE_RENEWAL_S: Final = 10.0
"""Seconds between two requests for protocol messages; a server records them for thirty after each.
"""
OFFERED_SESSIONS: Final = 20
"""The number of sessions that are offered."""
_LOCAL: Final = ("127.0.0.1", "localhost", "[::1]")
_PHASES: Final = {"running": "working", "waiting": "needs an answer", "dead": "paused"}


class RequestedSession(Struct, frozen=True, kw_only=True):
    """The requested session: an id prefix, or the settings of a new session."""

    session: str | None = None
    agent: str | None = None
    model: str | None = None
    mode: str | None = None
    cwd: str = "."

    @property
    def new(self) -> bool:
        """True if the options ask for a new session: they cannot apply to an existing one."""
        return (self.agent, self.model, self.mode) != (None, None, None)


class ServerSource(SessionSource):
    """The sessions of a server."""

    lasting = True

    def __init__(
        self,
        line: ServerLine,
        wanted: RequestedSession,
        config: Config,
        *,
        interactive: bool = True,
    ) -> None:
        """Create it for a connected line.

        `interactive`: a person uses this terminal, so the demo agent may be used if the server has
        no other.
        """
        self.line = line
        self._interactive = interactive
        self.last: str | None = None
        """The session that was open last."""
        self.unconfirmed: list[str] = []
        """Prompts that the server had not confirmed when their session was left."""
        self._wanted = wanted
        self._config = config
        self._offered: list[SessionInfo] = []
        self._heard: set[str] = set()  # sessions whose messages the server records for us
        self._folder = self._own_folder()
        here = (
            SlashCommand(
                "agent", "list the server's agents, or start a session", self._agent, "[NAME]"
            ),
            SlashCommand("new", "start a new session with the same agent", self._new),
            SlashCommand("session", "show the session id, for --session", self._session),
            SlashCommand("sessions", "list the server's sessions", self._sessions),
            SlashCommand("resume", "switch to another session", self._resume, "[N | ID]"),
            SlashCommand("permissions", "show who decides", self._permissions),
            SlashCommand(
                name="debug",
                description="show internals, or the last N protocol messages",
                run=self._debug,
                hint="[wire [N]]",
            ),
            SlashCommand("share", "print a link for a browser", self._share),
        )
        self.commands = COMMANDS | {command.name: command for command in here}

    def _own_folder(self) -> str:
        """Return the directory of new sessions: the user's own if the server is on this machine."""
        place = self.line.server.place if self.line.server is not None else ""
        local = place.rpartition(":")[0] in _LOCAL
        return os.path.abspath(self._wanted.cwd) if local else self._wanted.cwd

    @property
    def trouble(self) -> str:
        """The reason why the server cannot be reached now; empty if it can."""
        return self.line.trouble

    def opening(self, setup: Setup) -> str:
        return f"attaching to {self.line.server} …"

    # --- choosing a session

    async def first(self) -> tuple[Setup, bool]:
        """Return the session to open, and True if there are others to choose from.

        Raises `AgentrtError`.
        """
        wanted = self._wanted
        if wanted.session is not None:
            return self._setup(await find_session(self.line, wanted.session)), False
        sessions = await newest_sessions(self.line)
        live = [each for each in sessions if each.phase not in ("stored", "closed")]
        if live and not wanted.new:
            return self._setup(live[0]), len(live) > 1
        agents = self.line.ready.agents if self.line.ready is not None else []
        names = [agent.name for agent in agents if agent.available]
        if wanted.agent is not None and wanted.agent not in {agent.name for agent in agents}:
            raise AgentNotFound(self._no_agent(wanted.agent))
        usual = next((name for name in names if name != DEMO), DEMO if self._interactive else None)
        chosen = wanted.agent or usual
        if chosen is None:
            raise AgentNotFound(
                "the server has no session and only the demo agent; install an agent there"
                " (`agentrt agents` lists them), or use `--agent demo`"
            )
        new = self._new_setup(chosen)
        return structs.replace(new, model=wanted.model, mode=wanted.mode), False

    def _setup(self, info: SessionInfo) -> Setup:
        """Return the setup that opens a session of the server.

        Its folder is used for completions and `@` names, if it exists on this machine.
        """
        cwd = info.cwd if os.path.isdir(info.cwd) else "."  # if the server is on this machine
        return structs.replace(self._new_setup(info.agent), cwd=cwd, resume=info.session)

    def _new_setup(self, agent: str) -> Setup:
        """Return the setup of a new session. The agent runs on the server, so its command is never
        used.
        """
        ready, note = (
            self.line.ready,
            f"attached to {self.line.server} (the session keeps running when you leave)",
        )
        if ready is not None and ready.role != "controller":
            note = f"attached to {self.line.server}; view only"
        known = Agent(name=agent, command=("agentrt", "attach"))  # it runs on the server
        return Setup(agent=known, config=self._config, note=note)

    @asynccontextmanager
    async def open(
        self,
        setup: Setup,
        policy: Policy,
        *,
        on_stderr: Callable[[bytes], None],
        report: Callable[[str], None],
        refresh: Callable[[], None],
    ) -> AsyncIterator[Opened]:
        """Open the requested session. `policy` and `on_stderr` are not used: the server has its
        own.
        """
        async with self.open_session(setup, prompt_answered=refresh) as session:
            yield session, session, session.snapshot()

    @asynccontextmanager
    async def open_session(
        self, setup: Setup, *, prompt_answered: Callable[[], None] | None = None
    ) -> AsyncIterator[RemoteSession]:
        """Open the requested session, or a new one, with its current state and further events."""
        id = setup.resume
        if id is None:
            new = c.NewSession(
                id="",
                agent=setup.agent.name,
                cwd=self._folder,
                model=setup.model,
                mode=setup.mode,
            )
            id = str((await self.line.ask(new)).get("session"))
        session = RemoteSession(self.line, id, prompt_answered=prompt_answered)
        self.line.follow(id, session)
        try:
            await session.begun()
            self.last = id
            yield session
        finally:
            self.unconfirmed += [text_of(content) for content in session.unconfirmed]
            session.close()

    def resuming(self, session: SessionView, setup: Setup) -> Setup:
        return structs.replace(setup, resume=session.id)

    async def fork(self, session: SessionView, setup: Setup, at: str | None = None) -> Setup:
        """Have the server fork the session; the error of a refusal is raised."""
        answer = await self.line.ask(c.ForkSession(id="", session=session.id, at=at))
        return structs.replace(setup, resume=str(answer.get("session")))

    # --- commands

    async def _agent(self, repl: Repl, argument: str) -> None:
        """Run `/agent`: list the server's agents, or start a session with one of them."""
        agents = self.line.ready.agents if self.line.ready is not None else []
        names = [agent.name for agent in agents if agent.available]
        if not argument:
            rows = [(agent.name, one_line(agent.title)) for agent in agents if agent.available]
            repl.choose("/agent", rows, repl.setup.agent.name)
        elif argument in names:
            await self._begin(repl, argument)
        else:
            raise UsageError(self._no_agent(argument))

    def _no_agent(self, name: str) -> str:
        """Return the error for an agent that the server does not have."""
        agents = self.line.ready.agents if self.line.ready is not None else []
        names = ", ".join(agent.name for agent in agents if agent.available)
        return f"the server has no agent {one_line(name)!r}; it has: {names}"

    async def _new(self, repl: Repl, argument: str) -> None:
        await self._begin(repl, repl.setup.agent.name)

    async def _begin(self, repl: Repl, agent: str) -> None:
        """Leave for a new session in the folder of the open one."""
        here = repl.session.id if repl.session is not None else None
        for info in await newest_sessions(self.line):
            if info.session == here:
                self._folder = info.cwd
        repl.leave(next=self._new_setup(agent))

    async def _sessions(self, repl: Repl, argument: str) -> None:
        """Run `/sessions`: list the other sessions of the server."""
        for name, words in await self._offer(repl):
            repl.say(f"{name:>3}  {words}")
        repl.say("/resume N resumes one." if self._offered else "No other sessions.")

    async def _resume(self, repl: Repl, argument: str) -> None:
        """Run `/resume`: switch to a session by its number in the list or an id prefix."""
        if not argument:
            rows = await self._offer(repl)
            if rows:
                repl.choose("/resume", rows)
            else:
                repl.say("No other sessions.")
            return
        number = argument.partition(" ")[0]
        if number.isdecimal() and 0 < int(number) <= len(self._offered):
            found = self._offered[int(number) - 1]
        else:
            found = await find_session(self.line, argument)
        repl.leave(next=self._setup(found))

    async def _offer(self, repl: Repl) -> list[tuple[str, str]]:
        """List the newest other sessions, and remember them for `/resume N`."""
        here = repl.session.id if repl.session is not None else None
        others = [each for each in await newest_sessions(self.line) if each.session != here]
        self._offered = others[:OFFERED_SESSIONS]
        return [(str(number), _described(each)) for number, each in enumerate(self._offered, 1)]

    async def _session(self, repl: Repl, argument: str) -> None:
        """Run `/session`: show the agent, the id for `agentrt attach`, and the server."""
        session = repl.session
        if session is not None:
            name = f"{session.agent.name} {session.agent.version or ''}"
            repl.say(f"agent    {one_line(name)}")
            repl.say(f"session  {session.id} (for agentrt attach --session)")
            repl.say(f"server   {self.line.server}")

    async def _permissions(self, repl: Repl, argument: str) -> None:
        """Run `/permissions`, which cannot change the server's rules."""
        raise UsageError(
            "the server's --permissions and rules decide; other requests are asked here and of all"
            " other clients of the session"
        )

    async def _share(self, repl: Repl, argument: str) -> None:
        """Run `/share`, which a client of a server cannot do."""
        raise UsageError(
            "only the server can create a link: `agentrt serve` prints one, and /share does in"
            " `agentrt --serve`"
        )

    async def _debug(self, repl: Repl, argument: str) -> None:
        """Run `/debug`: show the connection and the known part of the session, or protocol
        messages.
        """
        word, _, number = argument.partition(" ")
        if word == "wire" and (not number or number.isdecimal()):
            await self._wire(repl, int(number or WIRE_ROWS))
            return
        if argument:
            raise UsageError(DEBUG)
        repl.say(f"server   {self.line.server}, {self.line.trouble or 'connected'}")
        if (session := repl.session) is not None:
            snapshot = session.snapshot()
            agent = session.agent
            state = "alive" if agent.alive else "not running"
            repl.say(f"agent    {one_line(agent.name)}, {agent.protocol}; {state}")
            repl.say(f"session  {session.id}")
            repl.say(f"log      {snapshot.seq} events; {len(snapshot.items)} items are known here")
            repl.say(f"phase    {snapshot.state.phase}")

    async def _wire(self, repl: Repl, most: int) -> None:
        """Show protocol messages between the server and the agent.

        The server starts recording at the first request.
        """
        session = repl.session
        if session is None:
            return
        rows = await self._rows(session.id)
        if session.id not in self._heard:
            self._heard.add(session.id)
            repl.session_nursery.start_soon(self._keep_listening, session.id)
            repl.say("The server records protocol messages from now on; /debug wire shows them.")
            return
        for row in rows[-most:] if most else []:
            repl.say(row_text(row))
        if not rows:
            repl.say("No protocol messages since then.")

    async def _rows(self, session: str) -> list[TraceRow]:
        """Return the latest protocol messages.

        Raises the server's error if it refuses.
        """
        answer = await self.line.ask(c.ShowWire(id="", session=session))
        about = {"session": session, "process": 0}
        return convert([{**about, **row} for row in answer["rows"]], list[TraceRow])

    async def _keep_listening(self, session: str) -> None:
        """Repeat the request, because the server stops recording without it.

        Runs as long as the session is open here.
        """
        try:
            while True:
                await trio.sleep(WIRE_RENEWAL_S)
                await self._rows(session)
        except AgentrtError:  # the session does not exist any more
            await trio.lowlevel.checkpoint()
        finally:
            self._heard.discard(session)


def _described(info: SessionInfo) -> str:
    """Return a session as a row of a list: its title or first prompt, its agent and its phase."""
    title = one_line(info.title or info.prompt, 60) or "(no title)"
    return f"{title} · {one_line(info.agent)} · {_PHASES.get(info.phase, info.phase)}"
