"""Handles of prompts and requests, as programs misuse them."""

from __future__ import annotations

import gc
import warnings
from collections.abc import AsyncIterator

import pytest

import agentrt
from agentrt import PermissionOpened, Session
from agentrt.testing import FakeAcpAgent
from runtime.fakes import session_with


async def _asks(agent: FakeAcpAgent) -> None:
    async for prompt in agent.prompts:
        agent.say(str(await agent.ask("call", title="rm x")))
        prompt.end()


@pytest.fixture
async def session() -> AsyncIterator[Session]:
    async with session_with(_asks, permissions=agentrt.ask) as (session, _):
        yield session


@pytest.mark.parametrize("by_event", [True, False])
async def test_a_request_is_answered_by_its_event_or_its_id(
    session: Session, by_event: bool
) -> None:
    async with session.prompt("go") as turn:
        async for event in turn:
            if isinstance(event, PermissionOpened):
                with pytest.raises(TypeError, match="the id of one, got int"):
                    turn.answer(7, "allow_once")  # type: ignore[arg-type]
                turn.answer(event if by_event else event.request, "allow_once")
    assert turn.result.text == "yes"


@pytest.mark.slow
async def test_a_prompt_that_is_never_entered_is_warned_of(session: Session) -> None:
    with pytest.warns(RuntimeWarning, match="a prompt was never sent: enter it with"):
        session.prompt("go")  # nothing else holds it
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        turn = session.prompt("go")
        async with turn:
            turn.cancel()
        del turn
        gc.collect()


def test_a_mistyped_public_name_has_a_suggestion() -> None:
    with pytest.raises(AttributeError) as caught:
        agentrt.open_sesion  # type: ignore[attr-defined]  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("open_sesion", agentrt)
