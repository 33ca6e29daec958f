"""ACP: shaking hands, and messages that are unknown, odd or broken."""

from __future__ import annotations

from typing import Final

from .._wire.json import encode_line
from .._wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR, Response
from .acp import UNKNOWN, VERSION, AcpPeer, at, described, raw_request, result_of
from .check import JSON_RPC, Checks, fails, own_way, shown

check = Checks()

NEGOTIATION: Final = at("initialization#version-negotiation")
NEWEST: Final = 65535
LONG: Final = 8 * 1024 * 1024
"""Bytes of a long line."""


@check("initialize", "answers version 1 with 1, and says what it can", "must", NEGOTIATION)
async def initialize(peer: AcpPeer) -> str:
    result = result_of(await peer.initialize(), "initialize")
    version = result.get("protocolVersion")
    if type(version) is not int or version != VERSION:
        raise fails(f"it answered version {version!r}")
    if not isinstance(result.get("agentCapabilities", {}), dict):
        raise fails(f"its capabilities are no object: {shown(result['agentCapabilities'])}")
    said = "" if "agentCapabilities" in result else ", without capabilities"
    named = f" {peer.info.get('name')} {peer.info.get('version')}" if peer.info else ""
    return f"version {version}{said}{named}"


@check(
    "initialize-newer",
    "answers a version that nobody speaks yet with its own latest",
    "must",
    NEGOTIATION,
)
async def initialize_newer(peer: AcpPeer) -> str:
    return await _negotiate(peer, NEWEST)


@check("initialize-zero", "answers version 0 with its own latest, or 0", "must", NEGOTIATION)
async def initialize_zero(peer: AcpPeer) -> str:
    return await _negotiate(peer, 0)


async def _negotiate(peer: AcpPeer, asked: int) -> str:
    result = result_of(await peer.initialize(asked), f"initialize with version {asked}")
    version = result.get("protocolVersion")
    if type(version) is not int or version == NEWEST:
        raise fails(f"it answered {asked} with version {version!r}")
    return f"answered {asked} with {version}"


@check("initialize-text", "a version that is a string", "open", NEGOTIATION)
async def initialize_text(peer: AcpPeer) -> str:
    response = await peer.initialize("1")
    if response.error is not None:
        raise own_way(f"refused: {described(response.error)}")
    version = result_of(response, "initialize").get("protocolVersion")
    raise own_way(f"answered version {version!r}")


@check("initialize-twice", "a second initialize", "open", at("initialization"))
async def initialize_twice(peer: AcpPeer) -> str:
    await peer.ready()
    response = await peer.initialize()
    raise own_way("answered" if response.error is None else f"refused: {described(response.error)}")


@check("uninitialized", "a session before initialize", "open", at("initialization"))
async def uninitialized(peer: AcpPeer) -> str:
    response = await peer.ask("session/new", peer.place)
    raise own_way("opened" if response.error is None else f"refused: {described(response.error)}")


@check(
    "unknown-method",
    "answers a request that it does not know with an error",
    "must",
    at("extensibility#custom-requests"),
)
async def unknown_method(peer: AcpPeer) -> str:
    await peer.ready()
    return _unknown(await peer.ask(UNKNOWN, {}))


@check(
    "unknown-core-method",
    "and one that looks like the protocol's own",
    "must",
    f"{JSON_RPC}#error_object",
)
async def unknown_core_method(peer: AcpPeer) -> str:
    await peer.ready()
    return _unknown(await peer.ask("session/unknown", {"sessionId": "none"}))


def _unknown(response: Response) -> str:
    if response.error is None:
        raise fails(f"answered with a result: {shown(response.result)}")
    if response.error.code != METHOD_NOT_FOUND:
        raise fails(f"answered {described(response.error)}, not {METHOD_NOT_FOUND}", "should")
    return f"answered {described(response.error)}"


@check(
    "unknown-notification",
    "does not answer a notification that it does not know",
    "must",
    f"{JSON_RPC}#notification",
)
async def unknown_notification(peer: AcpPeer) -> str:
    await peer.ready()
    peer.notify(UNKNOWN, {})
    peer.notify("session/unknown", {"sessionId": "none"})
    await peer.settled()
    if peer.unknown_answers:
        answer = peer.unknown_answers[0]
        words = shown(answer.result) if answer.error is None else described(answer.error)
        raise fails(f"answered it: {words}, with the id {answer.id}")
    return "ignored"


@check("text-id", "gives the id of a request back as it was", "must", f"{JSON_RPC}#response_object")
async def text_id(peer: AcpPeer) -> str:
    await peer.ready()
    await peer.ask(UNKNOWN, {})  # any agent is known to answer this
    id = peer.call(UNKNOWN, {}, "agentrt-é-1")
    await peer.answered(id, 'a request with the id "agentrt-é-1"')
    return "a text came back as it was"


@check(
    "missing-params",
    "refuses session/new without its parameters",
    "should",
    f"{JSON_RPC}#error_object",
)
async def missing_params(peer: AcpPeer) -> str:
    await peer.ready()
    response = await peer.ask("session/new", {})
    if response.error is None:
        raise own_way("opened a session without a folder")
    if response.error.code != INVALID_PARAMS:
        raise own_way(f"refused: {described(response.error)}, not {INVALID_PARAMS}")
    return f"refused: {described(response.error)}"


async def _odd(peer: AcpPeer, line: bytes) -> str:
    """A line that is no message, and the request behind it: what was said to the line."""
    await peer.ready()
    before = len(peer.unknown_answers)
    peer.send(line)
    goes_on = await peer.alive()
    answers = peer.unknown_answers[before:]
    error = answers[0].error if answers else None
    return f"{goes_on}; {'said nothing' if error is None else f'answered {described(error)}'}"


@check(
    "broken-line",
    "goes on after a line that is no JSON",
    "should",
    f"{JSON_RPC}#error_object",
)
async def broken_line(peer: AcpPeer) -> str:
    words = await _odd(peer, b'{"jsonrpc":"2.0","id":77,"method":')
    if "answered" in words and str(PARSE_ERROR) not in words:
        raise own_way(words)
    return words


@check("bare-value", "goes on after a line that is a number", "should", at("transports#stdio"))
async def bare_value(peer: AcpPeer) -> str:
    return await _odd(peer, b"42")


@check("batch", "goes on after a list of requests", "should", at("transports#stdio"))
async def batch(peer: AcpPeer) -> str:
    await peer.ready()
    peer.expect("batched")
    message = raw_request("batched", UNKNOWN, {}).strip()
    peer.send(b"[" + message + b"]")
    goes_on = await peer.alive()
    await peer.quiet()
    answered = any(isinstance(message, list) for message in peer.heard)
    raise own_way(f"{goes_on}; {'answered as a batch' if answered else 'no batch came back'}")


@check("not-utf-8", "goes on after a line that is not UTF-8", "should", at("transports"))
async def not_utf8(peer: AcpPeer) -> str:
    return await _odd(peer, b'{"jsonrpc":"2.0","method":"_agentrt/\xff\xfe","params":{}}')


@check("blank-line", "takes blank lines and a carriage return", "should", at("transports#stdio"))
async def blank_line(peer: AcpPeer) -> str:
    return await _odd(peer, b"\n\r\n")


@check(
    "foreign-answer",
    "goes on after an answer to nothing",
    "should",
    f"{JSON_RPC}#response_object",
)
async def foreign_answer(peer: AcpPeer) -> str:
    return await _odd(peer, encode_line({"jsonrpc": "2.0", "id": 4711, "result": {}}))


@check("long-line", "takes a line of 8 MiB", "should", at("transports#stdio"))
async def long_line(peer: AcpPeer) -> str:
    await peer.ready()
    response = await peer.ask(UNKNOWN, {"text": "x" * LONG})
    if response.error is None or response.error.code == METHOD_NOT_FOUND:
        return "read to its end"
    raise own_way(f"refused: {described(response.error)}")
