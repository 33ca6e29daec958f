"""The two process layers, and a start on a system that is not Linux."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import trio

from agentrt._core.process.chosen import CHOICE, choose
from agentrt._core.process.layer import ProcessLayer
from agentrt._core.process.linux import LinuxLayer
from agentrt._core.process.portable import PortableLayer
from inside.process import MARKER

LAYERS = [LinuxLayer(), PortableLayer()]
both = pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)


@contextmanager
def child(*command: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in its own session, with pipes."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **environment},
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@both
def test_a_layer_shows_the_ties_of_a_process(layer: ProcessLayer) -> None:
    with child("cat") as process:
        stat = layer.read_stat(process.pid)
        assert stat is not None
        assert stat[:4] == (True, os.getpid(), process.pid, process.pid)
        own = layer.read_stat(os.getpid())
        assert own is not None
        assert own.start <= stat.start
        assert {os.getpid(), process.pid} <= set(layer.list_ids())
        assert layer.read_stat(process.pid) == stat


@both
def test_a_layer_sees_a_dead_child_and_its_status_and_leaves_it_unreaped(
    layer: ProcessLayer,
) -> None:
    for command, status in (("exit 7", 7), ("kill -TERM $$", -signal.SIGTERM)):
        with child("sh", "-c", command) as process:
            trio.run(layer.wait_exit, process.pid)
            assert layer.exit_status(process.pid) == status
            stat = layer.read_stat(process.pid)
            assert stat is not None
            assert not stat.running
            assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE


@both
def test_a_child_that_runs_has_no_status_and_one_that_is_reaped_neither(
    layer: ProcessLayer,
) -> None:
    with child("cat") as process:
        assert layer.exit_status(process.pid) is None
    assert layer.exit_status(process.pid) is None
    assert layer.read_stat(process.pid) is None
    trio.run(layer.wait_exit, process.pid)


@both
def test_waiting_for_an_exit_can_be_cancelled(layer: ProcessLayer) -> None:
    async def wait(pid: int) -> bool:
        with trio.move_on_after(0) as scope:
            await layer.wait_exit(pid)
        return scope.cancelled_caught

    with child("cat") as process:
        assert trio.run(wait, process.pid)


@both
def test_a_layer_reads_the_marker_in_an_environment(layer: ProcessLayer) -> None:
    """Also if it is the first or the last variable, or part of another name or value."""
    for others in ({}, {f"X{MARKER}": "x", "Y": f"{MARKER}=y"}):
        with child("sh", "-c", "echo; read x", **others, **{MARKER: "a:1,b:2"}) as process:
            assert process.stdout is not None
            process.stdout.readline()
            assert layer.read_markers(process.pid) == "a:1,b:2"


@both
async def test_a_program_starts_in_the_open_folder_although_its_path_leads_elsewhere(
    layer: ProcessLayer, tmp_path: Path
) -> None:
    (tmp_path / "old").mkdir()
    folder = os.open(tmp_path / "old", layer.folder_flag | os.O_DIRECTORY)
    try:
        (tmp_path / "old").rename(tmp_path / "new")
        (tmp_path / "old").mkdir()
        start = layer.start_in(folder, str(tmp_path / "old"))
        done = await trio.run_process(
            ["pwd", "-P"], cwd=start.cwd, preexec_fn=start.preexec_fn, capture_stdout=True
        )
    finally:
        os.close(folder)
    assert done.stdout.decode().strip() == str(tmp_path / "new")


def test_the_choice_of_a_layer_follows_the_platform_and_the_variable() -> None:
    assert choose("").name == "linux"
    assert choose("portable").name == "portable"
    with pytest.raises(RuntimeError, match="must be linux or portable, not 'macos'"):
        choose("macos")


ELSEWHERE = f"""
import importlib, os, pkgutil, resource, signal, socket, sys, time
import psutil, trio, trio_websocket, apsw, re2, ada_url, msgspec, wsproto, h11
import prompt_toolkit.input.vt100, rich.console, opentelemetry.trace, prometheus_client, mcp
import psycopg, psycopg.conninfo, psycopg.rows, pytest

# The names that Python 3.11 has on Linux and not on macOS. (Trio itself uses `select.epoll`.)
for module, names in (
    (os, "O_PATH pidfd_open eventfd eventfd_read eventfd_write EFD_NONBLOCK EFD_CLOEXEC"
         " memfd_create MFD_CLOEXEC waitid P_PID WNOWAIT CLD_EXITED setxattr getxattr listxattr"
         " removexattr O_TMPFILE splice sched_getaffinity posix_fadvise posix_fallocate pipe2"
         " copy_file_range getrandom"),
    (resource, "prlimit RLIMIT_RTTIME RLIMIT_NICE RLIMIT_SIGPENDING"),
    (signal, "pidfd_send_signal SIGRTMIN SIGRTMAX SIGPWR sigtimedwait sigwaitinfo"),
    (socket, "SO_PASSCRED SO_PEERCRED SCM_CREDENTIALS SOCK_CLOEXEC SOCK_NONBLOCK TCP_USER_TIMEOUT"),
    (time, "CLOCK_BOOTTIME"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)

def without_proc(event, args):
    if event in ("open", "os.listdir", "os.scandir") and str(args[0]).startswith("/proc"):
        frame, files = sys._getframe(1), []
        while frame is not None:
            files.append(frame.f_code.co_filename)
            frame = frame.f_back
        if not any("psutil" in file for file in files):
            raise FileNotFoundError(2, "there is no /proc here", args[0])

sys.addaudithook(without_proc)
sys.platform = "darwin"
os.environ[{CHOICE!r}] = "portable"  # for the programs that are started, which are on Linux

import agentrt
from agentrt._core.process.chosen import LAYER
assert LAYER.name == "portable"
"""


def elsewhere(program: str, folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != CHOICE}
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE + program],
        env={**environment, "HOME": str(folder), "XDG_STATE_HOME": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_every_module_can_be_imported_on_a_system_that_is_not_linux(tmp_path: Path) -> None:
    told = elsewhere(
        """
for found in pkgutil.walk_packages(agentrt.__path__, "agentrt."):
    if not found.name.endswith((".__main__", ".process.linux")):
        importlib.import_module(found.name)
print(len([name for name in sys.modules if name.startswith("agentrt")]))
""",
        tmp_path,
    )
    assert int(told) > 300


@pytest.mark.slow
def test_a_stored_session_with_commands_runs_on_a_system_that_is_not_linux(tmp_path: Path) -> None:
    told = elsewhere(
        """
from agentrt.store import open_store

async def main():
    async with (
        open_store("sessions.db") as store,
        agentrt.open_session("demo", permissions=agentrt.allow_all, store=store) as session,
    ):
        print((await session.run("run echo $((6 * 7))")).outcome)
        tools = [item for item in session.snapshot().items if item.type == "tool"]
        print("42" in str(tools))
    try:
        async with agentrt.open_session("demo", sandbox="workspace"):
            pass
    except agentrt.AgentrtError as error:
        print(error)

trio.run(main)
""",
        tmp_path,
    )
    outcome, ran, sandbox = told.splitlines()
    assert (outcome, ran) == ("completed", "True")
    assert "Linux" in sandbox


def test_each_promise_that_only_linux_keeps_is_in_the_documentation() -> None:
    root = Path(__file__).parents[2]
    told = (root / "docs/background/platforms.md").read_text()
    promises = {
        promise
        for path in (root / "tests").rglob("*.py")
        for promise in re.findall(r'linux_only\(\s*"([^"]+)"\s*\)', path.read_text())
    }
    assert len(promises) > 2
    for promise in promises:
        assert f"| {promise}" in told, promise
