"""ACP: permission requests, with every kind of answer."""

from __future__ import annotations

from typing import Final

import trio

from ...jsonrpc import METHOD_NOT_FOUND, JsonRpcError, error_line
from .acp import AcpPeer, acp_page
from .check import TOUCHED, CheckRegistry, differs, fails, shown
from .rpc import described

check = CheckRegistry()

ASKING: Final = acp_page("tool-calls#requesting-permission")
CANCEL: Final = acp_page("prompt-turn#cancellation")


@check(
    "permission-request",
    "names the session, the tool call and the options in its requests",
    "must",
    ASKING,
)
async def permission_request(peer: AcpPeer) -> str:
    session = await peer.session()
    _, ask = await peer.permission(session)
    params = ask.params if isinstance(ask.params, dict) else {}
    if params.get("sessionId") != session:
        raise fails(f"its sessionId is {shown(params.get('sessionId'))!r}")
    call, options = params.get("toolCall"), params.get("options")
    if not isinstance(call, dict) or not isinstance(call.get("toolCallId"), str):
        raise fails(f"its toolCall has no toolCallId: {shown(call)}")
    if not isinstance(options, list) or not options:
        raise fails(f"its options are {shown(options)}")
    for option in options:
        if not isinstance(option, dict) or not {"optionId", "name", "kind"} <= option.keys():
            raise fails(f"an option without optionId, name or kind: {shown(option)}")
    ids = [option["optionId"] for option in options]
    if len(set(ids)) < len(ids):
        raise fails(f"two options have the same id: {shown(ids)}")
    return f"{len(options)} options: {', '.join(str(option['kind']) for option in options)}"


@check("permission-allowed", "carries out a call that was allowed once", "should", ASKING)
async def permission_allowed(peer: AcpPeer) -> str:
    session = await peer.session()
    id, ask = await peer.permission(session)
    peer.answer(ask, peer.chosen(ask, "allow_once"))
    peer.reject_rest()
    stop = await peer.end(id)
    if not peer.touched_file:
        raise fails(f"{stop}, and {TOUCHED} is not there")
    return f"{stop}, and it is done"


@check("permission-rejected", "does not carry out a rejected call", "must", ASKING)
async def permission_rejected(peer: AcpPeer) -> str:
    session = await peer.session()
    id, ask = await peer.permission(session)
    peer.answer(ask, peer.chosen(ask, "reject_once"))
    peer.reject_rest()
    stop = await peer.end(id)
    await _untouched(peer, "rejected")
    return f"{stop}, and it is not done"


@check(
    "permission-cancelled",
    "answers a prompt that is cancelled at a question with cancelled",
    "must",
    CANCEL,
)
async def permission_cancelled(peer: AcpPeer) -> str:
    session = await peer.session()
    id, ask = await peer.permission(session)
    peer.cancel(session)
    peer.answer(ask, None)
    for more in peer.asks:
        peer.answer(more, None)
    response = await peer.answered(id, "a prompt that was cancelled at a question")
    await _untouched(peer, "cancelled")
    if response.error is not None:
        raise fails(f"the prompt was answered {described(response.error)}")
    if (stop := await peer.end(id)) != "cancelled":
        raise fails(f"the prompt was answered {stop}")
    return "cancelled, and it is not done"


@check("permission-unanswered", "a question that stays open after a cancel", "open", CANCEL)
async def permission_unanswered(peer: AcpPeer) -> str:
    session = await peer.session()
    id, ask = await peer.permission(session)
    peer.cancel(session)
    ended = False
    with trio.move_on_after(5.0):
        await peer.answered(id, "a prompt that was cancelled at a question")
        ended = True
    peer.waits_for = ""
    if ended:
        raise differs("the turn ends without an answer")
    peer.answer(ask, None)
    raise differs("the turn waits for the answer, which a client owes")


@check("permission-late", "does not carry out a call allowed after the turn", "should", ASKING)
async def permission_late(peer: AcpPeer) -> str:
    session = await peer.session()
    id, ask = await peer.permission(session)
    allowed = peer.chosen(ask, "allow_once")
    peer.cancel(session)
    peer.answer(ask, None)
    with peer.preparing():
        await peer.answered(id, "a prompt that was cancelled at a question")
    peer.answer(ask, allowed)
    alive = await peer.alive()
    await _untouched(peer, "allowed late, after a first answer")
    return f"{alive}, and it is not done"


@check("permission-twice", "takes the first of two answers", "should", ASKING)
async def permission_twice(peer: AcpPeer) -> str:
    session = await peer.session()
    id, ask = await peer.permission(session)
    allowed = peer.chosen(ask, "allow_once")
    peer.answer(ask, peer.chosen(ask, "reject_once"))
    peer.answer(ask, allowed)
    peer.reject_rest()
    stop = await peer.end(id)
    await _untouched(peer, "rejected, and then allowed")
    return f"{stop}, {await peer.alive()}, and it is not done"


@check(
    "permission-unknown-option", "does nothing for an option that it never gave", "should", ASKING
)
async def permission_unknown_option(peer: AcpPeer) -> str:
    session = await peer.session()
    id, ask = await peer.permission(session)
    peer.answer(ask, "agentrt-no-option")
    return await _not_done(peer, id)


@check(
    "permission-error",
    "does nothing where its question is answered with an error",
    "should",
    ASKING,
)
async def permission_error(peer: AcpPeer) -> str:
    session = await peer.session()
    id, ask = await peer.permission(session)
    peer.send(error_line(ask.id, JsonRpcError(METHOD_NOT_FOUND, "questions are not answered here")))
    return await _not_done(peer, id)


async def _not_done(peer: AcpPeer, id: int | float | str | None) -> str:
    peer.reject_rest()
    response = await peer.answered(id, "the prompt")
    await _untouched(peer, "not allowed")
    if response.error is not None:
        return f"the prompt was answered {described(response.error)}, and it is not done"
    return f"{await peer.end(id)}, and it is not done"


async def _untouched(peer: AcpPeer, what: str) -> None:
    await peer.quiet()
    if peer.touched_file:
        raise fails(f"it was {what}, and {TOUCHED} was created")
