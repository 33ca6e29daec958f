"""The steps of a scripted agent: a step is carried out when a byte comes through a named pipe.

Standard library only: the agents are programs of their own.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TypeAlias

Message: TypeAlias = dict[str, Any]
LOCK = threading.Lock()
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEklEQVR4nGP4z8DAAMIM/4EAAB/uBfttrYqqAAAA"
    "AElFTkSuQmCC"
)
"""A PNG image, in base64."""
EVERYTHING = "Say everything."
"""The prompt whose turn has all steps."""


def send(*messages: Message) -> None:
    """Write messages in one piece."""
    with LOCK:
        sys.stdout.write("".join(json.dumps(each) + "\n" for each in messages))
        sys.stdout.flush()


def received() -> Iterator[Message]:
    """Yield the messages of the host."""
    for line in sys.stdin:
        yield json.loads(line)


def with_appended(value: Any, text: str, marks: Collection[tuple[str, ...]], key: str = "") -> Any:
    """Return a copy of a message or a list of them, with a text after each string that has a mark.

    Ids have no mark, so the turn still ends.
    """
    if isinstance(value, dict):
        return {name: with_appended(each, text, marks, name) for name, each in value.items()}
    if isinstance(value, list):
        return [with_appended(each, text, marks, key) for each in value]
    if isinstance(value, str) and any(mark in value for step in marks for mark in step):
        return value + (json.dumps(text)[1:-1] if key == "partial_json" else text)
    return value


def play(pipe: Path, steps: list[list[Message]]) -> None:
    """Write the messages of each step once a byte has been read from the pipe."""
    with pipe.open("rb", buffering=0) as bytes_read:
        for step in steps:
            if not bytes_read.read(1):
                return
            send(*step)
