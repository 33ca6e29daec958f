"""JSON-RPC over pipes: unknown, unusual or broken messages. For ACP and Codex's protocol."""

from __future__ import annotations

from typing import Final

from ...jsonrpc import METHOD_NOT_FOUND, PARSE_ERROR, JsonRpcResponse, encode_line
from .acp import acp_page
from .check import JSON_RPC, CheckRegistry, differs, fails, shown
from .rpc import UNKNOWN, RpcPeer, described, raw_request

check = CheckRegistry()

LONG_LINE_CHARS: Final = 8 * 1024 * 1024
"""Bytes of a long line."""


@check(
    "unknown-method",
    "answers an unknown request with an error",
    "must",
    acp_page("extensibility#custom-requests"),
)
async def unknown_method(peer: RpcPeer) -> str:
    await peer.ready()
    return refused_unknown(await peer.ask(UNKNOWN, {}))


def refused_unknown(response: JsonRpcResponse) -> str:
    """Check that an answer refuses an unknown method, and describe it."""
    if response.error is None:
        raise fails(f"answered with a result: {shown(response.result)}")
    if response.error.code != METHOD_NOT_FOUND:
        raise fails(f"answered {described(response.error)}, not {METHOD_NOT_FOUND}", "should")
    return f"answered {described(response.error)}"


@check(
    "unknown-notification",
    "does not answer an unknown notification",
    "must",
    f"{JSON_RPC}#notification",
)
async def unknown_notification(peer: RpcPeer) -> str:
    await peer.ready()
    peer.notify(UNKNOWN, {})
    peer.notify("session/unknown", {"sessionId": "none"})
    await peer.wait_until_read()
    if peer.unknown_answers:
        answer = peer.unknown_answers[0]
        words = shown(answer.result) if answer.error is None else described(answer.error)
        raise fails(f"answered with the id {answer.id}: {words}")
    return "ignored"


@check("text-id", "returns the id of a request unchanged", "must", f"{JSON_RPC}#response_object")
async def text_id(peer: RpcPeer) -> str:
    await peer.ready()
    await peer.ask(UNKNOWN, {})  # every agent is known to answer this
    id = peer.call(UNKNOWN, {}, "agentrt-é-1")
    await peer.answered(id, 'a request with the id "agentrt-é-1"')
    return "a string id was returned unchanged"


async def _odd(peer: RpcPeer, line: bytes) -> str:
    """Send a line that is not a message, then a request. Describes the answer to the line."""
    await peer.ready()
    before = len(peer.unknown_answers)
    peer.send(line)
    alive = await peer.alive()
    answers = peer.unknown_answers[before:]
    error = answers[0].error if answers else None
    return f"{alive}; {'no answer' if error is None else f'answered {described(error)}'}"


@check(
    "broken-line",
    "continues after a line that is not JSON",
    "should",
    f"{JSON_RPC}#error_object",
)
async def broken_line(peer: RpcPeer) -> str:
    words = await _odd(peer, b'{"jsonrpc":"2.0","id":77,"method":')
    if "answered" in words and str(PARSE_ERROR) not in words:
        raise differs(words)
    return words


@check(
    "bare-value", "continues after a line that is a number", "should", acp_page("transports#stdio")
)
async def bare_value(peer: RpcPeer) -> str:
    return await _odd(peer, b"42")


@check("batch", "continues after a list of requests", "should", acp_page("transports#stdio"))
async def batch(peer: RpcPeer) -> str:
    await peer.ready()
    peer.expect("batched")
    message = raw_request("batched", UNKNOWN, {}).strip()
    peer.send(b"[" + message + b"]")
    alive = await peer.alive()
    await peer.quiet()
    answered = any(isinstance(message, list) for message in peer.heard)
    raise differs(f"{alive}; {'answered as a batch' if answered else 'no batch answer'}")


@check("not-utf-8", "continues after a line that is not UTF-8", "should", acp_page("transports"))
async def not_utf8(peer: RpcPeer) -> str:
    return await _odd(peer, b'{"jsonrpc":"2.0","method":"_agentrt/\xff\xfe","params":{}}')


@check(
    "blank-line",
    "accepts blank lines and a carriage return",
    "should",
    acp_page("transports#stdio"),
)
async def blank_line(peer: RpcPeer) -> str:
    return await _odd(peer, b"\n\r\n")


@check(
    "foreign-answer",
    "continues after an answer to an unknown request",
    "should",
    f"{JSON_RPC}#response_object",
)
async def foreign_answer(peer: RpcPeer) -> str:
    return await _odd(peer, encode_line({"jsonrpc": "2.0", "id": 4711, "result": {}}))


@check("long-line", "accepts a line of 8 MiB", "should", acp_page("transports#stdio"))
async def long_line(peer: RpcPeer) -> str:
    await peer.ready()
    short = await peer.ask(UNKNOWN, {})
    response = await peer.ask(UNKNOWN, {"text": "x" * LONG_LINE_CHARS})
    if response.error is None or (short.error and short.error.code == response.error.code):
        return "read completely"
    raise differs(f"refused: {described(response.error)}")
