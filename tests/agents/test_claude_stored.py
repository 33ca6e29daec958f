"""The sessions that the real Claude Code stores: gone on with, copied, listed, changed."""

from __future__ import annotations

import pytest
import trio

import agentrt

from .lab import Lab
from .story import Story, session_with

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", ["claude"])]

PATIENCE = 120.0
HELLO = "Hello from the scripted model."


async def first_session(lab: Lab, *prompts: str) -> str:
    """A session that is over; the agent's own id of it."""
    async with session_with(lab, permissions=agentrt.allow_all) as (session, _):
        for prompt in prompts:
            await session.run(prompt)
        assert session.agent_session is not None
        return session.agent_session


def stored(lab: Lab) -> agentrt.claude.ClaudeSessions:
    return agentrt.claude.ClaudeSessions(lab.home / ".claude")


def remembered(lab: Lab) -> list[str]:
    """The prompts that the last request to the model was sent with."""
    [*_, asked] = lab.model.asks()
    return asked.history


def replayed(story: Story) -> list[tuple[str, str]]:
    """What was shown of the time before, by type and text."""
    shown = []
    for event in story.all(agentrt.ItemOpened):
        if event.item.replay:
            said = "".join(getattr(block, "text", "") for block in event.item.content)
            deltas = [d.text for d in story.all(agentrt.TextDelta) if d.item == event.item.id]
            shown.append((event.item.type, said + "".join(deltas)))
    return shown


async def test_a_resumed_session_remembers_and_shows_what_was_said(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        before = await first_session(lab, "Please [[shell]]")
        async with session_with(lab, resume=before) as (session, story):
            assert session.agent_session == before
            result = await session.run("Please [[again]]")
            assert session.agent_session == before
    assert result.text == "Another answer."
    assert remembered(lab) == ["[[shell]]", "[[again]]"]
    assert replayed(story) == [
        ("user", "Please [[shell]]"),
        ("text", "I will run a command."),
        ("tool", ""),
        ("text", "The command is finished."),
    ]
    assert [status for _, status in story.tools()] == ["completed"]


async def test_the_newest_session_can_be_gone_on_with_without_its_id(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        before = await first_session(lab, "Please [[text]]")
        async with session_with(lab, options={"continue_last": True}) as (session, story):
            await session.run("Please [[again]]")
            assert session.agent_session == before
    assert remembered(lab) == ["[[text]]", "[[again]]"]
    assert replayed(story)[1] == ("text", HELLO)


async def test_a_fork_remembers_and_leaves_the_first_alone(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        before = await first_session(lab, "Please [[text]]")
        async with session_with(lab, resume=before, fork=True) as (session, story):
            await session.run("Please [[again]]")
            fork = session.agent_session
        assert fork not in (None, before)
        assert remembered(lab) == ["[[text]]", "[[again]]"]
        assert replayed(story)[1] == ("text", HELLO)
        async with session_with(lab, resume=before) as (session, _):
            await session.run("Please [[thinking]]")
    assert remembered(lab) == ["[[text]]", "[[thinking]]"]


async def test_a_session_may_be_given_its_id(lab: Lab) -> None:
    wanted = "6f2c1d5e-98a1-4ab4-b1a8-3d2f1c0e9b7a"
    with trio.fail_after(PATIENCE):
        async with session_with(lab, options={"session_id": wanted}) as (session, _):
            await session.run("Please [[text]]")
            assert session.agent_session == wanted
        [session_stored] = await stored(lab).list(lab.work)
    assert session_stored.id == wanted


@pytest.mark.parametrize(
    "session", ["6f2c1d5e-98a1-4ab4-b1a8-3d2f1c0e9b7a", "no title either", "--version"]
)
async def test_a_session_that_does_not_exist_is_not_found(lab: Lab, session: str) -> None:
    with trio.fail_after(PATIENCE):
        with pytest.raises(agentrt.errors.SessionNotFound):
            async with session_with(lab, resume=session):
                pytest.fail("there is none")
        with pytest.raises(agentrt.errors.SessionNotFound):
            await stored(lab).read(session)


async def test_a_session_that_is_not_to_be_stored_is_not(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab, options={"persist": False}) as (session, _):
            assert (await session.run("Please [[text]]")).text == HELLO
        assert await stored(lab).list() == []


async def test_stored_sessions_are_listed_and_read(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        first = await first_session(lab, "Please [[text]]", "Please [[again]]")
        second = await first_session(lab, "Please [[thinking]]")
        found = await stored(lab).list(lab.work)
        elsewhere = await stored(lab).list("/")
        entries = await stored(lab).read(first)
    assert [(s.id, s.title) for s in found] == [
        (second, "Please [[thinking]]"),
        (first, "Please [[text]]"),
    ]
    assert elsewhere == []
    assert found[0].cwd == str(lab.work)
    said = [(e["type"], e["message"]["content"]) for e in entries if e["type"] == "user"]
    assert said == [("user", "Please [[text]]"), ("user", "Please [[again]]")]


async def test_a_stored_session_that_claude_renames_is_found_by_its_title(lab: Lab) -> None:
    store = stored(lab)
    with trio.fail_after(PATIENCE):
        session_id = await first_session(lab, "Please [[text]]")
        async with session_with(lab, resume=session_id) as (session, _):
            await session.call("rename_session", title="Greetings")
        assert [s.title for s in await store.list()] == ["Greetings"]
        async with session_with(lab, resume="Greetings") as (session, story):
            await session.run("Please [[again]]")
            assert session.agent_session == session_id
    assert remembered(lab) == ["[[text]]", "[[again]]"]
    assert replayed(story)[1] == ("text", HELLO)


async def test_a_stored_session_is_deleted(lab: Lab) -> None:
    store = stored(lab)
    with trio.fail_after(PATIENCE):
        session_id = await first_session(lab, "Please [[text]]")
        await store.delete(session_id)
        assert await store.list() == []
        with pytest.raises(agentrt.errors.SessionNotFound):
            async with session_with(lab, resume=session_id):
                pytest.fail("there is none")
