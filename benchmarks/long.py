"""What a viewer waits for who comes to a long session: its first snapshot, and a page of `history`,
beside those of a short one.

    python benchmarks/long.py --events 1000 1000000
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import msgspec

import lab
from agentrt import Limits
from agentrt._core.model.content import Text
from agentrt._core.model.events import (
    Event,
    Item,
    ItemClosed,
    ItemOpened,
    TextDelta,
    ToolCall,
    TurnEnded,
    TurnStarted,
)
from agentrt._core.model.log import Log
from agentrt._core.model.state import SessionState
from agentrt._serve.feed import Feed

WORDS = 13
"""Pieces of an answer; a turn has seven events more."""

TURN = WORDS + 7


def turn(number: int) -> list[Event]:
    """A prompt, a tool call and an answer."""
    id, first = f"t{number}", 3 * number
    user, tool, text = (f"i{first + n}" for n in range(3))
    prompt = [Text(f"prompt {number}")]
    shown = Item(id=user, type="user", turn=id, status="completed", content=tuple(prompt))
    call = Item(
        id=tool, type="tool", turn=id, tool=ToolCall(call=tool, title="ls", input={"path": "."})
    )
    return [
        TurnStarted(id, "user", list(prompt)),
        ItemOpened(shown),
        ItemOpened(call),
        ItemClosed(tool, "completed"),
        ItemOpened(Item(id=text, type="text", turn=id)),
        *(TextDelta(text, "some words ") for _ in range(WORDS)),
        ItemClosed(text, "completed"),
        TurnEnded(turn=id, outcome="completed"),
    ]


def session(events: int) -> Log:
    log = Log("s1", "e1", Limits(), SessionState())
    for number in range(events // TURN):
        log.extend(turn(number), 1000)
    return log


def seconds(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, nargs="+", default=[1000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--rows", help=lab.ROWS)
    asked = parser.parse_args()
    logs = {events: session(events) for events in asked.events}

    def first(log: Log) -> bytes:
        feed = Feed(log, Limits(), lambda *_: None)
        return feed.snapshot(None, 0.0)[1]

    def page(log: Log, item: str) -> bytes:
        return msgspec.json.encode(log.history(item))

    def whole(log: Log) -> bytes:
        return msgspec.json.encode(log.snapshot())

    for events, log in logs.items():  # also what the first look at a session costs once
        print(f"{events} events: the very first took {seconds(lambda log=log: first(log)):.6f} s")
    newest = {events: log.recent().earlier or "i0" for events, log in logs.items()}
    ways: dict[str, Callable[[int], object]] = {
        "snapshot": lambda events: first(logs[events]),
        "page before it": lambda events: page(logs[events], newest[events]),
        "the oldest page": lambda events: page(logs[events], "i3"),
        "all of it, as a program gets it": lambda events: whole(logs[events]),
    }
    for name, way in ways.items():
        took: dict[int, list[float]] = {events: [] for events in logs}
        for _ in range(asked.rounds if "all" not in name else 5):
            for events in logs:  # interleaved: what else the machine does hits all alike
                took[events].append(seconds(lambda events=events, way=way: way(events)))
        for events, each in took.items():
            size = len(first(logs[events])) if name == "snapshot" else 0
            told = f", {size} bytes" if size else ""
            each_ms = [took_s * 1e3 for took_s in each]
            print(f"{events:>9} events, {name}: {statistics.median(each_ms):.3f} ms{told}")
            lab.keep(asked.rows, "long", f"{events:,} events: {name}, ms", each_ms)


if __name__ == "__main__":
    main()
