"""One seed: its run, and the fewest of its steps that still fail."""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentrt.testing import run_seeded

from .world import Driver, Step, Violation, World

MEMORY = "/dev/shm"
"""A file system in memory, where there is one."""


@dataclass
class Result:
    """What became of a run."""

    driver: Driver
    seed: int
    steps: list[Step]
    turns: int
    """Turns that a prompt began."""
    own_turns: int
    """Turns that the agent began by itself."""
    violation: Violation | None
    trace: list[str] = field(default_factory=list)
    store: bool = False


def run(
    driver: Driver,
    seed: int,
    *,
    script: list[Step] | None = None,
    keep_trace: bool = False,
    store: bool = False,
) -> Result:
    """One run. `script` are the steps to take in place of those that the seed chooses. `store`: the
    session is stored, by a store that does as the seed says."""
    with ExitStack() as stack:
        folder = None
        if store:
            memory = MEMORY if os.path.isdir(MEMORY) else None
            folder = Path(stack.enter_context(TemporaryDirectory(dir=memory)))
        return _run(World(driver, seed, keep_trace=keep_trace, folder=folder), seed, script)


def _run(world: World, seed: int, script: list[Step] | None) -> Result:
    taken: list[Step] = []
    with _strictly(world):
        try:
            run_seeded(world.run, script, taken, seed=seed)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: ASYNC103 - Trio is not running any more
            world.violation = world.violation or Violation("crash", _told(error))
            if world.keep_trace:
                world.trace += "".join(traceback.format_exception(error)).splitlines()
    return Result(
        world.driver,
        seed,
        taken,
        world.turns,
        world.own_turns,
        world.violation,
        world.trace,
        world.folder is not None,
    )


def shrink(result: Result) -> list[int]:
    """The numbers of the steps that are needed for the same invariant to break, counted from 0."""
    assert result.violation is not None
    invariant, steps = result.violation.invariant, result.steps

    def fails(numbers: list[int]) -> bool:
        script = [steps[n] for n in numbers]
        again = run(result.driver, result.seed, script=script, store=result.store)
        return again.violation is not None and again.violation.invariant == invariant

    kept = list(range(len(steps)))
    size = len(kept) // 2
    while size:
        start = 0
        while start < len(kept):
            fewer = kept[:start] + kept[start + size :]
            if fails(fewer):
                kept = fewer
            else:
                start += size
        size //= 2
    return kept


@contextmanager
def _strictly(world: World) -> Iterator[None]:
    """What Python only mentions breaks the run; what agentrt logs of handlers that fail on purpose
    is nobody's business."""
    logger, hook = logging.getLogger("agentrt"), sys.unraisablehook
    level = logger.level

    def unraisable(what: Any) -> None:
        world.violation = world.violation or Violation("crash", f"unraisable: {what.exc_value}")

    logger.setLevel(logging.CRITICAL + 1)
    sys.unraisablehook = unraisable
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    finally:
        sys.unraisablehook = hook
        logger.setLevel(level)


def _told(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
