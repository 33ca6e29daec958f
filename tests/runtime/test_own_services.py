"""A program's own files and terminals, and what agentrt still says about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from fakes import Script, log_of, session_with

import agentrt
from agentrt import LocalProtocolError, Notice
from agentrt.events import JsonObject
from agentrt.hosting import SessionControl
from agentrt.testing import FakeAcpAgent
from agentrt.tools import TerminalExit, TerminalOutput

NOWHERE = "/nowhere/project"
"""A folder that this machine has not."""


class Memory:
    """Files in memory."""

    def __init__(self, **files: str) -> None:
        self.files = {f"{NOWHERE}/{name}": text for name, text in files.items()}
        self.asked: list[str] = []

    async def read_text_file(self, path: str) -> str:
        self.asked.append(path)
        await trio.lowlevel.checkpoint()
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    async def write_text_file(self, path: str, content: str) -> None:
        self.asked.append(path)
        await trio.lowlevel.checkpoint()
        self.files[path] = content


class Shell:
    """A terminal in which nothing runs."""

    def __init__(self) -> None:
        self.ended, self.released = trio.Event(), trio.Event()
        self.text = ""
        self.fails = False

    async def output(self) -> TerminalOutput:
        exit = TerminalExit(signal="SIGKILL") if self.ended.is_set() else None
        return TerminalOutput(self.text, exit=exit)

    async def wait(self) -> TerminalExit:
        await self.ended.wait()
        return TerminalExit(exit_code=3)

    async def kill(self) -> None:
        self.ended.set()

    async def release(self) -> None:
        await trio.lowlevel.checkpoint()
        assert not self.released.is_set()
        self.released.set()
        if self.fails:
            raise OSError("the sandbox is gone")


class Shells:
    def __init__(self) -> None:
        self.made: list[Shell] = []
        self.asked: list[Any] = []

    async def create(
        self, command: Sequence[str], *, cwd: str, env: Mapping[str, str], output_limit: int
    ) -> Shell:
        self.asked.append((command, cwd, dict(env), output_limit))
        self.made.append(Shell())
        return self.made[-1]


def asks(answers: list[Any], *requests: tuple[str, JsonObject]) -> Script:
    """An agent that asks its client these things with each prompt."""

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            for method, params in requests:
                answers.append(await agent.request(method, params))
            prompt.end()

    return script


async def read(files: Any, *paths: str, **params: Any) -> list[Any]:
    answers: list[Any] = []
    requests = [("fs/read_text_file", {"path": path, **params}) for path in paths]
    async with session_with(asks(answers, *requests), cwd=NOWHERE, files=files) as (session, _):
        await session.run("read")
    return answers


async def test_a_program_s_files_are_the_agent_s_wherever_they_are() -> None:
    answers: list[Any] = []
    files = Memory(a="one\ntwo\nthree\n")
    script = asks(
        answers,
        ("fs/read_text_file", {"path": f"{NOWHERE}/a"}),
        ("fs/read_text_file", {"path": f"{NOWHERE}/a", "line": 2, "limit": 1}),
        ("fs/write_text_file", {"path": f"{NOWHERE}/sub/b", "content": "new"}),
    )
    async with session_with(script, cwd=NOWHERE, files=files) as (session, _):
        await session.run("go")
    assert [a["result"].get("content") for a in answers] == ["one\ntwo\nthree\n", "two\n", None]
    assert files.files[f"{NOWHERE}/sub/b"] == "new"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        f"{NOWHERE}/../../etc/passwd",
        f"{NOWHERE}-evil/a",
        "a",
    ],
)
async def test_the_program_is_not_asked_for_what_is_outside_of_the_session_s_folders(
    path: str,
) -> None:
    files = Memory(a="")
    [answer] = await read(files, path)
    assert answer["error"]["code"] == -32602
    assert files.asked == []


async def test_what_starts_programs_unasked_is_not_for_the_agent_to_write() -> None:
    files, answers = Memory(), list[Any]()
    path = f"{NOWHERE}/.git/hooks/pre-commit"
    script = asks(answers, ("fs/write_text_file", {"path": path, "content": "rm -rf /"}))
    async with session_with(script, cwd=NOWHERE, files=files) as (session, _):
        await session.run("go")
    assert "agents may not write" in answers[0]["error"]["message"]
    assert files.files == {}


async def test_a_link_on_this_machine_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "link").symlink_to(tmp_path / "secret")
    files, answers = Memory(), list[Any]()
    path = str(tmp_path / "project" / "link")
    script = asks(answers, ("fs/read_text_file", {"path": path}))
    async with session_with(script, cwd=str(tmp_path / "project"), files=files) as (session, _):
        await session.run("go")
    assert "outside" in answers[0]["error"]["message"]
    assert files.asked == []


async def test_an_error_of_the_system_is_told_as_what_it_is() -> None:
    [answer] = await read(Memory(), f"{NOWHERE}/gone")
    assert answer["error"]["code"] == -32002
    assert "no such file" in answer["error"]["message"]


async def test_what_is_no_text_is_a_failure_of_the_program_and_a_file_has_a_bound() -> None:
    class Odd(Memory):
        async def read_text_file(self, path: str) -> str:
            return b"bytes" if path.endswith("bytes") else "x" * 200  # type: ignore[return-value]

    answers: list[Any] = []
    script = asks(
        answers,
        ("fs/read_text_file", {"path": f"{NOWHERE}/bytes"}),
        ("fs/read_text_file", {"path": f"{NOWHERE}/long"}),
    )
    limits = agentrt.Limits(file_bytes=100)
    async with session_with(script, cwd=NOWHERE, files=Odd(), limits=limits) as (session, _):
        await session.run("go")
        codes = [event.code for event in log_of(session) if isinstance(event, Notice)]
    assert "not str" in answers[0]["error"]["message"]
    assert "larger than 100 bytes" in answers[1]["error"]["message"]
    assert codes == ["handler_failed"]


async def test_a_program_s_terminals_are_the_agent_s_from_create_to_release() -> None:
    answers: list[Any] = []
    shells = Shells()
    env = [{"name": "LD_PRELOAD", "value": "x.so"}, {"name": "CI", "value": "1"}]

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            params = {"command": "make all | tee log", "env": env, "outputByteLimit": 5}
            made = (await agent.request("terminal/create", params))["result"]
            shell = shells.made[0]
            content = [{"type": "terminal", **made}]
            fields = {"toolCallId": "c", "title": "make", "content": content}
            agent.update("tool_call", status="in_progress", **fields)
            shell.text = "hello\n"
            answers.append(await agent.request("terminal/output", made))
            answers.append(await agent.request("terminal/kill", made))
            answers.append(await agent.request("terminal/output", made))
            answers.append(await agent.request("terminal/wait_for_exit", made))
            answers.append(await agent.request("terminal/release", made))
            answers.append(await agent.request("terminal/output", made))
            agent.update("tool_call_update", toolCallId="c", status="completed")
            prompt.end()

    async with session_with(script, cwd=NOWHERE, terminals=shells) as (session, _):
        await session.run("go")
        [tool] = [item for item in session.log.state.items.values() if item.type == "tool"]
        assert session.log.state.text(tool.id) == "hello\n"
    assert shells.asked == [
        (["/bin/sh", "-c", "make all | tee log"], NOWHERE, {"CI": "1"}, 5),
    ]
    assert [answer.get("result") for answer in answers] == [
        {"output": "hello\n", "truncated": False},
        {},
        {"output": "hello\n", "truncated": False, "exitStatus": {"signal": "SIGKILL"}},
        {"exitCode": 3},
        {},
        None,
    ]
    assert answers[-1]["error"]["code"] == -32002
    assert shells.made[0].released.is_set()


@pytest.mark.parametrize("how", ["the session ends", "the agent dies"])
async def test_a_terminal_that_the_agent_leaves_behind_is_released(how: str) -> None:
    shells = Shells()

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            for _ in range(2):
                await agent.request("terminal/create", {"command": "ls"})
            shells.made[0].fails = True
            prompt.end()

    async with session_with(script, cwd=NOWHERE, terminals=shells) as (session, agents):
        await session.run("go")
        if how == "the agent dies":
            agents.processes[0].exit(-9)
            for shell in shells.made:
                await shell.released.wait()
        else:
            assert not shells.made[0].released.is_set()
    assert all(shell.released.is_set() for shell in shells.made)
    messages = [event.message for event in log_of(session) if isinstance(event, Notice)]
    assert any("the sandbox is gone" in message for message in messages) or how != "the agent dies"


async def test_terminals_of_a_program_are_as_many_as_the_session_may_have() -> None:
    answers: list[Any] = []
    script = asks(answers, *[("terminal/create", {"command": "ls"})] * 3)
    limits = agentrt.Limits(open_terminals=2)
    async with session_with(script, cwd=NOWHERE, terminals=Shells(), limits=limits) as (session, _):
        await session.run("go")
    assert ["result" in answer for answer in answers] == [True, True, False]
    assert "2 terminals are open" in answers[2]["error"]["message"]


async def test_a_wait_for_a_program_is_cancelled_with_its_turn() -> None:
    shells, answers = Shells(), list[Any]()
    waiting = trio.Event()

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            made = (await agent.request("terminal/create", {"command": "ls"}))["result"]
            waiting.set()
            answers.append(await agent.request("terminal/wait_for_exit", made))
            prompt.end("cancelled")

    async with (
        session_with(script, cwd=NOWHERE, terminals=shells) as (session, _),
        session.prompt("go") as turn,
    ):
        await waiting.wait()
        await trio.testing.wait_all_tasks_blocked()
        turn.cancel()
    assert answers[0]["error"]["code"] == -32800


async def test_what_the_program_has_is_not_taken_from_an_editor() -> None:
    """A sandbox would be none if somebody's editor could stand in for it."""

    class Editor:
        def serves(self, method: str, params: JsonObject) -> bool:
            return True

        async def call(self, method: str, params: JsonObject) -> JsonObject:
            return {"content": "the editor's"}

        def release(self, session: str) -> None: ...

    answers: list[Any] = []
    script = asks(answers, ("fs/read_text_file", {"path": f"{NOWHERE}/a"}))
    async with session_with(script, cwd=NOWHERE, files=Memory(a="mine")) as (session, _):
        SessionControl(session).clients.append(Editor())
        await session.run("go")
    assert answers[0]["result"] == {"content": "mine"}


async def test_services_that_cannot_be_meant_are_refused_at_once() -> None:
    for given in ({"files": "yes"}, {"files": Shells()}, {"terminals": Memory()}):
        with pytest.raises(TypeError, match="your own object"):
            async with agentrt.open_session("demo", **given):
                pass
    for agent in (
        agentrt.agents.claude(command=["true"]),
        agentrt.Agent(name="x", command=("true",), protocol="codex"),
    ):
        with pytest.raises(LocalProtocolError, match="by itself"):
            async with agentrt.open_session(agent, files=Memory()):
                pass
