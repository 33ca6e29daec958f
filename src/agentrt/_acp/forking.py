"""Where a fork ends: ACP has no word for it. This is the one of JetBrains' Air, which the adapters
of Claude and of Codex take, and so does agentrt's own server."""

from __future__ import annotations

from hashlib import sha256

from .._model.content import JsonObject
from .._model.fork_point import ForkPoint


def with_point(meta: JsonObject | None, point: ForkPoint) -> JsonObject:
    """The `_meta` of a `session/fork` that ends there."""
    said = sha256(point.text.encode("utf-8", "surrogatepass")).hexdigest()
    fork = {
        "version": 1,
        "messageId": point.messages[0],
        "messageFingerprint": f"sha256:{said}",
        "messageOccurrence": point.occurrence,
    }
    given = meta or {}
    jetbrains = given.get("jetbrains") or {}
    air = {**(jetbrains.get("air") or {}), "fork": fork}
    return {**given, "jetbrains": {**jetbrains, "air": air}}
