"""Finds out by experiment where each leaf of an agent's messages shows.

A leaf shows if its value occurs in the events that its message leads to. A boolean or an enum value
also shows if another value leads to other events.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from .leaves import Example, Leaf, LeafPath

Events: TypeAlias = list[Any]
"""Events as JSON values."""
Shown: TypeAlias = dict[LeafPath, str]
"""By path, the event and the field in which the leaf shows, or an empty text."""


def declared(name: str) -> dict[str, str]:
    """Return the reasons in `NAME.toml`, by the regular expression of the paths."""
    text = (Path(__file__).parent / f"{name}.toml").read_text()
    return {
        path: each["reason"] for each in tomllib.loads(text)["declared"] for path in each["paths"]
    }


def missing(shown: Shown, reasons: Mapping[str, str]) -> list[LeafPath]:
    """Return the leaves that neither show nor have a reason."""
    return [path for path, place in shown.items() if not place and not reason(path, reasons)]


def reason(path: LeafPath, reasons: Mapping[str, str]) -> str | None:
    """Return the reason for which a leaf does not show, or None."""
    return next((why for each, why in reasons.items() if re.fullmatch(each, path)), None)


def places(value: Any, wanted: Any, at: str) -> Iterator[str]:
    """Yield the fields in which a value occurs."""
    if isinstance(value, dict):
        for name, each in value.items():
            if isinstance(wanted, str) and wanted in name:
                yield at
            yield from places(each, wanted, f"{at}.{name}")
    elif isinstance(value, list | tuple):
        for each in value:
            yield from places(each, wanted, at)
    elif isinstance(wanted, str):
        if isinstance(value, str) and wanted in value:
            yield at
    elif (isinstance(value, str) and str(wanted) in value) or (
        not isinstance(value, bool) and value == wanted
    ):
        yield at


def probe(examples: Iterable[Example], play: Callable[[Any], Events]) -> Shown:
    """Return where each leaf of the examples shows. `play` returns the events of a message."""
    shown: Shown = {}
    outcomes: dict[LeafPath, dict[str, str]] = {}
    values: dict[LeafPath, dict[str, LeafPath]] = {}
    for example in examples:
        events = play(example.message)
        for leaf in example.leaves:
            key = _key(leaf)
            shown.setdefault(key, "")
            if not shown[key]:
                shown[key] = _found(events, leaf)
            if leaf.kind in ("bool", "enum", "id"):
                # Only examples that differ in this leaf alone are compared.
                others = [each for each in example.leaves if each.path != leaf.path]
                group = f"{leaf.path} {hash(tuple(map(repr, others)))}"
                outcomes.setdefault(group, {})[str(leaf.value)] = json.dumps(events)
                values.setdefault(group, {})[str(leaf.value)] = key
    for group, found in outcomes.items():
        if len(found) > 1:
            for value, key in values[group].items():
                rest = [each for other, each in found.items() if other != value]
                if not shown[key] and any(each != found[value] for each in rest):
                    shown[key] = DIFFERS
    return shown


DIFFERS: Final = "other events"
"""A leaf shows, by a difference of the events."""


def _key(leaf: Leaf) -> str:
    return f"{leaf.path} = {leaf.value}" if leaf.kind in ("bool", "enum") else leaf.path


def _found(events: Events, leaf: Leaf) -> str:
    if leaf.kind in ("bool", "id"):
        return ""
    for event in events:
        for place in places(event, leaf.value, str(event.get("kind"))):
            return place
    return ""
