"""The real Claude Code with a host that reads slowly, takes little, or is called many times."""

from __future__ import annotations

import pytest
import trio

import agentrt

from .lab import Lab
from .modelserver.scripts import Call, Script, Shell, Text, prompt_for
from .story import session_with

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", ["claude"])]

PATIENCE = 120.0
MANY = 60


class Counter:
    """A tool that knows how many of its calls run at once."""

    def __init__(self, *, reads: bool) -> None:
        self.calls = self.running = self.most = 0

        @agentrt.tool(annotations={"readOnlyHint": True} if reads else None)
        async def count(number: int) -> int:
            """Count."""
            self.calls += 1
            self.running += 1
            self.most = max(self.most, self.running)
            await trio.sleep(0.05)
            self.running -= 1
            return number

        self.tool = count


def calls(times: int) -> Script:
    return [[Call("count", {"number": number}) for number in range(times)], [Text("Counted.")]]


async def test_many_tool_calls_of_a_turn_that_nobody_reads_are_answered(lab: Lab) -> None:
    """A bounded queue for messages and answers alike stood still after fifty."""
    counter = Counter(reads=True)
    with trio.fail_after(PATIENCE):
        async with (
            session_with(lab, tools=[counter.tool], permissions=agentrt.allow_all) as (s, story),
            s.prompt(prompt_for(calls(MANY))) as turn,
        ):
            pass  # its events are not looked at
    assert turn.result.text == "Counted."
    assert counter.calls == MANY
    assert [status for _, status in story.tools()] == ["completed"] * MANY


@pytest.mark.parametrize(("reads", "most"), [(True, 3), (False, 1)])
async def test_only_tools_that_say_that_they_read_are_called_at_once(
    lab: Lab, reads: bool, most: int
) -> None:
    counter = Counter(reads=reads)
    with trio.fail_after(PATIENCE):
        async with session_with(lab, tools=[counter.tool], permissions=agentrt.allow_all) as (
            session,
            _,
        ):
            await session.run(prompt_for(calls(3)))
    assert (counter.calls, counter.most) == (3, most)


async def test_a_reader_that_sleeps_delays_neither_an_answer_nor_a_cancel(lab: Lab) -> None:
    counter = Counter(reads=False)
    script: Script = [
        [Text("word " * 3000, chunk=5), Call("count", {"number": 1})],
        [Text("word " * 400, chunk=5, pace=0.1)],
    ]
    limits = agentrt.Limits(cancel_grace_s=500)
    with trio.fail_after(PATIENCE):
        async with session_with(
            lab, tools=[counter.tool], permissions=agentrt.allow_all, limits=limits
        ) as (session, _):
            async with session.prompt(prompt_for(script)) as turn:
                async for event in turn:
                    if isinstance(event, agentrt.TextDelta):
                        break  # far behind, and not one event more
                while not counter.calls:  # noqa: ASYNC110
                    await trio.sleep(0.01)
                turn.cancel()
            again = await session.run("Please [[again]]")
    assert turn.result.outcome == "cancelled"
    assert again.text == "Another answer."


@pytest.mark.parametrize("partial", [True, False], ids=["in pieces", "as one line"])
async def test_a_line_over_the_limit_costs_itself_and_not_the_session(
    lab: Lab, partial: bool
) -> None:
    """Here even the turn's result is lost: what became of the prompt is known all the same."""
    script: Script = [[Text("x", times=300_000, chunk=10_000)]]
    limits = agentrt.Limits(message_bytes=200_000, end_silence_s=0.3)
    with trio.fail_after(PATIENCE):
        async with session_with(lab, limits=limits, options={"partial_messages": partial}) as (
            session,
            story,
        ):
            result = await session.run(prompt_for(script))
            again = await session.run("Please [[again]]")
    assert result.outcome == "completed"
    assert len(result.text) == (300_000 if partial else 0)
    assert len(story.notices("line_too_long")) == 2
    assert again.text == "Another answer."


async def test_what_is_allowed_beforehand_is_shown_but_not_asked(lab: Lab) -> None:
    """No policy hears of it: whoever wants to be asked must not allow it here."""
    asked: list[agentrt.PermissionRequest] = []

    def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        asked.append(request)
        return agentrt.Deny()

    script: Script = [[Shell("touch one")], [Shell("touch two")], [Text("Touched.")]]
    with trio.fail_after(PATIENCE):
        async with session_with(
            lab, permissions=policy, options={"allowed_tools": ["Bash(touch one)"]}
        ) as (session, story):
            await session.run(prompt_for(script))
    assert [request.command for request in asked] == ["touch two"]
    assert [status for _, status in story.tools()] == ["completed", "denied"]


async def test_the_log_is_complete_behind_the_end_of_the_session(lab: Lab) -> None:
    with trio.fail_after(PATIENCE):
        async with session_with(lab) as (session, _):
            told = session.subscribe(after=0)
            await session.run(prompt_for([[Text("word " * 500, chunk=5)]]))
        events = [event async for event in told]  # not one was read before
    text = "".join(event.text for event in events if isinstance(event, agentrt.TextDelta))
    assert text == "word " * 500
    assert isinstance(events[-1], agentrt.events.StateChanged)
    assert events[-1].state.phase == "closed"
