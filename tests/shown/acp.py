"""What an ACP agent says in the middle of a turn, and the events that it leads to."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from agentrt.effects import ServiceRequested, TurnFinished
from model.talk import Talk

from .leaves import Example, Examples, Leaf, leaves_of
from .probe import Events, Shown, declared, probe

FOLDER: Final = Path(__file__).parents[1] / "acp"
sys.path.append(str(FOLDER))

from acp_kit import Peer, opened, opened2  # noqa: E402 - the folder has the name of a library

FIXED: Final = {"sessionId": "s1", "compactionId": "k1", "currentModeId": "plan"}
TAGS: Final = ("sessionUpdate", "type")
PREFERRED: Final = {"session/update.update<compaction_update>.status": "completed"}
MODES: Final = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}],
}
MESSAGES: Final = {
    "session/update": ("SessionNotification", "UpdateSessionNotification"),
    "session/request_permission": ("RequestPermissionRequest",),
    "elicitation/create": ("CreateElicitationRequest",),
}
"""The definitions of what an agent sends, by method: the first that a schema has."""
DECLARED: Final = declared("acp")


class Version(NamedTuple):
    """A version of the protocol."""

    schema: Path
    open: Callable[..., Peer]


VERSIONS: Final = {
    1: Version(FOLDER / "schema" / "schema.json", opened),
    2: Version(FOLDER / "schema" / "schema2.json", opened2),
}


def play(version: int, method: str, params: Any) -> Events:
    """Return the events of one message in the middle of a turn."""
    session = {"modes": MODES} if version == 1 else None
    peer = VERSIONS[version].open(session=session)
    peer.prompt()
    talk = Talk()
    talk.begin([])
    talk.events()
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    if method != "session/update":
        message["id"] = 7
    messages = [message]
    if method == "session/update" and "chunk" in str(params["update"].get("sessionUpdate")):
        end = {"sessionUpdate": "compaction_update", "compactionId": "k1", "status": "completed"}
        messages.append({**message, "params": {**params, "update": end}})
    for each in messages:
        for effect in peer.say(each):
            if isinstance(effect, TurnFinished):
                talk.conversation.end(effect.outcome, stop_reason=effect.stop_reason)
            elif not isinstance(effect, ServiceRequested):
                talk.tell(effect)
        talk.step()
    events: Events = msgspec.to_builtins(talk.events())
    return events


def examples(version: int, method: str) -> Iterator[Example]:
    """Yield the examples of a message."""
    schema: dict[str, Any] = json.loads(VERSIONS[version].schema.read_text())["$defs"]
    definition = next(schema[name] for name in MESSAGES[method] if name in schema)
    return Examples(schema, FIXED, PREFERRED).of(method, definition)


def shown(version: int) -> Shown:
    """Return where each leaf of an agent's messages shows."""
    found: Shown = {}
    for method in MESSAGES:

        def send(params: Any, method: str = method) -> Events:
            return play(version, method, params)

        found |= probe(examples(version, method), send)
    return found


def recorded() -> list[Leaf]:
    """Return the leaves of what real agents said in version 1."""
    found: list[Leaf] = []
    for file in sorted((FOLDER / "transcripts").glob("*.ndjson")):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            if row["dir"] != "<" or not isinstance(row["msg"], dict):
                continue
            method = row["msg"].get("method")
            if method in MESSAGES:
                found += leaves_of(row["msg"]["params"], method, TAGS)
    return found
