"""The examples in the docstrings of `agentrt.testing` and `agentrt.aio` run."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

import agentrt
import agentrt.aio
import agentrt.testing
from agentrt.testing import says, scripted_agents
from agentrt.testing.memory import AgentSide

BLOCK = re.compile(r"::\n\n((?: {4}.*\n|\n)+)")


def examples(documented: Any) -> list[str]:
    """The indented blocks of a docstring, without their indent."""
    return [textwrap.dedent(block) for block in BLOCK.findall(f"{inspect.getdoc(documented)}\n")]


def defined(source: str, **more: object) -> dict[str, Any]:
    """What an example defines, where the whole test kit is imported."""
    names = {"agentrt": agentrt, "pytest": pytest, **vars(agentrt.testing), **more}
    exec(compile(source, "docstring", "exec"), names)
    return names


async def summarize(folder: Path) -> str:
    """The program under test of the example."""
    async with agentrt.open_session("claude", cwd=folder) as session:
        return (await session.run("Summarize the tests.")).text


async def test_the_first_test_of_a_program(tmp_path: Path) -> None:
    [source] = examples(agentrt.testing)
    await defined(source, summarize=summarize)["test_the_summary"](tmp_path)


async def test_a_program_that_breaks_the_protocol() -> None:
    [source] = examples(inspect.getmodule(agentrt.testing.MemoryAgent))
    await defined(source)["test_the_reason_is_named"]()


async def test_the_call_of_a_tool() -> None:
    [source] = examples(agentrt.testing.call_tool)
    await defined(source)["test_add"]()


async def test_a_script_of_a_process() -> None:
    [source] = examples(AgentSide.serving)
    script = defined(source)["script"]
    start = lambda: agentrt.testing.MemoryAgent(script)  # noqa: E731
    async with agentrt.testing.open_fake_session(start) as session:
        assert (await session.run("work")).text == "Done."


@pytest.mark.parametrize("number", range(2))
def test_sessions_on_asyncio(number: int) -> None:
    source = examples(agentrt.aio)[number]
    with scripted_agents({"claude": says("It divides by zero.")}) as agents:
        asyncio.run(awaited(source, print=lambda event: None))
    assert agents.session.outcomes == ["completed"]


def test_a_server_on_asyncio() -> None:
    [source] = examples(agentrt.aio.serve)
    shown: list[str] = []

    def show(url: str) -> None:
        shown.append(url)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(awaited(source, print=show))
    assert shown[0].startswith("http://127.0.0.1:")


def awaited(source: str, print: Callable[..., None]) -> Any:
    """A coroutine of an example that awaits outside of a function."""
    code: CodeType = compile(source, "docstring", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return FunctionType(code, {"agentrt": agentrt, "asyncio": asyncio, "print": print})()
