"""Runs seeds, and what is done with one that fails: its trace, and fewer steps that fail as well."""

from __future__ import annotations

from .world import Driver, Result, Step, Violation, World
from agentrt.testing.seeded import run_seeded


def run(
    driver: Driver, seed: int, *, script: list[Step] | None = None, keep_trace: bool = False
) -> Result:
    """One run. `script` replaces the steps that the seed would choose."""
    world = World(driver, seed, keep_trace=keep_trace)
    steps: list[Step] = []
    try:
        steps = run_seeded(world.run, script, seed=seed)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        world.violation = world.violation or Violation("crash", _told(error))
        world.crash = error
    return Result(seed, driver, steps, world.turns, world.own_turns, world.violation, world.trace)


def _told(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


__all__ = ["Result", "Violation", "run"]
