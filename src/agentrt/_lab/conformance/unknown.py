"""Finds messages that agentrt's tables do not know, with agentrt's own drivers.

The recorded messages of a check are given to a fresh driver; its handshake is answered here.
Messages that it reports as unknown are new in the agent, or missing in agentrt: both are worth a
look when an agent has a new version.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from ..._version import __version__
from ...agents import ProtocolName
from ...effects import Write
from ...events import JsonObject, Notice
from ...lowlevel import (
    AcpDriver,
    ClaudeDriver,
    CodexClientInfo,
    CodexDriver,
    Driver,
    Effect,
    Implementation,
    NewKey,
    Opening,
    client_capabilities,
)
from .check import AcpVersion

_SESSION: Final = "conformance"


def _acp(new_key: NewKey, version: AcpVersion) -> Driver:
    """Return a driver of ACP."""
    client = Implementation("agentrt-conformance", __version__)
    return AcpDriver(new_key, capabilities=client_capabilities(), client=client, version=version)


def _claude(new_key: NewKey, version: AcpVersion) -> Driver:
    return ClaudeDriver(new_key=new_key)


def _codex(new_key: NewKey, version: AcpVersion) -> Driver:
    return CodexDriver(new_key, client=CodexClientInfo("agentrt-conformance", __version__))


_DRIVERS: Final[Mapping[ProtocolName, Callable[[NewKey, AcpVersion], Driver]]] = {
    "acp": _acp,
    "claude": _claude,
    "codex": _codex,
}
_COUNT: Final = re.compile(r" \(\d+ times so far\)$")
"""The end of a notice that stands for several."""
_GREETINGS: Final[Mapping[AcpVersion, JsonObject]] = {
    1: {"protocolVersion": 1, "agentCapabilities": {}},
    2: {"protocolVersion": 2, "capabilities": {"session": {}}},
}
"""The answers to `initialize` that choose a version of ACP."""


def unknown_messages(
    protocol: ProtocolName, messages: Iterable[Any], acp_version: AcpVersion = 1
) -> list[str]:
    """Return a sentence for each kind of message that the driver of a protocol does not know."""
    driver = _DRIVERS[protocol](map("k{}".format, itertools.count()).__next__, acp_version)
    effects = driver.start(Opening(cwd="/"))
    while protocol == "acp" and (answers := list(_answers(effects, acp_version))):
        effects = [effect for answer in answers for effect in driver.receive(answer)]
    found: dict[str, None] = {}
    for message in messages:
        if isinstance(message, dict) and "result" not in message and "error" not in message:
            for effect in driver.receive(_line(_of_session(message))):
                if isinstance(effect, Notice) and effect.code == "unknown_update":
                    found[_COUNT.sub("", effect.message)] = None
    return list(found)


def _answers(effects: Iterable[Effect], version: AcpVersion) -> Iterator[bytes]:
    """Yield the answers to the driver's handshake."""
    results = {"initialize": _GREETINGS[version], "session/new": {"sessionId": _SESSION}}
    for effect in effects:
        if isinstance(effect, Write):
            for line in effect.data.splitlines():
                asked = msgspec.json.decode(line)
                if (result := results.get(asked.get("method"))) is not None:
                    yield _line({"jsonrpc": "2.0", "id": asked["id"], "result": result})


def _of_session(message: JsonObject) -> JsonObject:
    """Return a notification as one of the driver's own session."""
    params = message.get("params")
    if isinstance(params, dict) and "sessionId" in params:
        return {**message, "params": {**params, "sessionId": _SESSION}}
    return message


def _line(message: JsonObject) -> bytes:
    """Return a message as a line."""
    return msgspec.json.encode(message) + b"\n"
