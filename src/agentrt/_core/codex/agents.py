"""Codex's sub-agents: threads of their own, which report on the same connection.

Measured with codex 0.169: the call that spawns an agent names its thread when it completes, usually
but not always before the first messages of that thread. Those are held until then. The agent may
work on after the turn that began it, and may get further work later. So each is a background task,
and its items belong to the spawning call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ..model.driver import TaskSet
from ..model.events import ItemStatus, Task
from ..wire.channel import Channel
from . import messages as wire
from .outcome import OUTCOMES, session_usage
from .speech import CodexTranslator

STATUS: Final[dict[str, ItemStatus]] = {
    "completed": "completed",
    "interrupted": "cancelled",
    "shutdown": "cancelled",
    "errored": "failed",
    "notFound": "failed",
}
"""The state of an agent's task, by codex's state of the agent. Others mean that it works."""
KIND: Final = "subagent"
MAX_TITLE_CHARS: Final = 200
MAX_HELD_MESSAGES: Final = 10_000
"""Maximum number of messages that are kept for threads that no call has named yet."""


class _CodexAgent(Struct):
    """One sub-agent."""

    call: str
    """The call that spawned it."""
    speech: CodexTranslator
    task: Task
    turn: str | None = None
    """Its running turn."""


class CodexAgents:
    """The sub-agents of one session, also those that sub-agents have spawned."""

    def __init__(self, channel: Channel) -> None:
        """Begin without agents."""
        self._channel = channel
        self._agents: dict[str, _CodexAgent] = {}
        self._held: dict[str, list[Callable[[], None]]] = {}
        """The handlers of messages from threads that no call has named yet, by thread."""
        self._held_count = 0

    def speech(self, thread: str) -> CodexTranslator | None:
        """Return the translator of an agent's thread, or None if the thread is no agent's."""
        agent = self._agents.get(thread)
        return None if agent is None else agent.speech

    def hold(self, thread: str, take: Callable[[], None]) -> bool:
        """Keep a message of a thread that no call has named yet; `take` handles it later.

        Returns False if the thread is an agent's, or if too many messages are held.
        """
        if thread in self._agents or self._held_count >= MAX_HELD_MESSAGES:
            return False
        self._held_count += 1
        self._held.setdefault(thread, []).append(take)
        return True

    def running_turn(self, thread: str) -> str | None:
        """Return the running turn of an agent, or None."""
        agent = self._agents.get(thread)
        return None if agent is None else agent.turn

    def called(self, item: wire.CollabAgentToolCallThreadItem) -> None:
        """Take a completed call that concerns agents: who they are and how they are."""
        if item.tool == "spawnAgent":
            for thread in item.receiver_thread_ids:
                self._add(thread, item.id, item.prompt or "")
        for thread, state in item.agents_states.items():
            agent = self._agents.get(thread)
            if agent is None or not isinstance(state, dict):
                continue
            status = STATUS.get(str(state.get("status")))
            message = state.get("message")
            detail = message if isinstance(message, str) else agent.task.detail
            if status is not None:
                self._show(agent, replace(agent.task, status=status, detail=detail))

    def _add(self, thread: str, call: str, prompt: str) -> None:
        """Begin the task of an agent, then handle the messages of its thread that came earlier."""
        if thread in self._agents:
            return
        title = prompt.strip().partition("\n")[0][:MAX_TITLE_CHARS] or "Sub-agent"
        task = Task(id=thread, title=title, kind=KIND)
        agent = _CodexAgent(call, CodexTranslator(self._channel, call), task)
        self._agents[thread] = agent
        self._report(agent)
        held = self._held.pop(thread, [])
        self._held_count -= len(held)
        for take in held:
            take()

    def active(self, item: wire.SubAgentActivityThreadItem) -> None:
        """Take a report of what another agent does. It may be the first that names the agent."""
        self._add(item.agent_thread_id, item.agent_thread_id, item.agent_path)
        agent = self._agents[item.agent_thread_id]
        status = {"interrupted": "cancelled", "completed": "completed"}.get(item.kind, "running")
        self._show(agent, replace(agent.task, status=status))

    def turn_started(self, thread: str, turn: str) -> None:
        """Note that an agent works."""
        agent = self._agents.get(thread)
        if agent is not None:
            agent.turn = turn
            agent.speech.last_message = ""
            self._show(agent, replace(agent.task, status="running"))

    def turn_completed(self, thread: str, turn: wire.CodexTurnRecord) -> None:
        """Note that an agent has finished its work. Its last message is its report."""
        agent = self._agents.get(thread)
        if agent is None:
            return
        agent.turn = None
        status = {"limit": "failed", "refused": "failed"}.get(
            OUTCOMES.get(turn.status, "completed"), OUTCOMES.get(turn.status, "completed")
        )
        report = turn.error.message if turn.error is not None else agent.speech.last_message
        agent.speech.turn_ended()
        task = replace(agent.task, status=status, detail=report or agent.task.detail)
        self._show(agent, task)

    def used(self, thread: str, usage: wire.ThreadTokenUsage) -> None:
        """Take the tokens that an agent has used."""
        agent = self._agents.get(thread)
        if agent is not None:
            self._show(agent, replace(agent.task, usage=session_usage(usage)))

    def _show(self, agent: _CodexAgent, task: Task) -> None:
        """Report the task of an agent if it has changed."""
        if task != agent.task:
            agent.task = task
            self._report(agent)

    def _report(self, agent: _CodexAgent) -> None:
        """Report a task, and take its items out of the turn: the agent may outlive it."""
        self._channel.out.append(TaskSet(agent.task, agent.call, detaches=True))
