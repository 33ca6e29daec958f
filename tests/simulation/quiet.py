"""What must hold when nothing moves: all that was said has arrived, and nobody waits in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from . import kept
from .checker import SLACK, TERMINAL
from .fold import Fold

if TYPE_CHECKING:
    from .world import World


def check(world: World) -> None:
    """Every task waits for something that has not happened."""
    if world.over or world.violation is not None or not world.processes:
        return
    read = world.store is None or not world.store.unread
    if read:  # else an exit is behind what it has written, which is not read
        _after_an_exit(world)
    _actors(world)
    _stopped_handlers(world)
    host = world.session._host
    process, agent = world.processes[-1], world.agents[-1]
    link = host.link
    if link is None or link._transport is not process:
        return
    writer = link._writer
    waits = writer is not None and writer.statistics().bytes_waiting
    if not waits:
        process.nothing_waits()
    if process.returncode is not None or link._closing or process.signals:
        return
    if process.unread and read:
        world.fail("P2", f"{process.unread} bytes of the agent are not read")
    if process.closed_stdout_at is not None or not process.reading:
        return
    if waits:
        world.fail("P1", f"{waits} bytes for the agent wait although it reads")
    if process.half_a_line:
        world.fail("P1", "half a line was written to the agent")
    _questions(world)
    _queue(world)
    _turn(world)
    if agent.can_be_cancelled and agent.prompt is not None and agent.prompt.cancels == 0:
        turn = world.checker.turn
        if turn is not None and turn.token == agent.prompt.token and turn.cancelling is not None:
            world.fail("T5", f"{turn.token} is being cancelled, and the agent was not told")


def _after_an_exit(world: World) -> None:
    """P3: an exit is noticed without the end of the stream, an end of the stream as an end."""
    process, now = world.processes[-1], trio.current_time()
    turn, limits = world.checker.turn, world.limits
    read_at = world.store.sent_at if world.store is not None else 0.0
    exited = process.exited_at and max(process.exited_at, read_at)
    if exited is not None and now > exited + limits.stdout_drain_s + SLACK:
        if turn is not None and turn.process == process.number:
            world.fail("P3", f"the process is gone since {process.exited_at}, {turn.id} runs")
        state = world.checker.state
        if state is not None and state.agent.alive and state.agent.pid == process.pid:
            world.fail("P3", "the process is gone, and the state says that it lives")
    ladder = (
        limits.stdout_drain_s
        + limits.stdin_close_grace_s
        + limits.terminate_grace_s
        + limits.kill_wait_s
    )
    closed = process.closed_stdout_at and max(process.closed_stdout_at, read_at)
    if closed is not None and process.returncode is None and "kill" not in process.ignores:
        if now > closed + ladder + SLACK:
            world.fail("P3", f"stdout is closed since {closed}, and the process lives")
    names = [name for name, _ in process.signals if name != "interrupt"]
    order = [name for name in ("eof", "terminate", "kill") if name in names]
    if names != order:
        world.fail("P5", f"the ladder was {names}")


def _actors(world: World) -> None:
    """T6: who is cancelled leaves its turn in bounded time."""
    now = trio.current_time()
    for actor in world.actors:
        if actor.cancelled_at is not None and not actor.done:
            grace = world.limits_of(actor.token).cancel_grace_s
            if now > actor.cancelled_at + grace + 1 + SLACK:
                world.fail("T6", f"{actor.token} was cancelled at {actor.cancelled_at}")


def _stopped_handlers(world: World) -> None:
    """T1: a handler ends with its turn's cancel, or end."""
    for handler in world.handlers.running.values():
        token = world.book.asks[handler.tag].token
        turn = world.checker.by_token.get(token or "")
        if turn is None or handler.stubborn:
            continue
        # What an agent only looks at while it stops, it may.
        stopped = turn.cancelling is not None and handler.began < turn.cancelling
        # Claude does not wait for all of its hooks, and they may finish.
        ended = turn.ended is not None and handler.began < turn.ended
        over = ended and world.book.asks[handler.tag].kind != "hook"
        if stopped or over:
            world.fail("T1", f"the handler of {handler.tag} runs on, and {token} was stopped")


def _questions(world: World) -> None:
    """Every request of the agent is answered, or open before somebody."""
    checker = world.checker
    shown = {question.tag for question in checker.questions.values()}
    # A handler that does not heed its cancel holds up those of the next turn.
    held_up = any(handler.stubborn for handler in world.handlers.running.values())
    held_up = held_up or (world.store is not None and world.store.withholds)
    for ask in world.agents[-1].asks.values():
        if held_up or not ask.owed or ask.tag in shown or ask.tag in world.handlers.running:
            continue
        world.fail("T5", f"nobody answers {ask.tag} ({ask.kind} of {ask.token})")
    for ask in world.book.asks.values():
        if ask.kind != "permission" or not ask.answers or ask.taken_back:
            continue
        if ask.process < world.first_process:  # its answer need not be stored
            continue
        outcome, kind = checker.closed_as.get(ask.tag, ("cancelled", None))
        if outcome == "cancelled" or kind is None:
            wanted = {"cancelled", "deny"}
        elif kind.startswith("allow"):
            wanted = {"allow", "always" if kind == "allow_always" else "yes"}
            turn = checker.by_token.get(ask.token or "")
            stopped = turn is None or turn.cancelling is not None or turn.ended is not None
            if world.store is not None and stopped:  # before that was stored
                wanted |= {"cancelled", "deny"}
        else:
            wanted = {"no", "deny"}
        if ask.answers[0] not in wanted:
            world.fail("W5", f"{ask.tag} was {outcome} {kind}, and answered {ask.answers[0]}")


def _queue(world: World) -> None:
    """T8: what waits is not forgotten."""
    checker, state = world.checker, world.checker.state
    if world.store is not None and world.store.waited:
        return  # no turn begins until it works again
    free = state is not None and state.phase == "idle" and not world.handlers.running
    ready = [token for token in checker.queued.values() if token not in checker.paused]
    if free and ready:
        world.fail("T8", f"{ready} wait, and nothing runs")


def _turn(world: World) -> None:
    """T2, T3: a turn that the agent has ended is over."""
    turn = world.checker.turn
    prompt = world.book.prompts.get(turn.token or "") if turn is not None else None
    if turn is None or prompt is None or not (prompt.end_read or prompt.fate_read):
        return
    silence = trio.current_time() - world.checker.silent_since  # an answer starts the clock again
    if world.driver != "claude" or silence > world.limits.end_silence_s + SLACK:
        world.fail("T2", f"the agent has ended {prompt.token} as {set(prompt.ended)}; it runs on")


async def final(world: World) -> None:
    """The session is over: everything is closed, told and answered."""
    checker = world.checker
    if not world.over:
        world.fail("P5", f"the session was left at {world.left_at} and is not over")
        return
    for tab in world.tabs:
        tab.go.set()
    for viewer in world.log_viewers:
        viewer.go.set()
    for actor in world.actors:
        if actor.stalled is not None:
            actor.stalled.set()
    await no_process_is_left(world)
    checker.step()
    state = checker.state
    if state is None or state.phase != "closed":
        world.fail("P5", f"the state is {state and state.phase}, not closed")
    if checker.turn is not None:
        world.fail("W2", f"{checker.turn.id} never ended")
    if checker.open:
        world.fail("W3", f"{list(checker.open)} are open for ever")
    asked = [key for key, question in checker.questions.items() if not question.orphaned]
    if asked:  # the others are for the next host to ask
        world.fail("W3", f"{asked} are open for ever")
    left = [actor.token for actor in world.actors if not actor.done]
    if left:
        world.fail("T2", f"nobody tells {left} that it is over")
    if world.handlers.running:
        world.fail("T1", f"the handlers of {list(world.handlers.running)} run on")
    for viewer in world.log_viewers:
        if not viewer.over:
            world.fail("L1", f"{viewer.reader.name} waits for ever at {viewer.reader.seq}")
    for tab in world.tabs:
        tab.check_end()
    checker.same_as_snapshot()
    _restart(world)


async def no_process_is_left(world: World) -> None:
    """P5: also when the session has never opened."""
    await trio.sleep(30)
    for process in world.processes:
        if not process.spawned:
            continue
        if process.returncode is None and "kill" not in process.ignores:
            world.fail("P5", f"process {process.number} was left running")
        if not process.released:
            world.fail("P5", f"process {process.number} was not let go")


def _restart(world: World) -> None:
    """W10: after a restart of the host, at whatever moment, nothing is open."""
    events = world.checker.events[: world.rng.randint(1, world.checker.seq)]
    log = kept.after_a_restart(events, world.checker.log.state.state.agent, world.limits)
    fold = Fold()
    fold.advance(log.since(log.kept_after))
    left: list[Any] = [i for i, item in fold.items.items() if item["status"] not in TERMINAL]
    left += fold.permissions
    left += [t for t, turn in fold.turns.items() if "outcome" not in turn]
    if left:
        world.fail("W10", f"after a restart behind {len(events)} events {left} are open")
