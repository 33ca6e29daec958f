"""The guard program: small, quiet, shared, and there when the host is killed."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest
import trio
import trio.testing
from child_programs import (
    WRITE_BEHIND_A_CHILD,
    check_none_went_on,
    running,
    started,
    until,
    until_gone,
)

from agentrt._core.process.guard import guard
from agentrt.errors import AgentStartError
from inside.process import MARKER
from inside.process import guard as guard_module

pytestmark = pytest.mark.linux_only("agents end with a killed host")


def programs(of: psutil.Process | None = None) -> list[psutil.Process]:
    """The guard programs of a host, else of this process."""
    children = (of or psutil.Process()).children()
    return [child for child in children if "supervisor.py" in program_of(child)]


def program_of(process: psutil.Process) -> str:
    """Its command line; nothing if it has ended."""
    try:
        while not (words := process.cmdline()):
            time.sleep(0.001)  # just being loaded
    except psutil.Error:
        return ""
    return " ".join(words)


async def loaded() -> psutil.Process:
    """The guard program, once it watches the host."""
    (program,) = programs()
    await until(lambda: "anon_inode:[pidfd]" in files_of(program))
    return program


def files_of(program: psutil.Process) -> list[str]:
    files = []
    for file in Path(f"/proc/{program.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # one that it read as it was loaded
            files.append(os.readlink(file))
    return sorted(files)


async def test_it_starts_before_the_agent_and_ends_with_it() -> None:
    async with started(["cat"]) as agent:
        (program,) = programs()
        assert program.create_time() <= psutil.Process(agent.pid).create_time()
    assert not running(program.pid)


async def test_all_users_share_one_and_the_last_one_ends_it() -> None:
    async with guard() as first:
        (program,) = programs()
        async with guard() as second, started(["cat"]) as agent:
            assert first == second
            assert programs() == [program]
            await until(lambda: MARKER in psutil.Process(agent.pid).environ())
            assert psutil.Process(agent.pid).environ()[MARKER].startswith(f"{first}:")
        assert programs() == [program]
    assert not running(program.pid)


async def test_those_who_come_at_the_same_time_share_one() -> None:
    seen: list[psutil.Process] = []

    async def use() -> None:
        async with guard():
            seen.extend(programs())
            await trio.testing.wait_all_tasks_blocked(0.01)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(use)
    assert len(seen) == 5
    assert len(set(seen)) == 1


async def test_a_cancelled_user_ends_it() -> None:
    with trio.CancelScope() as scope:
        async with guard():
            scope.cancel()
            await trio.sleep_forever()
    assert not programs()


async def test_it_is_small_and_holds_nothing_of_the_hosts() -> None:
    there, here = os.pipe()
    os.set_inheritable(here, True)
    try:
        async with guard():
            program = await loaded()
            assert program.memory_info().rss < 12 * 2**20
            assert os.getsid(program.pid) == program.pid
            assert program.cwd() == "/"
            null, other_null, watched, pipe = files_of(program)
            assert (watched, null, other_null) == ("anon_inode:[pidfd]", "/dev/null", "/dev/null")
            assert pipe.startswith("pipe:")
    finally:
        os.close(there)
        os.close(here)


async def test_it_ignores_the_signals_of_a_terminal_and_of_a_tidy_user() -> None:
    async with guard():
        program = await loaded()
        for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
            program.send_signal(signum)
        program.send_signal(signal.SIGSTOP)  # delivered behind the others
        await until(lambda: program.status() == psutil.STATUS_STOPPED)


async def test_one_that_was_killed_is_replaced_for_the_next_user() -> None:
    async with guard():
        (program,) = programs()
        program.kill()
        await until_gone(program.pid)
        async with guard():
            (other,) = programs()
            assert other != program


@pytest.mark.slow
async def test_one_that_was_killed_is_replaced_while_an_agent_runs() -> None:
    with trio.fail_after(30):
        async with started(["cat"]):
            for _ in range(2):
                (program,) = programs()
                program.kill()
                await until_gone(program.pid)
                await until(lambda: bool(programs()))
        assert not programs()


@pytest.mark.slow
async def test_one_is_replaced_after_the_first_of_several_agents_has_ended() -> None:
    async def run(*, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        with trio.CancelScope() as scope:
            async with started(["cat"]):
                task_status.started(scope)
                await trio.sleep_forever()
        ended.set()

    ended = trio.Event()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            scope = await nursery.start(run)
            async with started(["cat"]):
                scope.cancel()
                await ended.wait()
                (program,) = programs()
                program.kill()
                await until_gone(program.pid)
                await until(lambda: bool(programs()))


async def test_there_is_none_in_a_frozen_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    async with started(["cat"]) as agent:
        assert not programs()
        assert running(agent.pid)


async def test_a_python_that_does_not_start_is_a_start_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard_module.sys, "executable", "/no/such/python")
    with pytest.raises(AgentStartError, match="guard program could not be started"):
        async with started(["cat"]):
            pass


# --- the host is killed

HOST = """
import os, signal, sys, trio
from agentrt import Limits
from agentrt._core.process.pipes import read_loop
from agentrt._core.process.process import open_process

async def agent(script):
    async with open_process(["sh", "-c", script], cwd="/", env=os.environ, limits=Limits()) as it:
        await read_loop(it, lambda lines: os.write(1, lines), lambda: None)

async def main():
    async with trio.open_nursery() as nursery:
        for script in sys.argv[2:]:
            nursery.start_soon(agent, script)
        if sys.argv[1] == "fork":
            with trio.open_signal_receiver(signal.SIGUSR1) as signals:
                async for _ in signals:
                    if not os.fork():
                        print(os.getpid(), flush=True)
                        signal.pause()

trio.run(main)
"""
SAYS_WHEN_TERMINATED = """
exec 2>/dev/null  # the host's end is gone, and the shell has something to say about its child
trap 'echo terminated > {}; exit' TERM
echo $$
while :; do sleep 0.1; done
"""
DEAF = "trap '' TERM; echo $$; while :; do sleep 60; done"
LEAVES_A_GRANDCHILD = "setsid sleep 60 & echo $!; cat"
ONCE_MARKED = 'while grep -q "realtime timeout *unlimited" /proc/$$/limits; do sleep 0.01; done'
LEAVES_A_STRANGER = f"{ONCE_MARKED}; (env -i setsid sh -c 'echo $$; exec sleep 60' &); cat"
"""Without the agent's environment, session, group and parent."""


def start_host(*arguments: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", HOST, *arguments]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


@asynccontextmanager
async def host(mode: str, *scripts: str) -> AsyncIterator[tuple[subprocess.Popen[str], list[int]]]:
    """A host with an agent for each script, which says one number. Its guard program ends too."""
    with start_host(mode, *scripts) as process:
        assert process.stdout is not None
        try:
            numbers = [int(process.stdout.readline()) for _ in scripts]
            (program,) = programs(psutil.Process(process.pid))
            yield process, numbers
        finally:
            process.kill()
    await until_gone(program.pid)


@pytest.fixture
def agent_of_another_host() -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, MARKER: "another:run"}
    with subprocess.Popen(["sleep", "60"], env=environment) as process:
        yield process
        process.kill()


@pytest.mark.slow
async def test_when_the_host_is_killed_its_agents_and_what_they_started_end(
    tmp_path: Path, agent_of_another_host: subprocess.Popen[bytes]
) -> None:
    log = tmp_path / "log"
    polite = SAYS_WHEN_TERMINATED.format(log)
    scripts = (polite, DEAF, LEAVES_A_GRANDCHILD, LEAVES_A_STRANGER)
    async with host("plain", *scripts) as (process, pids):
        process.kill()
        for pid in pids:
            await until_gone(pid)
    assert log.read_text() == "terminated\n"
    assert agent_of_another_host.poll() is None


@pytest.mark.slow
async def test_nobody_goes_on_because_its_child_was_killed_first(tmp_path: Path) -> None:
    script = WRITE_BEHIND_A_CHILD.format(tmp_path).replace("echo planted", "echo $$") + "wait"
    async with host("plain", script) as (process, _):
        process.kill()
    check_none_went_on(tmp_path)


@pytest.mark.slow
async def test_a_forked_copy_of_the_host_does_not_keep_its_agents_alive() -> None:
    async with host("fork", LEAVES_A_GRANDCHILD) as (process, (grandchild,)):
        assert process.stdout is not None
        process.send_signal(signal.SIGUSR1)
        copy = int(process.stdout.readline())
        try:
            process.kill()
            await until_gone(grandchild)
        finally:
            os.kill(copy, signal.SIGKILL)


def test_a_host_that_was_dead_before_the_guard_program_ran_is_noticed() -> None:
    # It ends whatever has the token in its environment: no word that stands in anybody else's.
    token, host = secrets.token_hex(8), "1"  # not its parent
    argv = [sys.executable, "-I", "-S", guard_module.supervisor.__file__, token, host]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as program:
        assert program.wait(timeout=30) == 0


@pytest.mark.slow
async def test_a_host_that_ends_in_order_leaves_nothing_to_guard() -> None:
    async with host("plain", "echo $$; read line; exit 0") as (process, (agent,)):
        os.kill(agent, signal.SIGKILL)
        assert process.wait(timeout=5) == 0


HOST_WITH_A_FOLDER = """
import os, sys, trio
from agentrt._core.process.guard import guard, private_folder

async def main():
    async with guard() as run:
        folder = private_folder(run)
        (folder / "s").touch()
        os.symlink(sys.argv[1], folder.parent / f"agentrt-{run}-link")
        print(folder, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


def killed_host(others: Path, temporary: Path) -> tuple[Path, psutil.Process]:
    """The folder that it has made, and its guard program."""
    argv = [sys.executable, "-c", HOST_WITH_A_FOLDER, str(others)]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        made = Path(process.stdout.readline().strip())
        (program,) = programs(psutil.Process(process.pid))
        process.kill()
    return made, program


@pytest.fixture
def short_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.slow
async def test_a_killed_host_s_temporary_folders_are_removed_and_nobody_else_s(
    tmp_path: Path, short_path: Path
) -> None:
    others, temporary = tmp_path / "others", short_path / "temporary"
    for folder in (others, temporary, temporary / "agentrt-0123456789abcdef-x"):
        folder.mkdir()
    (others / "file").touch()
    made, program = killed_host(others, temporary)
    await until_gone(program.pid)
    assert made.parent == temporary
    left = ["agentrt-0123456789abcdef-x", f"{made.name[:25]}link"]
    assert sorted(os.listdir(temporary)) == sorted(left), "another run's, and a link"
    assert os.listdir(others) == ["file"], "a link is not followed"


def test_a_path_too_long_for_a_socket_is_made_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 90)
    deep.mkdir()
    monkeypatch.setattr(guard_module.tempfile, "tempdir", str(deep))
    folder = guard_module.private_folder("0123456789abcdef")
    folder.rmdir()
    assert len(str(folder)) < 60
    assert not list(deep.iterdir())
