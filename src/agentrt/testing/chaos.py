"""Runs of a program against agents that misbehave, each decided by a seed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from random import Random
from typing import Any, Final, TypeVarTuple

import trio
from msgspec import Struct

from .._errors import AgentrtError
from .memory import MemoryAgent
from .scripted import FakeAgent, ScriptedAgents, scripted_agents
from .seeded import run_seeded

Args = TypeVarTuple("Args")

_STEPS: Final = 8
"""The most that an agent does in a turn."""


class Faults(Struct, frozen=True, kw_only=True):
    """How often an agent misbehaves: each a probability, of a step, a turn or a cancel."""

    delay: float = 0.3
    """A step comes late, by up to `longest` seconds."""
    longest: float = 20.0
    ask: float = 0.25
    """A step is a permission request."""
    tool: float = 0.25
    """A step is a tool call of its own."""
    left_open: float = 0.2
    """A tool call of its own is never said to be over."""
    die: float = 0.03
    """A step is its death, at times in the middle of a line."""
    fail: float = 0.05
    """A turn ends as refused, cut off by a limit, or failed."""
    ignore_cancel: float = 0.1
    """A cancel is ignored: the turn goes on."""


class Chaos:
    """A script whose every turn is made up by `random`, for agents of any protocol."""

    def __init__(self, random: Random, faults: Faults | None = None) -> None:
        self._random = random
        self._faults = faults or Faults()
        self._calls = 0

    async def __call__(self, agent: FakeAgent) -> None:
        """Be the agent, for one process."""
        async for prompt in agent.prompts:
            await self._turn(agent, prompt)

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    async def _turn(self, agent: FakeAgent, prompt: Any) -> None:
        faults = self._faults
        ignores = self._chance(faults.ignore_cancel)
        for _ in range(self._random.randint(1, _STEPS)):
            if prompt.cancelled.is_set() and not ignores:
                break
            if self._chance(faults.delay):
                await self._wait(prompt, ignores=ignores)
            if self._chance(faults.die):
                self._die(agent.process)
                return
            await self._step(agent)
        if prompt.cancelled.is_set() and not ignores:
            if self._chance(faults.delay):
                await trio.sleep(self._random.uniform(0, faults.longest))
            prompt.end("cancelled")
        elif not self._chance(faults.fail):
            prompt.end()
        else:
            self._random.choice(
                (prompt.fail, partial(prompt.end, "refusal"), partial(prompt.end, "max_tokens"))
            )()

    async def _wait(self, prompt: Any, *, ignores: bool) -> None:
        seconds = self._random.uniform(0, self._faults.longest)
        if ignores:
            await trio.sleep(seconds)
        else:
            with trio.move_on_after(seconds):
                await prompt.cancelled.wait()

    async def _step(self, agent: FakeAgent) -> None:
        faults = self._faults
        if self._chance(faults.ask):
            self._calls += 1
            await agent.ask(f"call_{self._calls}", f"make {self._calls}")
        elif self._chance(faults.tool):
            self._calls += 1
            call = f"call_{self._calls}"
            agent.use(call, f"make {call}")
            if not self._chance(faults.left_open):
                agent.used(call, "done", failed=self._chance(0.2))
        elif self._chance(0.3):
            agent.think("hm ")
        else:
            agent.say(f"word {self._random.randrange(1000)} ")

    def _die(self, process: MemoryAgent) -> None:
        if self._chance(0.5):
            process.send(b'{"half a li')
        process.complain("it died, as the seed wanted\n")
        process.exit(self._random.choice((0, 1, -9, -11)))


def simulate(
    program: Callable[[*Args], Awaitable[object]],
    *args: *Args,
    seeds: Iterable[int] = range(20),
    faults: Faults | None = None,
    setup: Callable[[ScriptedAgents], object] | None = None,
    expects: type[BaseException] | tuple[type[BaseException], ...] = AgentrtError,
) -> None:
    """Run a program that opens sessions once for each seed, against agents that stall, ask, die and
    answer late; the seed decides all of it, and the order of tasks. Time jumps.

    - `setup` may put scripts in the place of some agents (see `ScriptedAgents`); it is called
      before each run.
    - `expects`: errors that the program may end with; by default those of agentrt's own.

    After each run the logs of all its sessions are checked (`check_log`). What goes wrong, any
    other error and a log that is broken, is raised with a note that says the seed:
    `seeds=[7]` shows it again. Not to be called inside Trio.
    """
    for seed in seeds:
        agents: list[ScriptedAgents] = []
        try:
            run_seeded(partial(_run, program, args, Random(seed), faults, setup, agents), seed=seed)
        except expects:
            pass
        except BaseException as error:
            error.add_note(f"seed {seed}: simulate(…, seeds=[{seed}]) shows it again")
            raise
        for each in agents:
            try:
                each.check()
            except AssertionError as error:
                error.add_note(f"seed {seed}: simulate(…, seeds=[{seed}]) shows it again")
                raise


async def _run(
    program: Callable[..., Awaitable[object]],
    args: tuple[object, ...],
    random: Random,
    faults: Faults | None,
    setup: Callable[[ScriptedAgents], object] | None,
    agents: list[ScriptedAgents],
) -> None:
    with scripted_agents() as scripted:
        agents.append(scripted)
        scripted.set_default(Chaos(random, faults))
        if setup is not None:
            setup(scripted)
        await program(*args)
