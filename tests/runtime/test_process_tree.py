"""What an agent started ends with it, however it cut its ties; what it did not start lives on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import trio
from child_programs import (
    ENDS_AT_SIGTERM,
    PATIENT,
    WRITE_BEHIND_A_CHILD,
    Lines,
    all_below_init,
    before,
    check_none_went_on,
    end,
    give_up_walks_after,
    python,
    running,
    seen,
    sh,
    started,
    until,
)

from agentrt import Limits
from agentrt.agents import Transport

IN_A_GROUP = f"""{sys.executable} -I -S -c '
import os
os.setpgid(0, 0)
os.execvp("sleep", ["sleep", "60"])'"""
ONCE_MARKED = 'while grep -q "realtime timeout *unlimited" /proc/$$/limits; do sleep 0.01; done'
STARTED = {
    "in its group": "sleep 60 & echo $!",
    "in a group of its own": f"{IN_A_GROUP} & echo $!",
    "in a session of its own": "setsid sleep 60 & echo $!",
    "forked twice": "(setsid sh -c 'sleep 60 & echo $!; wait' &)",
    "without the marker, in its group": "env -i sleep 60 & echo $!",
    "without the marker, in a group of its own": f"env -i {IN_A_GROUP} & echo $!",
    "without any tie": f"{ONCE_MARKED}; (env -i setsid sh -c 'echo $$; exec sleep 60' &)",
    "ignoring SIGTERM": "(trap '' TERM; exec setsid sleep 60) & echo $!",
}
"""How a grandchild may be tied to an agent: each line starts a `sleep` and says its number."""

UNTIED = pytest.mark.linux_only("processes are found even if they have left their session")

every_tie = pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, id=how, marks=[UNTIED] if how == "without any tie" else [])
        for how, script in STARTED.items()
    ],
)


async def grandchild_of(agent: Transport) -> int:
    """The `sleep` that an agent's script started, once it is that and no shell any more."""
    pid = int(await Lines(agent).next())
    await until(lambda: psutil.Process(pid).name() == "sleep")
    return pid


@every_tie
@pytest.mark.parametrize(
    "leaving",
    ["read line", pytest.param("trap '' TERM; while :; do sleep 60; done", marks=pytest.mark.slow)],
)
async def test_a_grandchild_is_ended_when_the_agent_is_closed(script: str, leaving: str) -> None:
    with trio.fail_after(30):
        async with started(sh(f"{script}\n{leaving}")) as agent:
            grandchild = await grandchild_of(agent)
        assert not running(grandchild)


@every_tie
async def test_a_grandchild_is_ended_although_the_agent_was_killed(script: str) -> None:
    with trio.fail_after(30):
        async with started(sh(f"{script}\nread line")) as agent:
            grandchild = await grandchild_of(agent)
            os.kill(agent.pid, signal.SIGKILL)
            assert await agent.wait() == -signal.SIGKILL
            assert running(grandchild)
        assert not running(grandchild)


async def test_what_a_killed_agent_left_behind_is_not_given_time_to_finish() -> None:
    with trio.fail_after(30):
        async with started(sh("setsid sleep 60 & echo $!; read line"), limits=PATIENT) as agent:
            grandchild = await grandchild_of(agent)
            os.kill(agent.pid, signal.SIGKILL)
            await agent.wait()
            began = trio.current_time()
        assert not running(grandchild)
    assert trio.current_time() - began < PATIENT.stdin_close_grace_s


async def test_a_grandchild_that_cut_every_tie_was_noted_before_the_agent_left() -> None:
    with trio.fail_after(30):
        async with started(sh("env -i setsid sleep 60 & echo $!; read line")) as agent:
            grandchild = await grandchild_of(agent)
        assert not running(grandchild)


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [pytest.param("", id="with the marker"), pytest.param("env -i", id="without", marks=UNTIED)],
)
async def test_what_starts_others_when_it_is_terminated_is_ended_with_them(
    tmp_path: Path, environment: str
) -> None:
    log = tmp_path / "pids"
    heir = f"{environment} setsid sh -c 'echo \\$\\$ >> {log}; exec sleep 60' &"
    script = f'trap "{heir}" TERM; echo; while :; do sleep 0.05; done'
    with trio.fail_after(30):
        async with started(
            sh(script), limits=Limits(stdin_close_grace_s=0.1, terminate_grace_s=1.0)
        ) as agent:
            await Lines(agent).next()
    (pid,) = log.read_text().split()
    assert not running(int(pid))


async def test_what_is_in_a_session_of_its_own_gets_sigterm_too(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = f"trap 'echo terminated > {log}; exit' TERM; echo; while :; do sleep 0.05; done"
    with trio.fail_after(30):
        async with started(["setsid", "-f", *sh(child)], limits=ENDS_AT_SIGTERM) as agent:
            await Lines(agent).next()
    assert log.read_text() == "terminated\n"


async def test_nobody_goes_on_because_its_child_was_killed_first(tmp_path: Path) -> None:
    async with started(sh(f"{WRITE_BEHIND_A_CHILD.format(tmp_path)}\nread line")) as agent:
        assert await Lines(agent).next() == "planted"
    check_none_went_on(tmp_path)


async def test_an_orphan_may_end_by_itself_before_it_is_signalled(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = f"setsid sh -c 'trap \"\" TERM; cat <&3; echo saved > {log}' 3<&0 & echo; read line"
    with trio.fail_after(30):
        async with started(sh(script), limits=PATIENT) as agent:
            await Lines(agent).next()
    assert log.read_text() == "saved\n"


async def test_an_agent_stays_a_zombie_until_what_it_left_is_gone() -> None:
    """So that its number, and with it its group's and its session's, cannot be used again."""
    with trio.fail_after(30):
        async with started(sh("sleep 60 & exit 0")) as agent:
            await agent.wait()
            assert psutil.Process(agent.pid).status() == psutil.STATUS_ZOMBIE
        assert not psutil.pid_exists(agent.pid)


async def test_closing_one_agent_leaves_the_others_alone() -> None:
    script = "setsid sleep 60 & echo $!; read line"
    with trio.fail_after(30):
        async with started(sh(script)) as first:
            kept = int(await Lines(first).next())
            async with started(sh(script)) as second:
                ended = int(await Lines(second).next())
            assert not running(ended)
            assert running(kept)
            assert first.returncode is None


async def test_a_process_that_has_the_number_of_another_is_not_signalled() -> None:
    with trio.fail_after(30):
        async with started(["cat"]) as agent:
            found = seen(agent.pid)
            other = before(found)
            assert found.alive()
            assert not other.alive()
            other.send(signal.SIGKILL)
            agent.write_nowait(b"still here\n")
            assert await Lines(agent).next() == "still here"


async def test_a_program_of_any_name_is_found(tmp_path: Path) -> None:
    name = tmp_path / "a) Z 1 (b"
    shutil.copy("/usr/bin/sleep", name)
    with trio.fail_after(30):
        async with started(sh(f"setsid '{name}' 60 & echo $!; read line")) as agent:
            grandchild = int(await Lines(agent).next())
            assert running(grandchild)
        assert not running(grandchild)


async def test_a_marker_behind_a_large_environment_is_found() -> None:
    environment = {**{f"V{n}": "x" * 100_000 for n in range(3)}, "PATH": os.environ["PATH"]}
    program = python("""
import os
if pid := os.fork():
    print(pid, flush=True)
else:
    os.setsid()
    os.execvp("sleep", ["sleep", "60"])
""")
    with trio.fail_after(30):
        async with started(program, env=environment) as agent:
            grandchild = await grandchild_of(agent)
            await agent.wait()
        assert not running(grandchild)


async def test_a_walk_that_hangs_does_not_stop_the_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    give_up_walks_after(monkeypatch, 0.1)
    with trio.fail_after(30):
        async with started(["sleep", "60"]) as agent:

            async def hang() -> None:
                await trio.sleep_forever()

            with monkeypatch.context() as patch:
                patch.setattr(agent, "note", hang)
                await end(agent, ENDS_AT_SIGTERM)
            assert await agent.wait() == -signal.SIGTERM


HOST_THAT_ADOPTS = """
import ctypes, sys, trio
from agentrt import Limits
from agentrt._core.process.process import open_process

assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER, as PID 1 is

async def main():
    limits = Limits(stdin_close_grace_s=0.2, terminate_grace_s=0.5, kill_wait_s=1)
    script = "(setsid sleep 60 & sleep 60 &); read line"
    async with open_process(["sh", "-c", script], cwd="/", env={}, limits=limits):
        pass
    with open("/proc/thread-self/children") as file:
        print(repr(file.read()))

trio.run(main)
"""


@pytest.mark.slow
def test_a_host_that_adopts_orphans_reaps_them() -> None:
    host = [sys.executable, "-c", HOST_THAT_ADOPTS]
    assert subprocess.check_output(host, text=True, timeout=20) == "''\n"


HOST_AS_PID_1 = """
import os, trio
from agentrt import Limits
from agentrt._core.process.process import open_process

def zombies():
    states = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            states.append(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0])
        except OSError:
            continue
    return states.count("Z")

SCRIPT = ONCE_MARKED + "; (env -i setsid sh -c 'exit' &); (setsid sh -c 'exit' &); cat"

async def main():
    assert os.getpid() == 1
    for script in SCRIPT, SCRIPT:
        async with open_process(["sh", "-c", script], cwd="/", env=os.environ, limits=Limits()):
            with trio.fail_after(20):
                while not zombies():
                    await trio.sleep(0.01)
                while zombies():
                    await trio.sleep(0.01)
            own = await trio.run_process(["sh", "-c", "exit 7"], check=False)
            assert own.returncode == 7

trio.run(main)
print("reaped")
"""


@pytest.mark.slow
@pytest.mark.linux_only("orphans are reaped")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be PID 1 of a namespace")
def test_a_host_that_is_pid_1_reaps_orphans_while_the_agent_runs() -> None:
    program = HOST_AS_PID_1.replace("ONCE_MARKED", repr(ONCE_MARKED))
    host = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", program]
    assert subprocess.check_output(host, text=True, timeout=60) == "reaped\n"


def test_nothing_is_found_where_there_is_no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str) -> list[str]:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "listdir", missing)
    assert all_below_init() == frozenset()
