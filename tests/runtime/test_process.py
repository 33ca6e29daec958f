"""An agent's process: its start, its streams, its exit, and what is left of it: nothing."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
import trio.testing
from child_programs import (
    ENDS_AT_SIGTERM,
    MARKER,
    PATIENT,
    QUICK,
    Lines,
    end,
    hide_exit_status,
    hide_processes,
    python,
    running,
    sh,
    started,
    until_gone,
)

from agentrt import Limits
from agentrt.agents import Transport
from agentrt.errors import AgentNotFound, AgentStartError
from agentrt.process import LineWriter, read_loop

# --- start


async def test_a_program_that_is_not_on_the_path_is_not_found() -> None:
    with pytest.raises(AgentNotFound, match="'no-such-agent' is not a program on the PATH"):
        async with started(["no-such-agent"]):
            pass


async def test_the_path_is_that_of_the_given_environment(tmp_path: Path) -> None:
    with pytest.raises(AgentNotFound, match="PATH given to the agent"):
        async with started(["cat"], env={"PATH": str(tmp_path)}):
            pass


async def test_a_path_to_nothing_is_not_found() -> None:
    with pytest.raises(AgentNotFound, match="the program '/nowhere/agent' does not exist"):
        async with started(["/nowhere/agent"]):
            pass


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        ("#!/bin/sh\n", 0o644, "is not executable"),
        ("#!/no/such/interpreter\n", 0o755, "an interpreter in its first line that is missing"),
        ("echo without a first line\n", 0o755, "cannot be executed"),
    ],
)
async def test_a_file_that_cannot_be_run_says_why(
    content: str, mode: int, message: str, tmp_path: Path
) -> None:
    program = tmp_path / "agent"
    program.write_text(content)
    program.chmod(mode)
    with pytest.raises(AgentStartError, match=message):
        async with started([str(program)]):
            pass


@pytest.mark.parametrize("folder", ["/no/such/folder", Path("/no/such/folder"), "/etc/passwd"])
async def test_a_working_folder_that_is_none_says_so(folder: str | Path) -> None:
    with pytest.raises(AgentStartError, match=f"no agent can run in '{folder}'"):
        async with started(["cat"], cwd=folder):
            pass


@pytest.mark.parametrize("argv", [[], ["cat", "zero\0byte"], ["cat", "x" * 4_000_000]])
async def test_an_impossible_command_is_a_start_error(argv: list[str]) -> None:
    with pytest.raises(AgentStartError):
        async with started(argv):
            pass


@pytest.mark.parametrize(
    ("argv", "env", "longest"),
    [
        (["cat", "x" * 200_000], {"A": "1"}, "argument 1, with 200,000 bytes"),
        (["cat"], {"A": "1", "HUGE": "x" * 300_000}, "the variable HUGE, with 300,000 bytes"),
    ],
)
async def test_what_is_too_long_for_the_system_is_named(
    argv: list[str], env: dict[str, str], longest: str
) -> None:
    with pytest.raises(AgentStartError, match=f"the longest is {longest}"):
        async with started(argv, env=env | {"PATH": os.environ["PATH"]}):
            pass


async def test_the_environment_is_what_was_given_and_the_marker() -> None:
    with trio.fail_after(30):
        async with started(["/usr/bin/env"], env={"A": "1"}) as agent:
            lines = Lines(agent)
            assert await lines.next() == "A=1"
            assert (await lines.next()).startswith(f"{MARKER}=")
            assert await lines.next() == ""


async def test_the_marker_of_a_host_above_is_kept() -> None:
    with trio.fail_after(30):
        async with started(sh(f"echo ${MARKER}"), env={**os.environ, MARKER: "up:1"}) as agent:
            outer, own = (await Lines(agent).next()).split(",")
    assert outer == "up:1"
    assert own.count(":") == 1


async def test_an_agent_has_a_session_and_a_group_of_its_own() -> None:
    async with started(["cat"]) as agent:
        assert os.getsid(agent.pid) == agent.pid == os.getpgid(agent.pid)


# --- exit


@pytest.mark.parametrize(("script", "status"), [("exit 7", 7), ("kill -SEGV $$", -11)])
async def test_every_waiter_learns_the_exit_status(script: str, status: int) -> None:
    seen: list[int] = []

    async def wait() -> None:
        seen.append(await agent.wait())

    with trio.fail_after(30):
        async with started(sh(f"read line; {script}")) as agent:
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(wait)
                assert agent.returncode is None
                agent.write_nowait(b"now\n")
            assert seen == [status] * 3
            assert agent.returncode == await agent.wait() == status


async def test_exit_is_known_although_a_grandchild_holds_stdout_open() -> None:
    with trio.fail_after(30):
        async with started(sh("sleep 60 & echo last words; exit 3")) as agent:
            assert await agent.wait() == 3
            lines = Lines(agent)
            assert await lines.next() == "last words"
            assert await lines.next() == ""


async def test_a_grandchild_that_writes_for_ever_does_not_keep_stdout_open() -> None:
    with trio.fail_after(30):
        async with started(sh("yes & exit 0")) as agent:
            await read_loop(agent, lambda data: None, lambda: None)


async def test_a_late_reader_gets_all_that_was_written_before_the_exit() -> None:
    program = python("""
import os
if os.fork():
    os.write(1, b"x" * 65535 + b"\\n")
    os._exit(0)
os.execvp("sleep", ["sleep", "60"])
""")
    with trio.fail_after(30):
        async with started(program) as agent:
            await agent.wait()
            await trio.sleep(2 * QUICK.stdout_drain_s)
            lines = Lines(agent)
            assert await lines.next() == "x" * 65535
            assert await lines.next() == ""


@pytest.mark.slow
async def test_whoever_sees_the_exit_sees_the_end_of_stderr() -> None:
    seen: list[tuple[int | None, str]] = []
    for _ in range(30):
        with trio.fail_after(30):
            async with started(sh("read line; echo oops >&2; exit 1")) as agent:

                def look(agent: Transport = agent) -> None:
                    seen.append((agent.returncode, agent.stderr_tail()))

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(read_loop, agent, lambda data: None, look)
                    await trio.testing.wait_all_tasks_blocked()
                    agent.close_stdin()
                    until_it_has_exited(agent.pid)  # Trio wakes all tasks at once, in any order
    assert {tail for status, tail in seen if status is not None} == {"oops\n"}


def until_it_has_exited(pid: int) -> None:
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


async def test_a_process_without_a_pidfd_is_waited_for_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(pid: int) -> int:
        raise OSError(errno.ENOSYS, "an older kernel")

    monkeypatch.setattr(os, "pidfd_open", refused)
    with trio.fail_after(30):
        async with started(sh("setsid sleep 60 & echo $!; read line; exit 7")) as agent:
            orphan = int(await Lines(agent).next())
            agent.close_stdin()
            assert await agent.wait() == 7
        assert not running(orphan)


async def test_a_system_that_gives_no_status_without_reaping_gives_it_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python on macOS has no `waitid` before 3.13."""
    hide_exit_status(monkeypatch)
    with trio.fail_after(30):
        async with started(sh("setsid sleep 60 & echo $!; read line; exit 7")) as agent:
            orphan = int(await Lines(agent).next())
            agent.close_stdin()
            assert await agent.wait() == 7
            monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("the leader was reaped"))
        assert not running(orphan)


async def test_the_status_is_known_although_the_host_ignores_its_children() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with trio.fail_after(30):
            async with started(sh("exit 7")) as agent:
                assert await agent.wait() == 0  # as `subprocess` has it
    finally:
        signal.signal(signal.SIGCHLD, before)


# --- streams


async def test_a_flood_on_stderr_does_not_hold_up_the_answer() -> None:
    seen: list[bytes] = []
    program = python("import os; os.write(2, b'e' * 2**20 + b'last'); print('answer')")
    with trio.fail_after(30):
        async with started(program, on_stderr=seen.append) as agent:
            assert await Lines(agent).next() == "answer"
            await agent.wait()
    assert b"".join(seen) == b"e" * 2**20 + b"last"
    assert agent.stderr_tail() == "e" * (QUICK.stderr_tail_bytes - 4) + "last"


async def test_what_was_written_to_stderr_before_an_answer_is_there_with_it() -> None:
    program = python(
        "import os, sys; os.write(2, b'why'); print('no', flush=True); sys.stdin.read()"
    )
    with trio.fail_after(30):
        async with started(program) as agent:
            while (answer := agent.read_nowait()) is None:
                time.sleep(0.01)  # noqa: ASYNC251 - no task is to run meanwhile
            assert (answer, agent.stderr_tail()) == (b"no\n", "why")


async def test_stderr_may_be_any_bytes() -> None:
    with trio.fail_after(30):
        async with started(sh(r"printf 'caf\351\n' >&2")) as agent:
            await agent.wait()
            assert agent.stderr_tail() == "caf�\n"


async def test_a_failing_stderr_callback_is_logged_and_stderr_is_read_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(data: bytes) -> None:
        raise ValueError("the callback's own")

    program = python("import os; os.write(2, b'e' * 2**20); print('answer')")
    with trio.fail_after(30), caplog.at_level(logging.ERROR, "agentrt"):
        async with started(program, on_stderr=fail) as agent:
            assert await Lines(agent).next() == "answer"
    assert "on_stderr failed" in caplog.text


async def test_writing_to_an_agent_that_is_gone_is_a_broken_resource() -> None:
    with trio.fail_after(30):
        async with started(sh("exit 0")) as agent:
            await agent.wait()
            await agent.wait_writable()
            with pytest.raises(trio.BrokenResourceError):
                agent.write_nowait(b"hello\n")


async def test_closing_stdin_wakes_the_one_who_waits_for_it() -> None:
    with trio.fail_after(30):
        async with started(["sleep", "60"]) as agent, trio.open_nursery() as nursery:
            while agent.write_nowait(b"x" * 65536):
                pass
            nursery.start_soon(agent.wait_writable)
            await trio.testing.wait_all_tasks_blocked()
            agent.close_stdin()
            agent.close_stdin()
            await agent.wait_writable()
            with pytest.raises(trio.BrokenResourceError):
                agent.write_nowait(b"x")


# --- the ladder


async def test_an_agent_that_leaves_at_the_end_of_its_input_gets_no_signal() -> None:
    with trio.fail_after(30):
        async with started(sh("trap 'exit 99' TERM; echo; cat; exit 7"), limits=PATIENT) as agent:
            await Lines(agent).next()
    assert agent.returncode == 7


HOST_THAT_FORKS = """
import os, signal, sys, trio
from agentrt import Limits
from agentrt.agents import Transport
from agentrt._core.process.process import close, open_process

async def main():
    limits = Limits(stdin_close_grace_s=20, terminate_grace_s=20)
    async with open_process(["cat"], cwd="/", env=os.environ, limits=limits) as agent:
        child = os.fork()
        if not child:
            signal.pause()
        try:
            await close(agent, limits)
            print(await agent.wait())
        finally:
            os.kill(child, signal.SIGKILL)

trio.run(main)
"""


@pytest.mark.slow
def test_a_forked_child_of_the_host_does_not_keep_the_agent_s_input_open() -> None:
    host = [sys.executable, "-W", "ignore", "-c", HOST_THAT_FORKS]
    assert subprocess.check_output(host, text=True, timeout=30) == "0\n"  # no SIGTERM


FORK_OF_A_FORK = """
import os, trio, agentrt

def forked(act):
    if not (pid := os.fork()):
        os._exit(act())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def lets_go_and_forks():
    os.closerange(3, 64)
    kept = [os.pipe() for _ in range(30)]  # with every number that the host had in use
    return forked(lambda: sum(not os.readlink(f"/proc/self/fd/{end}").startswith("pipe")
                              for pipe in kept for end in pipe))

async def main():
    async with agentrt.open_session("demo", cwd="/"):
        print(forked(lets_go_and_forks))

trio.run(main)
"""


@pytest.mark.slow
def test_a_fork_of_a_forked_host_keeps_its_own_descriptors() -> None:
    host = [sys.executable, "-W", "ignore", "-c", FORK_OF_A_FORK]
    assert subprocess.check_output(host, text=True, timeout=30) == "0\n"


async def test_an_agent_with_much_to_say_can_leave_although_nobody_listens_any_more() -> None:
    program = python("import os, sys; os.write(1, b'x' * 2**20); sys.stdin.read(); sys.exit(7)")
    with trio.fail_after(30):
        async with started(program, limits=PATIENT) as agent:
            await agent.wait_readable()
    assert agent.returncode == 7


async def test_an_agent_that_ignores_the_end_of_its_input_is_terminated() -> None:
    with trio.fail_after(30):
        async with started(["sleep", "60"], limits=ENDS_AT_SIGTERM) as agent:
            pass
    assert agent.returncode == -signal.SIGTERM


async def test_an_agent_that_ignores_sigterm_is_killed() -> None:
    with trio.fail_after(30):
        async with started(sh("trap '' TERM; echo; while :; do sleep 60; done")) as agent:
            await Lines(agent).next()
    assert agent.returncode == -signal.SIGKILL


async def test_a_stopped_agent_is_killed() -> None:
    with trio.fail_after(30):
        async with started(["cat"]) as agent:
            os.kill(agent.pid, signal.SIGSTOP)
    assert agent.returncode == -signal.SIGKILL


@pytest.mark.parametrize("step", ["stdin_close_grace_s", "terminate_grace_s"])
async def test_a_step_of_no_time_is_still_made(step: str) -> None:
    limits = Limits(**{"stdin_close_grace_s": 0.1, "terminate_grace_s": 0.1, step: 0.0})
    with trio.fail_after(30):
        async with started(["sleep", "60"], limits=limits) as agent:
            pass
    assert agent.returncode in {-signal.SIGTERM, -signal.SIGKILL}


async def test_a_kill_without_time_to_look_around_still_kills_the_agent() -> None:
    with trio.fail_after(30):
        async with started(sh("trap '' TERM; echo; while :; do sleep 60; done")) as agent:
            await Lines(agent).next()
            with trio.move_on_after(0):
                await agent.kill_tree()
            assert await agent.wait() == -signal.SIGKILL


async def test_the_goodbye_goes_ahead_of_prompts_and_the_end_of_input_behind_it() -> None:
    # The agent reads nothing before it is told to, so that all of it waits in the writer.
    program = sh("trap 'cat; exit 7' USR1; echo; while :; do sleep 0.01; done")
    with trio.fail_after(30):
        async with started(program, limits=PATIENT) as agent:
            lines = Lines(agent)
            await lines.next()
            writer = LineWriter(agent, outbox=2**20, write_timeout=5)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(writer.run)
                writer.write(b"x" * 300_000 + b"\n")
                writer.write(b"a prompt that is too late\n")

                def goodbye() -> None:
                    writer.write(b"goodbye\n", urgent=True)
                    os.kill(agent.pid, signal.SIGUSR1)

                async def listen() -> None:
                    assert await lines.next() == "x" * 300_000
                    assert await lines.next() == "goodbye"
                    assert await lines.next() == ""

                nursery.start_soon(listen)
                await end(agent, PATIENT, writer=writer, goodbye=goodbye)
    assert agent.returncode == 7


async def test_a_goodbye_that_does_not_get_through_does_not_stop_the_ladder() -> None:
    with trio.fail_after(30):
        async with started(["sleep", "60"]) as agent, trio.open_nursery() as nursery:
            writer = LineWriter(agent, outbox=2**20, write_timeout=60)
            nursery.start_soon(writer.run)
            writer.write(b"x" * 300_000 + b"\n")
            await end(agent, ENDS_AT_SIGTERM, writer=writer)
            assert agent.returncode == -signal.SIGTERM


async def test_cancelling_the_block_ends_the_agent_all_the_same() -> None:
    with trio.fail_after(30), trio.CancelScope() as scope:
        async with started(sh("trap '' TERM; echo; while :; do sleep 60; done")) as agent:
            await Lines(agent).next()
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert agent.returncode == -signal.SIGKILL


async def test_an_error_of_the_block_comes_out_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with started(["cat"]):
            raise ZeroDivisionError


@pytest.mark.slow
async def test_two_closers_do_not_send_sigterm_twice(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = sh(f"trap 'echo term >> {log}' TERM; echo; while :; do sleep 0.05; done")
    with trio.fail_after(30):
        async with started(program) as agent, trio.open_nursery() as nursery:
            await Lines(agent).next()
            for _ in range(2):
                nursery.start_soon(
                    end, agent, Limits(stdin_close_grace_s=0.1, terminate_grace_s=1.0)
                )
    assert log.read_text() == "term\n"


async def test_nothing_is_signalled_once_the_agent_was_reaped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with started(["cat"]) as agent:
        pass
    for name in ("kill", "killpg"):
        monkeypatch.setattr(os, name, lambda *_: pytest.fail("signalled a stranger"))
    agent.terminate()
    await agent.kill_tree()


async def test_where_no_process_is_shown_the_group_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hide_processes(monkeypatch)
    with trio.fail_after(30):
        async with started(sh("sleep 60 & echo $!; wait"), limits=ENDS_AT_SIGTERM) as agent:
            child = int(await Lines(agent).next())
        assert agent.returncode == -signal.SIGTERM
        await until_gone(child)


@pytest.mark.slow
async def test_fifty_agents_leave_no_descriptor_thread_or_process() -> None:
    me = psutil.Process()

    async def session() -> None:
        async with started(sh("sleep 60 & cat")) as agent:
            agent.write_nowait(b"hello\n")
            assert await Lines(agent).next() == "hello"

    with trio.fail_after(50):
        await session()  # Trio keeps a worker thread or two for later
        descriptors, threads = me.num_fds(), threading.active_count()
        for _ in range(10):
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(session)
    assert me.num_fds() == descriptors
    # Idle ones, of five agents at once; Trio ends them after ten seconds.
    assert threading.active_count() <= threads + 10
    assert not me.children()
