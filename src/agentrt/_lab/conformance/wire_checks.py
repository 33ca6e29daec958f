"""ACP: the handshake, and requests that are unknown or incomplete."""

from __future__ import annotations

from typing import Final

from ...jsonrpc import INVALID_PARAMS, JsonRpcError, JsonRpcResponse
from .acp import AcpPeer, acp_page
from .check import JSON_RPC, CheckRegistry, differs, fails, shown
from .rpc import described, result_of
from .rpc_checks import refused_unknown

check = CheckRegistry()

NEGOTIATION: Final = acp_page("initialization#version-negotiation")
FUTURE_VERSION: Final = 65535
UNSUPPORTED_VERSION_CODE: Final = -32022
"""The error code for an unsupported version in version 2, with those that are supported."""


@check("initialize", "answers its version with it and lists capabilities", "must", NEGOTIATION)
async def initialize(peer: AcpPeer) -> str:
    result = result_of(await peer.initialize(), "initialize")
    version = result.get("protocolVersion")
    if type(version) is not int or version != peer.version:
        raise fails(f"it answered version {version!r}")
    field = peer.capabilities_field
    if not isinstance(result.get(field, {}), dict):
        raise fails(f"its capabilities are not an object: {shown(result[field])}")
    said = "" if field in result else ", without capabilities"
    named = f" {peer.info.get('name')} {peer.info.get('version')}" if peer.info else ""
    return f"version {version}{said}{named}"


@check(
    "initialize-newer",
    "answers a future version with its own latest",
    "must",
    NEGOTIATION,
)
async def initialize_newer(peer: AcpPeer) -> str:
    return _negotiated(await peer.initialize(FUTURE_VERSION), FUTURE_VERSION)


@check(
    "initialize-zero",
    "answers version 0 with its own latest or 0, or refuses it and lists the versions it supports",
    "must",
    NEGOTIATION,
)
async def initialize_zero(peer: AcpPeer) -> str:
    response = await peer.initialize(0)
    if response.error is not None and response.error.code == UNSUPPORTED_VERSION_CODE:
        return refused_version(peer, response.error)  # as version 2 requires
    return _negotiated(response, 0)


def refused_version(peer: AcpPeer, error: JsonRpcError) -> str:
    """Check that a refused version comes with the supported ones, and describe them."""
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    if not (isinstance(supported, list) and peer.version in supported):
        raise fails(f"refused without a list of supported versions: {shown(error.data)}")
    return f"refused, and supports {', '.join(map(str, supported))}"


def _negotiated(response: JsonRpcResponse, asked: int) -> str:
    """Check the version in an answer to `initialize`; it must not be one that no agent can have."""
    result = result_of(response, f"initialize with version {asked}")
    version = result.get("protocolVersion")
    if type(version) is not int or version == FUTURE_VERSION:
        raise fails(f"it answered {asked} with version {version!r}")
    return f"answered {asked} with {version}"


@check("initialize-text", "answers a version that is a string", "open", NEGOTIATION)
async def initialize_text(peer: AcpPeer) -> str:
    response = await peer.initialize("1")
    if response.error is not None:
        raise differs(f"refused: {described(response.error)}")
    version = result_of(response, "initialize").get("protocolVersion")
    raise differs(f"answered version {version!r}")


@check("initialize-twice", "answers a second initialize", "open", acp_page("initialization"))
async def initialize_twice(peer: AcpPeer) -> str:
    await peer.ready()
    response = await peer.initialize()
    raise differs("answered" if response.error is None else f"refused: {described(response.error)}")


@check("uninitialized", "answers session/new before initialize", "open", acp_page("initialization"))
async def uninitialized(peer: AcpPeer) -> str:
    response = await peer.ask("session/new", peer.place)
    raise differs("opened" if response.error is None else f"refused: {described(response.error)}")


@check(
    "unknown-core-method",
    "answers an unknown method in the protocol's namespace with an error",
    "must",
    f"{JSON_RPC}#error_object",
)
async def unknown_core_method(peer: AcpPeer) -> str:
    await peer.ready()
    return refused_unknown(await peer.ask("session/unknown", {"sessionId": "none"}))


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
        raise differs("opened a session without a folder")
    if response.error.code != INVALID_PARAMS:
        raise differs(f"refused: {described(response.error)}, not {INVALID_PARAMS}")
    return f"refused: {described(response.error)}"
