"""Sessions with agents at the other end of a connection."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import agentrt
from agentrt.agents import Transport
from agentrt.testing import FakeAcpAgent, FakeCodexAgent, MemoryAgent

pytestmark = pytest.mark.usefixtures("forked_demo")

PATIENCE = 60


@asynccontextmanager
async def demo() -> AsyncIterator[trio.SocketStream]:
    """The demo agent, as a program of somebody else's at the other end of a socket."""
    ours, theirs = trio.socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", "agentrt.demo"]
        process = subprocess.Popen(  # noqa: ASYNC220
            command, stdin=theirs.fileno(), stdout=theirs.fileno()
        )
    try:
        yield trio.SocketStream(ours)
    finally:
        await trio.to_thread.run_sync(process.wait)  # noqa: ASYNC102 - its input has ended


@pytest.mark.slow
async def test_a_session_over_a_socket_prompts_and_cancels_and_its_agent_ends(
    tmp_path: Path,
) -> None:
    with trio.fail_after(PATIENCE):
        async with (
            demo() as stream,
            agentrt.agents.connect(stream, cwd=tmp_path, name="far") as session,
        ):
            assert session.agent.name == "far"
            assert (await session.run("/think")).outcome == "completed"
            async with session.prompt("/slow 60") as turn:
                turn.cancel()
            assert turn.result.outcome == "cancelled"


@pytest.mark.slow
async def test_files_of_this_machine_are_lent_only_where_that_is_wished(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("what only this machine knows")
    with trio.fail_after(PATIENCE):
        for files in (False, True):
            async with (
                demo() as stream,
                agentrt.agents.connect(stream, cwd=tmp_path, files=files) as session,
            ):
                result = await session.run("/read note.txt")
            assert ("what only this machine knows" in result.text) == files


@pytest.mark.slow
async def test_the_end_of_the_connection_ends_the_turn_and_a_function_connects_again(
    tmp_path: Path,
) -> None:
    connected: list[trio.SocketStream] = []

    @asynccontextmanager
    async def streams() -> AsyncIterator[tuple[trio.abc.SendStream, trio.abc.ReceiveStream]]:
        async with demo() as stream:
            connected.append(stream)
            yield stream, stream

    with trio.fail_after(PATIENCE):
        async with agentrt.agents.connect(streams, cwd=tmp_path) as session:
            async with session.prompt("/slow 60", check=False) as turn:
                async for event in turn:
                    if isinstance(event, agentrt.ItemOpened) and event.item.type == "tool":
                        await connected[0].aclose()
            assert turn.result.outcome == "agent_died"
            assert (await session.run("/think")).outcome == "completed"
            assert len(connected) == 2


@pytest.mark.slow
@pytest.mark.parametrize("trust", ["no", "ask", "yes"])
async def test_a_remote_agent_is_neither_refused_nor_asked_about(
    trust: Any, tmp_path: Path
) -> None:
    """Its folder is on its own machine, and the program has started it."""
    (tmp_path / ".mcp.json").write_text("{}")
    with trio.fail_after(PATIENCE):
        async with (
            demo() as stream,
            agentrt.agents.connect(stream, cwd=tmp_path, trust=trust) as session,
        ):
            assert (await session.run("/think")).outcome == "completed"
            assert session.pending_permissions == {}


@pytest.mark.slow
async def test_two_streams_alone_are_good_for_one_connection(tmp_path: Path) -> None:
    with trio.fail_after(PATIENCE):
        async with (
            demo() as stream,
            agentrt.agents.connect(stream, stream, cwd=tmp_path) as session,
        ):
            await session.run("/think")
            await stream.aclose()
            with trio.move_on_after(PATIENCE):
                while session.state.phase != "dead":  # noqa: ASYNC110 - the state is what is meant
                    await trio.sleep(0.01)
            with pytest.raises(agentrt.AgentStartError, match="function that opens one"):
                await session.run("/think")


@pytest.mark.parametrize("given", [{"cwd": "project"}, {"roots": ["../other"]}])
async def test_a_folder_elsewhere_is_said_by_its_full_name(given: Any) -> None:
    ours, _ = trio.testing.memory_stream_pair()
    with pytest.raises(agentrt.LocalProtocolError, match="must be an absolute path"):
        async with agentrt.agents.connect(ours, **given):
            pass


async def never() -> Any: ...


@asynccontextmanager
async def backwards() -> AsyncIterator[Any]:
    ours, theirs = trio.testing.memory_stream_one_way_pair()
    yield theirs, ours


@pytest.mark.parametrize("wrong", [object(), never, "ws://HOST/"])
def test_what_is_no_stream_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="two streams"):
        agentrt.agents.connect(wrong)


@pytest.mark.parametrize("wrong", [lambda: None, lambda: nullcontext(5), backwards])
async def test_a_function_that_gives_no_two_streams_is_refused(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(
        TypeError, match=r"a function that returns a block .* with two streams of Trio"
    ):
        async with agentrt.agents.connect(wrong, cwd=tmp_path):
            pass


@pytest.mark.parametrize(
    ("given", "error", "why"),
    [
        ({"name": 5}, TypeError, "`name` must be a string, not int"),
        ({"name": ""}, ValueError, "`name` must not be empty"),
        ({"protocol": "mcp"}, ValueError, "must be one of acp, claude, codex, not 'mcp'"),
    ],
)
def test_a_name_and_a_protocol_are_checked_at_once(
    given: Any, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        agentrt.agents.connect(backwards, **given)


@asynccontextmanager
async def afar(
    side: type[FakeAcpAgent | FakeCodexAgent], script: Callable[[Any], Awaitable[None]]
) -> AsyncIterator[tuple[trio.abc.SendStream, trio.abc.ReceiveStream]]:
    """A scripted agent that somebody else has started."""
    ours, theirs = trio.testing.memory_stream_pair()

    async def program(process: MemoryAgent) -> None:
        async with side.serving(process) as agent:
            await script(agent)

    async def hear(process: Transport) -> None:
        async for data in theirs:
            while data:
                data = data[process.write_nowait(data) :]
                await process.wait_writable()
        process.close_stdin()

    async def speak(process: Transport) -> None:
        while (data := process.read_nowait()) != b"":
            if data is None:
                await process.wait_readable()
            else:
                await theirs.send_all(data)
        await theirs.send_eof()

    async with MemoryAgent(program).connect() as process, trio.open_nursery() as nursery:
        nursery.start_soon(hear, process)
        nursery.start_soon(speak, process)
        yield ours, ours
        nursery.cancel_scope.cancel()


async def test_codex_may_be_elsewhere_too(tmp_path: Path, autojump_clock: MockClock) -> None:
    async def answers(agent: FakeCodexAgent) -> None:
        async for prompt in agent.prompts:
            if prompt.text == "work":
                await prompt.cancelled.wait()
                prompt.end("cancelled")
            else:
                agent.say(f"{prompt.text}, from afar")
                prompt.end()

    async with agentrt.agents.connect(
        lambda: afar(FakeCodexAgent, answers), protocol="codex", name="far", cwd=tmp_path
    ) as session:
        assert (await session.run("hello")).text == "hello, from afar"
        with trio.move_on_after(5) as scope:
            await session.run("work")
        assert scope.cancelled_caught
        assert (await session.run("again")).text == "again, from afar"


async def test_folders_where_the_agent_is_are_not_looked_for_here(tmp_path: Path) -> None:
    async def answers(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            prompt.end()

    far = agentrt.Agent(name="far", command=("far",), connect=lambda: afar(FakeAcpAgent, answers))
    with trio.fail_after(PATIENCE):
        async with agentrt.store.open_store(tmp_path / "journal.db") as journal:
            async with agentrt.open_session(
                far,
                cwd="/no/such",
                roots=["/nor/such"],
                files=False,
                terminals=False,
                store=journal,
            ) as session:
                await session.run("hello")
            async with agentrt.store.reopen_session(
                session.id, journal, agent=far, files=False, terminals=False
            ) as session:
                assert (await session.run("again")).outcome == "completed"


SSH = """\
#!/bin/sh
# What ssh does with its words, on this machine: the host, and then a line for the login shell.
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec sh -c "$*"
"""


@pytest.mark.slow
async def test_an_agent_behind_ssh_is_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    far = agentrt.agents.acp(
        ["ssh", "-T", "HOST", f"exec {sys.executable} -m agentrt.demo"], name="far"
    )
    with trio.fail_after(PATIENCE):
        async with agentrt.open_session(far, cwd=tmp_path) as session:
            assert (await session.run("/think")).outcome == "completed"


STUBBORN = """\
import os, signal, subprocess, sys, time
signal.signal(signal.SIGHUP, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
for line in sys.stdin:
    pass
time.sleep(600)
"""


def test_the_recipe_s_line_ends_an_agent_that_ignores_the_end_of_its_input(
    tmp_path: Path,
) -> None:
    """With all that it has started. It is run as `sshd` and `docker exec` run it: by a shell that
    leads a group of its own, of which nobody here knows anything but the pipes."""
    program, pids = tmp_path / "stubborn.py", tmp_path / "pids"
    program.write_text(STUBBORN)
    page = (Path(__file__).parents[2] / "docs/guides/remote-agents.md").read_text()
    [line] = re.findall(r'^LINE = "(.*)"$', page, re.MULTILINE)
    agent = f"{sys.executable} {program} {pids}"
    line = line.replace("gemini --acp", agent).replace("sleep 3", "sleep 0.1")
    shell = subprocess.Popen(["sh", "-c", line], stdin=subprocess.PIPE, start_new_session=True)
    soon = time.monotonic() + PATIENCE
    while not pids.exists() or len(pids.read_text().split()) < 2:
        assert time.monotonic() < soon
    assert shell.stdin is not None
    shell.stdin.close()
    shell.wait(PATIENCE)
    while not all(map(is_gone, pids.read_text().split())):
        assert time.monotonic() < soon


def is_gone(pid: str) -> bool:
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
