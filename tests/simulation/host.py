"""The host's side of a run: its limits, policies and handlers, and those who run its turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import trio
from msgspec.structs import replace

import agentrt
from agentrt import Allow, Deny, Limits, PermissionRequest
from agentrt.errors import LocalProtocolError, RequestError
from agentrt.permissions import Ask, Policy, allow_all, deny_all

from .checker import TAG

if TYPE_CHECKING:
    from .world import World

POLICIES = ("none", "ask", "sync", "async", "async", "allow", "deny")


def draw_limits(rng: Random) -> Limits:
    """Bounds of all sizes, so that each clock is met in some runs."""
    return replace(
        Limits(),
        startup_timeout_s=10.0,
        turn_timeout_s=rng.choice((None, 4.0, 30.0)),
        idle_timeout_s=rng.choice((None, None, 1.5, 6.0)),
        permission_timeout_s=rng.choice((None, None, 2.0)),
        cancel_grace_s=rng.choice((0.4, 2.0, 5.0)),
        cancel_resend_s=rng.choice((0.1, 1.0)),
        stdin_close_grace_s=0.5,
        terminate_grace_s=0.3,
        kill_wait_s=0.2,
        drain_timeout_s=20.0,
        write_timeout_s=3.0,
        agent_outbox_bytes=rng.choice((3000, 1 << 20)),
        recent_events=rng.choice((30, 4096)),
        message_bytes=rng.choices((450, 1 << 20), (1, 9))[0],
        queued_prompts=3,
        suspend_after_s=rng.choice((None, 5.0)),
        busy_silence_timeout_s=rng.choice((None, 15.0)),
        position_interval_s=3.0,
        viewer_outbox_bytes=rng.choice((2000, 1 << 20)),
        snapshot_turns=rng.choice((1, 2, 50)),
        snapshot_items=rng.choice((1, 4, 5000)),
    )


class Boom(Exception):
    """What a handler or a block of the host raises."""


@dataclass
class Handler:
    """A handler that runs."""

    tag: str
    began: float
    stubborn: bool = False
    """It was cancelled, and finishes in its own time."""


class Handlers:
    """What the host does when the agent asks: at once, late, never, wrongly."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.running: dict[str, Handler] = {}
        self.ended_at = 0.0
        """When the last one was over: what the agent waits for is no silence of its own."""

    async def serve(self, tag: str) -> Any:
        """A handler: returns something, raises, hangs, or goes on after its cancel."""
        rng = self.world.rng
        mode = rng.choice(("quick", "quick", "slow", "raise", "refuse", "hang", "stubborn"))
        self.world.note("handler", tag, mode)
        handler = self.running[tag] = Handler(tag, trio.current_time())
        try:
            match mode:
                case "slow":
                    await trio.sleep(rng.choice((0.01, 0.3, 3.0)))
                case "raise":
                    await trio.lowlevel.checkpoint()
                    raise Boom(tag)
                case "refuse":
                    raise RequestError(-32001, "not here")
                case "hang":
                    await trio.sleep_forever()
                case "stubborn":
                    try:
                        await trio.sleep(2.0)
                    finally:
                        handler.stubborn = True
                        with trio.CancelScope(shield=True):  # what a bad handler does
                            await trio.sleep(0.3)
        finally:
            del self.running[tag]
            self.ended_at = trio.current_time()
        return {"content": tag}

    def policy(self, kind: str) -> Policy | None:
        """A policy of that kind. What it allows is written down."""
        match kind:
            case "none":
                return None
            case "allow":
                return self._all
            case "deny":
                return deny_all
            case "ask":
                return self._leave
            case "sync":
                return self._sync
            case _:
                return self._async

    def _tag(self, request: PermissionRequest) -> str:
        found = TAG.search(f"{request.title} {request.raw}")
        assert found is not None, request
        return found[1]

    def _all(self, request: PermissionRequest) -> Any:
        self.world.book.allowed.add(self._tag(request))
        return allow_all(request)

    def _leave(self, request: PermissionRequest) -> Any:
        self.world.checker.person_asked(self._tag(request))
        return Ask()

    def _sync(self, request: PermissionRequest) -> Any:
        return self._decision(self._tag(request))

    def _decision(self, tag: str) -> Any:
        rng, allowed = self.world.rng, self.world.book.allowed
        mode = rng.choice(("allow", "allow", "deny", "interrupt", "ask", "ask", "raise"))
        self.world.note("decision", tag, mode)
        match mode:
            case "allow":
                allowed.add(tag)
                return Allow(remember=rng.random() < 0.3)
            case "deny":
                return Deny("no")
            case "interrupt":
                token = self.world.token_of_ask(tag)
                if token is not None:
                    self.world.wish("caller", token)
                else:
                    self.world.interrupts.append(trio.current_time())
                return Deny("stop", interrupt=True)
            case "raise":
                raise Boom(tag)
        self.world.checker.person_asked(tag)
        return Ask()

    async def _async(self, request: PermissionRequest) -> Any:
        tag = self._tag(request)
        await self.serve(tag)
        if tag in self.world.checker.closed_as:
            return Allow()  # nobody may hear this any more
        return self._decision(tag)


@dataclass
class Actor:
    """A task of the host's that has a turn: how it reads, and how it leaves."""

    world: World
    token: str
    limits: Limits | None
    when: Any
    reader: str
    answers: float
    """How often it answers a question that passes by."""
    check: bool
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    cancelled_at: float | None = None
    turn: agentrt.Turn | None = None
    entered: bool = False
    done: bool = False
    stalled: trio.Event | None = None
    failure: str = ""

    async def run(self) -> None:
        try:
            with self.scope:
                await self._turn()
        except LocalProtocolError as error:
            self.world.fail("T8", f"{self.token} could not be sent: {error}")
        except (agentrt.AgentrtError, Boom) as error:
            self.failure = type(error).__name__
        finally:
            if self.turn is not None and self.turn.ended:
                self.world.checker.judge_result(self.token, self.turn.result)
            self.done = True
            self.world.note("actor", self.token, self.failure)

    async def _turn(self) -> None:
        world, session = self.world, self.world.session
        self.turn = turn = session.prompt(
            f"do ⟦{self.token}⟧", when=self.when, limits=self.limits, check=self.check
        )
        if self.reader == "run":
            turn._attended = False  # as `Session.run` does
        async with turn:
            self.entered = True
            seen = 0
            if self.reader != "run":
                async for event in turn:
                    seen += 1
                    world.told_reader(self, event)
                    if isinstance(event, agentrt.PermissionOpened) and (
                        world.rng.random() < self.answers
                    ):
                        world.answer(turn, event)
                    if self.reader == "leaves" and seen == 3:
                        break
                    if self.reader == "raises" and seen == 4:
                        world.wish("caller", self.token)
                        raise Boom(self.token)
                    if self.reader == "stalls" and seen == 3 and not world.over:
                        self.stalled = trio.Event()
                        await self.stalled.wait()
                    if self.reader == "slow":
                        await trio.sleep(0.05)
        if not turn.ended:
            world.fail("T2", f"the block of {self.token} was left before its turn had ended")
