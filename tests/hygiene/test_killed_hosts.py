"""`kill -9` of the host: within seconds no agent is left, and nothing that one has started, also if
it happens while the agent is being started.

The host's agents ignore the end of their input and SIGTERM, and hide a child in a session of its
own. The quick form kills 8 hosts, `nox -s hygiene` 240.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from faults.quick import FULL
from faults.real import MARK, carriers

HOST = Path(__file__).with_name("host.py")
TESTS = HOST.parents[1]

AT_ONCE = 8
"""Hosts that run beside each other."""

ROUNDS = 30 if FULL else 1

SECONDS = 25.0
"""For what is left of a host on a busy machine. The guard's own ladder takes three, but for the
last rung; the child that would write its file takes thirty."""


class Host:
    """One host, and the moment at which it is to be killed."""

    def __init__(self, folder: Path, delay: float | None) -> None:
        """`delay`: seconds behind its beginning; None: when everything runs."""
        self.file = folder / "late"
        self.mark = str(folder)
        self._delay = delay
        self._process = subprocess.Popen(
            [sys.executable, str(HOST), str(self.file)],
            stdout=subprocess.PIPE,
            env={**os.environ, MARK: self.mark, "PYTHONPATH": str(TESTS)},
        )

    def wait_for(self, word: str) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.split() == [word.encode()]:
                return
        raise AssertionError(f"the host ended before it was {word}")

    def kill(self) -> int:
        """At its moment. How many processes it left behind, for the moment."""
        if self._delay is None:
            self.wait_for("planted")
        else:
            self.wait_for("ready")
            time.sleep(self._delay)
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return len(carriers(self.mark))


@pytest.mark.slow
@pytest.mark.linux_only("agents end with a killed host")
def test_nothing_outlives_a_host_that_is_killed_at_any_moment_of_a_start(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    chance, begun, orphans = random.Random(seed), 0, 0
    for round in range(ROUNDS):
        hosts = []
        for number in range(AT_ONCE):
            folder = tmp_path / f"{round}-{number}"
            folder.mkdir()
            hosts.append(Host(folder, chance.uniform(0, 0.3) if number else None))
        with ThreadPoolExecutor(AT_ONCE) as executioners:
            orphans += sum(executioners.map(Host.kill, hosts))
        until = time.monotonic() + SECONDS
        while left := [process for host in hosts for process in carriers(host.mark)]:
            assert time.monotonic() < until, f"seed {seed}: {[told(each) for each in left]}"
            time.sleep(0.1)
        assert not [host.file for host in hosts if host.file.exists()]
        begun += sum(Path(f"{host.file}.begun").exists() for host in hosts)
    assert begun >= ROUNDS  # it was about something
    assert orphans > 2 * ROUNDS


def told(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {process.cmdline()[:4]}"
    except psutil.Error:
        return "gone"
