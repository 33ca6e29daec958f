"""One run: everything that is put together, and the steps that it takes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeAlias

import msgspec
import trio
from msgspec.structs import replace
from trio.testing import wait_all_tasks_blocked

import agentrt
from agentrt import Agent as AgentSpec
from agentrt import Limits, Runtime, Session
from agentrt._core.runtime.offer import Offer
from agentrt._core.runtime.open import serve_session
from agentrt._core.runtime.protocol_setup import set_up_protocol
from agentrt._core.runtime.runtime import Source, serve_runtime
from agentrt._core.runtime.stored import ClaimedSession
from agentrt._serve.hub import Hub
from agentrt.claude import ClaudeOptions
from agentrt.lowlevel import Opening

from . import kept, lives, quiet, rules, rules_of_viewers
from .acp2_agent import Acp2Agent
from .acp_agent import AcpAgent
from .agent import Agent, Temper
from .book import Book
from .checker import Checker
from .claude_agent import ClaudeAgent
from .codex_agent import CodexAgent
from .host import POLICIES, Actor, Boom, Handlers, draw_limits
from .process import Process
from .viewers import HubViewer, LogViewer, Reader

assert rules_of_viewers  # adds its own to `rules.RULES`

Driver: TypeAlias = Literal["acp", "acp2", "claude", "codex"]
Step: TypeAlias = tuple[str, int]
"""A rule's name, and the seed of what it draws."""


@dataclass(frozen=True)
class Violation:
    """An invariant does not hold."""

    invariant: str
    """Its name in the design, or `crash`."""
    message: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.message}"


class World:
    """A session on simulated agents, those who use it, and those who look on."""

    def __init__(
        self,
        driver: Driver,
        seed: int,
        *,
        keep_trace: bool = False,
        folder: Path | None = None,
    ) -> None:
        """`folder`: where the session is stored, if it is."""
        self.driver = driver
        self.rng = Random(seed)
        self.chooser = Random(seed + 0.5)
        """Of the steps alone: a run without some of them is otherwise the same."""
        self.book = Book()
        self.keep_trace = keep_trace
        self.trace: list[str] = []
        self.violation: Violation | None = None
        self.turns = self.own_turns = 0
        self.step_number = 0
        self.pause = 0.0
        """How long to wait behind this step, at least."""
        self.processes: list[Process] = []
        self.agents: list[Agent] = []
        self.actors: list[Actor] = []
        self.readers: dict[str, Reader] = {}
        self.own_limits: dict[str, Limits] = {}
        self.log_viewers: list[LogViewer] = []
        self.tabs: list[HubViewer] = []
        self.acks: dict[tuple[str, str], dict[str, Any]] = {}
        self.limits = draw_limits(self.rng)
        self.policy = self.rng.choice(POLICIES)
        self.with_hub = self.rng.random() < 0.35
        self.mix = rules.draw_mix(self.rng, self.with_hub)
        self.handlers = Handlers(self)
        self.checker = Checker(self)
        self.session: Session
        self.hub: Hub
        self.nursery: trio.Nursery
        self.block = trio.CancelScope()
        """Around the session: to be left by a cancellation."""
        self.interrupts: list[float] = []
        """When prompts came from tasks that were to interrupt."""
        self.opened = trio.Event()
        self.leave = trio.Event()
        self.leaving: str | None = None
        self.left_at = 0.0
        self.over = False
        self.torn_down = False
        """The run is over, or broken: what happens now is not to be judged."""
        self._ids = count(1)
        self._uuids = count(1)
        self.folder = folder
        self.store: kept.SimulatedStore | None = None
        self.store_rng = Random(seed + 0.25)
        """Of the store alone, so that the rest of a run is the same with one and without."""
        self.book_of_store = kept.Book()
        self.lives = 1
        """How many hosts there were."""
        self.lost = False
        """The host is gone, and nothing of it is judged any more."""
        self.ends = False
        """The host is to end in order, and another one to follow."""
        self.waited_at_leaving: list[str] = []
        """The tokens that waited when the host was left, in their order."""
        self.first_process = 0
        """The number that the first process of this host has, if there is one."""
        self.returning: list[HubViewer] = []
        """The tabs that were open when the last host was lost."""
        self._planned = 0

    @cached_property
    def candidates(self) -> list[tuple[str, float, rules.When]]:
        """The rules of the mix: name, weight and condition."""
        return [(name, weight, rules.RULES[name].when) for name, weight in self.mix.items()]

    # --- the record

    def note(self, *what: Any) -> None:
        if self.keep_trace:
            parts = [p if isinstance(p, str) else _told(p) for p in what]
            self.trace.append(f"{self.step_number:3} {trio.current_time():9.3f} {' '.join(parts)}")

    def fail(self, invariant: str, message: str) -> None:
        if self.violation is None and not self.torn_down:
            self.violation = Violation(invariant, message)
            self.note("VIOLATION", str(self.violation))

    # --- what the store has to know

    def saw(self, event: Any) -> None:
        kept.saw(self, event)

    def sent_prompt(self, token: str) -> None:
        """An agent has got a prompt."""
        if self.store is not None:
            kept.prompted(self, token)

    def sent_allow(self, tag: str) -> None:
        """An agent was allowed something."""
        if self.store is not None:
            kept.allowed(self, tag)

    # --- what the parts ask

    def limits_of(self, token: str | None) -> Limits:
        return self.own_limits.get(token or "", self.limits)

    def token_of_ask(self, tag: str) -> str | None:
        return self.book.asks[tag].token

    def wish(self, by: str, token: str | None = None) -> None:
        """Somebody wants a turn to stop: that of `token`, or the running one."""
        turn = self.checker.turn if token is None else self.checker.by_token.get(token)
        if turn is not None and turn is self.checker.turn and turn.cancelling is None:
            turn.wishes.add(by)

    def may_stop(self, token: str | None) -> bool:
        """Whether a caller may have stopped that turn by now, by a scope or by leaving."""
        if self.leaving is not None and (self.leaving != "normally" or self.with_hub):
            return True
        if (
            self.leaving is not None
            and trio.current_time() >= self.left_at + self.limits.drain_timeout_s
        ):
            return True
        now = trio.current_time()
        if any(now >= at for at in self.interrupts):
            return True
        return any(
            a.token == token and a.cancelled_at is not None and now >= a.cancelled_at
            for a in self.actors
        )

    def gave_up(self, process: Process) -> bool:
        """Whether the host had a reason to end that process before the session's end."""
        turn = self.checker.turn
        last = [t for t in self.checker.turns.values() if t.process == process.number]
        stopped = turn is None and bool(last) and last[-1].cancelling is not None
        return stopped or process.closed_stdout_at is not None or process.filled

    def told_reader(self, actor: Actor, event: Any) -> None:
        turn = actor.turn
        assert turn is not None
        reader = self.readers.get(actor.token)
        if reader is None:
            reader = self.readers[actor.token] = Reader(self, turn.seq - 1, actor.token)
            if not isinstance(event, agentrt.TurnStarted | agentrt.TurnEnded):
                self.fail("L1", f"the first event of {actor.token} is {event}")
        reader.take(turn.seq, event, may_skip=isinstance(event, agentrt.TurnEnded))

    def answer(self, turn: Any, event: agentrt.PermissionOpened) -> None:
        """A person's answer to a question that passes by."""
        rules.answer_question(self, self.rng, event.request, turn.answer)

    # --- starting

    def start_process(self) -> Process:
        number = len(self.processes)
        process = Process(number, self.rng, self.limits, self.note)
        rng = self.rng
        if rng.random() < 0.1:
            process.capacity = rng.choice((64, 700, 4000))
        process.cuts = rng.choice((0.0, 0.1, 0.5))
        process.starts = rng.choices(("at once", "slowly", "never"), (80, 1, 1))[0]
        ignores = {name for name in ("eof", "terminate") if rng.random() < 0.1}
        if rng.random() < 0.02:
            ignores |= {"eof", "terminate", "kill"}
        process.ignores = frozenset(ignores)
        kind = {
            "acp": AcpAgent,
            "acp2": Acp2Agent,
            "claude": ClaudeAgent,
            "codex": CodexAgent,
        }[self.driver]
        agent = kind(self, process, Temper.drawn(rng))
        if number == 0 and rng.random() < 0.9:
            agent.temper = _replace(agent.temper, resumes="well")
        process.program = agent
        self.processes.append(process)
        self.agents.append(agent)
        self.note("process", number, agent.temper)
        if rng.random() < 0.03:
            process.stall()
        return process

    @asynccontextmanager
    async def open_session(
        self, again: ClaimedSession | None = None, **settings: object
    ) -> AsyncIterator[Session]:
        """As `open_session` of agentrt, with everything injected that is not the session's own; or,
        with a stored one, as `reopen_session`."""
        spec = AgentSpec(
            name="sim",
            protocol="acp" if self.driver == "acp2" else self.driver,
            acp_version=2 if self.driver == "acp2" else 1,
            command=("sim",),
            claude=ClaudeOptions(replay=False) if self.driver == "claude" else None,
        )

        @agentrt.tool
        async def simulated(tag: str) -> str:
            """A tool of the host's."""
            await self.handlers.serve(tag)
            return tag

        async def consult(given: dict[str, Any]) -> None:
            await self.handlers.serve(given["tag"])

        claude = self.driver == "claude"
        offer = Offer(
            limits=self.limits,
            tools=(simulated,) if self.driver in ("claude", "codex") else (),
            hooks=(agentrt.hook("PreToolUse")(consult),) if claude else (),
            terminals=False,
            connect=lambda opening: self.start_process().connect(),
            new_uuid=lambda: f"00000000-0000-4000-8000-{next(self._uuids):012}",
            first_key="r" if again is None else f"r{again.place.owner}.",
        )
        setup = set_up_protocol(spec, Opening(cwd="/") if again is None else again.opening, offer)
        async with serve_session(
            spec,
            setup,
            self.handlers.policy(self.policy),
            self.limits,
            ids=lambda: f"id{next(self._ids)}",
            now=trio.current_time,
            store=self.store,
            again=again,
        ) as session:
            if self.driver == "acp":
                session._host.provide("fs", self._file)
            yield session

    async def _file(self, asked: Any) -> Any:
        return await self.handlers.serve(asked.params["path"].rpartition("/")[2])

    async def _host(self) -> None:
        """Hold the session open until it is to be left, in one of several ways."""
        try:
            with self.block:
                if self.with_hub:
                    await self._host_runtime()
                else:
                    again = await self._claimed() if self.lives > 1 else None
                    async with self.open_session(again) as session:
                        await self._inside(session)
        except (Boom, agentrt.AgentrtError) as error:
            self.note("left by", type(error).__name__)
        finally:
            self.over = True
            self.opened.set()

    async def _host_runtime(self) -> None:
        source = Source(self._open_for_runtime, list, self._reopen_for_runtime)
        async with serve_runtime(source, self.limits, self.store) as runtime:
            self.hub = Hub(runtime)
            try:
                if self.lives == 1:
                    session = await runtime.create("sim", cwd="/")
                else:
                    session = await lives.found(self, runtime)
                await self._inside(session)
                await self._close_runtime(runtime)
            finally:
                self.hub.close()

    def _open_for_runtime(
        self, agent: object, **settings: object
    ) -> AbstractAsyncContextManager[Session]:
        return self.open_session(**settings)

    async def _claimed(self) -> ClaimedSession:
        """The session, for the host of now."""
        store = self.store
        assert store is not None
        return ClaimedSession(store.session, *await store.claim(store.session))

    @asynccontextmanager
    async def _reopen_for_runtime(self, *given: object) -> AsyncIterator[Session]:
        async with self.open_session(await self._claimed()) as session:
            yield session

    async def _close_runtime(self, runtime: Runtime) -> None:
        if self.leaving == "close":
            await runtime.close(self.session.id)

    async def _inside(self, session: Session) -> None:
        self.session = session
        self.checker.follow(session.log)
        self.opened.set()
        await self.leave.wait()
        self.note("leaving", str(self.leaving))
        if self.leaving == "close" and not self.with_hub:
            await session.aclose()
        if self.leaving == "raise":
            raise Boom("left")

    # --- the steps

    async def run(self, script: list[Step] | None, taken: list[Step]) -> None:
        """Open, take steps, leave, and see that everything ends. The steps are added to `taken`."""
        with ExitStack() as stack:
            if self.folder is not None:
                rng = self.store_rng
                self.limits = replace(
                    self.limits,
                    store_failure_timeout_s=rng.choice((30.0, 30.0, 1.5)),
                    store_session_bytes=rng.choice((8 << 20, 8 << 20, 4000)),
                )
                self.mix |= rules.mix_of_store(rng)
                self.store = kept.SimulatedStore(self, self.folder / "run.db", self.store_rng)
                stack.callback(lambda: self.store and self.store.close())
                self.checker.follow_store(self.store)
            await self._run(script, taken)

    async def _run(self, script: list[Step] | None, taken: list[Step]) -> None:
        await self._live(script, taken)
        while self.lost and self.violation is None:
            lives.begin(self)
            await self._live(script, taken)

    async def _live(self, script: list[Step] | None, taken: list[Step]) -> None:
        """As long as one host lives."""
        async with trio.open_nursery() as self.nursery:
            if self.store is not None:
                self.nursery.start_soon(self.store.run)
                self.nursery.start_soon(self.store._watch)
            self.nursery.start_soon(self._host)
            try:
                await self._steps(script, taken)
                if self.violation is None and not self.lost:
                    await self._end()
                    if self.ends and self.violation is None:
                        lives.ended(self)
            finally:
                self.torn_down = True
                self.nursery.cancel_scope.cancel()

    async def _steps(self, script: list[Step] | None, taken: list[Step]) -> None:
        if self.lives > 1 and self.store_rng.random() < 0.1:  # lost before it has begun
            await trio.sleep(self.store_rng.choice((0.0, 0.01, 0.5)))
            lives.lose(self, self.store_rng)
            return
        if self.lives == 1 and self.chooser.random() < 0.02:  # the opening itself is given up
            await trio.sleep(self.chooser.choice((0.0, 0.01, 0.5)))
            if not self.opened.is_set():
                self.block.cancel()
        with trio.move_on_after(60):
            await self.opened.wait()
        if self.over:
            return
        if not self.opened.is_set():
            self.fail("limits", "the session neither opened nor failed within a minute")
            return
        if self.lives == 1:
            drawn = self.chooser.randint(30, 90)
            self._planned = len(script) if script is not None else drawn
        else:
            self.checker.same_as_snapshot()
        while len(taken) < self._planned:
            chosen = script[len(taken)] if script is not None else rules.choose(self)
            taken.append(chosen)
            if await self._step(chosen):
                return

    async def _step(self, step: Step) -> bool:
        """Take one step, see what must hold. True: it is over."""
        self.step_number += 1
        name, seed = step
        rng = Random(seed)
        self.note("---", name)
        rule = rules.RULES[name]
        if rule.when(self):  # always, but in a script from which steps were taken out
            rule.act(self, rng)
        if self.lost or self.ends:
            return True
        await self._settle(rng)
        return self.over or self.violation is not None

    async def _settle(self, rng: Random) -> None:
        pace = rng.random()
        if pace < 0.3 and not self.pause:
            for _ in range(rng.randint(0, 3)):
                await trio.lowlevel.checkpoint()
            self.checker.step()
            return
        if pace > 0.8 or self.pause:
            await trio.sleep(self.pause or rng.choice((0.01, 0.05, 0.3, 1.0, 2.1, 6.0)))
            self.pause = 0.0
        await wait_all_tasks_blocked()
        self.checker.step()
        quiet.check(self)
        if self.store is not None and hasattr(self, "session") and self.violation is None:
            kept.check(self)
        if rng.random() < 0.04:
            self.checker.same_as_snapshot()

    def leave_by(self, how: str) -> None:
        """Leave the session's block."""
        self.checker.catch_up()
        self.leaving = how
        self.note("leave", how)
        self.left_at = trio.current_time()
        self.waited_at_leaving = list(self.checker.queued.values())
        if how == "cancel":
            self.block.cancel()
        self.leave.set()

    async def _end(self) -> None:
        """Leave the session, and see that it ends, on the agent's side as well."""
        if not hasattr(self, "session"):
            await quiet.no_process_is_left(self)
            return
        if not self.leave.is_set():
            self.leave_by(self.rng.choice(("normally", "normally", "raise", "cancel", "close")))
        for actor in self.actors:  # whoever looks away for ever keeps nothing from ending
            if actor.stalled is not None and self.rng.random() < 0.7:
                actor.stalled.set()
        bound = self.left_at + self.limits.drain_timeout_s + 15
        if self.store is not None:
            bound += self.limits.store_failure_timeout_s
        while not self.over and self.violation is None and trio.current_time() < bound:
            self.step_number += 1
            rng = Random(self.rng.getrandbits(32))
            rules.act_of_agent(self, rng)
            await self._settle(rng)
        if self.violation is None:
            await quiet.final(self)


def _told(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").replace("\r", "\\r").replace("\n", "\\n")
    if isinstance(value, msgspec.Struct):
        return msgspec.json.encode(value).decode()
    return str(value)


def _replace(temper: Temper, **fields: Any) -> Temper:
    return Temper(**{**vars(temper), **fields})
