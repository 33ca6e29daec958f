"""The options of a session are declared once, in `SessionOptions`, and checked in one place."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import agentrt
from agentrt.testing import open_fake_runtime, open_fake_session
from runtime.fakes import Incarnations, echo

DOORS: dict[str, Callable[..., AbstractAsyncContextManager[Any]]] = {
    "open_session": lambda **options: agentrt.open_session("demo", **options),
    "query": lambda **options: agentrt.query("hello", agent="demo", **options),
    "connect": lambda **options: agentrt.agents.connect(lambda: None, **options),  # type: ignore[arg-type, return-value]
    "open_fake_session": lambda **options: open_fake_session(Incarnations(echo).start, **options),
    "reopen_session": lambda **options: agentrt.store.reopen_session("id", None, **options),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("door", DOORS)
async def test_an_unknown_option_is_refused_with_the_one_that_may_be_meant(door: str) -> None:
    with pytest.raises(TypeError, match="has no option 'limit'; did you mean 'limits'"):
        async with DOORS[door](limit=agentrt.Limits()):
            pass


@pytest.mark.parametrize("door", DOORS)
async def test_an_option_like_no_other_is_refused_without_a_guess(door: str) -> None:
    with pytest.raises(TypeError, match=r"has no option 'colour_scheme'$"):
        async with DOORS[door](colour_scheme="dark"):
            pass


@pytest.mark.parametrize("name", ["timeout", "deadline", "system_prompt", "max_turns", "journal"])
async def test_a_name_of_another_library_is_refused_with_agentrt_s_own(name: str) -> None:
    with pytest.raises(TypeError, match=f"has no option '{name}'; use "):
        async with DOORS["open_session"](**{name: 5}):
            pass


async def test_a_runtime_refuses_unknown_options_and_a_second_store(tmp_path: Path) -> None:
    async with (
        open_fake_runtime({"fake": Incarnations(echo).start}) as runtime,
        agentrt.store.open_store(tmp_path / "sessions.db") as store,
    ):
        with pytest.raises(TypeError, match=r"Runtime.create has no option 'tolls'; .*'tools'"):
            await runtime.create("fake", tolls=[])  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="a runtime has one store"):
            await runtime.create("fake", store=store)
        assert runtime.list() == []


async def test_an_agent_in_memory_refuses_the_options_of_a_process() -> None:
    with pytest.raises(TypeError, match="the agent has no process here: leave out"):
        async with open_fake_session(Incarnations(echo).start, env={}):
            pass


def test_every_option_has_a_docstring() -> None:
    source = ast.parse(Path(inspect.getfile(agentrt.SessionOptions)).read_text())
    fields: set[str] = set()
    for kind in (node for node in source.body if isinstance(node, ast.ClassDef)):
        for field, doc in zip(kind.body, [*kind.body[1:], None], strict=True):
            if isinstance(field, ast.AnnAssign):
                assert isinstance(doc, ast.Expr), ast.unparse(field)
                fields.add(ast.unparse(field.target))
    assert fields == {
        *agentrt.SessionOptions.__annotations__,
        *agentrt.store.ReopenOptions.__annotations__,
    }


def test_no_function_lists_the_options_again() -> None:
    for function in (agentrt.open_session, agentrt.query, agentrt.store.reopen_session):
        names = set(inspect.signature(function).parameters)
        assert not names & {"limits", "tools", "permissions", "cwd"}, function
