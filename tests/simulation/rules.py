"""The steps of a run: what the agent does, what people and programs do, what breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import trio
from msgspec.structs import replace

import agentrt
from agentrt._errors import LocalProtocolError, RequestError

from .fold import Fold
from .host import Actor
from .viewers import HubViewer, LogViewer

if TYPE_CHECKING:
    from .world import Step, World

Act = Callable[["World", Random], None]
When = Callable[["World"], bool]


@dataclass(frozen=True)
class Rule:
    weight: float
    when: When
    act: Act


RULES: dict[str, Rule] = {}


def rule(weight: float, when: When = lambda world: True) -> Callable[[Act], Act]:
    def add(act: Act) -> Act:
        RULES[act.__name__] = Rule(weight, when, act)
        return act

    return add


def draw_mix(rng: Random, hub: bool) -> dict[str, float]:
    """Each run leaves some rules out and prefers others: so that rare ones meet."""
    mix = {
        name: rule.weight * rng.choice((0.3, 1.0, 1.0, 3.0))
        for name, rule in RULES.items()
        if rule.weight >= 4 or rng.random() < 0.75
    }
    return {n: w for n, w in mix.items() if hub or not n.startswith("tab")}


def choose(world: World) -> Step:
    names = [name for name in world.mix if RULES[name].when(world)]
    weights = [world.mix[name] for name in names]
    name = world.chooser.choices(names, weights)[0]
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


def _viewers(world: World) -> list[LogViewer]:
    return [v for v in world.log_viewers if not v.over]


def _tabs(world: World) -> list[HubViewer]:
    return [t for t in world.tabs if not t.over and t.connected]


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


@rule(1.5)
def time_passes(world: World, rng: Random) -> None:
    """The step's own pace does it; this one only adds weight to waiting."""


# --- turns


def _new_token(world: World, rng: Random) -> tuple[str, agentrt.Limits | None]:
    token = world.book.token()
    limits = None
    if rng.random() < 0.2:
        limits = world.own_limits[token] = replace(
            world.limits, hard=rng.choice((None, 2.0)), idle=rng.choice((None, 1.0))
        )
    return token, limits


def _will_interrupt(world: World, when: str, session: agentrt.Session) -> None:
    if when == "interrupt" and len(world.checker.queued) < world.limits.queue:
        world.wish("caller")


@rule(8, lambda world: len(_running(world)) < 5)
def prompt(world: World, rng: Random) -> None:
    token, limits = _new_token(world, rng)
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
    token, limits = _new_token(world, rng)
    when: Any = rng.choice(("queue", "interrupt", "reject"))
    _will_interrupt(world, when, world.session)
    try:
        world.session.submit(f"do ⟦{token}⟧", when=when, limits=limits)
    except agentrt.AgentrtError as error:
        world.note("refused", type(error).__name__)


def _steers(world: World) -> bool:
    return world.driver == "claude" and world.checker.turn is not None


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
    world.checker.held |= set(world.checker.queued.values())
    world.session.cancel()
    if world.checker.held and not world.checker.paused:
        world.checker.catch_up()
        if not world.checker.paused:
            world.fail("W6", "a Stop left the queue running")


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
    if question is not None and question.options and rng.random() < 0.9:
        id = rng.choice(list(question.options))
        chosen = id if rng.random() < 0.5 else question.options[id]
        if question.options[id].startswith("allow") and question.tag is not None:
            world.book.allowed.add(question.tag)
    try:
        answer(key, chosen)
    except LocalProtocolError as error:
        if question is not None and chosen != "nonsense":
            world.fail("W7", f"{key} could not be answered with {chosen}: {error}")


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
    world.session.dismiss(rng.choice(list(world.checker.questions)))


@rule(0.5, _asked)
def fill(world: World, rng: Random) -> None:
    key = rng.choice(list(world.checker.questions))
    request = world.session.permissions[key]
    tag = world.checker.questions[key].tag
    if request.form is not None and tag is not None:
        world.book.allowed.add(tag)
        world.session.fill(key, {"x": "1"})


@rule(0.5)
def answer_the_unknown(world: World, rng: Random) -> None:
    try:
        world.session.answer(f"r{rng.randint(1, 40)}x", "allow_once")
    except LocalProtocolError:
        return
    world.fail("W7", "a question that never was could be answered")


# --- the queue


@rule(2, lambda world: world.checker.paused)
def resume_queue(world: World, rng: Random) -> None:
    world.checker.held.clear()
    world.session.resume_queue()


@rule(0.5, _queued)
def unqueue(world: World, rng: Random) -> None:
    entry = rng.choice(list(world.checker.queued))
    world.session.unqueue(entry)


@rule(0.5, _queued)
def edit(world: World, rng: Random) -> None:
    """Another text; the token stays, or nobody would know whose it is."""
    entry = rng.choice(list(world.checker.queued))
    world.session.edit_queued(entry, f"changed ⟦{world.checker.queued[entry]}⟧")


@rule(0.5, _queued)
def promote(world: World, rng: Random) -> None:
    world.session.promote(rng.choice(list(world.checker.queued)))


# --- what is asked outside turns


@rule(0.7)
def call(world: World, rng: Random) -> None:
    """A request of ours, which may be given up."""

    async def ask() -> None:
        with trio.move_on_after(rng.choice((0.1, 5.0))):
            try:
                await world.session.call("sim/thing" if world.driver == "acp" else "get_settings")
            except (RequestError, agentrt.AgentrtError) as error:
                world.note("call", type(error).__name__)

    world.nursery.start_soon(ask)


@rule(0.3)
def rename(world: World, rng: Random) -> None:
    world.session.rename(f"named {rng.randint(1, 9)}")


# --- viewers of the log


@rule(1.5, lambda world: len(_viewers(world)) < 3)
def subscribe(world: World, rng: Random) -> None:
    after = rng.choice((None, 0, rng.randint(0, world.checker.seq)))
    try:
        viewer = LogViewer(world, len(world.log_viewers), after)
    except agentrt.Overrun:
        if after is None or world.session._engine.log.kept_after <= after <= world.checker.seq:
            world.fail("W4", f"no cursor behind {after}")
        return
    if rng.random() < 0.7:
        viewer.go.set()
    world.log_viewers.append(viewer)
    world.nursery.start_soon(viewer.run)


@rule(1.0, lambda world: bool(_viewers(world)))
def viewer_reads(world: World, rng: Random) -> None:
    viewer = rng.choice(_viewers(world))
    viewer.go.set()
    if rng.random() < 0.5:
        viewer.go = trio.Event()  # stalls again at the next event


# --- viewers of the hub


@rule(2, lambda world: len(_tabs(world)) < 3)
def tab_opens(world: World, rng: Random) -> None:
    _open_tab(world, f"client {rng.randint(1, 3)}", None)


def _open_tab(world: World, client: str, knows: Fold | None) -> HubViewer:
    for other in world.tabs:
        if other.client == client:
            other.replaced = True
    tab = HubViewer(world, len(world.tabs), client)
    world.tabs.append(tab)
    world.nursery.start_soon(tab.run)
    tab.hello(knows)
    return tab


@rule(1, lambda world: bool(_tabs(world)))
def tab_reconnects(world: World, rng: Random) -> None:
    """The connection is lost; the client comes back with what it knew, or less."""
    old = rng.choice(_tabs(world))
    old.scope.cancel()
    old.viewer.close()
    knows = old.view
    if knows is not None and rng.random() < 0.3:
        knows = Fold()
        knows.advance(world.checker.events[: rng.randint(0, old.view.seq if old.view else 0)])
    tab = _open_tab(world, old.client, knows)
    for id, frame in list(old.sent.items()):
        if '"hello"' not in frame and '"attach"' not in frame and '"detach"' not in frame:
            tab.repeat(id, frame)


@rule(1, lambda world: bool(_tabs(world)))
def tab_stalls(world: World, rng: Random) -> None:
    tab = rng.choice(_tabs(world))
    if tab.go.is_set():
        tab.go = trio.Event()
    else:
        tab.go.set()


@rule(0.5, lambda world: bool(_tabs(world)))
def tab_detaches(world: World, rng: Random) -> None:
    tab = rng.choice(_tabs(world))
    if tab.attached:
        tab.attached = False
        tab.send("detach", session=world.session.id)


@rule(0.8, lambda world: any(not t.attached for t in _tabs(world)))
def tab_attaches(world: World, rng: Random) -> None:
    tab = rng.choice([t for t in _tabs(world) if not t.attached])
    tab.attached = True
    if not tab.go.is_set() or tab.view is None or rng.random() < 0.5:
        tab.view = None
        tab.send("attach", session=world.session.id)
    else:
        epoch = world.checker.log.epoch
        tab.send("attach", session=world.session.id, epoch=epoch, seq=tab.view.seq)


@rule(2, lambda world: bool(_tabs(world)))
def tab_commands(world: World, rng: Random) -> None:
    """A command over the wire, at times sent twice."""
    tab, session = rng.choice(_tabs(world)), world.session.id
    match rng.randrange(5):
        case 0 | 1:
            token, _ = _new_token(world, Random(0))
            world.own_limits.pop(token, None)
            when = rng.choice(("queue", "queue", "interrupt", "reject"))
            _will_interrupt(world, when, world.session)
            content = [{"type": "text", "text": f"do ⟦{token}⟧"}]
            id = tab.send("prompt", session=session, content=content, when=when)
        case 2:
            world.wish("user")
            id = tab.send("cancel", session=session)
        case 3 if world.checker.questions:
            key = rng.choice(list(world.checker.questions))
            id = tab.send("permission", session=session, request=key, cancel=True)
        case _:
            id = tab.send("permission", session=session, request="r9999", option="x")
    if rng.random() < 0.5 and id in tab.sent:
        tab.repeat(id, tab.sent[id])


@rule(0.3, lambda world: bool(_tabs(world)))
def tab_sends_garbage(world: World, rng: Random) -> None:
    tab = rng.choice(_tabs(world))
    tab.viewer.receive(rng.choice(("", "nonsense", "[]", '{"type":"x"}', '{"type":"prompt"}')))
