"""Finds out by experiment what a leaf of a recorded conversation of version 2 leads to: the
conversation is repeated with another value in this leaf."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from agentrt.effects import Write

from . import acp  # before the next one: it adds the folder
from .leaves import Leaf, LeafPath, leaves_of, marker

from acp2_replay import TRANSCRIPTS, Replay, rows  # isort: skip

Pointer: TypeAlias = tuple[str | int, ...]
ANSWERS: Final = ("initialize", "session/new", "session/resume", "session/prompt")
"""The requests whose answers a driver reads by itself. Others are answered to their callers."""
TRIES: Final = 6
"""Places of a leaf that are tried."""


class Spot(NamedTuple):
    """A place of a leaf in a recording."""

    file: Path
    row: int
    pointer: Pointer
    value: Any


@cache
def spots() -> dict[LeafPath, list[Spot]]:
    """Return the places of each leaf that the agents sent: in requests, notifications, results."""
    found: dict[LeafPath, list[Spot]] = {}
    for file in TRANSCRIPTS:
        asked: dict[Any, str] = {}
        for number, (direction, message) in enumerate(rows(file)):
            if direction == "c>a":
                asked[message.get("id")] = message.get("method", "")
                continue
            method, part = message.get("method"), "params"
            if method is None:
                method, part = asked.get(message.get("id")), "result"
                if method not in ANSWERS:
                    continue
            root = method if part == "params" else f"{method} result"
            for leaf, pointer in _located(message.get(part), root, (part,)):
                found.setdefault(leaf.path, []).append(Spot(file, number, pointer, leaf.value))
    return found


def _located(value: Any, path: LeafPath, at: Pointer) -> Iterator[tuple[Leaf, Pointer]]:
    """Yield the leaves of a message with their places, in the order of `leaves_of`."""
    pointers = list(_pointers(value, at))
    yield from zip(leaves_of(value, path, acp.TAGS), pointers, strict=True)


def _pointers(value: Any, at: Pointer) -> Iterator[Pointer]:
    if isinstance(value, dict):
        for name, each in value.items():
            tag = next((t for t in acp.TAGS if isinstance(value.get(t), str)), None)
            if tag is None or name not in acp.TAGS:
                yield from _pointers(each, (*at, name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _pointers(each, (*at, number))
    elif value is not None:
        yield at


def shows(path: LeafPath) -> bool:
    """True if another value of a leaf leads to other effects than those that were recorded."""
    several = spots()[path]
    step = max(1, len(several) // TRIES)
    return any(_changes(spot, path) for spot in several[::step][:TRIES])


def _changes(spot: Spot, path: LeafPath) -> bool:
    changed = rows(spot.file)
    direction, message = changed[spot.row]
    message = copy.deepcopy(message)
    *inner, last = spot.pointer
    holder = message
    for name in inner:
        holder = holder[name]
    holder[last] = _other(spot.value, path)
    changed[spot.row] = direction, message
    return _effects(changed) != _recorded(spot.file)


@cache
def _recorded(file: Path) -> list[str]:
    return _effects(rows(file))


def _effects(found: list[tuple[str, Any]]) -> list[str]:
    """Return the effects of a conversation, without those that only answer the agent."""
    replay = Replay()
    replay.run_rows(found)
    return [repr(effect) for effect in replay.all if not isinstance(effect, Write)]


def _other(value: Any, path: LeafPath) -> Any:
    match value:
        case bool():
            return not value
        case str():
            return marker(path)
        case _:
            return 1_000_003 + len(path)
