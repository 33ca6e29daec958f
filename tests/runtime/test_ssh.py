"""Agents behind a real `sshd`, and no other program between."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest
import trio

import agentrt

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
PATIENCE = 60
PAGE = Path(__file__).parents[2] / "docs/guides/remote-agents.md"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        SSHD is None or shutil.which("ssh") is None,
        reason="ssh and sshd are not installed: apt-get install openssh-server",
    ),
]


class Host:
    """A host that can be reached by ssh: this machine, by keys made for the test."""

    def __init__(self, folder: Path, port: int) -> None:
        self.options = [
            *("-F", "none", "-p", str(port), "-i", str(folder / "key")),
            *("-o", f"UserKnownHostsFile={folder / 'known'}", "-o", "IdentitiesOnly=yes"),
            *("-o", "BatchMode=yes", "-o", "LogLevel=ERROR"),
        ]

    def ssh(self, *command: str) -> list[str]:
        return ["ssh", "-T", *self.options, f"{getpass.getuser()}@127.0.0.1", *command]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """While `sshd` runs, with keys and settings of its own, and without rights that the test does
    not have."""
    folder = tmp_path_factory.mktemp("ssh", numbered=True)
    for name in ("host_key", "key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    public = (folder / "key.pub").read_text()
    (folder / "authorized").write_text(public)
    port = free_port()
    kind, key, *_ = (folder / "host_key.pub").read_text().split()
    (folder / "known").write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder / 'host_key'}\n"
        f"AuthorizedKeysFile {folder / 'authorized'}\nPidFile none\nStrictModes no\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\n"
        "PermitRootLogin prohibit-password\n"
    )
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where a privileged one separates itself
    assert SSHD is not None
    log = folder / "log"
    daemon = subprocess.Popen([SSHD, "-D", "-f", str(folder / "config"), "-E", str(log)])
    try:
        there = Host(folder, port)
        soon = time.monotonic() + PATIENCE
        while subprocess.run(there.ssh("true"), capture_output=True).returncode:
            assert daemon.poll() is None, log.read_text()
            assert time.monotonic() < soon, log.read_text()
        yield there
    finally:
        daemon.terminate()
        daemon.wait(PATIENCE)


def agents(mark: str) -> list[psutil.Process]:
    """Those whose command has this in it, the shells around them left out."""
    found = []
    for each in psutil.process_iter():
        try:
            command = each.cmdline()
        except psutil.Error:
            continue
        if mark in command and "agentrt.demo" in command:
            found.append(each)
    return found


async def gone(mark: str) -> None:
    while agents(mark):  # noqa: ASYNC110 - processes of somebody else's
        await trio.sleep(0.05)


def line_of(agent: str) -> str:
    """The page's line, which ends what an agent leaves behind."""
    [line] = re.findall(r'^LINE = "(.*)"$', PAGE.read_text(), re.MULTILINE)
    return line.replace("gemini --acp", agent).replace("sleep 3", "sleep 0.2")


async def test_an_agent_behind_ssh_prompts_cancels_and_ends_with_the_session(
    host: Host, tmp_path: Path
) -> None:
    mark = f"-X=ends-{tmp_path.name}"
    agent = f"exec {sys.executable} {mark} -m agentrt.demo"
    far = agentrt.agents.acp(host.ssh(agent), name="far")
    (tmp_path / "note.txt").write_text("of the other machine")
    with trio.fail_after(PATIENCE):
        async with agentrt.open_session(far, cwd=tmp_path, files=False, terminals=False) as session:
            assert (await session.run("/think")).outcome == "completed"
            async with session.prompt("/slow 60") as turn:
                turn.cancel()
            assert turn.result.outcome == "cancelled"
            assert len(agents(mark)) == 1
        await gone(mark)


async def test_an_agent_that_is_killed_there_is_started_again_over_ssh(
    host: Host, tmp_path: Path
) -> None:
    mark = f"-X=again-{tmp_path.name}"
    far = agentrt.agents.acp(
        host.ssh(line_of(f"{sys.executable} {mark} -m agentrt.demo")), name="far"
    )
    with trio.fail_after(PATIENCE):
        async with agentrt.open_session(far, cwd=tmp_path) as session:
            async with session.prompt("/slow 60", check=False) as turn:
                async for event in turn:
                    if isinstance(event, agentrt.ItemOpened) and event.item.type == "tool":
                        [one] = agents(mark)
                        one.kill()
            assert turn.result.outcome == "agent_died"
            assert (await session.run("/think")).outcome == "completed"
        await gone(mark)


async def test_a_cut_connection_leaves_nothing_there_behind_the_page_s_line(
    host: Host, tmp_path: Path
) -> None:
    """The agent ignores that nobody is there any more; the line does not."""
    mark = f"-X=cut-{tmp_path.name}"
    stubborn = f"{sys.executable} {mark} -c 'import time; time.sleep(600)' agentrt.demo"
    ssh = subprocess.Popen(  # noqa: ASYNC220
        host.ssh(line_of(stubborn)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with trio.fail_after(PATIENCE):
        while not agents(mark):  # noqa: ASYNC110 - processes of somebody else's
            await trio.sleep(0.05)
        ssh.kill()
        await gone(mark)
    ssh.communicate()


async def test_streams_of_ssh_can_be_given_to_connect_and_are_opened_again(
    host: Host, tmp_path: Path
) -> None:
    mark = f"-X=streams-{tmp_path.name}"
    command = host.ssh(f"exec {sys.executable} {mark} -m agentrt.demo")
    opened: list[trio.Process] = []

    @asynccontextmanager
    async def streams() -> AsyncIterator[tuple[trio.abc.SendStream, trio.abc.ReceiveStream]]:
        async with trio.open_nursery() as nursery:
            run = partial(
                trio.run_process,
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                check=False,
            )
            process: trio.Process = await nursery.start(run)
            opened.append(process)
            assert process.stdin is not None
            assert process.stdout is not None
            yield process.stdin, process.stdout
            nursery.cancel_scope.cancel()

    with trio.fail_after(PATIENCE):
        async with agentrt.agents.connect(streams, cwd=tmp_path, name="far") as session:
            async with session.prompt("/slow 60", check=False) as turn:
                async for event in turn:
                    if isinstance(event, agentrt.ItemOpened) and event.item.type == "tool":
                        opened[0].kill()
            assert turn.result.outcome == "agent_died"
            assert (await session.run("/think")).outcome == "completed"
            assert len(opened) == 2
        await gone(mark)


async def test_a_host_that_lets_nobody_in_is_an_agent_that_does_not_start(
    host: Host, tmp_path: Path
) -> None:
    wrong = ["/dev/null" if each.endswith("/key") else each for each in host.ssh("true")]
    with trio.fail_after(PATIENCE), pytest.raises(agentrt.AgentStartError) as failed:
        async with agentrt.open_session(agentrt.agents.acp(wrong, name="far"), cwd=tmp_path):
            pass
    assert "Permission denied (publickey)" in failed.value.stderr
