"""The steps of a run: what the agent does, what people and programs do, what breaks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import trio
from msgspec.structs import replace

import agentrt
from agentrt.errors import LocalProtocolError, RequestError

from .host import Actor

if TYPE_CHECKING:
    from .world import Step, World

Act = Callable[["World", Random], None]
When = Callable[["World"], bool]


@dataclass(frozen=True)
class Rule:
    weight: float
    when: When
    act: Act
    stored: bool
    """Only of stored sessions."""


RULES: dict[str, Rule] = {}


def always(world: World) -> bool:
    return True


def rule(weight: float, when: When = always, *, stored: bool = False) -> Callable[[Act], Act]:
    def add(act: Act) -> Act:
        RULES[act.__name__] = Rule(weight, when, act, stored)
        return act

    return add


def draw_mix(rng: Random, hub: bool) -> dict[str, float]:
    """Each run leaves some rules out and prefers others: so that rare ones meet."""
    mix = {
        name: rule.weight * rng.choice((0.3, 1.0, 1.0, 3.0))
        for name, rule in RULES.items()
        if not rule.stored and (rule.weight >= 4 or rng.random() < 0.75)
    }
    return {n: w for n, w in mix.items() if hub or not n.startswith("tab")}


def mix_of_store(rng: Random) -> dict[str, float]:
    """What a stored session has beside that."""
    return {n: r.weight * rng.choice((0, 1, 1, 3)) for n, r in RULES.items() if r.stored}


def choose(world: World) -> Step:
    possible = [rule for rule in world.candidates if rule[2] is always or rule[2](world)]
    weights = [weight for _, weight, _ in possible]
    name = world.chooser.choices(possible, weights)[0][0]
    return name, world.chooser.getrandbits(32)


# --- what is there


def _running(world: World) -> list[Actor]:
    return [a for a in world.actors if not a.done]


def _entered(world: World) -> list[Actor]:
    return [a for a in _running(world) if a.entered]


def _asked(world: World) -> bool:
    return bool(world.checker.questions)


def _queued(world: World) -> bool:
    return bool(world.checker.queued)


def _alive(world: World) -> bool:
    process = world.processes[-1]
    return process.spawned and process.returncode is None


# --- the agent


@rule(40)
def act_of_agent(world: World, rng: Random) -> None:
    """Whatever it does next by itself."""
    agent = world.agents[-1]
    if not agent.process.can_write:
        return
    if agent.process.unflushed and rng.random() < 0.5:
        agent.process.flush()
        return
    if not agent.process.reading and rng.random() < 0.2:
        agent.process.go_on()
        return
    acts = agent.acts()
    if acts:
        act = rng.choices([act for _, act in acts], [weight for weight, _ in acts])[0]
        world.note("agent", act.__name__)
        act(rng)
        if rng.random() < 0.01:
            agent.process.exit(0)


@rule(0.5, _alive)
def crash(world: World, rng: Random) -> None:
    process = world.processes[-1]
    process.complain("panic: " + "x" * rng.randint(0, 40))
    process.grandchild = rng.random() < 0.4
    process.exit(rng.choice((0, 1, 137, -9, -11, -15)))


@rule(0.4, _alive)
def crash_in_a_line(world: World, rng: Random) -> None:
    """It dies with a part of what it was about to say in its own buffer."""
    agent, process = world.agents[-1], world.processes[-1]
    process.trickles = True
    acts = agent.acts()
    for _ in range(rng.randint(1, 3)):
        if acts:
            rng.choice(acts)[1](rng)
            acts = agent.acts()
    process.grandchild = rng.random() < 0.2
    process.exit(rng.choice((1, -9)))


@rule(0.2, _alive)
def end_of_stdout(world: World, rng: Random) -> None:
    world.processes[-1].close_stdout()


@rule(0.2, _alive)
def grandchild(world: World, rng: Random) -> None:
    world.processes[-1].grandchild = True


@rule(0.8, _alive)
def stall_stdin(world: World, rng: Random) -> None:
    process = world.processes[-1]
    process.stall()
    if rng.random() < 0.5:
        process.capacity = rng.choice((1, 60, 300))  # the pipe was almost full


@rule(3, lambda world: not world.processes[-1].reading)
def read_on(world: World, rng: Random) -> None:
    world.processes[-1].go_on()


@rule(1, _alive)
def trickle(world: World, rng: Random) -> None:
    process = world.processes[-1]
    process.trickles = not process.trickles
    if not process.trickles:
        process.flush()


@rule(3, lambda world: world.processes[-1].unflushed > 0)
def flush(world: World, rng: Random) -> None:
    world.processes[-1].flush()


@rule(0.5, _alive)
def complain(world: World, rng: Random) -> None:
    world.processes[-1].complain(f"warning {rng.randint(1, 99)}\n")


@rule(2)
def time_passes(world: World, rng: Random) -> None:
    """Nothing happens for long."""
    world.pause = rng.choice((1.1, 2.1, 6.0, 31.0))


# --- turns


def new_token(world: World, rng: Random) -> tuple[str, agentrt.Limits | None]:
    token = world.book.token()
    limits = None
    if rng.random() < 0.2:
        limits = world.own_limits[token] = replace(
            world.limits,
            turn_timeout_s=rng.choice((None, 2.0)),
            idle_timeout_s=rng.choice((None, 1.0)),
        )
    return token, limits


def will_interrupt(world: World, when: str, session: agentrt.Session) -> None:
    refused = world.store is not None and world.store.trouble is not None
    if (
        when == "interrupt"
        and not refused
        and len(world.checker.queued) < world.limits.queued_prompts
    ):
        world.wish("caller")


@rule(8, lambda world: len(_running(world)) < 5)
def prompt(world: World, rng: Random) -> None:
    token, limits = new_token(world, rng)
    readers = ("reads", "reads", "run", "slow", "leaves", "raises", "stalls")
    actor = Actor(
        world,
        token,
        limits,
        rng.choice(("queue", "queue", "interrupt", "reject")),
        rng.choice(readers),
        rng.choice((0.0, 0.5, 1.0)),
        rng.random() < 0.5,
    )
    world.actors.append(actor)
    world.note("prompt", token, actor.when, actor.reader)
    if actor.when == "interrupt":
        world.interrupts.append(trio.current_time())
    if rng.random() < 0.05:
        actor.scope.deadline = trio.current_time() + rng.choice((0.0, 0.5, 3.0))
        actor.cancelled_at = actor.scope.deadline
    world.nursery.start_soon(actor.run)


@rule(2)
def submit(world: World, rng: Random) -> None:
    token, limits = new_token(world, rng)
    when: Any = rng.choice(("queue", "interrupt", "reject"))
    will_interrupt(world, when, world.session)
    try:
        world.session.submit(f"do ⟦{token}⟧", when=when, limits=limits)
        world.book.submitted.append(token)
    except agentrt.AgentrtError as error:
        world.note("refused", type(error).__name__)


def _steers(world: World) -> bool:
    return world.driver in ("claude", "codex") and world.checker.turn is not None


@rule(0.7, _steers)
def steer(world: World, rng: Random) -> None:
    """A prompt into the running turn."""
    token = world.book.token()
    world.book.steered.add(token)
    try:
        world.session.steer(f"also ⟦{token}⟧")
    except LocalProtocolError as error:
        world.note("refused", str(error))


@rule(1.5)
def stop(world: World, rng: Random) -> None:
    """A person's Stop."""
    world.checker.catch_up()
    world.wish("user")
    waiting = set(world.checker.queued.values())
    world.checker.held |= waiting
    world.session.cancel()
    if waiting:
        world.checker.catch_up()
        if waiting != world.checker.paused:
            world.fail("W6", f"a Stop left {waiting - world.checker.paused} running")


@rule(1.0, lambda world: bool(_entered(world)))
def cancel_turn(world: World, rng: Random) -> None:
    actor = rng.choice(_entered(world))
    assert actor.turn is not None
    world.wish("caller", actor.token)
    actor.turn.cancel()


@rule(1.0, lambda world: bool(_running(world)))
def cancel_scope(world: World, rng: Random) -> None:
    """The caller's own cancel scope."""
    actor = rng.choice(_running(world))
    actor.scope.cancel()
    now = trio.current_time()
    actor.cancelled_at = min(now, actor.cancelled_at or now)


@rule(2, lambda world: any(a.stalled is not None for a in _running(world)))
def look_again(world: World, rng: Random) -> None:
    for actor in _running(world):
        if actor.stalled is not None:
            actor.stalled.set()


# --- questions


def answer_question(world: World, rng: Random, key: str, answer: Callable[..., None]) -> None:
    """Answer with one of the options, by id or kind, or with what is none."""
    world.checker.catch_up()
    question = world.checker.questions.get(key)
    chosen = "nonsense"
    rejects = False
    if question is not None and question.options and rng.random() < 0.9:
        id = rng.choice(list(question.options))
        chosen = id if rng.random() < 0.5 else question.options[id]
        rejects = question.options[id].startswith("reject")
        if question.options[id].startswith("allow") and question.tag is not None:
            world.book.allowed.add(question.tag)
    try:
        answer(key, chosen)
        if rejects:
            is_closed(world, key)
    except (agentrt.errors.StoreUnavailable, agentrt.errors.LimitExceeded):
        world.note("refused", key)
    except LocalProtocolError as error:
        if question is not None and chosen != "nonsense":
            world.fail("W7", f"{key} could not be answered with {chosen}: {error}")


def is_closed(world: World, key: str) -> None:
    """J2: a refusal waits for nothing."""
    world.checker.catch_up()
    if key in world.checker.questions:
        world.fail("J2", f"{key} was refused, and is open")


@rule(3, _asked)
def answer(world: World, rng: Random) -> None:
    key = rng.choice(list(world.checker.questions))
    answer_question(world, rng, key, world.session.answer)
    if rng.random() < 0.3 and key not in world.checker.questions:
        try:
            world.session.answer(key, "allow_once")
        except LocalProtocolError:
            return
        world.fail("W7", f"{key} was answered twice")


@rule(0.7, _asked)
def dismiss(world: World, rng: Random) -> None:
    key = rng.choice(list(world.checker.questions))
    world.session.dismiss(key)
    is_closed(world, key)


@rule(0.5, _asked)
def fill(world: World, rng: Random) -> None:
    key = rng.choice(list(world.checker.questions))
    request = world.session.pending_permissions[key]
    tag = world.checker.questions[key].tag
    if request.form is not None and tag is not None:
        world.book.allowed.add(tag)
        with suppress(agentrt.errors.StoreUnavailable, agentrt.errors.LimitExceeded):
            world.session.submit_form(key, {"x": "1"})


@rule(0.5)
def answer_the_unknown(world: World, rng: Random) -> None:
    try:
        world.session.answer(f"r{rng.randint(1, 40)}x", "allow_once")
    except LocalProtocolError:
        return
    world.fail("W7", "a question that never was could be answered")


# --- the queue


@rule(2, lambda world: bool(world.checker.paused))
def resume_queue(world: World, rng: Random) -> None:
    world.checker.held.clear()
    world.session.queue.resume()


@rule(0.5, _queued)
def unqueue(world: World, rng: Random) -> None:
    entry = rng.choice(list(world.checker.queued))
    world.book.taken_back.add(world.checker.queued[entry])
    world.session.queue.remove(entry)


@rule(0.5, _queued)
def edit(world: World, rng: Random) -> None:
    """Another text; the token stays, or nobody would know whose it is."""
    entry = rng.choice(list(world.checker.queued))
    token = world.checker.queued[entry]
    if token.startswith("p"):  # else it is in agentrt's own words
        world.session.queue.edit(entry, f"changed ⟦{token}⟧")


@rule(0.5, _queued)
def promote(world: World, rng: Random) -> None:
    world.session.queue.promote(rng.choice(list(world.checker.queued)))


# --- what is asked outside turns


@rule(0.7)
def call(world: World, rng: Random) -> None:
    """A request of ours, which may be given up."""

    async def ask() -> None:
        with trio.move_on_after(rng.choice((0.1, 5.0))):
            try:
                await world.session.call(
                    "get_settings" if world.driver == "claude" else "sim/thing"
                )
            except (RequestError, agentrt.AgentrtError) as error:
                world.note("call", type(error).__name__)

    world.nursery.start_soon(ask)


@rule(0.3)
def rename(world: World, rng: Random) -> None:
    world.session.rename(f"named {rng.randint(1, 9)}")
