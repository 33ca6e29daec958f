"""Turns that nobody has thought of: events in any order that the log could have, and looks at them
at any time, in any pieces. A socket does not let a client choose the pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Literal
from unittest.mock import patch

import msgspec

from agentrt import Limits
from agentrt._serve import transcript
from agentrt._serve.acpupdates import Updates
from agentrt._serve.acpupdates2 import Updates2
from agentrt._serve.aichunks import TurnMessage
from agentrt._serve.transcript import ItemIndex, ItemReader
from agentrt.events import (
    TERMINAL,
    AgentState,
    ErrorInfo,
    Event,
    Image,
    Item,
    ItemClosed,
    ItemOpened,
    ItemStatus,
    ItemUpdated,
    PermissionClosed,
    PermissionOpened,
    PermissionOption,
    PlanChanged,
    PlanEntry,
    ResourceLink,
    RunningTurn,
    State,
    StateChanged,
    Text,
    TextDelta,
    ThoughtDelta,
    ToolCall,
    TurnEnded,
    TurnStarted,
)
from agentrt.lowlevel import Log, SessionState

TURN = "t1"
AGENT = AgentState("fake", "acp")
OPTIONS = [PermissionOption("y", "Yes", "allow_once"), PermissionOption("n", "No", "reject_once")]
ENDS: tuple[ItemStatus, ...] = ("completed", "failed", "denied", "cancelled", "orphaned")
OUTCOMES = ("completed", "cancelled", "refused", "limit", "failed", "timed_out", "agent_died")


class Story:
    """One turn that goes on at random."""

    def __init__(self, random: Random, *, ring: int = 4096) -> None:
        self.random = random
        limits = msgspec.structs.replace(Limits(), recent_events=ring)
        self.log = Log("s1", "epoch", limits, SessionState(AGENT))
        self.own: set[str] = set()
        """The tools that wait for the client."""
        self._count = 0
        self._speech: str | None = None
        running = State("running", RunningTurn(TURN, "user", 0.0), AGENT)
        self._append(TurnStarted(TURN, "user", [Text("go")]), StateChanged(running))
        self._show("user", status="completed", content=(Text("go"),))

    @property
    def state(self) -> SessionState:
        return self.log.state

    @property
    def over(self) -> bool:
        return self.state.turns[TURN].outcome is not None

    def go_on(self) -> None:
        """One more thing happens, of those that can."""
        tools = [i for i in self._items("tool") if i.status not in TERMINAL]
        acts: list[Callable[[], None]] = [
            self._say,
            self._think,
            self._open,
            self._picture,
            self._plan,
        ]
        if tools:
            tool = self.random.choice(tools)
            acts += [
                lambda: self._update(tool),
                lambda: self._close(tool),
                lambda: self._ask(tool.id),
            ]
        if self.random.random() < 0.2:
            acts += [lambda: self._ask(None)]
        if self.state.permissions:
            acts += [lambda: self.answer(self.random.choice(list(self.state.permissions)))]
        self.random.choice(acts)()

    def end(self) -> None:
        """Close what is open, as every turn's end does."""
        for request in list(self.state.permissions):
            self._append(PermissionClosed(request=request, outcome="cancelled", by="turn"))
        self._end_speech()
        for item in self._items("tool"):
            if item.status not in TERMINAL:
                self._append(ItemClosed(item.id, self.random.choice(("cancelled", "orphaned"))))
        self.own.clear()
        outcome: Any = self.random.choice(OUTCOMES)
        error = ErrorInfo("e", "words") if outcome == "failed" else None
        self._append(
            TurnEnded(turn=TURN, outcome=outcome, error=error),
            StateChanged(State("idle", None, AGENT)),
        )

    def answer(self, request: str) -> None:
        ask = self.state.permissions[request]
        yes = self.random.random() < 0.6
        option = "y" if yes else "n"
        self._append(
            PermissionClosed(request=request, outcome="selected", option=option, by="user")
        )
        item = self.state.items.get(ask.item or "")
        others = [p for p in self.state.permissions.values() if p.item == ask.item]
        if item is not None and item.status == "waiting" and not others:
            if yes:
                self._append(ItemUpdated(item.id, {"status": "running"}))
            else:
                self._append(ItemClosed(item.id, "denied"))

    def run(self, item: str) -> None:
        """The client has run its tool."""
        self.own.discard(item)
        self._append(ItemClosed(item, "completed"))

    def _append(self, *events: Event) -> None:
        for event in events:
            self.log.append(event)
        self.log.publish()

    def _items(self, type: str) -> list[Item]:
        return [item for item in self.state.items.values() if item.type == type]

    def _show(self, type: Any, **fields: Any) -> str:
        self._count += 1
        id = f"i{self._count}"
        turn = None if self.random.random() < 0.05 else TURN
        self._append(ItemOpened(Item(id=id, type=type, turn=turn, **fields)))
        return id

    def _end_speech(self) -> None:
        if self._speech is not None:
            self._append(ItemClosed(self._speech, "completed"))
            self._speech = None

    def _say(self) -> None:
        if self._speech is None or self.state.items[self._speech].type != "text":
            self._end_speech()
            self._speech = self._show("text")
        self._append(TextDelta(self._speech, self.random.choice(("a", "bc ", "é\n", "🎉"))))

    def _think(self) -> None:
        if self._speech is None or self.state.items[self._speech].type != "thought":
            self._end_speech()
            self._speech = self._show("thought")
        self._append(ThoughtDelta(self._speech, "hm "))

    def _picture(self) -> None:
        self._end_speech()
        block = self.random.choice(
            (Image("AAAA", "image/png"), ResourceLink("https://a.example", "a"))
        )
        self._show("text", status="completed", content=(block,))

    def _plan(self) -> None:
        self._append(PlanChanged([PlanEntry("step", "in_progress")]))

    def _open(self) -> None:
        self._end_speech()
        own = self.random.random() < 0.2
        status = "waiting" if own else self.random.choice(("pending", "running"))
        tool = ToolCall(call="c", name="tool", owner="client" if own else "agent")
        id = self._show("tool", status=status, tool=tool)
        if own and self.state.items[id].turn == TURN:
            self.own.add(id)

    def _update(self, item: Item) -> None:
        patch = self.random.choice(
            ({"tool": {"input": {"n": self._count}}}, {"tool": {"title": "T"}})
        )
        self._append(ItemUpdated(item.id, patch))

    def _close(self, item: Item) -> None:
        for ask in list(self.state.permissions.values()):
            if ask.item == item.id:
                closed = PermissionClosed(request=ask.request, outcome="cancelled", by="agent")
                self._append(closed)
        self.own.discard(item.id)
        self._append(ItemClosed(item.id, self.random.choice(ENDS)))

    def _ask(self, item: str | None) -> None:
        if item in self.own:
            return
        self._count += 1
        if item is not None:
            self._append(ItemUpdated(item, {"status": "waiting"}))
        request = f"r{self._count}"
        self._append(PermissionOpened(request=request, title="May I?", item=item, options=OPTIONS))


# --- the looks at them


@contextmanager
def in_pieces(random: Random) -> Iterator[None]:
    """Let a session be shown one, three or very many items at a time."""
    with patch.object(transcript, "ITEMS_PER_PIECE", random.choice((1, 3, 256))):
        yield


@contextmanager
def in_small_steps() -> Iterator[None]:
    """Let items be numbered three, and shown two at a time."""
    with patch.multiple(transcript, ITEMS_PER_STEP=3, ITEMS_PER_PIECE=2):
        yield


def updates_of(log: Log, version: Literal[1, 2] = 1) -> Callable[[], Iterator[Any]]:
    """Return a function that yields what an ACP client has not been told yet."""
    known = (Updates if version == 1 else Updates2)(ItemIndex(log), {})
    return lambda: known.updates(lambda: False)


def message_of(
    log: Log, owns: Callable[[str], bool], parts: list[dict[str, Any]] | None
) -> ChunkedMessage:
    """Return the turn as a message of the AI SDK, whose client has these parts of it."""
    return ChunkedMessage(ItemIndex(log), TURN, owns, parts)


class ChunkedMessage(TurnMessage):
    """A turn in chunks of the AI SDK."""


def numbers_of(log: Log) -> ItemIndex:
    """Return the numbers of a session's items."""
    return ItemIndex(log)


def changes_of(log: Log) -> Callable[[], list[tuple[Item, bool]]]:
    """Return a function that returns the items to show, each with True if it is new."""
    reading: ItemReader[None] = ItemReader(ItemIndex(log), 0)
    return lambda: [each for each in reading.pending() if isinstance(each, tuple)]
