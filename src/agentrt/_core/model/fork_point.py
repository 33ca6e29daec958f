"""The point at which a copy of a conversation ends, in terms that the agent understands."""

from __future__ import annotations

from ..errors import LocalProtocolError
from .content import JsonObject
from .driver import ForkPoint
from .events import Item
from .state import SessionState


def check_forks(agent: str, capabilities: JsonObject, what: str = "fork") -> None:
    """Raise `LocalProtocolError` if the agent has reported that it cannot fork.

    `what` is the capability: `fork`, or `fork_at` for a fork at a turn.
    """
    if capabilities.get(what) is False:
        end = "" if what == "fork" else " at an earlier turn: only at its end"
        raise LocalProtocolError(f"{agent} cannot fork a session{end}")


def fork_point(state: SessionState, at: str) -> ForkPoint:
    """Return the end of a turn. `at` is its id or that of an item in it.

    Raises `LocalProtocolError` if the id is unknown, the turn still runs, or the agent has no id
    for anything in it.
    """
    shown = _turn_at(_roots(state), state, at)
    said = [item for item in reversed(shown) if item.type == "text" and item.message is not None]
    names = [item.message for item in said]
    for item in reversed(shown):
        names += [item.message, item.tool.call if item.tool is not None else None]
    messages = tuple(dict.fromkeys(name for name in names if name))
    if not messages:
        raise LocalProtocolError(
            "the agent has given no id to the messages of that turn;"
            " fork at the turn before or after it"
        )
    if not said:
        return ForkPoint(messages=messages)
    text, occurrence = said[0].text, 0
    for item in state.items.values():
        occurrence += item.type == "text" and item.parent is None and item.text == text
        if item is said[0]:
            break
    return ForkPoint(messages=messages, text=text, occurrence=occurrence)


def shown_until(state: SessionState, at: str | None) -> list[Item]:
    """Return the items up to the end of that turn, or all, without those of sub-agents.

    Raises the same errors as `fork_point`.
    """
    items = _roots(state)
    if at is None:
        return items
    last = _turn_at(items, state, at)[-1]
    return items[: items.index(last) + 1]


def _roots(state: SessionState) -> list[Item]:
    """Return the items of the conversation without those of sub-agents, in order."""
    return [item for item in state.items.values() if item.parent is None]


def _between_prompts(items: list[Item], at: int) -> list[Item]:
    """Return the prompt before the repeated item `at`, and everything up to the next prompt."""
    first = last = at
    while first and items[first].type != "user" and items[first - 1].replay:
        first -= 1
    while last + 1 < len(items) and items[last + 1].replay and items[last + 1].type != "user":
        last += 1
    return items[first : last + 1]


def _turn_at(items: list[Item], state: SessionState, at: str) -> list[Item]:
    """Return the items of a turn, without those of sub-agents.

    History that an agent repeated from another process has no turns. There, the items between two
    prompts are returned.
    """
    meant = state.items.get(at)
    if meant in items and meant is not None and meant.turn is None and meant.replay:
        return _between_prompts(items, items.index(meant))
    turn = at if meant is None else meant.turn
    record = state.turns.get(turn) if turn is not None else None
    if record is None:
        raise LocalProtocolError(f"the conversation has no turn and no message {at!r:.100}")
    if record.outcome is None:
        raise LocalProtocolError("that turn still runs: a fork ends where a turn has ended")
    return [item for item in items if item.turn == turn]
