"""Agents with a driver of the program, by the driver of `examples/mini_driver.py`."""

from __future__ import annotations

import json
import sys
from importlib import util
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import agentrt
from agentrt.agents import Agent, own
from agentrt.effects import DecisionRequested, TurnFinished, Write
from agentrt.errors import FolderNotTrusted
from agentrt.events import Notice, PermissionOpened, Text
from agentrt.lowlevel import DecisionAnswer, Driver, Opening
from agentrt.store import open_store, reopen_session
from agentrt.testing import scripted_agents

EXAMPLES = Path(__file__).parents[2] / "examples"


def make_class() -> Any:
    spec = util.spec_from_file_location("mini_driver", EXAMPLES / "mini_driver.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MiniDriver


MiniDriver = make_class()


def driver() -> Driver:
    keys = count(1)
    made: Driver = MiniDriver(lambda: f"k{next(keys)}")
    made.start(Opening(cwd="/"))
    return made


def mini(program: str = str(EXAMPLES / "mini_agent.py"), *, name: str = "mini") -> Agent:
    return own([sys.executable, program], MiniDriver, name=name)


async def test_its_program_is_not_started_with_files_that_it_may_act_on(tmp_path: Path) -> None:
    """The driver is a part of the program, but the agent's program reads the files."""
    (tmp_path / ".mcp.json").write_text("{}")
    with pytest.raises(FolderNotTrusted, match=r"^mini is not started.*project_files"):
        async with agentrt.open_session(mini(), cwd=tmp_path):
            pass
    command = [sys.executable, str(EXAMPLES / "mini_agent.py")]
    declared = own(command, MiniDriver, name="mini", project_files=[".mini"])
    for agent, trust in ((declared, "no"), (mini(), "yes")):
        async with agentrt.open_session(agent, cwd=tmp_path, trust=trust) as session:
            assert (await session.run("hello")).outcome == "completed"


MESSAGES = [
    {"type": "ready", "session": "s"},
    {"type": "text", "text": "héllo"},
    {"type": "ask", "id": 1, "command": "make"},
    {"type": "done"},
    {"type": "text", "text": 7},
    {"type": "no such type"},
    [1, 2],
]
LINES = st.lists(
    st.one_of(st.sampled_from([json.dumps(each).encode() for each in MESSAGES]), st.binary()),
    max_size=8,
).map(lambda lines: b"".join(line + b"\n" for line in lines))


@given(LINES, st.lists(st.integers(0, 200), max_size=5))
def test_the_effects_do_not_depend_on_where_the_output_is_cut_and_nothing_raises(
    output: bytes, cuts: list[int]
) -> None:
    whole, pieces = driver(), driver()
    for each in (whole, pieces):
        each.prompt("t", [Text("hello")])
    places = [0, *sorted(min(cut, len(output)) for cut in cuts), len(output)]
    found = [
        effect for start, end in pairwise(places) for effect in pieces.receive(output[start:end])
    ]
    assert found == whole.receive(output)
    assert pieces.receive_eof() == whole.receive_eof() == []
    assert sum(isinstance(effect, TurnFinished) for effect in found) <= 1


def test_a_question_is_answered_once_and_a_strange_key_does_nothing() -> None:
    one = driver()
    one.prompt("t", [Text("hello")])
    [asked] = one.receive(b'{"type": "ask", "id": 3, "command": "make"}\n')
    assert isinstance(asked, DecisionRequested)
    [answer] = one.answer(asked.key, DecisionAnswer(option="yes"))
    assert isinstance(answer, Write)
    assert json.loads(answer.data) == {"type": "answer", "id": 3, "allowed": True}
    assert one.answer(asked.key, DecisionAnswer(option="yes")) == []
    assert one.answer("strange", DecisionAnswer()) == []
    assert one.cancel() != []
    one.receive(b'{"type": "done"}\n')
    assert one.cancel() == []


@pytest.mark.slow
async def test_a_session_has_turns_permissions_cancels_and_a_new_process_after_a_crash() -> None:
    with trio.fail_after(30):
        async with agentrt.open_session(mini(), permissions=agentrt.ask) as session:
            assert session.agent.protocol == "own"
            assert (await session.run("hello there")).text == "hello there "
            async with session.prompt("run make") as turn:
                async for event in turn:
                    if isinstance(event, PermissionOpened):
                        session.cancel()
            assert turn.result.outcome == "cancelled"
            assert session.agent.pid is not None
            before = session.agent.pid
            await trio.run_process(["kill", "-9", str(before)])
            while session.agent.alive:  # noqa: ASYNC110 - nothing else is awaited here
                await trio.sleep(0.01)
            assert (await session.run("again")).text == "again "
            assert session.agent.pid != before


@pytest.mark.slow
async def test_a_stored_session_continues_with_the_same_agent(tmp_path: Path) -> None:
    agent = mini()
    async with open_store(tmp_path / "sessions.db") as store:
        async with agentrt.open_session(agent, store=store) as session:
            await session.run("one")
            id = session.id
        async with reopen_session(id, store, agent=agent) as session:
            assert (await session.run("two")).text == "two "
            assert [turn.outcome for turn in session.snapshot().turns] == ["completed"] * 2


@pytest.mark.slow
async def test_output_that_no_driver_understands_is_a_notice(tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text("print('garbage', flush=True)\n" + (EXAMPLES / "mini_agent.py").read_text())
    async with agentrt.open_session(mini(str(program))) as session:
        assert (await session.run("hello")).outcome == "completed"
        notices = [each for each in session.log.since(0) if isinstance(each, Notice)]
    assert "bad_message" in [notice.code for notice in notices]


@agentrt.tool
async def deploy() -> str:
    """Deploy."""
    return "done"


async def test_what_a_protocol_of_its_own_cannot_carry_is_refused() -> None:
    with pytest.raises(agentrt.LocalProtocolError, match="cannot offer tools: leave out `tools`"):
        async with agentrt.open_session(mini(), tools=[deploy]):
            pass
    without = Agent(name="mini", command=("true",), protocol="own")
    with pytest.raises(agentrt.LocalProtocolError, match=r"use agentrt\.agents\.own"):
        async with agentrt.open_session(without):
            pass


async def test_there_is_no_fake_agent_for_it() -> None:
    async def script(agent: object) -> None:
        pass

    scripts = scripted_agents({"mini": script})  # type: ignore[dict-item]
    with scripts, pytest.raises(agentrt.AgentStartError, match="test it with a program"):
        async with agentrt.open_session(mini()):
            pass
