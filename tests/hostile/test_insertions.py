"""Agents of version 2 of ACP that do one thing wrong when they insert a prompt or end a turn."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from .bad_agent import Agent, Message
from .kit import Marks, bad_session, notices, outcomes, until, works


async def test_an_answer_may_have_the_id_of_its_prompt_as_text() -> None:
    def insert(agent: Agent, prompt: Message) -> None:
        agent.send({"id": str(prompt["id"]), "result": {"messageId": "u1"}})
        agent._prompts.add(prompt["id"])
        agent.state("running")

    async with bad_session(insert=insert) as session:
        await works(session)
        await works(session)
        assert "id_type" in await notices(session)


@pytest.mark.parametrize("result", [{}, None, {"messageId": None}, {"messageId": 7}, "done"])
async def test_an_answer_without_the_id_of_a_message_inserts_its_prompt(result: Any) -> None:
    def insert(agent: Agent, prompt: Message) -> None:
        agent.send({"id": prompt["id"], "result": agent.arg})
        agent._prompts.add(prompt["id"])
        agent.state("running")

    async with bad_session(insert=insert, arg=result) as session:
        await works(session)
        await works(session)
        assert await outcomes(session) == ["completed", "completed"]


async def test_a_prompt_that_is_answered_twice_has_one_turn() -> None:
    def insert(agent: Agent, prompt: Message) -> None:
        answer = {"id": prompt["id"], "result": {"messageId": f"u{prompt['id']}"}}
        agent.send(answer, answer)
        agent._prompts.add(prompt["id"])
        agent.state("running")

    async with bad_session(insert=insert) as session:
        await works(session)
        await works(session)
        assert await outcomes(session) == ["completed", "completed"]


async def test_an_error_after_the_insertion_ends_no_turn() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent._prompts.discard(prompt["id"])
        agent.refuse(prompt, -32603, "it broke")
        agent.say("and went on")
        agent._prompts.add(prompt["id"])
        agent.end(prompt)

    async with bad_session(misbehave=misbehave) as session:
        result = await session.run("misbehave")
        assert (result.outcome, result.text) == ("completed", "and went on")
        await works(session)


async def test_repeated_ends_end_one_turn() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("done")
        agent.end(prompt)
        for reason in ("end_turn", "cancelled", "error", "dance"):
            agent.state("idle", stopReason=reason)
        agent.state("idle")

    async with bad_session(misbehave=misbehave) as session:
        for _ in range(3):
            result = await session.run("misbehave")
            assert (result.outcome, result.text) == ("completed", "done")
        await works(session)
        assert await outcomes(session) == ["completed"] * 4


async def test_the_id_of_an_ended_turn_s_message_brings_nothing_into_the_next_one() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        late = {"content": {"type": "text", "text": "late "}, "messageId": "m-1"}
        agent.update("agent_message_chunk", **late)
        agent.say("now")
        agent.end(prompt)

    async with bad_session(misbehave=misbehave) as session:
        assert (await session.run("misbehave")).text == "late \n\nnow"
        assert (await session.run("misbehave")).text == "now"
        assert "late_message" in await notices(session)
        await works(session)


async def test_an_agent_that_never_reports_that_it_works_ends_its_turns() -> None:
    def insert(agent: Agent, prompt: Message) -> None:
        agent.answer(prompt, {"messageId": f"u{prompt['id']}"})
        agent._prompts.add(prompt["id"])

    async with bad_session(insert=insert) as session:
        await works(session)
        await works(session)


async def test_a_prompt_that_is_not_inserted_is_cancelled_within_its_grace() -> None:
    def insert(agent: Agent, prompt: Message) -> None:
        if "misbehave" not in str(prompt["params"]):
            type(agent).insert(agent, prompt)

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.mark("stuck")
        while True:
            agent.receive()

    marks = Marks()
    async with bad_session(insert=insert, misbehave=misbehave, on_stderr=marks) as session:
        async with session.prompt("misbehave", check=False) as turn:
            await marks.wait("stuck")
            turn.cancel()
        assert turn.result.outcome == "cancelled"
        await works(session)


async def test_an_end_without_its_newline_counts_if_it_is_the_last_word() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        end = agent.updating("state_update", state="idle", stopReason="end_turn")
        agent.raw(json.dumps({"jsonrpc": "2.0", **end}).encode())
        sys.exit(0)

    async with bad_session(misbehave=misbehave) as session:
        assert (await session.run("misbehave")).outcome == "completed"
        await until(session, lambda: session.state.phase == "dead")
        await works(session)


@pytest.mark.parametrize("reason", [None, "", "dance", 7, {"why": "because"}])
async def test_an_end_without_a_known_reason_is_an_end(reason: Any) -> None:
    """The agent was busy, and is not any more."""

    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.say("done")
        agent.end(prompt, agent.arg)

    async with bad_session(misbehave=misbehave, arg=reason) as session:
        result = await session.run("misbehave", check=False)
        assert (result.outcome, result.text) == ("completed", "done")
        await works(session)
