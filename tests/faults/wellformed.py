"""What the log of a session must look like, whatever has happened to it."""

from __future__ import annotations

from collections.abc import Sequence

import agentrt
from agentrt import Event, ItemClosed, ItemOpened, PermissionOpened
from agentrt.events import TERMINAL, ItemDelta, ItemUpdated, PermissionClosed


def check_log(events: Sequence[Event]) -> None:
    """One end to each turn, behind the ends of all that was open in it; nothing is touched that is
    not open, and nothing opened twice."""
    turn: str | None = None
    turns: set[str] = set()
    items: dict[str, str | None] = {}
    late: set[str] = set()
    """Tool calls of the running turn that are over: they may still be given their output."""
    closed: set[str] = set()
    asked: dict[str, bool] = {}
    for event in events:
        match event:
            case agentrt.TurnStarted():
                assert turn is None, f"{event.turn} begins inside {turn}"
                assert event.turn not in turns, f"{event.turn} begins twice"
                turn = event.turn
                turns.add(turn)
            case agentrt.TurnEnded():
                assert event.turn == turn, f"{event.turn} ends while {turn} runs"
                left = [item for item, of in items.items() if of == turn]
                assert not left, f"{turn} ends with {left} open"
                open_requests = [key for key, background in asked.items() if not background]
                assert not open_requests, f"{turn} ends with {open_requests} unanswered"
                turn = None
                late.clear()
            case ItemOpened(item=item):
                assert item.id not in items, f"{item.id} opens twice"
                assert item.id not in closed, f"{item.id} opens again"
                if item.tool is not None:
                    late.add(item.id)
                if item.status in TERMINAL:
                    closed.add(item.id)
                else:
                    items[item.id] = item.turn
            case ItemDelta(item=id) | ItemUpdated(item=id):
                assert id in items or id in late, f"{id} grows and is not open"
                if isinstance(event, ItemUpdated) and "turn" in event.patch:
                    assert event.patch["turn"] is None, f"{id} moves to a turn"
                    assert id in items, f"{id} leaves its turn and is not open"
                    items[id] = None
            case ItemClosed(item=id):
                assert id in items, f"{id} closes and is not open"
                del items[id]
                closed.add(id)
            case PermissionOpened(request=key):
                assert key not in asked, f"{key} is asked twice"
                asked[key] = event.background
            case PermissionClosed(request=key):
                assert key in asked, f"{key} is answered and was not asked"
                del asked[key]
    assert turn is None, f"{turn} has no end"
    assert not items, f"left open: {items}"
    assert not asked, f"left unanswered: {asked}"


def outcomes(events: Sequence[Event]) -> list[str]:
    """How the turns ended, in order."""
    return [event.outcome for event in events if isinstance(event, agentrt.TurnEnded)]
