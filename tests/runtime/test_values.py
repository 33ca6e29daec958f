"""Whatever a prompt holds or a handler returns is refused or rejected, and the session lives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes import asking, echo, session_with, unresponsive
from hypothesis import given, settings
from hypothesis import strategies as st

import agentrt
from agentrt.testing import FakeAcpAgent

CYCLE: dict[str, Any] = {}
CYCLE["again"] = CYCLE

NO_JSON = (
    st.sampled_from([Path("/x"), object(), 1 + 2j, "\ud800", CYCLE, {1, Path("y")}, lambda: None])
    | st.binary(min_size=1).map(memoryview)
    | st.dictionaries(st.text(), st.just(Path("z")), min_size=1, max_size=2)
)
ANYTHING = NO_JSON | st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text())


async def forms(agent: FakeAcpAgent) -> None:
    """Asks for a form, and says how it was filled in."""
    async for prompt in agent.prompts:
        answer = await agent.request(
            "elicitation/create",
            {
                "mode": "form",
                "message": "Your name",
                "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
        )
        agent.say(str(answer["result"].get("content")))
        prompt.end()


def alone(test: Callable[..., Any]) -> Callable[..., None]:
    """For Hypothesis: each example in a run of its own."""

    def run(**drawn: Any) -> None:
        trio.run(lambda: test(**drawn), clock=trio.testing.MockClock(autojump_threshold=0))

    return run


# --- prompts


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        ([], "some content"),
        (b"x", "not bytes"),
        (None, "not NoneType"),
        (5, "not int"),
        (Path("/x"), "not PosixPath"),
        ([5], "a part of a prompt is int"),
        ([["a"]], "a part of a prompt is list"),
        ({"x": 1}, "not a content block"),
        ([agentrt.events.Text(5)], "Expected `str`, got `int`"),  # type: ignore[arg-type]
        (agentrt.events.ResourceLink(uri=None), "Expected `str`, got `null`"),  # type: ignore[arg-type]
        ("\ud800", "half a character"),
        (agentrt.events.Text("x", meta=CYCLE), "contains itself"),
        (agentrt.events.Text("x", meta={"a": Path("/")}), "cannot be sent as JSON"),
    ],
)
async def test_a_prompt_that_is_none_is_refused_at_the_call(prompt: Any, why: str) -> None:
    async with session_with(echo) as (session, _):
        for call in (session.prompt, session.submit, session.steer):
            with pytest.raises(agentrt.LocalProtocolError, match=why):
                call(prompt)
        with pytest.raises(agentrt.LocalProtocolError, match=why):
            await session.run(prompt)
        assert (await session.run("still there")).text == "still there"


async def test_dicts_in_the_protocol_s_shape_are_the_blocks_they_are() -> None:
    async with session_with(echo) as (session, _):
        assert (await session.run({"type": "text", "text": "one"})).text == "one"
        two = [{"type": "text", "text": "t"}, agentrt.events.Text("w"), "o"]
        assert (await session.run(two)).text == "two"


async def test_a_queued_prompt_that_cannot_be_sent_fails_alone(
    autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a driver raises about it."""
    from agentrt.lowlevel import AcpDriver

    prompt = AcpDriver.prompt

    def picky(self: AcpDriver, turn: str, content: Any) -> Any:
        if content[0].text == "bad":
            raise ZeroDivisionError("a bug")
        return prompt(self, turn, content)

    monkeypatch.setattr(AcpDriver, "prompt", picky)

    async def slow(agent: FakeAcpAgent) -> None:
        async for each in agent.prompts:
            await trio.sleep(1)
            agent.say(each.text)
            each.end()

    async with session_with(slow) as (session, _), trio.open_nursery() as nursery:
        nursery.start_soon(session.run, "first")
        await trio.sleep(0.1)
        session.submit("bad")
        session.submit("good")
        await session.wait_idle()
        dropped = [e for e in session.log.since(0) if getattr(e, "code", "") == "prompt_dropped"]
        assert ["ZeroDivisionError" in notice.message for notice in dropped] == [True]  # type: ignore[union-attr]
        texts = [item.text for item in session.snapshot().items if item.type == "text"]
        assert texts == ["first", "good"]
        with pytest.raises(agentrt.LocalProtocolError, match="a bug"):
            await session.run("bad")


@given(prompt=ANYTHING | st.lists(ANYTHING, max_size=3) | st.dictionaries(st.text(), ANYTHING))
@alone
async def test_no_prompt_ends_a_session(prompt: Any) -> None:
    async with session_with(echo) as (session, _):
        for send in (session.run, session.run):
            try:
                await send(prompt, check=False)
            except agentrt.LocalProtocolError:
                pass
        assert (await session.run("still there")).text == "still there"


# --- decisions


@given(
    value=ANYTHING
    | ANYTHING.map(lambda v: agentrt.Allow(updated_input=v))
    | ANYTHING.map(lambda v: agentrt.Allow(option=v))
    | ANYTHING.map(lambda v: agentrt.Deny(message=v))
    | ANYTHING.map(lambda v: agentrt.Deny(interrupt=v)),
    later=st.booleans(),
)
@alone
async def test_no_value_of_a_policy_ends_a_session(value: Any, later: bool) -> None:
    async def policy(request: agentrt.PermissionRequest) -> Any:
        await trio.sleep(0.1)
        return value

    def at_once(request: agentrt.PermissionRequest) -> Any:
        return value

    async with session_with(asking, permissions=policy if later else at_once) as (session, _):
        result = await session.run("go", limits=agentrt.Limits(turn_timeout_s=30), check=False)
        assert result.outcome in ("completed", "cancelled")
        assert session.state.phase == "idle"
        again = await session.run("again", limits=agentrt.Limits(turn_timeout_s=30), check=False)
        assert again.outcome in ("completed", "cancelled")


# --- forms


async def test_a_form_is_filled_only_with_what_can_be_sent(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(forms, permissions=agentrt.ask) as (session, _):
        turn = session.submit("go")
        await trio.sleep(1)
        [request] = session.pending_permissions
        for content in ({"name": Path("/x")}, CYCLE, {"name": "\ud800"}):
            with pytest.raises(agentrt.LocalProtocolError, match="JSON"):
                session.submit_form(request, content)
            assert list(session.pending_permissions) == [request]
        session.submit_form(request, {"name": "Ada"})
        await session.wait_idle()
        assert turn.result.text == "{'name': 'Ada'}"


async def test_a_question_without_a_form_cannot_be_filled(autojump_clock: trio.abc.Clock) -> None:
    async with session_with(asking, permissions=agentrt.ask) as (session, _):
        turn = session.submit("go")
        await trio.sleep(1)
        [request] = session.pending_permissions
        with pytest.raises(agentrt.LocalProtocolError, match="has no form"):
            session.submit_form(request, {"name": "Ada"})
        session.answer(request, "allow_once")
        await session.wait_idle()
        assert turn.result.text == "yes"


# --- tools


@pytest.mark.slow
@settings(max_examples=60)
@given(value=ANYTHING)
@alone
async def test_no_value_of_a_tool_ends_a_session(value: Any) -> None:
    from web.tool_calls import Calls

    @agentrt.tool
    async def odd() -> Any:
        """Returns something."""
        return value

    async with session_with(unresponsive, tools=[odd]) as (session, _):
        session.submit("go")
        calls = Calls(session)
        number = calls.call("odd")
        while number not in calls.answers:  # noqa: ASYNC110 - as the reader of a bridge would
            await trio.sleep(0.01)
        assert session.state.phase == "running"


# --- limits


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (
            {"turn_timeout_s": -3},
            "limits.turn_timeout_s must be .* 0 or more, or None for no limit, not -3",
        ),
        ({"turn_timeout_s": float("nan")}, "limits.turn_timeout_s must be .*, not nan"),
        ({"idle_timeout_s": float("inf")}, "limits.idle_timeout_s must be .*, not inf"),
        ({"idle_timeout_s": 10**400}, "limits.idle_timeout_s must be .*, not 1000"),
        ({"queued_prompts": 10**400}, "limits.queued_prompts must be .*, not 1000"),
        ({"turn_timeout_s": "3"}, "limits.turn_timeout_s must be .*, not '3'"),
        ({"turn_timeout_s": True}, "limits.turn_timeout_s must be .*, not True"),
        (
            {"startup_timeout_s": None},
            "limits.startup_timeout_s must be a number of seconds, 0 or more, not None$",
        ),
        (
            {"queued_prompts": 1.5},
            "limits.queued_prompts must be a whole number, 0 or more, not 1.5",
        ),
    ],
)
def test_a_limit_that_is_none_is_refused_where_it_is_given(wrong: Any, why: str) -> None:
    import msgspec

    with pytest.raises(ValueError, match=why):
        agentrt.Limits(**wrong)
    with pytest.raises(ValueError, match=why):
        msgspec.structs.replace(agentrt.Limits(), **wrong)
