"""ACP: turns and their cancels."""

from __future__ import annotations

from typing import Final

import trio

from .acp import AcpPeer, acp_page
from .check import JSON_RPC, CheckEnded, CheckRegistry, differs, fails, inconclusive
from .rpc import described

check = CheckRegistry()

CANCEL: Final = acp_page("prompt-turn#cancellation")


@check("turn", "ends a turn after its last update", "must", acp_page("prompt-turn#stop-reasons"))
async def turn(peer: AcpPeer) -> str:
    session = await peer.session()
    end = await peer.prompt_end(peer.prompt(session, peer.prompts.text))
    if end.error is not None:
        raise inconclusive(f"session/prompt was refused: {described(end.error)}")
    before = len(peer.said(session, before=end.at))
    await peer.wait_until_read()
    if late := peer.said(session, end.at):
        raise differs(f"{end.stop}, and {len(late)} of {before + len(late)} updates after it")
    return f"{end.stop}, after {before} updates"


@check("cancel-idle", "accepts a prompt after a cancel without a running turn", "should", CANCEL)
async def cancel_idle(peer: AcpPeer) -> str:
    session = await peer.session()
    peer.cancel(session)
    peer.cancel(session)
    stop = await peer.turn(session, peer.prompts.text)
    if stop == "cancelled":
        raise fails("the next prompt was cancelled")
    return f"the next prompt ended with {stop}"


async def _cancelled(peer: AcpPeer, session: str, *, word: bool) -> tuple[int, str]:
    """Cancel a long turn. Returns the place of its end, and the time that it took."""
    id = await peer.begin_long(session, word=word)
    began = trio.current_time()
    peer.cancel(session)
    end = await peer.prompt_end(id, "a prompt that was cancelled")
    after = f"{end.time - began:.2f} s"
    if end.stop == "cancelled":
        return end.at, after
    if end.error is not None:
        raise fails(f"the prompt ended with an {end.words}")
    if end.time - began < 0.7 * peer.long_turn:
        raise fails(f"the prompt ended with {end.stop}, {after} after the cancel")
    raise fails(f"the turn continued to its end, {after} long, and ended with {end.stop}")


@check(
    "cancel-text",
    "ends a turn with cancelled if it is cancelled",
    "must",
    CANCEL,
    in_turn=True,
)
async def cancel_text(peer: AcpPeer) -> str:
    _, after = await _cancelled(peer, await peer.session(), word=True)
    return f"cancelled after {after}"


@check(
    "cancel-at-once",
    "ends a turn with cancelled if it is cancelled immediately",
    "must",
    CANCEL,
    in_turn=True,
)
async def cancel_at_once(peer: AcpPeer) -> str:
    _, after = await _cancelled(peer, await peer.session(), word=False)
    return f"cancelled after {after}"


@check(
    "quiet-after-cancel",
    "sends no more updates of a cancelled turn after its end",
    "must",
    CANCEL,
    in_turn=True,
)
async def quiet_after_cancel(peer: AcpPeer) -> str:
    session = await peer.session()
    with peer.preparing():
        end, _ = await _cancelled(peer, session, word=True)
    await peer.wait_until_read()
    await peer.quiet(1.0)
    if late := peer.said(session, end):
        kinds = sorted({str(update["sessionUpdate"]) for update in late})
        raise fails(f"{len(late)} updates arrived after the end: {', '.join(kinds)}")
    return "no update after the end"


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
        if (end := await peer.prompt_end(id)).stop != "cancelled":
            raise inconclusive(f"the prompt ended with {end.words}")
    return await _next(peer, session)


async def _next(peer: AcpPeer, session: str) -> str:
    stop = await peer.turn(session, peer.prompts.text)
    if stop == "cancelled":
        raise fails("the next prompt was cancelled")
    return f"the next prompt ended with {stop}"


@check(
    "cancel-request",
    "ends a turn whose request is cancelled ($/cancel_request)",
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
    end = None
    with trio.move_on_after(0.5 * long):
        end = await peer.prompt_end(id, "a prompt with a cancelled request")
    if end is None:
        raise differs("ignored, as the specification permits")
    return f"ended with {end.words} after {end.time - began:.2f} s"


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
    ends = [await peer.prompt_end(first), await peer.prompt_end(second)]
    return f"first: {ends[0].words}; second: {ends[1].words}"


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
