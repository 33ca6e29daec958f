"""The events that lead from what is known to a snapshot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentrt.display import difference
from agentrt.events import (
    Event,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    PermissionClosed,
    Snapshot,
    TurnEnded,
    TurnStarted,
)
from agentrt.lowlevel import SessionState

from .stories import STORIES
from .talk import Rules, shown
from .test_golden import frames

TRACES = {name: frames(name) for name in STORIES}


def events(name: str, start: int, end: int) -> list[Event]:
    return [event for seq, event in TRACES[name][1::2] if start < seq <= end]


def at(name: str, seq: int) -> Snapshot:
    snapshot: Snapshot = TRACES[name][2 * seq]
    return snapshot


@given(st.sampled_from(list(STORIES)), st.data())
def test_they_make_the_snapshot_of_any_state_before_it(name: str, data: st.DataObject) -> None:
    newest = len(TRACES[name]) // 2
    end = data.draw(st.integers(0, newest))
    start = data.draw(st.integers(0, end))
    state = SessionState(at(name, 0).state.agent)
    for event in events(name, 0, start):
        state.apply(event)
    for event in difference(state, at(name, end)):
        state.apply(event)
    assert shown(state, end) == at(name, end)
    assert difference(state, at(name, end)) == []


@given(st.sampled_from(list(STORIES)), st.data())
def test_they_keep_the_rules_of_a_log(name: str, data: st.DataObject) -> None:
    newest = len(TRACES[name]) // 2
    start = data.draw(st.integers(0, newest))
    state, rules = SessionState(at(name, 0).state.agent), Rules()
    for event in events(name, 0, start):
        state.apply(event)
        rules.check(event)
    for event in difference(state, at(name, newest)):
        rules.check(event)


@pytest.mark.parametrize("name", STORIES)
def test_nothing_comes_twice_that_was_known(name: str) -> None:
    newest = len(TRACES[name]) // 2
    whole = events(name, 0, newest)
    for start in range(newest + 1):
        state = SessionState(at(name, 0).state.agent)
        for event in whole[:start]:
            state.apply(event)
        both = [*whole[:start], *difference(state, at(name, newest))]
        for kind in (TurnStarted, TurnEnded, ItemOpened, ItemClosed, PermissionClosed):
            ids = [_id(event) for event in both if isinstance(event, kind)]
            assert len(set(ids)) == len(ids)
        assert _said(both) == _said(whole)


def _id(event: Event) -> str:
    match event:
        case ItemOpened(item=item):
            return item.id
        case ItemClosed(item=id) | TurnStarted(turn=id) | TurnEnded(turn=id):
            return id
        case PermissionClosed(request=id):
            return id
    raise AssertionError(event)


def _said(events: list[Event]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for event in events:
        if isinstance(event, ItemDelta):
            texts[event.item] = texts.get(event.item, "") + event.text
    return texts


def test_what_is_not_there_any_more_is_closed_and_what_is_over_stays() -> None:
    state = SessionState()
    state.apply(ItemOpened(Item(id="i1", type="text", status="completed")))
    state.apply(ItemOpened(Item(id="i2", type="tool")))
    now = structs.replace(SessionState().snapshot("s", "e", 9), earlier="i3")
    assert difference(state, now) == [ItemClosed("i2", "orphaned")]
