"""What holds for every test: it leaves no process and no descriptor behind. And what is run when
nothing is named: all but what takes long.

Tasks need no check: a task that outlives its nursery cannot exist under Trio, and pytest-trio gives
each test a run of its own.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from postgres.server import Server

# A busy machine is no defect: how long an example takes is nothing that a test says.
for name, examples in (("quick", 20), ("long", 100)):
    settings.register_profile(
        name, deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples
    )

RUN = "AGENTRT_TEST_RUN"
"""In the environment of every process that a test starts, unless the test gives it another one:
so that a process which left its parent's group and lost its parent is still found."""

os.environ[RUN] = str(os.getpid())

VANISH = 20.0
"""Seconds that a process, already killed, may take to leave the process table."""


SLOW = ".venv/bin/python -m pytest --slow"
LONG = ("slow", "real_agent")
LEFT_OUT = pytest.StashKey[dict[str, int]]()
UNREAD = pytest.StashKey[dict[Path, str]]()
"""Files that were not imported, each with the mark that is the reason."""
UNMADE = pytest.StashKey[dict[str, int]]()
"""Counts of functions of which no tests were made, by the mark that is the reason."""
NAMED = pytest.StashKey[set[Path]]()
MARKS = re.compile(r"^pytestmark = (?:\[\n(?: .*\n)*\]|.*)", re.MULTILINE)
"""The marks of all tests of a file."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run also what takes long")


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A PostgreSQL server, which all tests of the run share: each has a schema of its own."""
    from postgres.server import INSTALL, programs, shared

    if programs() is None:
        # Whoever only looks at the tests need not have one; what checks a change does.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(INSTALL)
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install psycopg[binary]")
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with shared(folder / "postgres") as server:
        yield server


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("long" if config.option.slow else "quick")


def unwanted(config: pytest.Config) -> list[str]:
    """The marks of tests that are left out unless their file is named."""
    return [] if config.option.slow else [m for m in LONG if m not in config.option.markexpr]


def is_unread(path: Path, config: pytest.Config) -> bool:
    """Whether all tests of a file are left out by a mark of the file: importing it in each worker
    would be a quarter of the time before the first test."""
    known = config.stash.setdefault(UNREAD, {})
    if path not in known and path.suffix == ".py" and path.is_file():
        marks = MARKS.search(path.read_text())
        words = re.findall(r"pytest\.mark\.(\w+)", marks[0]) if marks is not None else []
        known[path] = next((mark for mark in unwanted(config) if mark in words), "")
    return bool(known.get(path))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_unread(collection_path, config) or None


def asked_for_by_name(config: pytest.Config) -> set[Path]:
    """The files that the command line names, or of which it names a test."""
    if NAMED not in config.stash:
        paths = [Path(config.invocation_params.dir, arg.partition("::")[0]) for arg in config.args]
        config.stash[NAMED] = {path.resolve() for path in paths if path.is_file()}
    return config.stash[NAMED]


def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item] | None:
    """Make no tests of a function that is left out: they were a fifth of all."""
    config = collector.config
    words = {mark.name for mark in getattr(obj, "pytestmark", ())} if callable(obj) else set()
    why = next((mark for mark in unwanted(config) if mark in words), None)
    if why is None or not name.startswith("test_") or collector.path in asked_for_by_name(config):
        return None
    counts = config.stash.setdefault(UNMADE, {})
    counts[why] = counts.get(why, 0) + 1
    return []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long, unless it is asked for: by `--slow`, by `-m`, or by the name of
    its file or of the test itself. (The name of a folder asks for what is quick in it.)"""
    if sys.platform != "linux" or os.environ.get("AGENTRT_PROCESS_LAYER") == "portable":
        for item in items:
            for mark in item.iter_markers("linux_only"):
                reason = f"the portable process layer does not promise: {mark.args[0]}"
                item.add_marker(pytest.mark.skip(reason=reason))
    if config.option.slow:
        return
    named = asked_for_by_name(config)
    marks = unwanted(config)
    unmade = config.stash.get(UNMADE, {})
    chosen, left, counts = [], [], {mark: unmade.get(mark, 0) for mark in marks}
    for path, mark in config.stash.get(UNREAD, {}).items():
        if mark:
            counts[mark] += path.read_text().count("def test_")
    for item in items:
        why = next((mark for mark in marks if item.get_closest_marker(mark)), None)
        if why is None or item.path in named:
            chosen.append(item)
        else:
            left.append(item)
            counts[why] += 1
    if left:
        items[:] = chosen
        config.hook.pytest_deselected(items=left)
    config.stash[LEFT_OUT] = counts


def pytest_xdist_auto_num_workers() -> int:
    """Twice the cores: half of the time is spent waiting for processes."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Let each worker begin with another part of the files: whoever comes first compiles a file for
    all of them, where there is no bytecode yet."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        files = sorted(Path(__file__).parent.glob("**/test_*.py"))
        start = int(worker[2:]) * len(files) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        for file in files[start:] + files[:start]:
            if is_unread(file, session.config):
                continue
            name, folder = file.stem, file.parent
            if (folder / "__init__.py").exists():
                name, folder = f"{folder.name}.{name}", folder.parent
            if str(folder) not in sys.path:
                sys.path.insert(0, str(folder))  # as pytest does
            # What cannot be imported or is skipped, the collection itself reports.
            with suppress(Exception, pytest.skip.Exception):
                import_module(name)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()  # what was collected stays: it need not be looked through again and again
        gc.set_threshold(10_000)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker's count is everybody's: each collects all."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left out"] = session.config.stash.get(LEFT_OUT, {})


def pytest_testnodedown(node: Any) -> None:
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left out", {})


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what was left out, and what runs it. (What is skipped says so itself.)"""
    counts = config.stash.get(LEFT_OUT, {})
    if left := ", ".join(f"{count} {mark}" for mark, count in counts.items() if count):
        terminalreporter.line(f"Left out: {left}. With them: {SLOW}", yellow=True)
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if everything and not os.environ.get("AGENTRT_FULL"):
        terminalreporter.line(
            "Of some tests a sample ran; in full: nox -s faults hygiene clients, or AGENTRT_FULL=1"
        )


def _reaped() -> tuple[float, float, int]:
    """Changes when a child of this process was waited for: then a test has started one."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime, usage.ru_stime, usage.ru_minflt


def _children(*, recursive: bool = True) -> set[psutil.Process]:
    """What is below this process: a walk through all of `/proc`, but only if there is anything."""
    threads = Path("/proc/self/task")
    try:
        if not any((threads / name / "children").read_bytes() for name in os.listdir(threads)):
            return set()
    except OSError:
        pass  # a thread that ended meanwhile, or a kernel that does not tell
    return set(psutil.Process().children(recursive=recursive))


def _marked() -> set[psutil.Process]:
    """Every process that a test of this run started, also those whose parent is gone."""
    mark = f"{RUN}={os.environ[RUN]}".encode()
    found = set()
    for pid in psutil.pids():
        try:
            with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
                if mark in file.read().split(b"\0"):
                    found.add(psutil.Process(pid))
        except (OSError, psutil.Error):
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


def _settings() -> dict[str, object]:
    """What a command that runs in the process of a test may set for the rest of it."""
    log = logging.getLogger("agentrt")
    handlers = [h for h in log.handlers if type(h).__module__ != "agentrt._core.logging"]
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return {
        "log": (handlers, log.level, log.propagate, log.disabled),
        "signals": [signal.getsignal(number) for number in ending],
    }


def _told(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {process.status()} {process.cmdline()}"
    except psutil.Error as error:
        return str(error)


@pytest.fixture(scope="session", autouse=True)
def no_state_of_the_persons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a test's programs remember and store is not for whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def forked_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the demo agents of a test, which is not about how they start."""
    from forked import AgentPopen

    monkeypatch.setattr(subprocess, "Popen", AgentPopen)


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    """Fail a test after which a process or a descriptor of its own is left, or a setting."""
    processes, descriptors, reaped = _children(), _descriptors(), _reaped()
    settings = _settings()
    yield
    children = _children(recursive=False) - processes
    left = _children() if children or processes else set()
    if left or _reaped() != reaped:
        left |= _marked()
    # A child must have been waited for by now; what it started may still be dying.
    _, alive = psutil.wait_procs(left - processes - children, timeout=VANISH)
    told = [_told(process) for process in (*children, *alive)]
    for process in (*children, *alive):
        process.kill()
    assert not told, f"processes left running: {told}"
    assert _settings() == settings

    opened = _descriptors().items() - descriptors.items()
    if opened:
        gc.collect()  # what only waits for the collector is Trio's own, closed on collection
        opened &= _descriptors().items()
    assert not opened, f"descriptors left open: {dict(opened)}"
