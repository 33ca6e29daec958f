"""The coverage tests find planted defects: an event loses a field, a leaf its reason, or a message
gets a new field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from . import acp, claude, codex
from .leaves import Example, Examples, Leaf, leaves_of
from .probe import Events, Shown, missing, probe, reason
from .test_codex_shown import is_known

Play = Callable[[Any], Events]


class Protocol(NamedTuple):
    """A message of a protocol, whose leaves are looked for."""

    shown: Callable[[Callable[[Events], Events]], Shown]
    """Return where the leaves of the message show, after a change of the events."""
    declared: Mapping[str, str]
    field: str
    """A field of an event that shows a leaf."""
    hidden: str
    """A leaf that is declared."""
    known: Callable[[Shown], bool]
    """True if the message with a field of an unknown name counts as covered."""


def _codex() -> Protocol:
    method = "warning"
    schema = codex.definitions()
    [params] = [
        each["properties"]["params"]
        for each in schema["ServerNotification"]["oneOf"]
        if each["properties"]["method"]["enum"] == [method]
    ]

    def shown(change: Callable[[Events], Events]) -> Shown:
        examples = Examples(schema, codex.FIXED, codex.PREFERRED).of(method, params)
        return probe(examples, lambda each: change(codex.play({"method": method, "params": each})))

    def known(table: Shown) -> bool:
        [leaf] = leaves_of({"invented": "x"}, method)
        return is_known(leaf, table, codex.DECLARED)

    return Protocol(shown, codex.DECLARED, "message", "warning.threadId", known)


def _acp(version: int) -> Protocol:
    method, kind = "session/update", "session_info_update"
    at = f"{method}.update<{kind}>"

    def shown(change: Callable[[Events], Events]) -> Shown:
        all_examples = acp.examples(version, method)
        examples: list[Example] = [
            each for each in all_examples if each.message["update"].get("sessionUpdate") == kind
        ]
        return probe(examples, lambda each: change(acp.play(version, method, each)))

    def known(table: Shown) -> bool:
        return is_known(Leaf(f"{at}.invented", "x", "text"), table, acp.DECLARED)

    return Protocol(shown, acp.DECLARED, "title", f"{at}.updatedAt", known)


def _is_answer(row: claude.Row) -> bool:
    return not row.sent and row.message["type"] == "assistant" and "uuid" in row.message


def _claude() -> Protocol:
    answered = [each for each in claude.recordings() if any(map(_is_answer, each))]
    recording = min(answered, key=len)

    def shown(change: Callable[[Events], Events], found: claude.Recording = recording) -> Shown:
        return claude.shown_in([found], lambda each: change(claude.play(each)))

    def known(table: Shown) -> bool:
        number, row = next((n, each) for n, each in enumerate(recording) if _is_answer(each))
        changed = list(recording)
        changed[number] = claude.Row(False, {**row.message, "invented": "new and free"})
        new = shown(lambda events: events, changed)
        return bool(new["assistant.invented"]) or (
            reason("assistant.invented", claude.DECLARED) is not None
        )

    return Protocol(shown, claude.DECLARED, "text", "assistant.uuid", known)


PROTOCOLS = {
    "codex": _codex,
    "acp": lambda: _acp(1),
    "acp2": lambda: _acp(2),
    "claude": _claude,
}


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> Protocol:
    made: Protocol = PROTOCOLS[request.param]()
    return made


def without(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: without(each, name) for key, each in value.items() if key != name}
    if isinstance(value, list):
        return [without(each, name) for each in value]
    return value


@pytest.mark.slow
def test_a_field_that_events_lose_is_found(protocol: Protocol) -> None:
    before = missing(protocol.shown(lambda events: events), protocol.declared)
    after = missing(
        protocol.shown(lambda events: without(events, protocol.field)), protocol.declared
    )
    assert set(after) > set(before)


@pytest.mark.slow
def test_a_leaf_whose_declaration_is_removed_is_found(protocol: Protocol) -> None:
    shown = protocol.shown(lambda events: events)
    fewer = {
        path: why
        for path, why in protocol.declared.items()
        if reason(protocol.hidden, {path: why}) is None
    }
    assert protocol.hidden not in missing(shown, protocol.declared)
    assert protocol.hidden in missing(shown, fewer)


@pytest.mark.slow
def test_a_field_that_no_table_knows_is_found(protocol: Protocol) -> None:
    assert not protocol.known(protocol.shown(lambda events: events))
