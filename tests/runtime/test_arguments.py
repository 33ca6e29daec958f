"""What cannot be meant is refused at the call, with what is wrong and what is right."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes import echo, session_with
from test_runtime import runtime_with

import agentrt
from agentrt.testing import open_fake_runtime


@agentrt.tool
def known(x: int) -> None:
    """A tool."""


def plain(x: int) -> None:
    """A function that is no tool."""


class Ours:
    """A type that no model can be told of."""


# --- what a session is opened with


@pytest.mark.parametrize(
    ("wrong", "error", "why"),
    [
        (
            {"tools": [plain]},
            TypeError,
            r"must be made with agentrt.tool\(plain\), not the function",
        ),
        ({"tools": known}, TypeError, r"`tools` must be a list: \[known\]"),
        ({"tools": ["bash"]}, TypeError, "a tool must be an agentrt.Tool, not str"),
        ({"hooks": [plain]}, TypeError, "a hook must be made with @agentrt.hook"),
        ({"cwd": "/no/such"}, agentrt.LocalProtocolError, "cwd: there is no folder '/no/such'"),
        ({"cwd": __file__}, agentrt.LocalProtocolError, "it is a file"),
        ({"cwd": None}, agentrt.LocalProtocolError, "cwd: must be a string or a path"),
        ({"roots": ["/nope"]}, agentrt.LocalProtocolError, "roots: there is no folder '/nope'"),
        ({"roots": "/tmp"}, agentrt.LocalProtocolError, r"`roots` must be a list: \['/tmp"),
        ({"options": {"x": 1}}, ValueError, "demo has no option 'x'"),
        ({"fork": True}, ValueError, "give its id as `resume`, too"),
        ({"permissions": "allow"}, ValueError, "Did you mean agentrt.allow_all?"),
        ({"model": 3}, TypeError, "`model` must be a string, not int"),
        ({"mode": b"auto"}, TypeError, "`mode` must be a string, not bytes"),
        ({"resume": 5}, TypeError, "`resume` must be a string, not int"),
        ({"limits": 30}, TypeError, r"`limits` must be agentrt.Limits\(…\), not int"),
        ({"tools": 5}, TypeError, "`tools` must be a list, not int"),
        ({"extensions": 5}, TypeError, "`extensions` must be a list, not int"),
        (
            {"extensions": [plain]},
            TypeError,
            "an extension must be made with @agentrt.tools.extension",
        ),
        ({"roots": 5}, agentrt.LocalProtocolError, "`roots` must be a list of folders, not int"),
        ({"mcp_servers": {"name": "x"}}, TypeError, r"must be a list: \[\{'name'"),
        ({"mcp_servers": 5}, TypeError, "`mcp_servers` must be a list of dicts, not int"),
        ({"env": ["A=B"]}, TypeError, "`env` must be a mapping of names to values.*not list"),
        ({"env": {"A": 1}}, TypeError, "must be strings: 'A'"),
        ({"env": {"A": "\0"}}, ValueError, "`env` has an invalid variable: 'A'"),
        ({"on_stderr": 5}, TypeError, "`on_stderr` must be a function that takes bytes, not int"),
        (
            {"store": "x.db"},
            TypeError,
            "`store` must be a Store from agentrt.store.open_store, not str",
        ),
        ({"trace": 5}, TypeError, "`trace` must be a file name.*not int"),
        ({"tenant": 5}, TypeError, "`tenant` must be a string, not int"),
        ({"options": 5}, TypeError, "`options` must be a dict such as"),
        ({"options": {"config": 5}}, TypeError, "option 'config' of demo must be a dict, not int"),
        ({"options": {"meta": "x"}}, TypeError, "option 'meta' of demo must be a dict, not str"),
        ({"fork": "yes"}, TypeError, "`fork` must be True or False, not str"),
        (
            {"fork_at": "t1"},
            TypeError,
            "`fork_at` must be a ForkPoint from Session.fork_point, not str",
        ),
        (
            {"files": agentrt.tools.Files},
            TypeError,
            "`files` must be an instance of Files, not the class",
        ),
    ],
)
async def test_a_session_is_not_opened_with_it(
    tmp_path: Path, wrong: dict[str, Any], error: type[Exception], why: str
) -> None:
    seen: list[bytes] = []
    with pytest.raises(error, match=why):
        async with agentrt.open_session(
            "demo", **{"cwd": tmp_path, "on_stderr": seen.append, **wrong}
        ):
            pass


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"limits": 5}, "`limits` must be agentrt.Limits"),
        (
            {"store": 5},
            "`store` must be a file, a URL, or a Store from agentrt.store.open_store, not int",
        ),
        ({"env": 5}, "`env` must be a mapping of names to values"),
        ({"telemetry": 5}, "telemetry must be an OpenTelemetry or Metrics"),
        ({"trace": 5}, "`trace` must be a file name"),
        ({"tools": 5}, "`tools` must be a list"),
        (
            {"config": {"agent": "demo"}},
            "`config` must be the result of agentrt.config.load_config",
        ),
    ],
)
async def test_a_runtime_is_not_opened_with_it(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(TypeError, match=why):
        async with agentrt.open_runtime(**wrong):
            pass


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("", "'' is not the name of a store's file"),
        ("a\0b", "is not the name of a store's file"),
        ("mysql://me:secret@host/db", r"not mysql://"),
        ("sqlite:///sessions.db", "not sqlite://"),
    ],
)
async def test_a_store_is_a_file_or_a_known_url(
    wrong: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=why) as caught:
        async with agentrt.open_runtime(store=wrong):
            pass
    assert "secret" not in str(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["name", "title"])
def test_an_agent_has_no_half_character_in_its_name(name: str) -> None:
    with pytest.raises(ValueError, match="name contains half a character"):
        agentrt.agents.acp(["agent"], **{"name": "mine", name: "half \ud800 a character"})


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"title": 5}, "`title` must be a string, not int"),
        ({"cwd": 5}, "`cwd` must be a string or a path, not int"),
        ({"options": 5}, "`options` must be a dict such as"),
        ({"store": None}, "store: a runtime has one store"),
    ],
)
async def test_no_session_of_a_runtime_is_left_by_it(wrong: dict[str, Any], why: str) -> None:
    async with runtime_with(echo) as (runtime, _):
        with pytest.raises(TypeError, match=why):
            await runtime.create("fake", **wrong)
        assert runtime.list() == []


async def test_nothing_is_asked_of_an_agent_that_has_no_name() -> None:
    async with session_with(echo) as (session, _):
        for wrong in (5, None, ""):
            with pytest.raises(agentrt.LocalProtocolError, match="a method must be given as text"):
                await session.call(wrong)  # type: ignore[arg-type]
        with pytest.raises(agentrt.LocalProtocolError, match="title must be given as text"):
            session.rename(5)  # type: ignore[arg-type]
        with pytest.raises(agentrt.LocalProtocolError, match="session must be given as text"):
            await session.delete_session(5)  # type: ignore[arg-type]
        with pytest.raises(agentrt.LocalProtocolError, match="a folder is a string or a path"):
            await session.list_sessions(5)  # type: ignore[arg-type]
    with pytest.raises(agentrt.LocalProtocolError, match="a folder is a string or a path"):
        await agentrt.agents.list_sessions("demo", cwd=5)  # type: ignore[arg-type]
    with pytest.raises(agentrt.LocalProtocolError, match="session must be given as text"):
        await agentrt.agents.delete_session("demo", None)  # type: ignore[arg-type]
    with pytest.raises(agentrt.LocalProtocolError, match="session must be given as text"):
        await agentrt.claude.ClaudeSessions("/nowhere").read(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes a Session, not int"):
        agentrt.claude.ClaudeControl(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["codex", "config", "json_schema"])
async def test_codex_gets_no_option_of_another_kind(name: str, tmp_path: Path) -> None:
    agent = agentrt.Agent(name="codex", command=("/bin/true",), protocol="codex")
    with pytest.raises(TypeError, match=f"option '{name}' of codex must be a dict, not int"):
        async with agentrt.open_session(agent, cwd=tmp_path, options={name: 5}):
            pass


@pytest.mark.parametrize("wrong", [["gemini", "--acp"], None, 5, Path("/x")])
async def test_only_a_name_or_an_agent_is_an_agent(wrong: Any) -> None:
    why = r"or the result of agentrt.agents.acp\(\[…\]\) or agentrt.agents.claude\(\), not "
    with pytest.raises(TypeError, match=why):
        async with agentrt.open_session(wrong):
            pass
    async with open_fake_runtime({}) as runtime:
        with pytest.raises(TypeError, match=why):
            await runtime.create(wrong)
        with pytest.raises(TypeError, match=why):
            await runtime.load(wrong, "x")


async def test_the_tools_of_a_running_session_are_checked_too() -> None:
    async with session_with(echo, tools=[known]) as (session, _):
        with pytest.raises(TypeError, match=r"agentrt\.tool\(plain\)"):
            session.set_tools([plain])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="must be a list"):
            session.set_tools(known)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["now", None, "Queue", 1])
async def test_a_prompt_comes_in_one_of_three_ways(wrong: Any) -> None:
    why = "choose one of 'queue', 'interrupt', 'reject'"
    async with session_with(echo) as (session, _):
        for call in (session.prompt, session.submit):
            with pytest.raises(agentrt.LocalProtocolError, match=why):
                call("hello", when=wrong)
        with pytest.raises(agentrt.LocalProtocolError, match=why):
            await session.run("hello", when=wrong)
        with pytest.raises(
            agentrt.LocalProtocolError, match=r"`limits` must be agentrt.Limits\(…\), not dict"
        ):
            session.prompt("hello", limits={"hard": 3})  # type: ignore[arg-type]


# --- agents


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"effort": "extreme"}, "effort='extreme' is not known; choose from low, medium"),
        ({"permission_mode": "yolo"}, "choose from default, acceptEdits"),
        ({"max_turns": -1}, "max_turns=-1 is too small: 1 is the least"),
        ({"max_turns": 0}, "max_turns=0 is too small"),
        ({"max_budget_usd": float("nan")}, "max_budget_usd=nan"),
        ({"thinking": -5}, "is not a number of tokens"),
        ({"setting_sources": ["users"]}, "'users' is not known; choose from user, project, local"),
    ],
)
async def test_claude_code_gets_nothing_that_it_does_not_know(
    tmp_path: Path, wrong: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        agentrt.agents.claude(**wrong)
    agent = agentrt.agents.claude("/bin/true")
    with pytest.raises(ValueError, match=why):
        async with agentrt.open_session(agent, cwd=tmp_path, options=wrong):
            pass


@pytest.mark.parametrize("wrong", [5, None, b"x", ["x", 5], [None]])
def test_a_command_is_words(wrong: Any) -> None:
    with pytest.raises(TypeError, match="a string or a list of words"):
        agentrt.agents.acp(wrong)


def test_a_command_may_be_a_path() -> None:
    assert agentrt.agents.acp(Path("/opt/my agent")).command == ("/opt/my agent",)
    assert agentrt.agents.acp([Path("/opt/agent"), "--acp"]).command == ("/opt/agent", "--acp")
    with pytest.raises(ValueError, match=r"'agent \"x' cannot be read: No closing quotation"):
        agentrt.agents.acp('agent "x')


async def test_a_program_that_is_there_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    for command, why in (
        (str(program), "is not executable"),
        ("agent", "is not executable"),
        (str(tmp_path), "is a folder"),
    ):
        with pytest.raises(agentrt.errors.AgentNotFound, match=why):
            async with agentrt.open_session(agentrt.agents.acp([command]), cwd=tmp_path):
                pass


# --- tools


def of_ours(x: Ours) -> None: ...
def of_a_list(x: list[Ours]) -> None: ...
def of_a_value(x: 5) -> None: ...  # type: ignore[valid-type]
def of_a_function(x: Callable[[int], int]) -> None: ...
def of_one_that_may_be_none(x: Ours | None = None) -> None: ...


@pytest.mark.parametrize(
    "function", [of_ours, of_a_list, of_a_value, of_a_function, of_one_that_may_be_none]
)
def test_a_type_that_no_model_can_be_given_is_named_with_its_function(function: Any) -> None:
    # The hints of this module are strings; what they mean is what counts.
    with pytest.raises(TypeError, match=f"^{function.__name__}: parameter 'x'"):
        agentrt.tool(function)


def test_a_model_of_pydantic_is_named_too() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", a=(int, ...))

    def uses(it: Any) -> None: ...

    uses.__annotations__["it"] = model
    with pytest.raises(TypeError, match=r"uses: .*'it' .*\(Model\).*dataclasses.*agentrt.Tool"):
        agentrt.tool(uses)


def test_a_method_is_no_tool_without_its_object() -> None:
    class Shop:
        def buy(self, what: str) -> str:
            """Buys it."""
            return what

        @classmethod
        def open(cls) -> None: ...

        @staticmethod
        def close(when: int) -> None: ...

    with pytest.raises(TypeError, match=r"Shop.buy is a method.*tool\(obj.buy\)"):
        agentrt.tool(Shop.buy)
    bought = agentrt.tool(Shop().buy)
    assert (bought.name, bought.description) == ("buy", "Buys it.")
    assert list(bought.input_schema["properties"]) == ["what"]
    assert agentrt.tool(Shop.open).input_schema["properties"] == {}
    assert list(agentrt.tool(Shop.close).input_schema["properties"]) == ["when"]


async def test_what_a_partial_has_bound_is_not_the_models_to_choose() -> None:
    def read(folder: str, name: str, *, limit: int = 3) -> str:
        """Reads it."""
        return f"{folder}/{name}/{limit}"

    for bound in (functools.partial(read, "/a"), functools.partial(read, folder="/a")):
        made = agentrt.tool(functools.partial(bound, limit=5))
        assert (made.name, made.description) == ("read", "Reads it.")
        assert list(made.input_schema["properties"]) == ["name"]
        assert await made.fn({"name": "b"}, agentrt.ToolContext()) == "/a/b/5"


async def test_an_object_that_can_be_called_is_a_tool() -> None:
    class Search:
        async def __call__(self, words: str) -> str:
            """Searches for it."""
            return words

    made = agentrt.tool(Search())
    assert (made.name, made.description) == ("Search", "Searches for it.")
    assert await made.fn({"words": "x"}, agentrt.ToolContext()) == "x"


async def test_the_context_may_be_any_parameter() -> None:
    async def says(word: str, context: agentrt.ToolContext, times: int = 2) -> str:
        assert isinstance(context.cancel_scope, trio.CancelScope)
        return word * times

    made = agentrt.tool(says)
    assert list(made.input_schema["properties"]) == ["word", "times"]
    assert await made.fn({"word": "x"}, agentrt.ToolContext()) == "xx"


@pytest.mark.parametrize("wrong", [5, "x", [plain]])
def test_only_what_can_be_called_is_made_a_tool(wrong: Any) -> None:
    with pytest.raises(
        TypeError, match=re.escape("a tool must be made from a function, not from ")
    ):
        agentrt.tool(wrong)
