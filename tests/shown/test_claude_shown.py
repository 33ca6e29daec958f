"""Everything that Claude Code was seen to send is shown, or is declared with a reason."""

from __future__ import annotations

import re

import pytest

from . import claude
from .claude import OLDEST
from .ignored import BY_CLAUDE, KNOWN_TO_CLAUDE
from .probe import missing, reason

NOT_COUNTED = ("identifies ", "agentrt takes the time", "encrypted ")
"""Beginnings of the reasons of leaves that are no information: ids, times, encrypted data."""


@pytest.mark.slow
def test_each_leaf_of_each_recorded_line_shows_or_is_declared() -> None:
    assert missing(claude.shown(), claude.DECLARED) == []


@pytest.mark.slow
def test_no_declaration_is_idle() -> None:
    hidden = [path for path, place in claude.shown().items() if not place]
    idle = [
        each
        for each in claude.declared("claude")
        if not any(re.fullmatch(each, path) for path in hidden)
    ]
    assert idle == []


@pytest.mark.slow
def test_what_is_declared_as_a_repetition_shows_where_it_is_repeated() -> None:
    assert [by for by in claude.REPEATED.values() if not claude.shown().get(by)] == []


@pytest.mark.slow
def test_at_most_a_third_of_the_leaves_is_declared_and_repeats_nothing_shown() -> None:
    counted = {
        path: place
        for path, place in claude.shown().items()
        if place or not (reason(path, claude.DECLARED) or "").startswith(NOT_COUNTED)
    }
    hidden = [
        path
        for path, place in counted.items()
        if not place and reason(path, claude.REPEATED) is None
    ]
    assert len(hidden) <= len(counted) / 3


def test_the_oldest_and_the_newest_supported_versions_are_recorded() -> None:
    assert OLDEST in claude.versions()
    assert len(claude.versions()) >= 4


def test_each_type_of_message_is_recorded_or_ignored_with_a_reason() -> None:
    found = claude.recordings()
    names = {row.message["type"] for recording in found for row in recording if not row.sent}
    assert KNOWN_TO_CLAUDE - names - set(BY_CLAUDE) == set()
