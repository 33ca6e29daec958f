"""The point at which a fork ends, which ACP does not define.

This is the extension of JetBrains' Air; the adapters of Claude and of Codex accept it, and so does
agentrt's own server.
"""

from __future__ import annotations

from hashlib import sha256

from ..model.content import JsonObject
from ..model.fork_point import ForkPoint


def with_point(meta: JsonObject | None, point: ForkPoint) -> JsonObject:
    """Return the `_meta` of a `session/fork` that ends at `point`."""
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
