"""A program that is no agent: its own words are in the error, and where it is clear, nobody waits
for the handshake's limit."""

from __future__ import annotations

import pytest
import trio

import agentrt
from hostile.bad_agent import Agent
from hostile.kit import bad_session, works

PATIENT = agentrt.Limits(startup_timeout_s=60, stdin_close_grace_s=0.3, terminate_grace_s=1)


async def failure(script: str, limits: agentrt.Limits = PATIENT) -> str:
    agent = agentrt.agents.acp(["sh", "-c", script], name="tool")
    with trio.fail_after(30), pytest.raises(agentrt.AgentStartError) as error:
        async with agentrt.open_session(agent, limits=limits):
            pass
    return str(error.value)


# --- whole programs


@pytest.mark.slow
async def test_a_usage_text_is_in_the_error_long_before_the_limit() -> None:
    told = await failure("echo 'Usage: tool [options]'; echo '  --acp  be an agent'; sleep 600")
    assert told.startswith("tool does not speak its protocol (is an option missing")
    assert "Usage: tool [options] | --acp be an agent" in told


@pytest.mark.slow
async def test_a_program_that_asks_a_person_is_no_agent() -> None:
    told = await failure("echo 'Welcome!'; printf 'What shall I do? > '; cat")
    assert "does not speak its protocol" in told
    assert "Welcome! | What shall I do? >" in told


@pytest.mark.slow
async def test_a_program_that_never_stops_writing_something_else_is_no_agent() -> None:
    told = await failure("yes 'not an agent'")
    assert "does not speak its protocol" in told
    assert told.count("not an agent") == 5


async def test_what_a_program_wrote_before_it_ended_is_in_the_error() -> None:
    told = await failure("echo 'Invalid API key · Please run /login'; echo why >&2; exit 1")
    assert told.startswith(
        "tool ended before it was ready (exit status 1); it wrote this, which is not"
    )
    assert "Invalid API key · Please run /login" in told
    assert "why" in told.partition("--- end of its standard error ---")[2]


async def test_at_the_limit_the_words_are_in_the_error_too() -> None:
    limits = agentrt.Limits(startup_timeout_s=0.5, stdin_close_grace_s=0.3)
    told = await failure("while :; do echo starting; sleep 0.05; done", limits)
    assert "it wrote this, which is not a message: starting" in told


async def test_an_agent_that_writes_something_first_is_one_all_the_same() -> None:
    def start(self: Agent) -> None:
        self.raw(b"Starting the agent, see --help\nplease wait...\n")
        time.sleep(0.5)  # type: ignore[name-defined]  # noqa: F821 - runs in the agent

    async with bad_session(start=start, limits=PATIENT) as session:
        await works(session)


# --- what is clear when
