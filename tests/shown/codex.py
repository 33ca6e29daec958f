"""Codex's messages in the middle of a turn, and the events that they lead to."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from agentrt.effects import TurnFinished
from codex.codex_kit import THREAD, Peer, prompted
from model.talk import Talk

from .ignored import BY_CODEX
from .leaves import Examples, Leaf, leaves_of
from .probe import Events, Shown, declared, probe

FOLDER: Final = Path(__file__).parent / "recorded"
SCHEMA: Final = FOLDER / "codex-schema.json"
"""What the pinned codex sends, by its own schema; made by `tests/agents/codex_schema.py`."""
RECORDED: Final = FOLDER / "codex.ndjson"
"""What a real one said; made by `tests/agents/record_codex.py`."""
TURN: Final = "u-1"
FIXED: Final = {
    "threadId": THREAD,
    "senderThreadId": THREAD,
    "turnId": TURN,
    "turn.id": TURN,
    "turn.rootTurnId": TURN,
}

PREFERRED: Final = {
    "mcpServer/startupStatus/updated.status": "failed",
    "item/started.item": "commandExecution",
    "item/completed.item": "commandExecution",
    "item/completed.item<subAgentActivity>.kind": "completed",
}

DECLARED: Final = {
    **{rf"{re.escape(method)}\b.*": reason for method, reason in BY_CODEX.items()},
    **declared("codex"),
}
"""Leaves that no event shows, as regular expressions, each with the reason."""


def definitions() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SCHEMA.read_text())
    return found


def play(message: Any) -> Events:
    """Return the events of one message in the middle of a turn."""
    return told(prompted(), [message])


def told(peer: Peer, messages: list[Any]) -> Events:
    """Return the events of messages."""
    talk = Talk()
    talk.begin([])
    talk.events()
    for message in messages:
        for effect in peer.says(message):
            if isinstance(effect, TurnFinished):
                talk.conversation.end(
                    effect.outcome,
                    stop_reason=effect.stop_reason,
                    usage=effect.usage,
                    error=effect.error,
                )
            else:
                talk.tell(effect)
        talk.step()
    events: Events = msgspec.to_builtins(talk.events())
    return events


def shown() -> Shown:
    """Return where each leaf of codex's notifications shows."""
    schema = definitions()
    examples = Examples(schema, FIXED, PREFERRED)
    found: Shown = {}
    for variant in schema["ServerNotification"]["oneOf"]:
        method = variant["properties"]["method"]["enum"][0]
        if method in BY_CODEX:
            continue
        params = variant["properties"].get("params", {"type": "object", "properties": {}})

        def send(params: Any, method: str = method) -> Events:
            return play({"method": method, "params": params})

        found |= probe(examples.of(method, params), send)
    return found


def recorded() -> list[Leaf]:
    """Return the leaves of the notifications of a recorded session."""
    found: list[Leaf] = []
    for line in RECORDED.read_text().splitlines():
        message = json.loads(line)
        if "method" in message and "id" not in message:
            found += leaves_of(message.get("params", {}), message["method"])
    return found
