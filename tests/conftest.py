"""What holds for every test: it leaves no process and no descriptor behind.

Tasks need no check: a task that outlives its nursery cannot exist under Trio, and pytest-trio gives
each test a run of its own.
"""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Iterator

import psutil
import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no defect: how long an example takes is nothing that a test says.
settings.register_profile("agentrt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("agentrt")

RUN = "AGENTRT_TEST_RUN"
"""In the environment of every process that a test starts, unless the test gives it another one:
so that a process which left its parent's group and lost its parent is still found."""

os.environ[RUN] = str(os.getpid())

VANISH = 20.0
"""Seconds that a process, already killed, may take to leave the process table."""


def _reaped() -> tuple[float, float, int]:
    """Changes when a child of this process was waited for: then a test has started one."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime, usage.ru_stime, usage.ru_minflt


def _marked() -> set[psutil.Process]:
    """Every process that a test of this run started, also those whose parent is gone."""
    found = set()
    for process in psutil.process_iter():
        try:
            if process.environ().get(RUN) == os.environ[RUN]:
                found.add(process)
        except psutil.Error:
            continue  # gone meanwhile, or somebody else's
    return found - {psutil.Process()}


def _descriptors() -> dict[str, str]:
    """Open descriptors of this process and what they refer to."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue  # the one that lists the folder
    return found


def _told(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {process.status()} {process.cmdline()}"
    except psutil.Error as error:
        return str(error)


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    """Fail a test after which a process or a descriptor of its own is left."""
    me = psutil.Process()
    processes, descriptors, reaped = set(me.children(recursive=True)), _descriptors(), _reaped()
    yield
    children = set(me.children()) - processes
    left = set(me.children(recursive=True))
    if left or _reaped() != reaped:
        left |= _marked()
    # A child must have been waited for by now; what it started may still be dying.
    _, alive = psutil.wait_procs(left - processes - children, timeout=VANISH)
    told = [_told(process) for process in (*children, *alive)]
    for process in (*children, *alive):
        process.kill()
    assert not told, f"processes left running: {told}"

    opened = _descriptors().items() - descriptors.items()
    if opened:
        gc.collect()  # what only waits for the collector is Trio's own, closed on collection
        opened &= _descriptors().items()
    assert not opened, f"descriptors left open: {dict(opened)}"
