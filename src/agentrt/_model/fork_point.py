"""Where in a conversation a copy of it ends, in words that the agent understands."""

from __future__ import annotations

from msgspec import Struct

from .._errors import LocalProtocolError
from .content import JsonObject
from .events import Item
from .state import SessionState


class ForkPoint(Struct, frozen=True, kw_only=True):
    """The end of the last turn that a copy of a conversation has (`Session.fork_point`)."""

    messages: tuple[str, ...]
    """What the agent calls what was said and done in that turn, the newest first: its answers, then
    all else."""
    text: str = ""
    """Of the first of them."""
    occurrence: int = 1
    """How often the agent had said exactly that by then: some know its messages no more by their
    ids in another process."""


def check_forks(agent: str, capabilities: JsonObject, what: str = "fork") -> None:
    """Raises `LocalProtocolError` if an agent has said that it cannot; `what` is `fork`, or
    `fork_at` for a fork at a turn."""
    if capabilities.get(what) is False:
        end = "" if what == "fork" else " at an earlier turn: only at its end"
        raise LocalProtocolError(f"{agent} cannot fork a session{end}")


def fork_point(state: SessionState, at: str) -> ForkPoint:
    """The end of a turn. `at`: its id, or that of an item that was shown in it.

    Raises `LocalProtocolError` if there is no such thing, the turn still runs, or the agent has no
    name for anything in it.
    """
    shown = _turn_at(_roots(state), state, at)
    said = [item for item in reversed(shown) if item.type == "text" and item.message is not None]
    names = [item.message for item in said]
    for item in reversed(shown):
        names += [item.message, item.tool.call if item.tool is not None else None]
    messages = tuple(dict.fromkeys(name for name in names if name))
    if not messages:
        raise LocalProtocolError(
            "the agent has no name for what was said there: fork at a turn before or behind it"
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
    """What was shown up to the end of that turn, or at all, without what sub-agents did. Raises as
    `fork_point`."""
    items = _roots(state)
    if at is None:
        return items
    last = _turn_at(items, state, at)[-1]
    return items[: items.index(last) + 1]


def _roots(state: SessionState) -> list[Item]:
    return [item for item in state.items.values() if item.parent is None]


def _turn_at(items: list[Item], state: SessionState, at: str) -> list[Item]:
    """What was shown in a turn, without what sub-agents said. What an agent has repeated of another
    process's conversation has no turns: there it is what stands between two prompts."""
    meant = state.items.get(at)
    if meant in items and meant is not None and meant.turn is None and meant.replay:
        first = last = items.index(meant)
        while first and items[first].type != "user" and items[first - 1].replay:
            first -= 1
        while last + 1 < len(items) and items[last + 1].replay and items[last + 1].type != "user":
            last += 1
        return items[first : last + 1]
    turn = at if meant is None else meant.turn
    record = state.turns.get(turn) if turn is not None else None
    if record is None:
        raise LocalProtocolError(f"the conversation has no turn and no message {at!r:.100}")
    if record.outcome is None:
        raise LocalProtocolError("that turn still runs: a fork ends where a turn has ended")
    return [item for item in items if item.turn == turn]
