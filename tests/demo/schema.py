"""Holds every line of the demo agent against the official schema of ACP's version 1.

The schema's root accepts almost anything, because it has room for extensions. So a message is held
against the definition of its own method, and no key may be in it that the schema does not know.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMA = Path(__file__).parents[1] / "acp" / "schema" / "schema.json"

FREE = ("rawInput", "rawOutput", "_meta", "data", "requestedSchema")
"""Keys whose content is nobody's business, or (a form) has keys of its own."""

DRAFTS = {"fork"}
"""What only the unstable schema has."""


@cache
def _schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(SCHEMA.read_text())
    return loaded


@cache
def _validator(definition: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": _schema()["$defs"]})


@cache
def _definitions() -> dict[tuple[str, str], str]:
    """(method, "Request" | "Response" | "Notification") to the name of its definition."""
    found = {}
    for name, definition in _schema()["$defs"].items():
        for suffix in ("Request", "Response", "Notification"):
            if "x-method" in definition and name.endswith(suffix):
                found[definition["x-method"], suffix] = name
    return {**found, ("session/fork", "Response"): "NewSessionResponse"}


@cache
def _known_keys() -> frozenset[str]:
    keys: set[str] = set()

    def collect(node: object) -> None:
        if isinstance(node, dict):
            keys.update(node.get("properties", {}))
            for value in node.values():
                collect(value)
        elif isinstance(node, list):
            for value in node:
                collect(value)

    collect(_schema()["$defs"])
    return frozenset(keys | DRAFTS)


def _check_keys(node: object) -> None:
    if isinstance(node, dict):
        assert not node.keys() - _known_keys(), f"unknown keys in {node}"
        for key, value in node.items():
            if key not in FREE:
                _check_keys(value)
    elif isinstance(node, list):
        for value in node:
            _check_keys(value)


def check(message: dict[str, Any], method: str | None = None) -> None:
    """Raise if the message is not valid; `method` is what a response answers."""
    assert message["jsonrpc"] == "2.0", message
    if "method" in message:
        kind, body = ("Request" if "id" in message else "Notification"), message["params"]
        assert message.keys() == {"jsonrpc", "method", "params"} | ({"id"} & message.keys())
        definition = _definitions()[message["method"], kind]
    elif "error" in message:
        assert message.keys() == {"jsonrpc", "id", "error"}
        definition, body = "Error", message["error"]
    else:
        assert message.keys() == {"jsonrpc", "id", "result"}
        assert method is not None, f"an answer that nobody asked for: {message}"
        definition, body = _definitions()[method, "Response"], message["result"]
    _validator(definition).validate(body)
    _check_keys(body)
