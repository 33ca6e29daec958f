"""What the sweep over all calls has found: where the system itself fails, by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

import agentrt
from hostile.bad_agent import Agent, Message
from hostile.kit import bad_agent

from .inject import Faults
from .real import MARK, SHORT, wait_until_none

BOUND = 30.0


@contextmanager
def failing(name: str, *, times: float = 1, which: int = 0) -> Iterator[Faults]:
    """From here on, the next calls of that function fail."""
    faults = Faults(1, which, only=name, times=times)
    with pytest.MonkeyPatch.context() as patch:
        faults.install(patch)
        faults.armed = True
        yield faults
    assert faults.failed


def hide_a_child(self: Agent, prompt: Message) -> None:
    """Start something in a session of its own, without its parent's streams."""
    self.spawn("sleep 61", start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
    self.say("started")
    self.end(prompt)


@pytest.mark.parametrize("name", ["thread", "listdir"])
async def test_what_an_agent_has_hidden_is_ended_also_if_looking_for_it_fails_at_first(
    name: str, tmp_path: Path
) -> None:
    agent = bad_agent(misbehave=hide_a_child)
    env = {**os.environ, MARK: str(tmp_path)}
    with trio.fail_after(BOUND):
        async with agentrt.open_session(agent, limits=SHORT, env=env) as session:
            await session.run("misbehave")
            with failing(name, times=2):
                await session.aclose()
    wait_until_none(str(tmp_path))


async def test_a_session_ends_where_no_thread_can_be_started_any_more() -> None:
    with trio.fail_after(BOUND):
        async with agentrt.open_session(bad_agent(), limits=SHORT) as session:
            await session.run("hello")
            with failing("thread", times=1e9):
                await session.aclose()
        assert session.state.phase == "closed"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            "pidfd_open", marks=pytest.mark.linux_only("the exit of a process is noticed")
        ),
        "Popen",
        "pipe",
        "thread",
    ],
)
async def test_an_agent_that_cannot_be_started_for_want_of_resources_says_so(name: str) -> None:
    with trio.fail_after(BOUND), failing(name, times=1e9):
        if name == "pidfd_open":  # there are other ways to wait for it
            async with agentrt.open_session(bad_agent(), limits=SHORT) as session:
                assert (await session.run("hello")).text == "hello"
        else:
            with pytest.raises(agentrt.AgentStartError):
                async with agentrt.open_session(bad_agent(), limits=SHORT):
                    pass


async def test_tools_that_cannot_be_served_are_an_error_at_the_start() -> None:
    @agentrt.tool
    async def nothing() -> str:
        """Do nothing."""
        return ""

    refused = pytest.raises(agentrt.AgentStartError, match="tools cannot be served")
    with trio.fail_after(BOUND), failing("listen"), refused:
        async with agentrt.open_session(bad_agent(), tools=[nothing], limits=SHORT):
            pass


def keep_on(self: Agent, prompt: Message) -> None:
    self.say("busy")
    self.wait_for("session/cancel")
    self.end(prompt, "cancelled")


@pytest.mark.parametrize("name", ["read", "wait_readable"])
@pytest.mark.parametrize("which", [0, 1])
async def test_a_pipe_that_cannot_be_read_ends_the_turn_and_not_the_program(
    name: str, which: int
) -> None:
    agent = bad_agent(misbehave=keep_on, capabilities={"loadSession": True})
    with trio.fail_after(BOUND):
        async with agentrt.open_session(agent, limits=SHORT) as session:
            # At first it may be standard error that cannot be read, which costs the turn nothing.
            with failing(name, which=which, times=3):
                async with session.prompt("misbehave", check=False) as turn:
                    async for _ in turn:
                        pass
            assert turn.result.outcome == "agent_died"
            assert (await session.run("hello")).text == "hello"


async def test_an_agent_that_cannot_be_written_to_is_ended() -> None:
    agent = bad_agent(misbehave=keep_on, capabilities={"loadSession": True})
    with trio.fail_after(BOUND):
        async with agentrt.open_session(agent, limits=SHORT) as session:
            with failing("write", which=1):
                assert (await session.run("misbehave", check=False)).outcome == "agent_died"
            assert (await session.run("hello")).text == "hello"
