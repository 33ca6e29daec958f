"""The steps of those who look on: cursors of the log, and browsers' tabs at the hub."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import trio

import agentrt

from .fold import Fold
from .rules import new_token, rule, will_interrupt
from .viewers import HubViewer, LogViewer

if TYPE_CHECKING:
    from .world import World


def _viewers(world: World) -> list[LogViewer]:
    return [v for v in world.log_viewers if not v.over]


def tabs(world: World) -> list[HubViewer]:
    return [t for t in world.tabs if not t.over and t.connected]


# --- viewers of the log


@rule(1.5, lambda world: len(_viewers(world)) < 3)
def subscribe(world: World, rng: Random) -> None:
    after = rng.choice((None, 0, rng.randint(0, world.checker.seq)))
    patient = rng.random() < 0.5
    try:
        viewer = LogViewer(world, len(world.log_viewers), after, lets_others_run=patient)
    except agentrt.errors.EventsExpired:
        if after is None or world.session.log.kept_after <= after <= world.checker.seq:
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


@rule(2, lambda world: len(tabs(world)) < 3)
def tab_opens(world: World, rng: Random) -> None:
    _open_tab(world, f"client {rng.randint(1, 3)}", None)


def come_back(world: World, rng: Random, old: HubViewer) -> None:
    """A client is there again, with what it knew or less, and sends what was not answered."""
    knows = old.view
    if knows is not None and rng.random() < 0.3:
        knows = Fold()
        knows.advance(world.checker.events[: rng.randint(0, old.view.seq if old.view else 0)])
    tab = _open_tab(world, old.client, knows)
    tab.accepted = old.accepted
    for id, frame in list(old.sent.items()):
        if '"hello"' not in frame and '"attach"' not in frame and '"detach"' not in frame:
            tab.repeat(id, frame)
    if old.accepted and rng.random() < 0.5:
        tab.repeat(*rng.choice(list(old.accepted.items())))


def _open_tab(world: World, client: str, knows: Fold | None) -> HubViewer:
    for other in world.tabs:
        if other.client == client:
            other.replaced = True
    tab = HubViewer(world, len(world.tabs), client)
    world.tabs.append(tab)
    world.nursery.start_soon(tab.run)
    tab.hello(knows)
    return tab


@rule(1, lambda world: bool(tabs(world)))
def tab_reconnects(world: World, rng: Random) -> None:
    """The connection is lost; the client comes back with what it knew, or less."""
    old = rng.choice(tabs(world))
    old.scope.cancel()
    old.viewer.close()
    come_back(world, rng, old)


@rule(1, lambda world: bool(tabs(world)))
def tab_stalls(world: World, rng: Random) -> None:
    tab = rng.choice(tabs(world))
    if tab.go.is_set():
        tab.go = trio.Event()
    else:
        tab.go.set()


@rule(0.5, lambda world: bool(tabs(world)))
def tab_detaches(world: World, rng: Random) -> None:
    tab = rng.choice(tabs(world))
    if tab.attached:
        tab.attached = False
        tab.send("detach", session=world.session.id)


@rule(0.8, lambda world: any(not t.attached for t in tabs(world)))
def tab_attaches(world: World, rng: Random) -> None:
    tab = rng.choice([t for t in tabs(world) if not t.attached])
    tab.attached = True
    if not tab.go.is_set() or tab.view is None or rng.random() < 0.5:
        tab.view = None
        tab.send("attach", session=world.session.id)
    else:
        epoch = world.checker.log.epoch
        tab.send("attach", session=world.session.id, epoch=epoch, seq=tab.view.seq)


@rule(2, lambda world: bool(tabs(world)))
def tab_commands(world: World, rng: Random) -> None:
    """A command over the wire, at times sent twice."""
    tab, session = rng.choice(tabs(world)), world.session.id
    match rng.randrange(5):
        case 0 | 1:
            token, _ = new_token(world, Random(0))
            world.own_limits.pop(token, None)
            when = rng.choice(("queue", "queue", "interrupt", "reject"))
            will_interrupt(world, when, world.session)
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


@rule(2, lambda world: any(t.view is not None and t.view.earlier for t in tabs(world)))
def tab_looks_back(world: World, rng: Random) -> None:
    tab = rng.choice([t for t in tabs(world) if t.view is not None and t.view.earlier])
    assert tab.view is not None
    tab.send("history", session=world.session.id, before=tab.view.earlier, count=rng.randint(1, 3))


@rule(0.3, lambda world: bool(tabs(world)))
def tab_sends_garbage(world: World, rng: Random) -> None:
    tab = rng.choice(tabs(world))
    tab.viewer.receive(rng.choice(("", "nonsense", "[]", '{"type":"x"}', '{"type":"prompt"}')))
