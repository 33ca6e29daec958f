"""What a session is opened with may come from anybody: an id, a model or a name never becomes an
argument of its own, and never another environment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

import agentrt

from .bad_agent import Agent, Message
from .kit import BOUND, SHORT, bad_agent, bad_session, works

EVIL = [
    "--dangerously-skip-permissions",
    "-p",
    "--",
    "-",
    "a b --dangerously-skip-permissions",
    "a\n--dangerously-skip-permissions",
    "a=--dangerously-skip-permissions",
    "$(id)",
    "é\u202e\x1b[2J",
]


async def arguments(tmp_path: Path, **settings: Any) -> list[str]:
    """How a program that speaks Claude's protocol is started."""
    record = tmp_path / "arguments"
    program = "import json, sys; json.dump(sys.argv[2:], open(sys.argv[1], 'w')); sys.exit(3)"
    options = settings.pop("claude", {})
    agent = agentrt.agents.claude([sys.executable, "-c", program, str(record)], **options)
    with trio.fail_after(BOUND), pytest.raises(agentrt.AgentStartError, match="exit status 3"):
        async with agentrt.open_session(agent, limits=SHORT, **settings):
            pass
    told: list[str] = json.loads(record.read_text())
    return told


@pytest.mark.parametrize("value", EVIL)
async def test_no_value_becomes_an_argument_of_its_own(tmp_path: Path, value: str) -> None:
    plain = await arguments(tmp_path, model="m", claude={"agent": "a", "resume_at": "r"})
    told = await arguments(tmp_path, model=value, claude={"agent": value, "resume_at": value})
    assert {word for word in told if word not in plain} >= {f"--model={value}", f"--agent={value}"}
    names = [[word.partition("=")[0] for word in words] for words in (plain, told)]
    assert names[0] == names[1]
    assert "--dangerously-skip-permissions" not in names[1]


@pytest.mark.parametrize("id", [*EVIL, "../../../../etc/passwd", ""])
async def test_an_id_is_tied_to_its_flag(tmp_path: Path, id: str) -> None:
    """Whether there is such a session is for the program to say."""
    plain = await arguments(tmp_path, resume="r")
    told = await arguments(tmp_path, resume=id)
    assert [word.replace("=r", f"={id}", word == "--resume=r") for word in plain] == told


@pytest.mark.parametrize("what", ["model", "resume"])
@pytest.mark.parametrize("value", ["a\0b", "x" * (1 << 20)])
async def test_what_no_program_can_be_given_is_an_error_and_starts_none(
    what: str, value: str
) -> None:
    agent = agentrt.agents.claude([sys.executable, "-c", "raise SystemExit('it was started')"])
    with pytest.raises((ValueError, agentrt.AgentStartError)) as error:
        async with agentrt.open_session(agent, **{what: value}, limits=SHORT):  # type: ignore[arg-type]
            pass
    assert "it was started" not in str(error.value)
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize("mode", ["bypassPermissions --x", "-p", "default\n", ""])
async def test_a_mode_is_a_word(mode: str) -> None:
    agent = agentrt.agents.claude([sys.executable, "-c", "raise SystemExit('it was started')"])
    with pytest.raises(ValueError, match="mode"):
        async with agentrt.open_session(agent, mode=mode, limits=SHORT):
            pass


@pytest.mark.parametrize("id", [*EVIL, "a\0b", "x" * (1 << 20)])
async def test_an_acp_agent_gets_ids_as_data_only(id: str) -> None:
    """And chooses its own as it likes."""

    def load_session(agent: Agent, request: Message) -> None:
        agent.session = request["params"]["sessionId"]
        agent.answer(request, {})

    def misbehave(agent: Agent, prompt: Message) -> None:
        id = prompt["params"]["sessionId"]
        agent.say(f"{[id[:100], len(id)] == agent.arg} {len(sys.argv)}")
        agent.end(prompt)

    async with bad_session(
        load_session=load_session,
        misbehave=misbehave,
        capabilities={"loadSession": True},
        resume=id,
        arg=[id[:100], len(id)],
    ) as session:
        assert (await session.run("misbehave")).text == "True 2"
        assert session.agent_session == id
        await works(session)


async def test_a_variable_that_no_environment_can_have_is_an_error_and_starts_none() -> None:
    for env in ({"A=B": "c"}, {"A": "b\0c"}, {"A\0": "b"}):
        with pytest.raises((ValueError, agentrt.AgentStartError)):
            async with agentrt.open_session(bad_agent(), env={**env}, limits=SHORT):
                pass
