"""`agentrt acp` behind the official client for Python, which is asyncio's."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import acp
import pytest
from acp.schema import AllowedOutcome, ClientCapabilities, FileSystemCapabilities

pytestmark = pytest.mark.slow

PATIENCE = 60.0
AGENTRT = (sys.executable, "-m", "agentrt")


class Editor(acp.Client):
    """It allows everything, and has files that are stored nowhere."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[str] = []
        self.read: list[str] = []

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> acp.RequestPermissionResponse:
        self.asked.append(tool_call.title)
        [allow] = [option for option in options if option.kind == "allow_once"]
        outcome = AllowedOutcome(outcome="selected", option_id=allow.option_id)
        return acp.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(
        self, path: str, session_id: str, **_: Any
    ) -> acp.ReadTextFileResponse:
        self.read.append(path)
        return acp.ReadTextFileResponse(content="as it is in the editor")

    @property
    def text(self) -> str:
        return self.texts("agent_message_chunk")

    def texts(self, kind: str) -> str:
        chunks = [update for update in self.updates if update.session_update == kind]
        return "".join(chunk.content.text for chunk in chunks)

    @property
    def tools(self) -> dict[str, str]:
        """The status of each tool call."""
        kinds = ("tool_call", "tool_call_update")
        calls = [update for update in self.updates if update.session_update in kinds]
        return {call.tool_call_id: call.status for call in calls if call.status}

    @property
    def shows(self) -> tuple[str, str, dict[str, str]]:
        return self.texts("user_message_chunk"), self.text, self.tools


class Onlooker(Editor):
    """It shows questions, and leaves them to somebody else."""

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> acp.RequestPermissionResponse:
        self.asked.append(tool_call.title)
        await asyncio.sleep(PATIENCE)
        raise AssertionError("the question was not taken back")


def environment(home: Path) -> dict[str, str]:
    kept = ("PATH", "LANG", "AGENTRT_TEST_RUN")
    return {n: v for n, v in os.environ.items() if n in kept} | {"HOME": str(home)}


async def talk(home: Path) -> Editor:
    editor = Editor()
    command = [sys.executable, "-m", "agentrt", "acp", "--agent", "demo", "--model", "instant"]
    env = environment(home)
    async with acp.spawn_agent_process(editor, *command, env=env, cwd=home) as (agent, process):
        offers = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True))
        said = await agent.initialize(protocol_version=1, client_capabilities=offers)
        assert said.agent_info is not None
        assert said.agent_info.name == "agentrt"
        session = await agent.new_session(cwd=str(home), mcp_servers=[])
        for prompt in ("/ask", "/read notes.txt"):
            ended = await agent.prompt(
                session_id=session.session_id, prompt=[acp.text_block(prompt)]
            )
            assert ended.stop_reason == "end_turn"
        listed = await agent.list_sessions(cwd=str(home))
        assert [each.session_id for each in listed.sessions] == [session.session_id]
    assert process.returncode == 0
    return editor


def test_the_official_client_for_python_has_a_conversation(tmp_path: Path) -> None:
    editor = asyncio.run(asyncio.wait_for(talk(tmp_path), PATIENCE))
    assert editor.asked
    assert editor.read == [str(tmp_path / "notes.txt")]
    assert "Allowed, so I did nothing" in editor.text
    assert "as it is in the editor" in editor.text


@asynccontextmanager
async def attached(editor: Editor, home: Path) -> AsyncIterator[tuple[Any, Process]]:
    """The editor on the server of that home."""
    command = [*AGENTRT, "acp", "--attach"]
    env = environment(home)
    async with acp.spawn_agent_process(editor, *command, env=env, cwd=home) as (agent, process):
        await agent.initialize(protocol_version=1)
        yield agent, process


@asynccontextmanager
async def serving(home: Path) -> AsyncIterator[None]:
    """A server of that home, with the demo agent."""
    command = [*AGENTRT, "serve", "--agent", "demo", "--model", "instant"]
    server = await asyncio.create_subprocess_exec(
        *command, env=environment(home), cwd=home, stdout=PIPE
    )
    try:
        assert server.stdout is not None
        await server.stdout.readline()  # it is there
        yield
    finally:
        server.terminate()
        await server.communicate()


async def said(agent: Any, session: str, text: str) -> str:
    ended = await agent.prompt(session_id=session, prompt=[acp.text_block(text)])
    return str(ended.stop_reason)


async def until(check: Callable[[], object]) -> None:
    while not check():  # noqa: ASYNC110 - what others do
        await asyncio.sleep(0.02)


async def talk_together(home: Path) -> None:
    answers, looks = Editor(), Onlooker()
    run, env = asyncio.create_subprocess_exec, environment(home)
    async with (
        serving(home),
        attached(answers, home) as (one, _),
        attached(looks, home) as (two, _),
    ):
        session = (await one.new_session(cwd=str(home), mcp_servers=[])).session_id
        await two.load_session(cwd=str(home), session_id=session, mcp_servers=[])
        assert await said(two, session, "/ask") == "end_turn"
        assert answers.asked == looks.asked
        assert "Allowed" in answers.text

        script = [*AGENTRT, "attach", "-p", "list the files", "--session", session]
        third = await run(*script, env=env, cwd=home, stdin=DEVNULL, stdout=PIPE)
        out, _ = await third.communicate()
        assert third.returncode == 0
        await until(lambda: out.decode().strip() in answers.text)

        lasts = asyncio.create_task(said(one, session, "/slow 60"))
        await until(lambda: any(u.session_update == "tool_call" for u in looks.updates[-3:]))
        await two.cancel(session_id=session)
        assert await lasts == "cancelled"
        await said(one, session, "/title the end")
        await until(lambda: answers.text == looks.text)


def test_two_of_them_and_a_script_have_one_conversation_of_a_server(tmp_path: Path) -> None:
    asyncio.run(asyncio.wait_for(talk_together(tmp_path), PATIENCE))


async def prompt_and_be_killed(
    home: Path, session: str, witness: Editor, prompt: str, dice: Random
) -> None:
    """Load the session as the witness shows it, prompt, and lose the process at some moment."""
    editor = Editor()
    async with attached(editor, home) as (agent, process):
        await agent.load_session(cwd=str(home), session_id=session, mcp_servers=[])
        assert editor.shows == witness.shows
        prompting = asyncio.create_task(said(agent, session, prompt))
        if dice.random() < 0.5:
            await until(lambda: prompt in witness.texts("user_message_chunk"))
        await asyncio.sleep(dice.choice((0, 0, 0.01, 0.05)))
        process.kill()
        await process.wait()
    await asyncio.gather(prompting, return_exceptions=True)


async def talk_with_cuts(home: Path, cuts: int) -> None:
    dice, witness, other = Random(cuts), Editor(), Editor()
    async with (
        serving(home),
        attached(witness, home) as (looks, _),
        attached(other, home) as (one, _),
    ):
        session = (await one.new_session(cwd=str(home), mcp_servers=[])).session_id
        await looks.load_session(cwd=str(home), session_id=session, mcp_servers=[])
        for number in range(cuts):
            prompt = ("/ask", "/think", "hello")[number % 3] + f" {number}"
            await prompt_and_be_killed(home, session, witness, prompt, dice)
            # Its turn is over when the next one is answered.
            assert await said(one, session, f"end {number}") == "end_turn"
            await until(lambda: (witness.text, witness.tools) == (other.text, other.tools))
        last = Editor()
        async with attached(last, home) as (two, _):
            await two.load_session(cwd=str(home), session_id=session, mcp_servers=[])
            assert last.shows == witness.shows
            assert last.text
            assert last.tools or cuts < 10, "every prompt was lost with its client"


@pytest.mark.parametrize("cuts", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_whatever_moment_it_is_killed_at_the_next_one_sees_the_same(
    cuts: int, tmp_path: Path
) -> None:
    asyncio.run(asyncio.wait_for(talk_with_cuts(tmp_path, cuts), 10 * PATIENCE))
