"""Sessions on agents in memory, for the tests of the turn engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

import agentrt
from agentrt.events import Event
from agentrt.testing import FakeAcpAgent, MemoryAgent, open_fake_session

Script = Callable[[FakeAcpAgent], Awaitable[None]]


class Incarnations:
    """The processes that a session had, one after the other; each runs the next script, the last
    one again and again."""

    def __init__(self, *scripts: Script, **options: Any) -> None:
        self._scripts = scripts
        self._options = options
        self.processes: list[MemoryAgent] = []
        self.agents: list[FakeAcpAgent] = []

    def start(self) -> MemoryAgent:
        script = self._scripts[min(len(self.processes), len(self._scripts) - 1)]
        memory = {k: self._options[k] for k in ("ignores", "stdin_capacity") if k in self._options}
        fake = {k: v for k, v in self._options.items() if k not in memory}

        async def program(process: MemoryAgent) -> None:
            async with FakeAcpAgent.serving(process, **fake) as agent:
                self.agents.append(agent)
                await script(agent)

        process = MemoryAgent(program, **memory)
        self.processes.append(process)
        return process

    def sent(self, method: str, incarnation: int = -1) -> list[dict[str, Any]]:
        """What the host sent to one incarnation, by method."""
        received = self.agents[incarnation].received
        return [message for message in received if message.get("method") == method]


@asynccontextmanager
async def session_with(
    *scripts: Script, fake: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[agentrt.Session, Incarnations]]:
    """A session on scripted agents; `options` are those of `open_session`."""
    incarnations = Incarnations(*scripts, **(fake or {}))
    async with open_fake_session(incarnations.start, **options) as session:
        yield session, incarnations


async def every(turn: agentrt.Turn) -> list[Event]:
    return [event async for event in turn]


def log_of(session: agentrt.Session) -> list[Event]:
    """Everything in a session's log (tests keep it below the ring's size)."""
    return session.log.since(0)


def kinds(events: list[Event]) -> list[str]:
    return [event.__struct_config__.tag for event in events]  # type: ignore[misc]


# --- scripts


async def echo(agent: FakeAcpAgent) -> None:
    """Answers each prompt with its own text."""
    async for prompt in agent.prompts:
        agent.say(prompt.text)
        prompt.end()


async def obedient(agent: FakeAcpAgent) -> None:
    """Says a word and works until it is cancelled."""
    async for prompt in agent.prompts:
        agent.say("working on ")
        agent.say(prompt.text)
        await prompt.cancelled.wait()
        prompt.end("cancelled")


async def unresponsive(agent: FakeAcpAgent) -> None:
    """Never answers a prompt, whatever comes."""
    async for _prompt in agent.prompts:
        agent.say("…")


async def asking(agent: FakeAcpAgent) -> None:
    """Asks for a permission and says what it was told."""
    async for prompt in agent.prompts:
        chosen = await agent.ask()
        agent.say(str(chosen))
        prompt.end("cancelled" if chosen is None else "end_turn")


# --- settings

MODES = {
    "currentModeId": "write",
    "availableModes": [{"id": "write", "name": "Write"}, {"id": "plan", "name": "Plan only"}],
}
MODELS = {
    "currentModelId": "small",
    "availableModels": [{"modelId": m, "name": m} for m in ("small", "large")],
}
OPTION = {
    "id": "effort",
    "name": "Effort",
    "type": "select",
    "currentValue": "low",
    "options": [{"value": "low", "name": "Low"}, {"value": "high", "name": "High"}],
}
OFFERED = {"modes": MODES, "models": MODELS, "configOptions": [OPTION]}
SETTABLE: dict[str, Any] = {"capabilities": {"loadSession": True}, "new_session": OFFERED}
"""What a fake agent says that has settings and can resume its conversation."""


async def settable(agent: FakeAcpAgent) -> None:
    """Echoes, and does what it is told about its settings."""

    async def obey() -> None:
        async for request in agent.requests:
            agent.result(request["id"], {})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(obey)
        await echo(agent)
        nursery.cancel_scope.cancel()
