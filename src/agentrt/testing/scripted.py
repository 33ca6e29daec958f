"""Scripts that replace agent programs, for a program under test that opens its own sessions.

The replacement takes place where a session would start its process, so everything above it is the
real thing: the drivers, the policies, the tools, the store. A script is looked up by the agent's
name at each start of a process, and gets the fake for the protocol of that agent.

`ScriptedAgents.sessions` keeps each session that was opened, with its log. Assertions about the
program are made there after the run: the prompts that it sent, its answers to questions, and the
outcomes of its turns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias, cast

from .._public import Session
from ..agents import Agent, ProtocolName, Transport
from ..effects import ServiceRequested
from ..errors import AgentStartError
from ..events import (
    Event,
    ItemOpened,
    PermissionClosed,
    PermissionOpened,
    Text,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from ..hosting import StandIn, stand_in_for_programs
from ..lowlevel import Opening
from .checks import check_log
from .fake_acp import FakeAcpAgent
from .fake_claude import FakeClaudeAgent
from .fake_codex import FakeCodexAgent
from .memory import MemoryAgent
from .replay import Replay

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
    """A permission request and its outcome."""

    opened: PermissionOpened
    """The request as the program saw it."""
    closed: PermissionClosed | None
    """Its end; None while it is open."""

    @property
    def allowed(self) -> bool:
        """True if an option was chosen that allows the request."""
        closed = self.closed
        if closed is None or closed.option is None:
            return False
        kinds = {option.id: option.kind for option in self.opened.options}
        return kinds.get(closed.option, "").startswith("allow")


@dataclass
class SeenSession:
    """A session that the program has opened with a scripted agent."""

    agent: Agent
    """The agent that the program chose."""
    opening: Opening
    """The parameters that it was opened with: `cwd`, `model`, `resume`, …"""
    processes: list[MemoryAgent] = field(default_factory=list)
    """One per start of the agent, oldest first."""
    agents: list[FakeAgent] = field(default_factory=list)
    """The agent's side of each process."""
    events: list[Event] = field(default_factory=list)
    """The session's log so far."""

    @property
    def prompts(self) -> list[str]:
        """The texts of the prompts that were sent to the agent."""
        return [
            "".join(block.text for block in event.prompt if isinstance(block, Text))
            for event in self.events
            if isinstance(event, TurnStarted) and event.prompt is not None
        ]

    @property
    def outcomes(self) -> list[str]:
        """The outcomes of the finished turns."""
        return [event.outcome for event in self.events if isinstance(event, TurnEnded)]

    @property
    def turns(self) -> list[tuple[str, str]]:
        """The prompt and the agent's text for each turn, without the text of sub-agents."""
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
        """The permission requests and their outcomes."""
        closed = {e.request: e for e in self.events if isinstance(e, PermissionClosed)}
        return [
            Question(event, closed.get(event.request))
            for event in self.events
            if isinstance(event, PermissionOpened)
        ]


class ScriptedAgents:
    """The scripts by agent name, and the sessions that the program has opened."""

    def __init__(self) -> None:
        self.sessions: list[SeenSession] = []
        """In the order in which they were opened."""
        self._scripts: dict[str, Script | Replay] = {}
        self._default: Script | None = None

    def __setitem__(self, name: str, script: Script | Replay) -> None:
        """Set the script for an agent, by its name in the catalogue or that of an `Agent`.

        The script gets a `FakeClaudeAgent` or a `FakeCodexAgent` if the agent speaks that protocol,
        else a `FakeAcpAgent`. A `Replay` plays a recorded agent, for one session.
        """
        self._scripts[name] = script

    def set_default(self, script: Script) -> None:
        """Set the script for all agents without their own script."""
        self._default = script

    @property
    def session(self) -> SeenSession:
        """The only session that was opened. Raises `LookupError` unless exactly one was opened."""
        if len(self.sessions) != 1:
            raise LookupError(f"{len(self.sessions)} sessions were opened, not one")
        return self.sessions[0]

    def check(self) -> None:
        """Check the logs of all sessions. Raises `LogBroken`; see `check_log`."""
        for session in self.sessions:
            check_log(session.events, whole=False)


_KINDS: Final[dict[ProtocolName, type[FakeAgent]]] = {
    "acp": FakeAcpAgent,
    "claude": FakeClaudeAgent,
    "codex": FakeCodexAgent,
}


def _stand_in(agents: ScriptedAgents, agent: Agent, opening: Opening) -> StandIn:
    """Return the replacement for an agent's program in one session.

    The script is looked up at each start of the process, so a test may set it after the session was
    opened. Raises `AgentStartError` there if the agent has no script.
    """
    seen = SeenSession(agent, opening)
    agents.sessions.append(seen)

    def connect() -> AbstractAsyncContextManager[Transport]:
        """Start the agent's next process: a fake with the script, or the next recorded process."""
        script = agents._scripts.get(agent.name, agents._default)
        if script is None:
            known = ", ".join(map(repr, agents._scripts)) or "none"
            raise AgentStartError(f"no script for the agent {agent.name!r}; there are: {known}")
        if isinstance(script, Replay):
            process = script.start()
        else:
            process = MemoryAgent(_program(script, agent, seen))
        seen.processes.append(process)
        return process.connect()

    def opened(session: Session) -> Mapping[str, Callable[[ServiceRequested], Awaitable[Any]]]:
        """Return the recorded services of a `Replay`.

        A script gets the services of the program under test.
        """
        script = agents._scripts.get(agent.name, agents._default)
        if not isinstance(script, Replay):
            return {}
        script.plays_for(session)
        return script.services

    return StandIn(connect=connect, observe=seen.events.extend, opened=opened)


def _program(
    script: Script, agent: Agent, seen: SeenSession
) -> Callable[[MemoryAgent], Awaitable[None]]:
    """Return the program of a fake agent that runs the script.

    Raises `AgentStartError` for an agent with its own driver, whose protocol no fake speaks.
    """
    if agent.protocol == "own":
        raise AgentStartError(
            f"{agent.name} has a custom driver, for which no fake agent exists: test it with"
            " a program that speaks its protocol"
        )
    kind = _KINDS[agent.protocol]
    # A script for an agent takes the fake of that agent's protocol.
    behave = cast("Callable[[FakeAgent], Awaitable[None]]", script)

    async def program(process: MemoryAgent) -> None:
        """Run the script with the fake, and note the fake for the test."""
        options = {"version": agent.acp_version} if agent.protocol == "acp" else {}
        async with kind.serving(process, **options) as fake:
            seen.agents.append(fake)
            await behave(fake)

    return program


@contextmanager
def scripted_agents(
    scripts: Mapping[str, Script | Replay] | None = None,
) -> Iterator[ScriptedAgents]:
    """Replace every agent program with a script while the block runs.

    No agent program is started or looked up: each session that is opened anywhere in this process
    runs with a script, in memory. A recorded agent (`replay`) can take the place of a script.
    Opening a session with an agent that has neither raises `AgentStartError`. Everything else is
    real: the program under test, its tools, policies, hooks, limits and stores. Yields the
    `ScriptedAgents`.
    """
    agents = ScriptedAgents()
    for name, script in (scripts or {}).items():
        agents[name] = script
    with standing_in(agents):
        yield agents


def standing_in(agents: ScriptedAgents) -> AbstractContextManager[None]:
    """Return a block in which these agents are used in place of real programs."""
    return stand_in_for_programs(partial(_stand_in, agents))


def says(*answers: str) -> Script:
    """Return a script that answers each prompt with the next of these texts.

    After the last one it repeats that.
    """

    async def script(agent: FakeAgent) -> None:
        """Answer the prompts of one process, from the first text on."""
        number = 0
        async for prompt in agent.prompts:
            if answers:
                agent.say(answers[min(number, len(answers) - 1)])
            number += 1
            prompt.end()

    return script
