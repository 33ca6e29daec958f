"""The life of `life.py` on real processes."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import trio

import agentrt
from agentrt.agents import claude
from hostile.bad_agent import Agent, Message, Tools, text_of
from hostile.kit import bad_agent

from .life import Life, Protocol

MARK = "AGENTRT_TEST_LIFE"

CLI = Path(__file__).with_name("claude_cli.py")

LIMITS = agentrt.Limits(
    startup_timeout_s=20,
    cancel_grace_s=5,
    cancel_resend_s=2,
    end_silence_s=0.5,
    stdin_close_grace_s=5,
    terminate_grace_s=1,
    kill_wait_s=1,
    stdout_drain_s=0.1,
    write_timeout_s=5,
    drain_timeout_s=10,
)
"""An obedient agent uses up none of these, also on a busy machine."""

SHORT = agentrt.Limits(
    startup_timeout_s=3,
    cancel_grace_s=0.5,
    cancel_resend_s=0.2,
    end_silence_s=0.3,
    stdin_close_grace_s=0.5,
    terminate_grace_s=0.5,
    kill_wait_s=1,
    stdout_drain_s=0.1,
    write_timeout_s=1,
    drain_timeout_s=5,
    idle_timeout_s=2,
)
"""For lives in which something fails, and may then be waited for."""


def new_session(self: Agent, request: Message) -> None:
    self.opening = request  # type: ignore[attr-defined]
    self.answer(request, {"sessionId": self.session})


def take(self: Agent, message: Message) -> None:
    match text_of(message) if message.get("method") == "session/prompt" else None:
        case "work":
            self.say("the ")
            self.update("tool_call", toolCallId="c1", title="Run ls", status="pending")
            chosen = self.ask("c1")
            self.update("tool_call_update", toolCallId="c1", status="completed")
            told = "denied"
            if chosen == "yes":
                told = Tools(self.opening).call("record", n=1)  # type: ignore[attr-defined]
            self.say(f"answer {told}")
            self.end(message, "cancelled" if chosen is None else "end_turn")
        case "stream":
            self.say("on and on")
            self.wait_for("session/cancel")
            self.end(message, "cancelled")
        case "die":
            self.say("so long")
            os._exit(3)
        case _:
            Agent.take(self, message)


def agent(protocol: Protocol) -> agentrt.Agent:
    """The program of this protocol."""
    if protocol == "claude":
        return claude([sys.executable, str(CLI)])
    return bad_agent(take=take, new_session=new_session, capabilities={"loadSession": True})


class RealLife(Life):
    """A life with agents in processes of their own."""

    def __init__(self, protocol: Protocol, limits: agentrt.Limits = LIMITS) -> None:
        super().__init__(protocol, limits=limits)
        self.patience = 0.1
        self.mark = secrets.token_hex(8)
        """In the environment of everything that is started in this life."""
        self.pids: list[int | None] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[agentrt.Session]:
        @agentrt.tool
        async def record(n: int) -> str:
            """Write a number down."""
            self.tools_called += 1
            await trio.lowlevel.checkpoint()
            return f"recorded {n}"

        @agentrt.hook("PreToolUse")
        async def look(given: Any) -> None:
            self.hooks_called += 1
            await trio.lowlevel.checkpoint()

        async with agentrt.open_session(
            agent(self.protocol),
            tools=[record],
            hooks=[look] if self.protocol == "claude" else [],
            limits=self.limits,
            env={**os.environ, MARK: self.mark},
        ) as session:
            self.pids.append(session.agent.pid)
            yield session
            self.pids.append(session.agent.pid)

    def check_whole(self) -> None:
        assert self.pids[0] != self.pids[-1]
        self.processes = [None, None]  # type: ignore[list-item]
        super().check_whole()

    def check_left(self) -> None:
        """Also: every child is dead and waited for, and whatever the agents have started is
        dead."""
        self.processes = []
        super().check_left()
        assert not psutil.Process().children()
        wait_until_none(self.mark)


def carriers(mark: str) -> list[psutil.Process]:
    """The processes that have this in their environment, or in what they were called with."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                marked = process.environ().get(MARK) == mark
                if marked or any(mark in word for word in process.cmdline()):
                    found.append(process)
        except psutil.Error:
            continue  # gone meanwhile, or somebody else's
    return found


def wait_until_none(mark: str, *, seconds: float = 2) -> None:
    """What was killed may take a moment to leave."""
    until = time.monotonic() + seconds
    while (left := carriers(mark)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not left, [process.cmdline() for process in left]
