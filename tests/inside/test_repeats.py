"""Notices that come again and again.

A hundred thousand notices are counted here without an agent that sends them.
"""

from __future__ import annotations

from agentrt._core.model.repeats import REPORTED_NOTICES, NoticeLimiter, listed
from agentrt.events import Notice

NOISE = Notice("warning", "noise", "it rattles", "tick")


def test_the_first_are_all_reported_and_later_ones_ever_more_rarely() -> None:
    repeats = NoticeLimiter()
    told = [notice.message for _ in range(100_000) for notice in repeats.worth_reporting(NOISE)]
    assert told[:REPORTED_NOTICES] == [NOISE.message] * REPORTED_NOTICES
    assert told[REPORTED_NOTICES] == "it rattles (32 times so far)"
    assert told[-1] == "it rattles (65536 times so far)"
    assert len(told) == REPORTED_NOTICES + 12


def test_what_happened_often_at_once_is_counted_so() -> None:
    repeats = NoticeLimiter()
    assert repeats.worth_reporting(NOISE, times=1000)[0].message == "it rattles (1000 times so far)"
    assert repeats.worth_reporting(NOISE, times=20) == []
    assert repeats.worth_reporting(NOISE, times=20)[0].message == "it rattles (1040 times so far)"


def test_things_are_counted_apart_but_not_without_end() -> None:
    repeats = NoticeLimiter()
    told = sum(len(repeats.worth_reporting(NOISE, about=str(n))) for n in range(10_000))
    assert told < 300


def test_names_in_a_row_are_named_once_and_not_all_of_them() -> None:
    assert listed(["make"] * 80) == "make (80 times)"
    assert listed(["make", "serve", "make"]) == "make (2 times), serve"
    assert listed(map(str, range(7))) == "0, 1, 2, 3, 4 and 2 more"
    assert listed([]) == ""
