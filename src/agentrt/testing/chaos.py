"""Runs of a program against misbehaving agents. A seed decides everything.

`Chaos` is the agent: a script that makes each turn of random steps. `simulate` runs the program
under test with such agents, one seed after the other, with a clock that jumps to the next deadline,
so that minutes of waiting take no time. The order of Trio's tasks depends on the seed, too; a run
can therefore be repeated exactly.

Two things are checked after each run. The logs of all sessions must hold agentrt's guarantees
(`check_log`). And if the agents were recorded ones, the text of each turn must belong to its
prompt: the program is first run with the unchanged recording, and the turns of the changed one are
compared with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVarTuple

import trio
from msgspec import Struct

from ..errors import AgentrtError
from .checks import LogBroken
from .memory import MemoryAgent
from .mutations import HARMLESS, Mutation, picked
from .replay import Replay, records_of
from .scripted import FakeAgent, ScriptedAgents, standing_in
from .seeded import run_seeded

Args = TypeVarTuple("Args")

_MAX_TURN_STEPS: Final = 8
"""Maximum number of steps of an agent in one turn."""


class Faults(Struct, frozen=True, kw_only=True):
    """Probabilities of an agent's faults, for each step, turn or cancel.

    Each is between 0 and 1. `Faults(die=0, fail=0)` is an agent that is slow, but never fails.
    """

    delay: float = 0.3
    """A step is late, by up to `longest` seconds."""
    longest: float = 20.0
    """The longest delay of a step, in seconds."""
    ask: float = 0.25
    """A step is a permission request."""
    tool: float = 0.25
    """A step is a tool call by the agent."""
    left_open: float = 0.2
    """A tool call by the agent is never reported as finished."""
    die: float = 0.03
    """The agent exits at a step, at times in the middle of a line."""
    fail: float = 0.05
    """A turn ends as refused, cut off by a limit, or failed."""
    ignore_cancel: float = 0.1
    """A cancel is ignored: the turn continues."""


class Chaos:
    """A script that generates every turn with `random`, for agents of any protocol.

    Two of them with equal generators and `faults` do the same, if the host does.
    """

    def __init__(self, random: Random, faults: Faults | None = None) -> None:
        self._random = random
        self._faults = faults or Faults()
        self._calls = 0

    async def __call__(self, agent: FakeAgent) -> None:
        """Run as the agent, for one process."""
        async for prompt in agent.prompts:
            await self._turn(agent, prompt)

    def _chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random.random() < probability

    async def _turn(self, agent: FakeAgent, prompt: Any) -> None:
        """Play one turn: random steps, with the faults that `Faults` gives a chance.

        It may ignore a cancel, die in the middle, or end as a failure, a refusal or at the token
        limit. All choices come from the seed.
        """
        faults = self._faults
        ignores = self._chance(faults.ignore_cancel)
        for _ in range(self._random.randint(1, _MAX_TURN_STEPS)):
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
        """Wait for a random time, but not longer than until a cancel that the agent obeys."""
        seconds = self._random.uniform(0, self._faults.longest)
        if ignores:
            await trio.sleep(seconds)
        else:
            with trio.move_on_after(seconds):
                await prompt.cancelled.wait()

    async def _step(self, agent: FakeAgent) -> None:
        """Do one thing that an agent does in a turn: ask, use a tool, think or write.

        A tool may stay open, for the host to close at the end of the turn.
        """
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
        """Exit with a random status, sometimes after half of a message."""
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
    recorded: Mapping[str, str | Path] | None = None,
    expects: type[BaseException] | tuple[type[BaseException], ...] = AgentrtError,
) -> None:
    """Run a program once for each seed, against agents that stall, ask, exit and answer late.

    The seed decides the agents' behaviour and the order of tasks. Time jumps instead of passing. Do
    not call this function inside Trio.

    - `setup` may set scripts for some agents (see `ScriptedAgents`); it is called before each run.
    - `recorded`: traces, by agent name. Each is the agent of one session and behaves as recorded,
      except for one change that the seed chooses (see `MutationKind`). The program is first run
      with the unchanged traces; an error in that run is raised.
    - `expects`: errors that the program may end with; by default agentrt's own errors.

    After each run the logs of all sessions are checked (`check_log`). For recorded agents, each
    prompt must also get the recorded answer: its beginning, or all of it if the change is one that
    no host may notice. Any other error, or a log that fails the check, is raised with a note that
    names the seed; `seeds=[7]` repeats that run.
    """
    traces = {name: records_of(file, "") for name, file in (recorded or {}).items()}
    before: dict[str, _Turns] = {}
    if traces:
        scripted = ScriptedAgents()
        for name, records in traces.items():
            scripted[name] = Replay(records)
        run_seeded(_run, scripted, program, args, seed=0)
        scripted.check()
        before = _turns(scripted)
    for seed in seeds:
        random = Random(seed)
        changes = {name: picked(records, random) for name, records in traces.items()}
        scripted = ScriptedAgents()
        scripted.set_default(Chaos(random, faults))
        for name, change in changes.items():
            scripted[name] = change.replay()
        with _saying(seed, changes):
            ended = False
            try:
                run_seeded(_run, scripted, program, args, setup, seed=seed)
                ended = True
            except expects:
                pass
            scripted.check()
            after = _turns(scripted)
            for name, change in changes.items():
                whole = ended and change.kind in HARMLESS
                _compare(after.get(name, []), before.get(name, []), whole=whole)


async def _run(
    scripted: ScriptedAgents,
    program: Callable[..., Awaitable[object]],
    args: tuple[object, ...],
    setup: Callable[[ScriptedAgents], object] | None = None,
) -> None:
    """Run the program with scripted agents in place of real ones."""
    with standing_in(scripted):
        if setup is not None:
            setup(scripted)
        await program(*args)


@contextmanager
def _saying(seed: int, changes: Mapping[str, Mutation]) -> Iterator[None]:
    """Add a note to any error with the arguments that repeat the run."""
    try:
        yield
    except BaseException as error:
        for name, change in changes.items():
            error.add_note(f"the recorded agent {name}: {change}")
        error.add_note(f"seed {seed}: simulate(…, seeds=[{seed}]) shows it again")
        raise


class _ChaosTurn(Struct, frozen=True):
    """A turn, reduced to what two runs must agree on: prompt, text and outcome."""

    asked: str
    said: str
    outcome: str

    def begins(self, other: _ChaosTurn) -> bool:
        """True if this turn's text is the beginning of the other's, for the same prompt.

        The amount of text before a cancel is a matter of chance.
        """
        if self.asked != other.asked:
            return False
        cut_off = other.outcome == "cancelled" and self.said.startswith(other.said)
        return cut_off or other.said.startswith(self.said)

    def equals(self, other: _ChaosTurn) -> bool:
        """True if the turns are the same; a cancelled one may have less text."""
        cancelled = self.outcome == other.outcome == "cancelled"
        return self == other or (cancelled and self.begins(other))


_Turns = list[_ChaosTurn]


def _turns(scripted: ScriptedAgents) -> dict[str, _Turns]:
    """Collect the turns by agent."""
    found: dict[str, _Turns] = {}
    for session in scripted.sessions:
        turns = zip(session.turns, [*session.outcomes, ""], strict=False)  # the last may still run
        found.setdefault(session.agent.name, []).extend(
            _ChaosTurn(asked, said, outcome) for (asked, said), outcome in turns
        )
    return found


def _compare(now: _Turns, then: _Turns, *, whole: bool) -> None:
    """Compare the turns of two runs.

    `whole`: they must be the same, because the change is one that hosts must not notice. Otherwise
    it is enough that each text belongs to its prompt. Raises `LogBroken`.
    """
    same = len(now) == len(then) and all(map(_ChaosTurn.equals, now, then))
    if whole and not same:
        raise LogBroken(
            f"a change that hosts must not notice has changed the turns: {now}, not {then}"
        )
    for turn in now:
        if turn.said and not any(map(turn.begins, then)):
            raise LogBroken(f"a turn has text that does not answer its prompt: {turn}")
