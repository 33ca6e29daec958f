"""Requests for files and terminals that a client of the session serves, and what agentrt still says
about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from fakes import Script, session_with

from agentrt import Session
from agentrt.errors import RequestError
from agentrt.events import JsonObject
from agentrt.hosting import ClientGone, SessionControl
from agentrt.testing import FakeAcpAgent

PATIENCE = 20.0


class Client:
    """Serves these methods, with these answers or errors."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {name.replace("_", "/", 1): answer for name, answer in answers.items()}
        self.asked: list[tuple[str, JsonObject]] = []
        self.released: list[str] = []
        self.called, self.withdrawn = trio.Event(), trio.Event()

    def serves(self, method: str, params: JsonObject) -> bool:
        return method in self.answers

    async def call(self, method: str, params: JsonObject) -> JsonObject:
        self.asked.append((method, params))
        self.called.set()
        answer = self.answers[method]
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            try:
                await trio.sleep_forever()
            finally:
                self.withdrawn.set()
        result: JsonObject = answer
        return result

    def release(self, session: str) -> None:
        self.released.append(session)


def asks(answers: list[Any], *requests: tuple[str, JsonObject]) -> Script:
    """An agent that asks its client these things with each prompt."""

    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            for method, params in requests:
                answers.append(await agent.request(method, params))
            prompt.end()

    return script


def lend(session: Session, *clients: Client) -> None:
    SessionControl(session).clients.extend(clients)


async def test_a_client_s_files_are_the_agent_s_and_the_last_client_s_first(
    tmp_path: Path,
) -> None:
    answers: list[Any] = []
    path = {"path": str(tmp_path / "a.txt")}
    script = asks(answers, ("fs/read_text_file", path))
    async with session_with(script, cwd=str(tmp_path)) as (session, _):
        first, second = Client(fs_read_text_file={"content": "1"}), Client(terminal_create={})
        third = Client(fs_read_text_file={"content": "3"})
        lend(session, first, third, second)
        await session.run("read")
        assert answers[0]["result"] == {"content": "3"}
        assert third.asked == [("fs/read_text_file", {"sessionId": session.id, **path})]
        assert not first.asked


@pytest.mark.parametrize("offers", [{}, {"fs_read_text_file": ClientGone()}])
async def test_without_a_client_and_when_it_goes_agentrt_s_own_files_serve(
    offers: dict[str, Any], tmp_path: Path
) -> None:
    answers: list[Any] = []
    (tmp_path / "a.txt").write_text("stored")
    script = asks(answers, ("fs/read_text_file", {"path": str(tmp_path / "a.txt")}))
    async with session_with(script, cwd=str(tmp_path)) as (session, _):
        lend(session, Client(**offers))
        await session.run("read")
        assert answers[0]["result"] == {"content": "stored"}


async def test_an_error_of_the_client_is_the_agent_s_answer(tmp_path: Path) -> None:
    answers: list[Any] = []
    script = asks(answers, ("fs/read_text_file", {"path": str(tmp_path / "a.txt")}))
    async with session_with(script, cwd=str(tmp_path)) as (session, _):
        lend(session, Client(fs_read_text_file=RequestError(-32002, "no such buffer")))
        await session.run("read")
        assert answers[0]["error"]["code"] == -32002
        assert "no such buffer" in answers[0]["error"]["message"]


async def test_a_terminal_that_went_with_its_client_is_an_error(tmp_path: Path) -> None:
    answers: list[Any] = []
    script = asks(answers, ("terminal/wait_for_exit", {"terminalId": "t"}))
    async with session_with(script, cwd=str(tmp_path)) as (session, _):
        lend(session, Client(terminal_wait_for_exit=ClientGone()))
        await session.run("wait")
        assert "went with its editor" in answers[0]["error"]["message"]


async def test_a_command_is_given_to_the_client_as_agentrt_would_run_it(tmp_path: Path) -> None:
    """With words instead of a line for a shell, the folder, and no variable that the agent may
    not set."""
    env = [{"name": "LD_PRELOAD", "value": "x.so"}, {"name": "CI", "value": "1"}]
    request = {"command": "echo $HOME | wc", "env": env, "outputByteLimit": 5}
    answers: list[Any] = []
    script = asks(answers, ("terminal/create", request))
    async with session_with(script, cwd=str(tmp_path)) as (session, _):
        client = Client(terminal_create={"terminalId": "t"})
        lend(session, client)
        await session.run("run")
        [(_, asked)] = client.asked
        assert (asked["command"], asked["args"]) == ("/bin/sh", ["-c", "echo $HOME | wc"])
        assert asked["env"] == [{"name": "CI", "value": "1"}]
        assert asked["cwd"] == str(tmp_path)
        assert asked["outputByteLimit"] == 5


async def test_what_a_client_s_terminal_shows_is_seen_by_all(tmp_path: Path) -> None:
    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            content = [{"type": "terminal", "terminalId": "t"}]
            fields = {"toolCallId": "c", "title": "Run", "content": content}
            agent.update("tool_call", status="in_progress", **fields)
            for output in ("one\n", "one\ntwo\n", "wo\nthree\n"):
                client.answers["terminal/output"] = {"output": output, "truncated": False}
                await agent.request("terminal/output", {"terminalId": "t"})
            agent.update("tool_call_update", toolCallId="c", status="completed")
            prompt.end()

    client = Client(terminal_output={})
    async with session_with(script, cwd=str(tmp_path)) as (session, _):
        lend(session, client)
        await session.run("run")
        [tool] = [i for i in session.log.state.items.values() if i.type == "tool"]
        assert session.log.state.text(tool.id) == "one\ntwo\nwo\nthree\n"


async def test_a_cancelled_turn_withdraws_what_the_client_was_asked(tmp_path: Path) -> None:
    script = asks([], ("terminal/wait_for_exit", {"terminalId": "t"}))
    client = Client(terminal_wait_for_exit=None)
    with trio.fail_after(PATIENCE):
        async with session_with(script, cwd=str(tmp_path)) as (session, _):
            lend(session, client)
            turn = session.submit("wait")
            await client.called.wait()
            turn.cancel()
            await client.withdrawn.wait()


async def test_the_client_is_told_when_the_agent_that_had_its_terminals_is_gone(
    tmp_path: Path,
) -> None:
    async def script(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            if prompt.text == "die":
                return
            prompt.end()

    client = Client()
    async with session_with(script, cwd=str(tmp_path)) as (session, _):
        lend(session, client)
        await session.run("die", check=False)
        await session.run("again")
        assert client.released[0] == session.id
