"""Agents in a container of a real `dockerd`, and no other program between."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import trio

import agentrt

DOCKERD = shutil.which("dockerd") or shutil.which("dockerd", path="/usr/sbin:/usr/local/sbin")
DOCKER = shutil.which("docker")
PATIENCE = 180
OTHERS = 600
"""Seconds for the tests of another process that use `docker0`."""
PAGE = Path(__file__).parents[2] / "docs/guides/remote-agents.md"
SYSTEM = [each for each in ("/bin", "/etc", "/lib", "/lib64", "/usr") if Path(each).exists()]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        DOCKERD is None or DOCKER is None or os.geteuid() != 0,
        reason="needs docker and dockerd, and root to start it: apt-get install docker.io",
    ),
]


class Daemon:
    """A daemon with a folder of its own, which asks no registry.

    Containers have no network unless `network` is true. A daemon without one runs in a network
    namespace of its own, because `--bridge=none` deletes the bridge `docker0`, which another
    daemon may use. A daemon with a network owns `docker0`, so only one of them runs at a time.
    """

    def __init__(self, folder: Path, *, network: bool = False) -> None:
        assert DOCKERD is not None
        self.address = f"unix://{folder}/socket"
        self._log = folder / "log"
        settings = folder / "settings"
        settings.write_text("{}")  # not the machine's
        without = ["--iptables=false", "--bridge=none", "--storage-driver=vfs"]
        program = [DOCKERD] if network else ["unshare", "--net", DOCKERD, *without]
        folders = [f"--data-root={folder}/data", f"--exec-root={folder}/exec"]
        own = [f"--pidfile={folder}/pid", f"--config-file={settings}", "--host", self.address]
        self._bridge = own_bridge() if network else None
        with self._log.open("w") as log:
            self._process = subprocess.Popen([*program, *folders, *own], stderr=log)

    def wait(self) -> None:
        soon = time.monotonic() + PATIENCE
        while self("version").returncode:
            if self._process.poll() is not None or time.monotonic() > soon:
                self.end()
                pytest.skip(f"dockerd does not run here: {self._log.read_text()[-300:]}")

    def command(self, *words: str) -> list[str]:
        assert DOCKER is not None
        return [DOCKER, "--host", self.address, *words]

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*words), capture_output=True, text=True)

    def done(self, *words: str) -> str:
        said = self(*words)
        assert said.returncode == 0, said.stderr
        return said.stdout.strip()

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)
        if self._bridge is not None:
            os.close(self._bridge)


def own_bridge() -> int:
    """Wait until no other test's daemon uses `docker0`, and keep others out until it is closed."""
    path = Path(tempfile.gettempdir(), "agentrt-docker0.lock")
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    soon = time.monotonic() + OTHERS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            if time.monotonic() > soon:
                os.close(file)
                pytest.fail(f"another test has used docker0 for {OTHERS} s (it locks {path})")
            time.sleep(0.5)


class Container:
    """It has this machine's programs, Python and the package, and one folder to work in."""

    def __init__(self, daemon: Daemon, name: str, work: Path) -> None:
        self.daemon, self.name, self.work = daemon, name, work

    def exec(self, *command: str) -> list[str]:
        return self.daemon.command("exec", "-i", self.name, *command)

    def commands(self) -> dict[int, list[str]]:
        """What runs in it, but for what it was started with."""
        found = {}
        for pid in map(int, self.daemon.done("top", self.name, "-eo", "pid").split()[1:]):
            try:
                found[pid] = psutil.Process(pid).cmdline()
            except psutil.Error:
                continue  # it has ended meanwhile
        return {pid: each for pid, each in found.items() if each and "infinity" not in each}

    async def has(self, mark: str) -> None:
        while not any(mark in each for each in self.commands().values()):  # noqa: ASYNC110
            await trio.sleep(0.05)

    async def empty(self) -> None:
        while self.commands():  # noqa: ASYNC110 - processes of somebody else's
            await trio.sleep(0.05)


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    # Not pytest's folder: a socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="agentrt-docker-") as folder:
        made = Daemon(Path(folder))
        made.wait()
        with tarfile.open(f"{folder}/empty.tar", "w"):
            pass  # the container's folders are all mounted
        made.done("import", f"{folder}/empty.tar", "empty")
        yield made
        made.end()


@pytest.fixture
def container(daemon: Daemon, tmp_path: Path) -> Iterator[Container]:
    source = Path(agentrt.__file__).parents[1]
    folders = [*SYSTEM, sys.prefix, sys.base_prefix, str(source)]
    mounts = [word for each in dict.fromkeys(folders) for word in ("-v", f"{each}:{each}:ro")]
    mounts += ["-v", f"{tmp_path}:{tmp_path}"]
    options = ["-d", "--rm", "--network=none", "-e", f"PYTHONPATH={source}"]
    name = daemon.done("run", *options, *mounts, "empty", "/bin/sleep", "infinity")
    yield Container(daemon, name, tmp_path)
    daemon.done("rm", "-f", name)


def line_of(agent: str) -> str:
    """The page's line, which ends what an agent leaves behind."""
    [line] = re.findall(r'^LINE = "(.*)"$', PAGE.read_text(), re.MULTILINE)
    return line.replace("gemini --acp", agent).replace("sleep 3", "sleep 0.2")


async def test_an_agent_in_a_container_prompts_cancels_and_ends_with_the_session(
    container: Container,
) -> None:
    boxed = agentrt.agents.acp(container.exec(sys.executable, "-m", "agentrt.demo"), name="boxed")
    with trio.fail_after(PATIENCE):
        async with agentrt.open_session(
            boxed, cwd=container.work, files=False, terminals=False
        ) as session:
            assert (await session.run("/think")).outcome == "completed"
            async with session.prompt("/slow 60") as turn:
                turn.cancel()
            assert turn.result.outcome == "cancelled"
            assert len(container.commands()) == 1
        await container.empty()


async def test_an_agent_that_is_killed_in_a_container_is_started_again_there(
    container: Container,
) -> None:
    line = line_of(f"{sys.executable} -m agentrt.demo")
    boxed = agentrt.agents.acp(container.exec("sh", "-c", line), name="boxed")
    with trio.fail_after(PATIENCE):
        async with agentrt.open_session(boxed, cwd=container.work) as session:
            async with session.prompt("/slow 60", check=False) as turn:
                async for event in turn:
                    if isinstance(event, agentrt.ItemOpened) and event.item.type == "tool":
                        commands = container.commands().items()
                        [pid] = [pid for pid, each in commands if each[0] == sys.executable]
                        os.kill(pid, signal.SIGKILL)
            assert turn.result.outcome == "agent_died"
            assert (await session.run("/think")).outcome == "completed"
        await container.empty()


@pytest.mark.parametrize("line", [False, True])
async def test_a_client_that_is_killed_leaves_there_what_ignores_the_end_of_its_input(
    container: Container, line: bool
) -> None:
    """Unless the page's line is around it."""
    stubborn = [sys.executable, "-c", "import time; time.sleep(600)", "stubborn"]
    quoted = f"{sys.executable} -c 'import time; time.sleep(600)' stubborn"
    command = ["sh", "-c", line_of(quoted)] if line else stubborn
    client = subprocess.Popen(  # noqa: ASYNC220
        container.exec(*command), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with trio.fail_after(PATIENCE):
        await container.has("stubborn")
        client.kill()
        client.communicate()
        if line:
            await container.empty()
        else:
            await trio.sleep(1)
            assert [*container.commands().values()] == [stubborn]


async def test_a_container_that_is_not_there_is_an_agent_that_does_not_start(
    daemon: Daemon, tmp_path: Path
) -> None:
    nowhere = daemon.command("exec", "-i", "nowhere", "sh")
    with trio.fail_after(PATIENCE), pytest.raises(agentrt.AgentStartError) as failed:
        async with agentrt.open_session(agentrt.agents.acp(nowhere, name="boxed"), cwd=tmp_path):
            pass
    assert "No such container: nowhere" in failed.value.stderr
