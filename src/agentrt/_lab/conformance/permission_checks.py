"""ACP: permission requests, with every kind of answer."""

from __future__ import annotations

from typing import Final

import trio

from ...jsonrpc import METHOD_NOT_FOUND, JsonRpcError, error_line
from .acp import AcpPeer, acp_page
from .check import TOUCHED, CheckRegistry, differs, fails, shown

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
    if (problem := peer.question_problem(params)) is not None:
        raise fails(problem)
    options = params.get("options")
    if not isinstance(options, list) or not options:
        raise fails(f"its options are {shown(options)}")
    for option in options:
        if not isinstance(option, dict) or not {"optionId", "name", "kind"} <= option.keys():
            raise fails(f"an option without optionId, name or kind: {shown(option)}")
    ids = [option["optionId"] for option in options]
    if len(set(ids)) < len(ids):
        raise fails(f"two options have the same id: {shown(ids)}")
    return f"{len(options)} options: {', '.join(str(option['kind']) for option in options)}"


@check("permission-allowed", "carries out an allowed call", "should", ASKING)
async def permission_allowed(peer: AcpPeer) -> str:
    session = await peer.session()
    id, ask = await peer.permission(session)
    peer.answer(ask, peer.chosen(ask, "allow_once"))
    peer.reject_rest()
    stop = await peer.end(id)
    if not peer.touched_file:
        raise fails(f"{stop}, and {TOUCHED} was not created")
    return f"{stop}; carried out"


@check("permission-rejected", "does not carry out a rejected call", "must", ASKING)
async def permission_rejected(peer: AcpPeer) -> str:
    session = await peer.session()
    id, ask = await peer.permission(session)
    peer.answer(ask, peer.chosen(ask, "reject_once"))
    peer.reject_rest()
    stop = await peer.end(id)
    await _untouched(peer, "rejected")
    return f"{stop}; not carried out"


@check(
    "permission-cancelled",
    "ends a turn with cancelled if it is cancelled during a permission request",
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
    end = await peer.prompt_end(id, "a prompt that was cancelled during a permission request")
    await _untouched(peer, "cancelled")
    if end.stop != "cancelled":
        raise fails(f"the prompt ended with {end.words}")
    return "cancelled; not carried out"


@check(
    "permission-unanswered",
    "handles a permission request that stays open after a cancel",
    "open",
    CANCEL,
)
async def permission_unanswered(peer: AcpPeer) -> str:
    session = await peer.session()
    id, ask = await peer.permission(session)
    peer.cancel(session)
    ended = False
    with trio.move_on_after(5.0):
        await peer.prompt_end(id, "a prompt that was cancelled during a permission request")
        ended = True
    peer.waits_for = ""
    if ended:
        raise differs("the turn ends without an answer")
    peer.answer(ask, None)
    raise differs("the turn waits for the answer, which the client must send")


@check(
    "permission-late", "does not carry out a call that is allowed after the turn", "should", ASKING
)
async def permission_late(peer: AcpPeer) -> str:
    session = await peer.session()
    id, ask = await peer.permission(session)
    allowed = peer.chosen(ask, "allow_once")
    peer.cancel(session)
    peer.answer(ask, None)
    with peer.preparing():
        await peer.prompt_end(id, "a prompt that was cancelled during a permission request")
    peer.answer(ask, allowed)
    alive = await peer.alive()
    await _untouched(peer, "allowed late, after a first answer")
    return f"{alive}; not carried out"


@check("permission-twice", "uses the first of two answers", "should", ASKING)
async def permission_twice(peer: AcpPeer) -> str:
    session = await peer.session()
    id, ask = await peer.permission(session)
    allowed = peer.chosen(ask, "allow_once")
    peer.answer(ask, peer.chosen(ask, "reject_once"))
    peer.answer(ask, allowed)
    peer.reject_rest()
    stop = await peer.end(id)
    await _untouched(peer, "rejected, and then allowed")
    return f"{stop}, {await peer.alive()}; not carried out"


@check(
    "permission-unknown-option",
    "does not carry out a call when the answer is an unknown option",
    "should",
    ASKING,
)
async def permission_unknown_option(peer: AcpPeer) -> str:
    session = await peer.session()
    id, ask = await peer.permission(session)
    peer.answer(ask, "agentrt-no-option")
    return await _not_done(peer, id)


@check(
    "permission-error",
    "does not carry out a call when the answer is an error",
    "should",
    ASKING,
)
async def permission_error(peer: AcpPeer) -> str:
    session = await peer.session()
    id, ask = await peer.permission(session)
    peer.send(
        error_line(ask.id, JsonRpcError(METHOD_NOT_FOUND, "permission requests are not supported"))
    )
    return await _not_done(peer, id)


async def _not_done(peer: AcpPeer, id: int | float | str | None) -> str:
    peer.reject_rest()
    end = await peer.prompt_end(id, "the prompt")
    await _untouched(peer, "not allowed")
    return f"{end.words}; not carried out"


async def _untouched(peer: AcpPeer, what: str) -> None:
    await peer.quiet()
    if peer.touched_file:
        raise fails(f"the call was {what}, and {TOUCHED} was created")
