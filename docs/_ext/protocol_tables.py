"""Fills in the tables of `reference/agentrt-v1.md`, which are made from the server's structs.

A line `{protocol} NAME` of that page is replaced: `commands`, `frames`, `events`, `parts`, `types`,
`errors` or `closes`.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx

from agentrt._serve import native_frames, refusal

PAGE = "reference/agentrt-v1"


def load_generator() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "clients/js/generate.py"
    spec = importlib.util.spec_from_file_location("agentrt_client_generator", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _fields(each: Any) -> str:
    if not each.fields:
        return ""
    rows = []
    for one in each.fields:
        meaning = _cell(one.description)
        if one.name == "_meta":
            meaning = "Further data, as in ACP."
        elif one.name == "op":
            meaning = "The operation."
        if one.optional:
            shown = json.dumps(one.default, default=list)
            meaning += " Optional." if one.default is None else f" Default: `{shown}`."
        rows.append((_code(one.name), _code(one.typescript), meaning))
    return _table(("field", "type", "meaning"), rows)


def _about(each: Any) -> str:
    return "\n\n".join(filter(None, (each.summary, each.text)))


def _commands(groups: dict[str, Any]) -> str:
    results = {each.name: each for each in groups["Results"].declarations}
    parts = []
    for each in groups["Commands"].declarations:
        operations = [one.typescript for one in each.fields if one.name == "op"]
        parts.append(f"### `{' '.join([each.tag[1], *map(json.loads, operations)])}`")
        parts += [_about(each), _fields(each)]
        result = native_frames.RESULTS.get(each.cls)
        if result is not None and results[result.__name__].fields:
            parts += [f"The result, `{result.__name__}`:", _fields(results[result.__name__])]
    return "\n\n".join(filter(None, parts))


def _tagged(name: str) -> Callable[[dict[str, Any]], str]:
    def made(groups: dict[str, Any]) -> str:
        parts = []
        for each in groups[name].declarations:
            title = each.name if each.tag is None else each.tag[1]
            parts.append(f"### `{title}`")
            if title != each.name:
                parts.append(f"`{each.name}`: {_about(each)}")
            else:
                parts.append(_about(each))
            parts.append(_fields(each))
        return "\n\n".join(filter(None, parts))

    return made


def fill(text: str) -> str:
    """The text of the page, with its tables."""
    generator = load_generator()
    found, reader = generator.protocol()
    groups = {group.title: group for group in found}
    errors = native_frames.ERROR_CODES.items()
    meanings = generator.close_codes()
    aliases = ((_code(name), _code(reader.alias(name))) for name in generator.ALIASES)
    makers: dict[str, Callable[[], str]] = {
        "commands": lambda: _commands(groups),
        "frames": lambda: _tagged("Server frames")(groups),
        "events": lambda: _tagged("Events")(groups),
        "parts": lambda: _tagged("Parts")(groups),
        "types": lambda: _table(("name", "type"), aliases),
        "errors": lambda: _table(("code", "meaning"), ((_code(c), m) for c, m in errors)),
        "closes": lambda: _table(
            ("code", "name", "meaning"),
            ((str(c.value), _code(c.name), meanings[c.name]) for c in refusal.CloseCode),
        ),
    }
    tables = re.compile(r"^\{protocol\} (\w+)$", re.MULTILINE)
    return tables.sub(lambda found: makers[found[1]](), text)


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    if page == PAGE:
        source[0] = fill(source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
