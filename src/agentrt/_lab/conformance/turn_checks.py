"""ACP: turns and their cancels."""

from __future__ import annotations

from typing import Final

import trio

from ...jsonrpc import Id
from .acp import AcpPeer, acp_page
from .check import JSON_RPC, CheckEnded, CheckRegistry, differs, fails, inconclusive
from .rpc import described

check = CheckRegistry()

CANCEL: Final = acp_page("prompt-turn#cancellation")


@check(
    "turn", "answers a prompt at the end of its turn", "must", acp_page("prompt-turn#stop-reasons")
)
async def turn(peer: AcpPeer) -> str:
    session = await peer.session()
    id = peer.prompt(session, peer.prompts.text)
    heard = await peer.heard_answer(id, "session/prompt")
    error = heard.message.error
    if error is not None:
        raise inconclusive(f"session/prompt was refused: {described(error)}")
    stop = await peer.end(id)
    before = len(peer.said(session, before=heard.at))
    await peer.wait_until_read()
    if late := peer.said(session, heard.at):
        raise differs(f"{stop}, and {len(late)} of {before + len(late)} updates after it")
    return f"{stop}, after {before} updates"


@check("cancel-idle", "accepts a prompt after a cancel without a running turn", "should", CANCEL)
async def cancel_idle(peer: AcpPeer) -> str:
    session = await peer.session()
    peer.cancel(session)
    peer.cancel(session)
    stop = await peer.turn(session, peer.prompts.text)
    if stop == "cancelled":
        raise fails("the next prompt was cancelled")
    return f"the next prompt ended with {stop}"


async def _cancelled(peer: AcpPeer, session: str, *, word: bool) -> tuple[Id, int, str]:
    """Cancel a long turn. Returns its id, the place of its answer, and the time that it took."""
    id = await peer.begin_long(session, word=word)
    began = trio.current_time()
    peer.cancel(session)
    heard = await peer.heard_answer(id, "a prompt that was cancelled")
    stop = await _stop(peer, id)
    after = f"{heard.time - began:.2f} s"
    if stop == "cancelled":
        return id, heard.at, after
    if stop.startswith("error"):
        raise fails(f"the prompt was answered with an {stop}")
    if heard.time - began < 0.7 * peer.long_turn:
        raise fails(f"the prompt was answered {stop}, {after} after the cancel")
    raise fails(f"the turn continued to its end, {after} long, and the prompt was answered {stop}")


async def _stop(peer: AcpPeer, id: Id) -> str:
    response = await peer.answered(id, "session/prompt")
    if response.error is not None:
        return f"error ({described(response.error)})"
    return await peer.end(id)


@check(
    "cancel-text",
    "answers a prompt with cancelled if it is cancelled during the turn",
    "must",
    CANCEL,
    in_turn=True,
)
async def cancel_text(peer: AcpPeer) -> str:
    _, _, after = await _cancelled(peer, await peer.session(), word=True)
    return f"cancelled after {after}"


@check(
    "cancel-at-once",
    "answers a prompt with cancelled if it is cancelled immediately",
    "must",
    CANCEL,
    in_turn=True,
)
async def cancel_at_once(peer: AcpPeer) -> str:
    _, _, after = await _cancelled(peer, await peer.session(), word=False)
    return f"cancelled after {after}"


@check(
    "quiet-after-cancel",
    "sends no more updates of a turn after answering its cancelled prompt",
    "must",
    CANCEL,
    in_turn=True,
)
async def quiet_after_cancel(peer: AcpPeer) -> str:
    session = await peer.session()
    with peer.preparing():
        _, answer, _ = await _cancelled(peer, session, word=True)
    await peer.wait_until_read()
    await peer.quiet(1.0)
    if late := peer.said(session, answer):
        kinds = sorted({str(update["sessionUpdate"]) for update in late})
        raise fails(f"{len(late)} updates arrived after the answer: {', '.join(kinds)}")
    return "no update after the answer"


@check(
    "after-cancel",
    "answers the next prompt after a cancel normally",
    "should",
    CANCEL,
    in_turn=True,
)
async def after_cancel(peer: AcpPeer) -> str:
    session = await peer.session()
    with peer.preparing():
        await _cancelled(peer, session, word=True)
    peer.cancel(session)  # too late: the turn is over
    return await _next(peer, session)


@check("cancel-twice", "treats two cancels as one", "should", CANCEL, in_turn=True)
async def cancel_twice(peer: AcpPeer) -> str:
    session = await peer.session()
    id = await peer.begin_long(session)
    peer.cancel(session)
    peer.cancel(session)
    with peer.preparing():
        if (stop := await _stop(peer, id)) != "cancelled":
            raise inconclusive(f"the prompt was answered {stop}")
    return await _next(peer, session)


async def _next(peer: AcpPeer, session: str) -> str:
    stop = await peer.turn(session, peer.prompts.text)
    if stop == "cancelled":
        raise fails("the next prompt was cancelled")
    return f"the next prompt ended with {stop}"


@check(
    "cancel-request",
    "answers a prompt after its request is cancelled ($/cancel_request)",
    "open",
    acp_page("cancellation"),
    in_turn=True,
)
async def cancel_request(peer: AcpPeer) -> str:
    long = peer.long_turn
    session = await peer.session()
    id = await peer.begin_long(session)
    began = trio.current_time()
    peer.notify("$/cancel_request", {"requestId": id})
    answered = False
    with trio.move_on_after(0.5 * long):
        await peer.heard_answer(id, "a prompt with a cancelled request")
        answered = True
    if not answered:
        raise differs("ignored, as the specification permits")
    response = await peer.answered(id, "session/prompt")
    after = f"{trio.current_time() - began:.2f} s"
    if response.error is None:
        return f"answered {await peer.end(id)} after {after}"
    return f"answered {described(response.error)} after {after}"


@check(
    "two-prompts",
    "answers both of two simultaneous prompts",
    "must",
    f"{JSON_RPC}#response_object",
)
async def two_prompts(peer: AcpPeer) -> str:
    session = await peer.session()
    with peer.preparing():
        await peer.turn(session, peer.prompts.text)  # make sure that it answers prompts
    first = peer.prompt(session, peer.prompts.text)
    second = peer.prompt(session, peer.prompts.text)
    stops = [await _stop(peer, first), await _stop(peer, second)]
    return f"first: {stops[0]}; second: {stops[1]}"


@check(
    "two-sessions",
    "cancels only the session that the cancel names",
    "must",
    CANCEL,
    in_turn=True,
)
async def two_sessions(peer: AcpPeer) -> str:
    session = await peer.session()
    with peer.preparing():
        other = await peer.another_session()
    id = await peer.begin_long(session)
    peer.cancel(other)
    await peer.quiet()
    cancelled = False
    with trio.move_on_after(0.3 * peer.long_turn):
        try:
            cancelled = await peer.end(id, "the prompt of another session") == "cancelled"
        except CheckEnded as ended:
            raise fails(f"the turn of another session ended: {ended.words}") from ended
    peer.waits_for = ""
    if cancelled:
        raise fails("the turn of another session was cancelled")
    peer.cancel(session)
    return "the turn of the other session continued"
