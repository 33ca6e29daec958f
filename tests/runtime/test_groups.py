"""What a program raises inside a block of agentrt's comes out of it as it was."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import trio
from fakes import Incarnations, asking, echo, obedient, session_with

import agentrt
from agentrt.testing import open_fake_runtime

pytestmark = pytest.mark.usefixtures("forked_demo")

Raises: TypeAlias = Callable[[], Awaitable[None]]


class Own(ExceptionGroup[Exception]):
    """A group of the program's own."""

    def derive(self, excs: Any) -> Own:
        return Own(self.message, excs)


# --- what is raised


async def one() -> None:
    raise ValueError


async def own_group() -> None:
    raise Own("own", [ValueError()])


async def groups_in_groups() -> None:
    raise Own("outer", [Own("inner", [ValueError()])])


async def several() -> None:
    raise ExceptionGroup("two", [ValueError(), KeyError()])


async def own_nursery() -> None:
    async with trio.open_nursery() as nursery:  # noqa: ASYNC112 - it is the layer that is meant
        nursery.start_soon(one)


RAISED: dict[Raises, Any] = {
    one: ValueError,
    own_group: (Own, [ValueError]),
    groups_in_groups: (Own, [(Own, [ValueError])]),
    several: (ExceptionGroup, [ValueError, KeyError]),
    own_nursery: (ExceptionGroup, [ValueError]),
}


def shape(error: BaseException) -> Any:
    if isinstance(error, BaseExceptionGroup):
        return type(error), [shape(part) for part in error.exceptions]
    return type(error)


# --- where


async def in_a_session(fail: Raises, _: Path) -> None:
    async with session_with(echo) as (first, _one), session_with(echo) as (second, _two):
        await first.run("x")
        await second.run("x")
        await fail()


async def in_a_session_of_a_program(fail: Raises, folder: Path) -> None:
    async with agentrt.open_session("demo", cwd=folder):
        await fail()


async def in_a_turn(fail: Raises, _: Path) -> None:
    async with session_with(obedient) as (session, _agents), session.prompt("x"):
        await fail()


async def while_a_turn_is_read(fail: Raises, _: Path) -> None:
    async with session_with(obedient) as (session, _agents), session.prompt("x") as turn:
        async for _event in turn:
            await fail()


async def in_a_task_of_a_turn(fail: Raises, _: Path) -> None:
    async with session_with(obedient) as (session, _agents), session.prompt("x") as turn:
        turn.nursery.start_soon(fail)
        async for _event in turn:
            pass


async def beside_a_task_of_a_turn(fail: Raises, _: Path) -> None:
    async with session_with(obedient) as (session, _agents), session.prompt("x") as turn:
        turn.nursery.start_soon(trio.sleep_forever)
        await fail()


async def in_a_task_of_a_turn_that_nobody_waits_for(fail: Raises, _: Path) -> None:
    async with session_with(obedient) as (session, _agents):
        turn = session.submit("x")
        while not turn.id:  # noqa: ASYNC110 - no event of ours
            await trio.lowlevel.checkpoint()
        turn.nursery.start_soon(fail)
        await trio.sleep_forever()


async def behind_a_question(fail: Raises, _: Path) -> None:
    async with session_with(asking, permissions=agentrt.allow_all) as (session, _agents):
        await session.run("x")
        await fail()


async def in_a_runtime(fail: Raises, _: Path) -> None:
    async with agentrt.open_runtime():
        await fail()


async def in_a_runtime_with_sessions(fail: Raises, _: Path) -> None:
    async with open_fake_runtime({"fake": Incarnations(echo).start}) as runtime:
        await runtime.create("fake")
        await fail()


async def in_a_job_of_a_runtime(fail: Raises, _: Path) -> None:
    async with open_fake_runtime({}) as runtime:
        runtime.start_soon(fail)
        await trio.sleep_forever()


async def in_a_query(fail: Raises, folder: Path) -> None:
    async with agentrt.query("x", agent="demo", cwd=folder) as events:
        async for _event in events:
            await fail()


async def in_the_prompts_of_a_query(fail: Raises, folder: Path) -> None:
    async def prompts() -> AsyncIterator[str]:
        await fail()
        yield "x"

    async with agentrt.query(prompts(), agent="demo", cwd=folder) as events:
        async for _event in events:
            pass


PLACES = [
    in_a_session,
    in_a_session_of_a_program,
    in_a_turn,
    while_a_turn_is_read,
    in_a_task_of_a_turn,
    beside_a_task_of_a_turn,
    in_a_task_of_a_turn_that_nobody_waits_for,
    behind_a_question,
    in_a_runtime,
    in_a_runtime_with_sessions,
    in_a_job_of_a_runtime,
    pytest.param(in_a_query, marks=pytest.mark.slow),
    pytest.param(in_the_prompts_of_a_query, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("place", PLACES)
async def test_an_error_comes_out_as_it_was(place: Any, tmp_path: Path) -> None:
    for fail, expected in RAISED.items():
        with trio.fail_after(30), pytest.raises(Exception) as caught:
            await place(fail, tmp_path)
        assert shape(caught.value) == expected


async def test_the_nursery_that_serve_runs_in_is_the_programs_own() -> None:
    """It adds its layer, and nothing else does."""
    for fail, expected in RAISED.items():
        with pytest.raises(Exception) as caught:  # noqa: PT012
            async with open_fake_runtime({}) as runtime, trio.open_nursery() as nursery:
                await nursery.start(agentrt.web.serve, runtime)
                await fail()
        assert shape(caught.value) == (ExceptionGroup, [expected])


@pytest.mark.parametrize("place", [in_a_session, in_a_turn, in_a_runtime, in_a_query])
async def test_what_led_to_an_error_stays_with_it(place: Any, tmp_path: Path) -> None:
    async def in_a_handler() -> None:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second")  # noqa: B904 - what is tried

    async def with_a_cause() -> None:
        raise ValueError("second") from KeyError("first")

    for fail, attribute in ((in_a_handler, "__context__"), (with_a_cause, "__cause__")):
        with pytest.raises(ValueError, match="second") as caught:
            await place(fail, tmp_path)
        assert isinstance(getattr(caught.value, attribute), KeyError)
