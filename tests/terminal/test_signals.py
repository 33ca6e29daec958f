"""One-shot mode that is interrupted, told to end, or whose output nobody reads any more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from program import FAST_DEMO, PATIENCE, Program, read_some


class Stream:
    """The events of a running program, as they come."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.told: list[dict[str, Any]] = []
        self._left = b""

    def until(self, kind: str, text: str = "") -> dict[str, Any]:
        """Read on until an event of this kind whose line has this text in it."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            line, newline, rest = self._left.partition(b"\n")
            if newline:
                self._left = rest
                self.told.append(json.loads(line))
                if self.told[-1]["kind"] == kind and text.encode() in line:
                    return self.told[-1]
            else:
                self._left += read_some(self.process.stdout, deadline)
        raise AssertionError(f"no {kind} with {text!r} among {self.told}")

    def rest(self) -> tuple[int, str]:
        """Read to the end; the exit status, and standard error."""
        out, err = self.process.communicate(timeout=PATIENCE)
        self.told += [json.loads(line) for line in (self._left + out).splitlines()]
        return self.process.returncode, err.decode()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)


@contextmanager
def streaming(program: Program, prompt: str, *arguments: str) -> Iterator[Stream]:
    with program.start(
        *FAST_DEMO,
        "-p",
        prompt,
        "--output-format",
        "stream-json",
        *arguments,
        stdin=subprocess.DEVNULL,
    ) as process:
        try:
            yield Stream(process)
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143)],
)
@pytest.mark.door("one-shot", "cancel")
def test_a_signal_cancels_the_turn_and_its_end_is_reported(
    program: Program, number: int, status: int
) -> None:
    with streaming(program, "/slow 600") as stream:
        stream.until("item.updated", "running")
        stream.signal(number)
        assert stream.rest() == (status, "")
    [ended] = [e for e in stream.told if e["kind"] == "turn.ended"]
    assert (ended["outcome"], ended["by"], ended["stop_reason"]) == (
        "cancelled",
        "user",
        "cancelled",
    )
    assert [e["status"] for e in stream.told if e["kind"] == "item.closed"] == ["cancelled"]


@pytest.mark.slow
def test_a_second_signal_ends_an_agent_that_does_not_listen(program: Program) -> None:
    with streaming(program, "/stubborn 600", "--cancel-grace", "600") as stream:
        stream.until("item.delta", "listen to a ")
        stream.signal(signal.SIGINT)
        stream.until("state", '"cancelling"')
        stream.signal(signal.SIGINT)
        assert stream.rest()[0] == 130
    assert [e["outcome"] for e in stream.told if e["kind"] == "turn.ended"] == ["cancelled"]


@pytest.mark.slow
def test_a_third_signal_kills_and_the_agent_ends_all_the_same(program: Program) -> None:
    program.fresh = True  # the guard knows an agent by the environment that it was started with
    with streaming(program, "/stubborn 600", "--cancel-grace", "600") as stream:
        stream.until("item.delta", "listen to a ")
        agent = psutil.Process(_pid(stream))
        stream.signal(signal.SIGINT)
        stream.until("state", '"cancelling"')
        stream.signal(signal.SIGINT)
        while stream.process.poll() is None:  # until the second one has been taken
            time.sleep(0.05)
            stream.signal(signal.SIGINT)
        assert stream.process.returncode == 130
    psutil.wait_procs([agent], timeout=PATIENCE)
    assert not agent.is_running()


def _pid(stream: Stream) -> int:
    pids = [e["state"]["agent"].get("pid") for e in stream.told if e["kind"] == "state"]
    pid = pids[-1]
    assert isinstance(pid, int)
    return pid


def test_an_interrupt_before_there_is_a_session_ends_it_at_once(program: Program) -> None:
    told = program.folder / "told"
    command = f"sh -c 'touch {told}; exec sleep 600'"
    with program.start("-p", "go", "--command", command, stdin=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + PATIENCE
        while not told.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (130, b"")


@pytest.mark.slow
def test_a_wait_for_the_prompt_is_explained_and_ends_with_a_signal(program: Program) -> None:
    with program.start(*FAST_DEMO) as process:
        assert b"reading the prompt" in read_some(process.stderr)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 143


@pytest.mark.slow
def test_signals_that_were_ignored_at_the_start_stay_ignored(program: Program) -> None:
    code = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN);"
    code += "os.execv(sys.executable, [sys.executable, '-m', 'agentrt', *sys.argv[1:]])"
    arguments = (*FAST_DEMO, "-p", "/slow 1", "--output-format", "stream-json")
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=program.folder,
        env=program.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        stream = Stream(process)
        stream.until("item.updated", "running")
        stream.signal(signal.SIGHUP)
        assert stream.rest() == (0, "")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        pytest.param([*FAST_DEMO, "-p", "list the files"], "`notes.txt`", id="prompt"),
        pytest.param(["sessions", "--json"], "[]", id="subcommand", marks=pytest.mark.slow),
    ],
)
def test_with_all_signals_ignored_it_works_as_usual(
    program: Program, arguments: list[str], shown: str
) -> None:
    code = "import os, signal, sys; I = signal.SIG_IGN;"
    code += "[signal.signal(getattr(signal, n), I) for n in ('SIGINT', 'SIGTERM', 'SIGHUP')];"
    code += "os.execv(sys.executable, [sys.executable, '-m', 'agentrt', *sys.argv[1:]])"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=program.folder,
        env=program.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, shown in done.stdout) == (0, True), done


# --- readers that go away


@pytest.mark.slow
def test_a_closed_pipe_ends_it_quietly(program: Program) -> None:
    with program.start(*FAST_DEMO, "-p", "/flood 1000000", stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert read_some(process.stdout).startswith(b"line 1\n")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 141


@pytest.mark.parametrize("arguments", [("--help",), ("doctor", "--agent", "demo")])
def test_the_other_commands_mind_a_closed_pipe_as_little(
    program: Program, arguments: tuple[str, ...]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        process = program.start(*arguments, stdout=writing)
        _, err = process.communicate(timeout=PATIENCE)
    finally:
        os.close(writing)
    assert (process.returncode, err) == (141, b"")


@pytest.mark.slow
def test_a_full_disk_is_reported(program: Program) -> None:
    with open("/dev/full", "wb") as full:
        process = program.start(*FAST_DEMO, "-p", "list the files", stdout=full)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert err == b"agentrt: standard output: No space left on device\n"


@pytest.mark.slow
def test_a_reader_that_never_reads_holds_up_no_signal(program: Program) -> None:
    with program.start(*FAST_DEMO, "-p", "/flood 1000000", stdin=subprocess.DEVNULL) as process:
        assert read_some(process.stdout, size=1) == b"l"
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            time.sleep(0.3)
            process.send_signal(signal.SIGTERM)
        assert process.returncode in (143, -signal.SIGTERM)


INTERRUPTED = """
import os, runpy, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE and MODULE not in seen:
            seen.append(name)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # also in a background job
MODULE, seen = sys.argv.pop(1), []
sys.meta_path.insert(0, Finder())
runpy.run_module("agentrt", run_name="__main__")
"""


@pytest.mark.parametrize(
    "module",
    [
        "agentrt._cli.main",
        pytest.param("agentrt._cli.arguments", marks=pytest.mark.slow),
        pytest.param("trio", marks=pytest.mark.slow),
    ],
)
def test_an_interrupt_while_the_program_is_loaded_is_no_traceback(
    module: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", INTERRUPTED, module, "sessions"]
    env = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
