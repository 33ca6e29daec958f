"""The agent's memory of a conversation is compared with the log; nothing is believed unseen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from fakes import Script, echo, log_of, session_with
from hypothesis import given, settings
from hypothesis import strategies as st

import agentrt
from agentrt.testing import FakeAcpAgent

LOADS = {"capabilities": {"loadSession": True}}
RESUMES = {"capabilities": {"loadSession": True, "sessionCapabilities": {"resume": {}}}}


GO = "go"


async def dies_at_go(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        if prompt.text == GO:
            agent.process.exit(3)
            return
        agent.say(prompt.text)
        prompt.end()


def repeating(*chunks: str, at: str = "session/load", **fields: Any) -> Script:
    """An agent that repeats these pieces of prompts before it answers a request."""

    async def script(agent: FakeAcpAgent) -> None:
        take = agent._take

        def repeat(request: dict[str, Any]) -> None:
            if request.get("method") == at:
                for text in chunks:
                    content = {"type": "text", "text": text}
                    agent.update("user_message_chunk", content=content, **fields)
                    if not fields:
                        agent.say(text.upper())
            take(request)

        agent._take = repeat  # type: ignore[method-assign]
        await echo(agent)

    return script


async def warned_after_resume(script: Script, prompts: Sequence[str], **fake: Any) -> list[Any]:
    """The data of the warnings about its memory, where the agent of these prompts has died."""
    async with session_with(dies_at_go, script, fake=fake) as (session, _):
        for prompt in prompts:
            await session.run(prompt)
        await session.run("go", check=False)
        await session.run("again")
        return [
            event.data
            for event in log_of(session)
            if isinstance(event, agentrt.Notice) and event.code == "memory_shorter"
        ]


@pytest.mark.parametrize(
    ("repeats", "n"),
    [
        (("fix it", "test it", "land it"), 3),
        (("fix it", "test it", "land it", "go"), 3),
        (("<context>today</context> fix it", "test\nit ", "land it"), 3),
        (("test it",), 1),
        (("fix it", "test it"), 2),
        ((), 0),
        (("write a poem", "print it"), 0),
    ],
    ids=["all", "the-lost-one-too", "reworded", "some", "the-first", "none", "others"],
)
async def test_an_agent_that_repeats_fewer_prompts_than_the_log_has_is_warned_about(
    autojump_clock: trio.abc.Clock, repeats: tuple[str, ...], n: int
) -> None:
    prompts = ["fix it", "test it", "land it"]
    warned = await warned_after_resume(repeating(*repeats), prompts, **LOADS)
    assert warned == ([] if n == 3 else [{"remembered": n, "prompts": 3}])


@pytest.mark.parametrize(
    ("prompts", "repeated", "count"),
    [
        (["ok", "go on"], ["look at this, it is going on", "again"], 0),
        (["hi"], ["<context>this</context>"], 0),
        (["yes", "do it all"], ["do it all yesterday"], 1),
        (["1"], ["<time>2026-11-27</time>"], 0),
        (["hi", "fix it"], ["<query>\nhi\n</query>", "fix", " it", "go on"], 2),
        (["hi", "come", "on"], ["h", "i", "come", "on"], 3),
        (["!ls"], ["then!ls"], 1),
        (["fix it", "fix it", "fix it"], ["fix it", "so:\n\nfix   it"], 2),
        (["é?"], ["é", "?"], 1),
        (["a long prompt that is cut"], ["a long prompt th", "at is cut", "and more"], 1),
    ],
)
async def test_a_short_prompt_is_remembered_only_as_whole_words(
    autojump_clock: trio.abc.Clock, prompts: list[str], repeated: list[str], count: int
) -> None:
    warned = await warned_after_resume(repeating(*repeated), prompts, **LOADS)
    shorter = {"remembered": count, "prompts": len(prompts)}
    assert warned == ([] if count == len(prompts) else [shorter])


PROMPTS = st.lists(
    st.text(min_size=1).filter(
        lambda text: text.strip() not in ("", GO) and not text.lstrip().startswith("/")
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.slow
@settings(deadline=None)
@given(PROMPTS, st.data())
async def test_what_is_repeated_is_remembered_and_nothing_more_than_was_prompted(
    prompts: list[str], data: st.DataObject
) -> None:
    assert await warned_after_resume(repeating(*prompts), prompts, **LOADS) == []
    nothing = {"remembered": 0, "prompts": len(prompts)}
    assert await warned_after_resume(repeating(), prompts, **LOADS) == [nothing]
    repeated = data.draw(st.lists(st.text(min_size=1) | st.sampled_from(prompts)))
    for warning in await warned_after_resume(repeating(*repeated), prompts, **LOADS):
        assert 0 <= warning["remembered"] < warning["prompts"] == len(prompts)


async def test_a_prompt_repeated_in_pieces_is_remembered(autojump_clock: trio.abc.Clock) -> None:
    script = repeating("fix", " it", messageId="m1")
    assert await warned_after_resume(script, ["fix it"], **LOADS) == []


async def test_the_same_prompt_counts_as_often_as_it_was_sent(
    autojump_clock: trio.abc.Clock,
) -> None:
    warned = await warned_after_resume(repeating("more"), ["more", "more"], **LOADS)
    assert warned == [{"remembered": 1, "prompts": 2}]


async def test_a_slash_command_need_not_be_remembered(autojump_clock: trio.abc.Clock) -> None:
    assert await warned_after_resume(repeating("fix it"), ["fix it", "/help"], **LOADS) == []


async def test_an_agent_that_resumes_without_repeating_anything_is_believed(
    autojump_clock: trio.abc.Clock,
) -> None:
    assert await warned_after_resume(repeating(), ["fix it"], **RESUMES) == []


async def test_a_history_that_was_sent_to_the_agent_stands_for_all_before_it(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with session_with(dies_at_go, dies_at_go, echo, fake=LOADS) as (session, agents):
        await session.run("fix it")
        await session.run("go", check=False)
        await session.run("test it")
        session.send_history()
        await trio.testing.wait_all_tasks_blocked()
        await session.run("go", check=False)
        await session.run("again")
        # The second time, only the history is missed: it contains the prompts before it.
        found = [e.data for e in log_of(session) if getattr(e, "code", "") == "memory_shorter"]
        assert found == [{"remembered": 0, "prompts": 1}, {"remembered": 0, "prompts": 1}]
        assert len(agents.processes) == 3


@pytest.mark.parametrize("at", ["session/new", "session/prompt"])
async def test_a_new_session_whose_agent_repeats_history_is_warned_about(
    autojump_clock: trio.abc.Clock, at: str
) -> None:
    async with session_with(repeating("fix it", "test it", at=at)) as (session, _):
        await session.run("hello")
        codes = [e.code for e in log_of(session) if isinstance(e, agentrt.Notice)]
    # Once the first prompt was sent, a repeated prompt is its echo.
    assert codes == (["unexpected_history"] if at == "session/new" else [])
