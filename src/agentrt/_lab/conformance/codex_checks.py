"""Codex's protocol: handshake, threads, turns and approvals.

Its documentation describes the behaviour but requires nothing: these checks test behaviour that a
client has to rely on, and none of them is a "must".
"""

from __future__ import annotations

from typing import Final

import trio

from ...jsonrpc import METHOD_NOT_FOUND, JsonRpcError, error_line
from .check import TOUCHED, CheckRegistry, differs, fails, shown
from .codex import WHERE, CodexPeer, refused
from .rpc import described, result_of

check = CheckRegistry()

HANDSHAKE: Final = f"{WHERE}#initialization"
THREADS: Final = f"{WHERE}#threads"
TURNS: Final = f"{WHERE}#turns"
APPROVALS: Final = f"{WHERE}#approvals"
NOBODY: Final = "00000000-0000-7000-8000-000000000000"
"""An id that belongs to no thread and no turn."""


@check("initialize", "answers initialize and identifies itself", "should", HANDSHAKE)
async def initialize(peer: CodexPeer) -> str:
    result_of(await peer.initialize(), "initialize")
    if not peer.info:
        raise fails("the answer lacks a userAgent")
    return f"{peer.info['name']} {peer.info['version']}"


@check("initialize-twice", "refuses a second initialize", "should", HANDSHAKE)
async def initialize_twice(peer: CodexPeer) -> str:
    await peer.ready()
    return refused(await peer.initialize(), "answered it")


@check("uninitialized", "refuses a thread before initialize", "should", HANDSHAKE)
async def uninitialized(peer: CodexPeer) -> str:
    return refused(await peer.ask("thread/start", peer.place), "started it")


@check("missing-params", "refuses turn/start without its parameters", "should", TURNS)
async def missing_params(peer: CodexPeer) -> str:
    await peer.ready()
    return refused(await peer.ask("turn/start", {}), "accepted it")


@check("new-sessions", "gives each thread a unique id", "should", THREADS)
async def new_sessions(peer: CodexPeer) -> str:
    await peer.ready()
    first, second = await peer.another_thread(), await peer.another_thread()
    if first == second:
        raise fails(f"both are {first}")
    return "two ids"


@check("prompt-unknown", "refuses a prompt for an unknown thread", "should", TURNS)
async def prompt_unknown(peer: CodexPeer) -> str:
    await peer.ready()
    response = await peer.answered(peer.prompt(NOBODY, peer.prompts.text), "turn/start")
    return refused(response, "accepted it")


@check("resume", "continues a resumed thread", "should", THREADS)
async def resume(peer: CodexPeer) -> str:
    thread = await peer.thread()
    with peer.preparing():
        await peer.turn(thread, peer.prompts.text)
    result = await peer.result("thread/resume", {"threadId": thread, **peer.place})
    given = result.get("thread")
    if not isinstance(given, dict) or given.get("id") != thread:
        raise fails(f"the answer names a different thread: {shown(result)}")
    return f"the next prompt ended with {await peer.turn(thread, peer.prompts.text)}"


@check("resume-unknown", "refuses to resume an unknown thread", "should", f"{WHERE}#threads")
async def resume_unknown(peer: CodexPeer) -> str:
    await peer.ready()
    return refused(await peer.ask("thread/resume", {"threadId": NOBODY}), "resumed it")


@check("list", "lists a thread with at least one turn", "should", THREADS)
async def list_threads(peer: CodexPeer) -> str:
    thread = await peer.thread()
    with peer.preparing():
        await peer.turn(thread, peer.prompts.text)
    found = (await peer.result("thread/list", {})).get("data")
    if not isinstance(found, list):
        raise fails(f"its data is not a list: {shown(found)}")
    if thread not in [each.get("id") for each in found if isinstance(each, dict)]:
        raise fails(f"missing from the {len(found)} threads")
    return f"one of {len(found)} threads"


@check("turn", "ends a prompt's turn with turn/completed", "should", TURNS)
async def turn(peer: CodexPeer) -> str:
    thread = await peer.thread()
    turn = await peer.taken(peer.prompt(thread, peer.prompts.text))
    status = await peer.end(turn)
    known = peer.turns[turn]
    await peer.wait_until_read()
    if known.late:
        raise differs(f"{status}, and {known.late} of {known.said} notifications after it")
    return f"{status}, after {known.said} notifications"


@check("two-prompts", "handles a second prompt during a turn", "open", TURNS)
async def two_prompts(peer: CodexPeer) -> str:
    thread = await peer.thread()
    first = peer.prompt(thread, peer.prompts.text)
    second = peer.prompt(thread, peer.prompts.text)
    one = await peer.taken(first)
    response = await peer.answered(second, "the second turn/start")
    if response.error is not None:
        status = await peer.end(one)
        raise differs(f"first: {status}; second: refused: {described(response.error)}")
    other = await peer.taken(second)
    same = "the same turn" if other == one else f"a separate turn: {await peer.end(other)}"
    raise differs(f"first: {await peer.end(one)}; second: {same}")


@check("steer", "adds a prompt to the running turn", "should", TURNS, in_turn=True)
async def steer(peer: CodexPeer) -> str:
    thread = await peer.thread()
    turn = await peer.long(thread)
    said = [{"type": "text", "text": peer.prompts.text}]
    given = {"threadId": thread, "expectedTurnId": turn, "input": said}
    result = await peer.result("turn/steer", given)
    peer.interrupt(thread, turn)
    if result.get("turnId") != turn:
        raise fails(f"added to a different turn: {shown(result)}")
    return "added to it"


@check(
    "steer-another", "refuses to steer a turn that is not running", "should", TURNS, in_turn=True
)
async def steer_another(peer: CodexPeer) -> str:
    thread = await peer.thread()
    turn = await peer.long(thread)
    said = [{"type": "text", "text": peer.prompts.text}]
    given = {"threadId": thread, "expectedTurnId": NOBODY, "input": said}
    words = refused(await peer.ask("turn/steer", given), "accepted it")
    peer.interrupt(thread, turn)
    return words


@check("cancel-idle", "accepts a prompt after an interrupt without a running turn", "should", TURNS)
async def cancel_idle(peer: CodexPeer) -> str:
    thread = await peer.thread()
    with peer.preparing():
        turn = await peer.taken(peer.prompt(thread, peer.prompts.text))
        await peer.end(turn)
    id = peer.interrupt(thread, turn)  # may never be answered, so it is not waited for
    status = await peer.turn(thread, peer.prompts.text)
    if status == "interrupted":
        raise fails("the next prompt was interrupted")
    heard = await peer.answer_if_quick(id)
    how = "unanswered" if heard is None else "answered" if heard.error is None else "refused"
    return f"the interrupt: {how}; the next prompt: {status}"


async def _interrupted(peer: CodexPeer, thread: str, turn: str) -> str:
    """Interrupt a long turn and describe how long that took."""
    began = trio.current_time()
    request = peer.interrupt(thread, turn)
    status = await peer.end(turn, "a turn that was interrupted")
    took = trio.current_time() - began
    if status == "completed" and took > 0.7 * peer.long_turn:
        raise fails(f"the turn continued to its end, {took:.2f} s long")
    if status != "interrupted":
        raise fails(f"the turn ended {status}, {took:.2f} s after the interrupt")
    result_of(await peer.answered(request, "turn/interrupt"), "turn/interrupt")
    return f"interrupted after {took:.2f} s"


@check("cancel-text", "ends an interrupted turn", "should", TURNS, in_turn=True)
async def cancel_text(peer: CodexPeer) -> str:
    thread = await peer.thread()
    return await _interrupted(peer, thread, await peer.long(thread))


@check(
    "cancel-at-once",
    "ends a turn that is interrupted right after its prompt",
    "open",
    TURNS,
    in_turn=True,
)
async def cancel_at_once(peer: CodexPeer) -> str:
    """Interrupt a turn that may not run yet. Codex refuses that, so the interrupt is
    repeated then.
    """
    thread = await peer.thread()
    assert peer.long_turn
    turn = await peer.taken(peer.prompt(thread, peer.prompts.long))
    response = await peer.answered(peer.interrupt(thread, turn), "turn/interrupt")
    if response.error is None:
        status = await peer.end(turn, "a turn that was interrupted")
        if status != "interrupted":
            raise fails(f"the turn ended {status}")
        return status
    await peer.runs(turn)
    words = await _interrupted(peer, thread, turn)
    raise differs(f"refused: {described(response.error)}; repeated while it runs: {words}")


@check(
    "quiet-after-cancel",
    "sends no more notifications of an interrupted turn after its end",
    "should",
    TURNS,
    in_turn=True,
)
async def quiet_after_cancel(peer: CodexPeer) -> str:
    thread = await peer.thread()
    turn = await peer.long(thread)
    with peer.preparing():
        await _interrupted(peer, thread, turn)
    await peer.wait_until_read()
    await peer.quiet(1.0)
    if late := peer.turns[turn].late:
        raise fails(f"{late} notifications arrived after its end")
    return "no notification after its end"


@check("after-cancel", "answers the next prompt after an interrupt", "should", TURNS, in_turn=True)
async def after_cancel(peer: CodexPeer) -> str:
    thread = await peer.thread()
    turn = await peer.long(thread)
    with peer.preparing():
        await _interrupted(peer, thread, turn)
    return await _next(peer, thread)


@check("cancel-twice", "treats two interrupts as one", "should", TURNS, in_turn=True)
async def cancel_twice(peer: CodexPeer) -> str:
    thread = await peer.thread()
    turn = await peer.long(thread)
    peer.interrupt(thread, turn)
    with peer.preparing():
        await _interrupted(peer, thread, turn)
    return await _next(peer, thread)


async def _next(peer: CodexPeer, thread: str) -> str:
    """Check that the agent answers a prompt after everything else."""
    status = await peer.turn(thread, peer.prompts.text)
    if status != "completed":
        raise fails(f"the next prompt ended with {status}")
    return f"the next prompt ended with {status}"


@check(
    "two-sessions",
    "interrupts only the thread that the request names",
    "should",
    TURNS,
    in_turn=True,
)
async def two_sessions(peer: CodexPeer) -> str:
    thread = await peer.thread()
    with peer.preparing():
        other = await peer.another_thread()
    turn = await peer.long(thread)
    peer.interrupt(other, turn)
    await peer.quiet(0.3 * peer.long_turn)
    if (status := peer.turns[turn].status) is not None:
        raise fails(f"the turn of another thread ended: {status}")
    peer.interrupt(thread, turn)
    return "the turn of the other thread continued"


@check("permission-allowed", "carries out an accepted request", "should", APPROVALS)
async def permission_allowed(peer: CodexPeer) -> str:
    turn, ask = await peer.permission(await peer.thread())
    peer.decide(ask, "accept")
    peer.decline_rest()
    status = await peer.end(turn)
    if not peer.touched_file:
        raise fails(f"{status}, and {TOUCHED} was not created")
    return f"{status}; carried out"


@check("permission-rejected", "does not carry out a declined request", "should", APPROVALS)
async def permission_rejected(peer: CodexPeer) -> str:
    turn, ask = await peer.permission(await peer.thread())
    peer.decide(ask, "decline")
    return await _not_done(peer, turn)


@check(
    "permission-cancelled",
    "ends the turn when an approval request is cancelled",
    "should",
    APPROVALS,
)
async def permission_cancelled(peer: CodexPeer) -> str:
    turn, ask = await peer.permission(await peer.thread())
    peer.decide(ask, "cancel")
    words = await _not_done(peer, turn)
    if (status := peer.turns[turn].status) != "interrupted":
        raise differs(f"the turn ended {status}; not carried out")
    return words


@check(
    "permission-unanswered",
    "resolves an approval request when its turn is interrupted",
    "should",
    TURNS,
)
async def permission_unanswered(peer: CodexPeer) -> str:
    thread = await peer.thread()
    turn, ask = await peer.permission(thread)
    peer.interrupt(thread, turn)
    words = await _not_done(peer, turn)
    if ask.id not in peer.resolved:
        raise differs(f"{words}; the request is not reported as resolved")
    return f"{words}; the request is resolved"


@check(
    "permission-late",
    "does not carry out a request that is accepted after the turn",
    "should",
    APPROVALS,
)
async def permission_late(peer: CodexPeer) -> str:
    """Accept a request after its turn: the agent must neither carry it out nor fail
    because of it.
    """
    thread = await peer.thread()
    turn, ask = await peer.permission(thread)
    peer.interrupt(thread, turn)
    with peer.preparing():
        await peer.end(turn)
    peer.decide(ask, "accept")
    alive = await peer.alive()
    return f"{alive}; {await _not_done(peer, turn)}"


@check("permission-twice", "uses the first of two answers", "should", APPROVALS)
async def permission_twice(peer: CodexPeer) -> str:
    turn, ask = await peer.permission(await peer.thread())
    peer.decide(ask, "decline")
    peer.decide(ask, "accept")
    return await _not_done(peer, turn)


@check(
    "permission-unknown-option",
    "does not carry out a request when the decision is unknown",
    "should",
    APPROVALS,
)
async def permission_unknown_option(peer: CodexPeer) -> str:
    turn, ask = await peer.permission(await peer.thread())
    peer.decide(ask, "agentrt-no-decision")
    return await _not_done(peer, turn)


@check(
    "permission-error",
    "does not carry out a request when the answer is an error",
    "should",
    APPROVALS,
)
async def permission_error(peer: CodexPeer) -> str:
    turn, ask = await peer.permission(await peer.thread())
    peer.send(
        error_line(ask.id, JsonRpcError(METHOD_NOT_FOUND, "approval requests are not supported"))
    )
    return await _not_done(peer, turn)


async def _not_done(peer: CodexPeer, turn: str) -> str:
    """Check that a turn has ended without the action that needed approval.

    Further requests are declined, because a model may try again in another way.
    """
    peer.decline_rest()
    status = await peer.end(turn)
    await peer.quiet()
    if peer.touched_file:
        raise fails(f"{status}, and {TOUCHED} was created")
    return f"{status}; not carried out"
