"""Scripts in the place of agents' programs, for a program under test that opens its sessions
itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

from .._agents import Agent, ProtocolName, find
from .._errors import AgentStartError
from .._model.content import Text
from .._model.driver import Opening
from .._model.events import (
    Event,
    ItemOpened,
    PermissionClosed,
    PermissionOpened,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from .._process.pipes import Transport
from .._runtime import assembly
from .._runtime.offer import Attach
from .._session.host import SessionHost
from .._session.link import Connect
from .._session.session import Session
from .checks import check_log
from .fake_acp import FakeAcpAgent
from .fake_claude import FakeClaudeAgent
from .fake_codex import FakeCodexAgent
from .memory import MemoryAgent
from .replay import Replay
from .sessions import attached_to

FakeAgent: TypeAlias = FakeAcpAgent | FakeClaudeAgent | FakeCodexAgent
Script: TypeAlias = (
    Callable[[FakeAcpAgent], Awaitable[None]]
    | Callable[[FakeClaudeAgent], Awaitable[None]]
    | Callable[[FakeCodexAgent], Awaitable[None]]
    | Callable[[FakeAgent], Awaitable[None]]
)
"""An agent's behaviour in one process, from after its start to its exit.

A script takes the fake of the protocol that its agent speaks, or any.
"""


@dataclass(frozen=True)
class Question:
    """A permission request, and what became of it."""

    opened: PermissionOpened
    closed: PermissionClosed | None

    @property
    def allowed(self) -> bool:
        """Whether an option was chosen that allows it."""
        closed = self.closed
        if closed is None or closed.option is None:
            return False
        kinds = {option.id: option.kind for option in self.opened.options}
        return kinds.get(closed.option, "").startswith("allow")


@dataclass
class SeenSession:
    """A session that the program has opened on a script."""

    agent: Agent
    opening: Opening
    """What it was opened with: `cwd`, `model`, `resume`, …"""
    processes: list[MemoryAgent] = field(default_factory=list)
    agents: list[FakeAgent] = field(default_factory=list)
    """The agent's side, one for each process."""
    events: list[Event] = field(default_factory=list)
    """Its whole log."""

    @property
    def prompts(self) -> list[str]:
        """The texts that were sent to the agent."""
        return [
            "".join(block.text for block in event.prompt if isinstance(block, Text))
            for event in self.events
            if isinstance(event, TurnStarted) and event.prompt is not None
        ]

    @property
    def outcomes(self) -> list[str]:
        """How its turns ended."""
        return [event.outcome for event in self.events if isinstance(event, TurnEnded)]

    @property
    def turns(self) -> list[tuple[str, str]]:
        """What each turn was asked, and what the agent said in it; nothing of its sub-agents."""
        turns: dict[str, tuple[list[str], list[str]]] = {}
        of: dict[str, str] = {}
        for event in self.events:
            match event:
                case TurnStarted(turn=turn, prompt=prompt):
                    asked = [block.text for block in prompt or () if isinstance(block, Text)]
                    turns[turn] = (asked, [])
                case ItemOpened(item=item) if item.turn in turns and item.parent is None:
                    of[item.id] = item.turn
                case TextDelta(item=id, text=text) if id in of:
                    turns[of[id]][1].append(text)
        return [("".join(asked), "".join(said)) for asked, said in turns.values()]

    @property
    def questions(self) -> list[Question]:
        """What was asked, and decided."""
        closed = {e.request: e for e in self.events if isinstance(e, PermissionClosed)}
        return [
            Question(event, closed.get(event.request))
            for event in self.events
            if isinstance(event, PermissionOpened)
        ]


class ScriptedAgents:
    """The scripts by agent, and the sessions that the program has opened on them."""

    def __init__(self) -> None:
        self.sessions: list[SeenSession] = []
        """In the order in which they were opened."""
        self._scripts: dict[str, Script | Replay] = {}
        self._default: Script | None = None

    def __setitem__(self, name: str, script: Script | Replay) -> None:
        """From now on, `script` is what runs for the agent of that name (of the catalogue, or of an
        `Agent`). It gets a `FakeClaudeAgent` or a `FakeCodexAgent` if the agent speaks that
        protocol, else a `FakeAcpAgent`. A `Replay` is the recorded agent, for one session."""
        self._scripts[name] = script

    def set_default(self, script: Script) -> None:
        """The script of all agents that have none of their own."""
        self._default = script

    @property
    def session(self) -> SeenSession:
        """The only session that was opened. Raises `LookupError` if there are none, or several."""
        if len(self.sessions) != 1:
            raise LookupError(f"{len(self.sessions)} sessions were opened, not one")
        return self.sessions[0]

    def check(self) -> None:
        """Hold the logs of all sessions to what agentrt promises; see `check_log`."""
        for session in self.sessions:
            check_log(session.events, whole=False)

    def _stand_in(
        self, agent: Agent, opening: Opening
    ) -> tuple[Connect, Callable[[Attach], Attach]]:
        seen = SeenSession(agent, opening)
        self.sessions.append(seen)

        def connect(opening: Opening) -> AbstractAsyncContextManager[Transport]:
            script = self._scripts.get(agent.name, self._default)
            if script is None:
                known = ", ".join(map(repr, self._scripts)) or "none"
                raise AgentStartError(f"no script for the agent {agent.name!r}; there are: {known}")
            if isinstance(script, Replay):
                process = script.start()
            else:
                process = MemoryAgent(_program(script, agent, seen))
            seen.processes.append(process)
            return process.connect()

        def around(attach: Attach) -> Attach:
            def attached(
                host: SessionHost, session: Session
            ) -> AbstractAsyncContextManager[Opening]:
                _watch(host, seen)
                script = self._scripts.get(agent.name, self._default)
                if isinstance(script, Replay):
                    script.plays_for(session)
                    return attached_to(script.services, attach)(host, session)
                return attach(host, session)

            return attached

        return connect, around


_KINDS: Final[dict[ProtocolName, type[FakeAgent]]] = {
    "acp": FakeAcpAgent,
    "claude": FakeClaudeAgent,
    "codex": FakeCodexAgent,
}


def _watch(host: SessionHost, seen: SeenSession) -> None:
    others = host.log.observer

    def observe(events: list[Event], size: int) -> None:
        seen.events += events
        if others is not None:
            others(events, size)

    host.log.observer = observe


def _program(
    script: Script, agent: Agent, seen: SeenSession
) -> Callable[[MemoryAgent], Awaitable[None]]:
    # The script of an agent takes the fake that its protocol has.
    behave = cast("Callable[[FakeAgent], Awaitable[None]]", script)

    async def program(process: MemoryAgent) -> None:
        async with _KINDS[agent.protocol].serving(process) as fake:
            seen.agents.append(fake)
            await behave(fake)

    return program


@contextmanager
def scripted_agents(
    scripts: Mapping[str, Script | Replay] | None = None,
) -> Iterator[ScriptedAgents]:
    """While the block runs, no agent's program is started or looked for: each session that is
    opened anywhere in this process runs on a script, in memory.

    In the place of a script may be a recorded agent (`replay`). A session with an agent that has
    neither raises `AgentStartError`. Everything else is real:
    the program under test, its tools, policies, hooks, limits and stores.
    """
    agents = ScriptedAgents()
    for name, script in (scripts or {}).items():
        agents[name] = script
    with standing_in(agents):
        yield agents


@contextmanager
def standing_in(agents: ScriptedAgents) -> Iterator[None]:
    before = find.unstarted, assembly.stand_in
    find.unstarted, assembly.stand_in = True, agents._stand_in
    try:
        yield
    finally:
        find.unstarted, assembly.stand_in = before


def says(*answers: str) -> Script:
    """A script that answers each prompt with the next of these, the last one again and again."""

    async def script(agent: FakeAgent) -> None:
        number = 0
        async for prompt in agent.prompts:
            if answers:
                agent.say(answers[min(number, len(answers) - 1)])
            number += 1
            prompt.end()

    return script
