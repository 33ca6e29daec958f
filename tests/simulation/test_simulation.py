"""The simulation in short: some seeds of each driver, and that a seed decides all of a run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
import trio
from trio._core import _run

from agentrt.testing import run_seeded
from faults.quick import mostly_slow

from .__main__ import report
from .defects import DEFECTS
from .run import Result, run, shrink
from .world import Driver, Violation

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs/project/own-tests.md"
COMMANDS = re.findall(r"`nox -s simulate -- (.*)`", PAGE.read_text())
DRIVERS: tuple[Driver, ...] = ("acp", "acp2", "claude", "codex")


def command(*arguments: str, seed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "simulation", *arguments],
        cwd=TESTS,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("seeds", mostly_slow([range(5), range(5, 300)], one_in=2), ids=str)
def test_every_invariant_holds_in_every_run(driver: Driver, seeds: range) -> None:
    for seed in seeds:
        result = run(driver, seed)
        assert result.violation is None, (
            f"nox -s simulate -- --driver {driver} --seed {seed}: {result.violation}"
        )


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("seeds", mostly_slow([range(2), range(2, 200)], one_in=2), ids=str)
def test_every_invariant_holds_in_every_run_of_a_stored_session(
    driver: Driver, seeds: range
) -> None:
    for seed in seeds:
        result = run(driver, seed, store=True)
        assert result.violation is None, (
            f"nox -s simulate -- --driver {driver} --seed {seed} --store: {result.violation}"
        )


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_seed_decides_everything_also_in_another_process(driver: Driver) -> None:
    seed = next(seed for seed in range(50) if run(driver, seed).turns > 8)
    one, other = (command("--driver", driver, "--seed", str(seed), seed=hash) for hash in "07")
    assert one.returncode == 0, one.stderr
    assert one.stdout.count("\n") > 100
    assert one.stdout == other.stdout
    here = run(driver, seed, keep_trace=True)
    assert one.stdout.startswith("\n".join(here.trace))


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    "store", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["memory", "store"]
)
@pytest.mark.slow
def test_no_run_uses_a_thread(driver: Driver, store: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object, **options: object) -> NoReturn:
        raise AssertionError("what a thread does is decided by no seed")

    monkeypatch.setattr(trio.to_thread, "run_sync", refuse)
    broken = [seed for seed in range(30) if run(driver, seed, store=store).violation is not None]
    assert not broken


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
def test_different_seeds_are_different_runs(driver: Driver) -> None:
    traces = {"\n".join(run(driver, seed, keep_trace=True).trace) for seed in range(20)}
    assert len(traces) == 20


@pytest.mark.slow
@pytest.mark.parametrize("line", mostly_slow(COMMANDS, one_in=len(COMMANDS)))
def test_a_command_of_the_documentation_works(line: str) -> None:
    done = command(*line.split())
    assert done.returncode == 0, done.stderr
    if "--servers" in line:
        assert re.fullmatch(
            r"\d+ seeds, \d+ statements, \d+ prompts that reached an agent",
            done.stdout.splitlines()[-1],
        )
    elif "--seeds" in line:
        assert re.search(
            r"^\w+: \d+ seeds, \d+ turns .*, \d+ turns per CPU-second$", done.stdout, re.MULTILINE
        )
    else:
        assert "is fine" in done.stdout


def test_the_documentation_has_the_commands_that_a_failure_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed = Result("acp", 17, [("prompt", 1)], 0, 0, Violation("T2", "planted"))
    report(failed, [0])
    printed = re.findall(r"nox -s simulate -- (.*)", capsys.readouterr().out)
    assert printed == ["--driver acp --seed 17", "--driver acp --seed 17 --steps 0"]
    shapes = [re.sub(r"--steps [\d,]+", "--steps 0", line) for line in COMMANDS]
    assert set(printed) <= set(shapes)


@pytest.fixture
def planted() -> Iterator[None]:
    [defect] = [each for each in DEFECTS if each.name == "the queue goes on after a Stop"]
    with defect.planted():
        yield


@pytest.mark.usefixtures("planted")
def test_the_steps_of_a_run_can_be_taken_again() -> None:
    """A failing run is told with the fewest of its steps that still fail."""
    failed = next(r for seed in range(300) if (r := run("acp", seed)).violation is not None)
    assert failed.violation is not None
    again = run("acp", failed.seed, script=failed.steps)
    assert again.violation == failed.violation
    fewer = shrink(failed)
    assert len(fewer) < len(failed.steps)
    short = run("acp", failed.seed, script=[failed.steps[n] for n in fewer])
    assert short.violation is not None
    assert short.violation.invariant == failed.violation.invariant


# --- the scheduler


async def _order(tasks: int) -> list[int]:
    order: list[int] = []

    async def one(number: int) -> None:
        for _ in range(3):
            order.append(number)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for number in range(tasks):
            nursery.start_soon(one, number)
    return order


def test_the_scheduler_is_seeded_and_nothing_else_decides() -> None:
    """The canary for the private names of Trio that this needs."""
    first = [run_seeded(_order, 5, seed=seed) for seed in range(20)]
    again = [run_seeded(_order, 5, seed=seed) for seed in range(20)]
    assert first == again
    assert len({tuple(order) for order in first}) > 15


def test_a_seeded_run_leaves_the_scheduler_as_it_was() -> None:
    before = _run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r.getstate()
    run_seeded(_order, 3, seed=1)
    assert (_run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r.getstate()) == before


def test_a_seeded_run_has_a_clock_that_begins_at_zero_and_jumps() -> None:
    async def wait() -> tuple[float, float]:
        began = trio.current_time()
        await trio.sleep(1000)
        return began, trio.current_time()

    assert run_seeded(wait, seed=1) == (0.0, 1000.0)
