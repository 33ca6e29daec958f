"""A conversation to be driven by hand, its events as short lines, and the rules they must keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from agentrt import Limits
from agentrt.effects import DecisionRequested, ToolCalled
from agentrt.events import (
    TERMINAL,
    AgentState,
    Block,
    Event,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemUpdated,
    Notice,
    PermissionClosed,
    PermissionOpened,
    PermissionOption,
    QueueChanged,
    QueueEntry,
    Snapshot,
    StateChanged,
    TaskChanged,
    TextDelta,
    ThoughtDelta,
    TurnEnded,
    TurnStarted,
)
from agentrt.lowlevel import Effect, Log, SessionState
from inside.model import Conversation, ProcessLifeInput, TurnMachine

OPTIONS = [
    PermissionOption("yes", "Allow", "allow_once"),
    PermissionOption("no", "Reject", "reject_once"),
]

_events: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_snapshots: msgspec.json.Decoder[Snapshot] = msgspec.json.Decoder(Snapshot)


def prompted(
    conversation: Conversation,
    content: list[Block],
    *,
    id: str | None = None,
    hard: float | None = None,
) -> TurnMachine:
    turn = TurnMachine("user", Limits(turn_timeout_s=hard), content)
    conversation.begin(turn, id)
    return turn


class Talk:
    """A conversation with its log. `tell` is the driver, `step` the end of a batch."""

    def __init__(self, limits: Limits | None = None, *, ready: bool = True) -> None:
        agent = AgentState("demo", "acp")
        self.time = 1000.0
        self.log = Log("s1", "e1", limits or Limits(), SessionState(agent))
        self.conversation = Conversation(self.log, agent=agent, now=lambda: self.time)
        self.items = self.conversation.items
        self._told = self.log.cursor(lossless=True)
        if ready:
            self.set_agent(alive=True)
            self.live("open")
            self.step()

    @property
    def state(self) -> SessionState:
        return self.log.state

    def begin(
        self, content: list[Block], *, id: str | None = None, hard: float | None = None
    ) -> TurnMachine:
        """A turn of the user's."""
        return prompted(self.conversation, content, id=id, hard=hard)

    def queued(self, *entries: QueueEntry, paused: bool = False) -> None:
        """Just these prompts wait."""
        queue = self.conversation.queue
        for turn in list(queue):
            queue.remove(turn)
        for entry in entries:
            turn = TurnMachine("user", content=entry.content)
            turn.entry = entry.id
            queue.put(turn)
        if paused:
            queue.pause()
        self.conversation.show_queue()

    def set_agent(self, **changes: object) -> None:
        agent = self.conversation.agent
        self.conversation.agent = msgspec.structs.replace(agent, **changes)

    def live(self, *inputs: Literal["start", "open", "end", "close"]) -> None:
        """What happens to the agent's process."""
        for each in inputs:
            self.conversation.apply_life_input(ProcessLifeInput(each))

    def tell(self, *effects: Effect) -> None:
        for effect in effects:
            if isinstance(effect, DecisionRequested):
                self.conversation.ask(effect, None)
            else:
                self.conversation.take(effect)

    def step(self) -> None:
        self.conversation.sync()
        self.log.publish()

    def restarted(self, *, resumes: bool = False) -> Talk:
        """The conversation of another process of ours, from the log of this one."""
        talk = Talk(ready=False)
        talk.conversation.restore(through_json(self.log.since(0)))
        talk.conversation.orphan(resumes=resumes)
        talk.log.publish()
        return talk

    def told(self) -> list[str]:
        """What was logged since the last call, without `state` events."""
        return [line(event) for event in self.events() if not isinstance(event, StateChanged)]

    def events(self) -> list[Event]:
        """What was logged since the last call."""
        found = []
        while (event := self._told.pop()) is not None:
            found.append(event)
        return found

    def phases(self) -> list[str]:
        """The phases that were told since the last call."""
        return [e.state.phase for e in self.events() if isinstance(e, StateChanged)]


_DELTAS = {
    "text": TextDelta | ItemDelta,  # from JSON
    "thought": ThoughtDelta | ItemDelta,
    "tool": ItemDelta,
}


def call(id: str = "c1", /, **fields: object) -> ToolCalled:
    """The agent announces or changes a tool call."""
    return ToolCalled(id=id, **fields)  # type: ignore[arg-type]


def ask(key: str = "r1", tool_call: str | None = None, /, **fields: object) -> DecisionRequested:
    """The agent asks for permission."""
    fields = {"kind": "permission", "title": "May I?", "options": OPTIONS, **fields}
    return DecisionRequested(key=key, tool_call=tool_call, **fields)  # type: ignore[arg-type]


def line(event: Event) -> str:
    """An event in few words, for comparing."""
    match event:
        case TurnStarted():
            return f"turn {event.turn} by {event.origin}"
        case TurnEnded():
            return f"turn {event.turn} {event.outcome}"
        case ItemOpened(item=item):
            words = [item.id, item.type, item.status, "in", item.turn or "no turn"]
            return " ".join([*words, *(["of", item.parent] if item.parent else [])])
        case ItemDelta():
            return f"{event.item} + {event.text}"
        case ItemUpdated(item=id, patch=patch):
            tool = patch.get("tool", {})
            fields = {**{k: v for k, v in patch.items() if k != "tool"}, **tool}
            return f"{id} {' '.join(f'{k}={v}' for k, v in fields.items())}"
        case ItemClosed():
            return f"{event.item} {event.status}"
        case PermissionOpened():
            return f"{event.request} asks about {event.item}"
        case PermissionClosed():
            return f"{event.request} {event.outcome} by {event.by}"
        case Notice():
            return f"notice {event.code}"
        case QueueChanged():
            waiting = " ".join(entry.id for entry in event.queue) or "nothing"
            return f"queue {waiting}{' paused' if event.paused else ''}"
        case TaskChanged(task=task):
            return f"task {task.id} {task.status}"
        case _:
            return type(event).__name__


def through_json(events: Iterable[Event]) -> Iterator[Event]:
    """The events as somebody gets them who reads them from a socket or a journal."""
    for event in events:
        yield _events.decode(msgspec.json.encode(event))


def shown(state: SessionState, seq: int = 0) -> Snapshot:
    """What a viewer gets who attaches now. Compared as it is read and not as bytes: a field that
    has its default may be left out."""
    return _snapshots.decode(msgspec.json.encode(state.snapshot("s1", "e1", seq)))


class Rules:
    """What must hold of any log, checked event by event (WIRE's W2, W3; T2)."""

    def __init__(self) -> None:
        self.turn: str | None = None
        self._turns: set[str] = set()
        self._items: dict[str, tuple[str | None, str, bool]] = {}  # turn, type, is it over
        self._requests: set[str] = set()
        self._parents: dict[str, str | None] = {}

    def _in_background(self, item: Item) -> bool:
        """Whether it may be a step of background work, or the call that began it."""
        return item.type == "tool" or item.parent is not None

    def check(self, event: Event) -> None:
        match event:
            case TurnStarted(turn=turn):
                assert self.turn is None, "a turn starts inside another one"
                assert turn not in self._turns, "a turn's id is used twice"
                self._turns.add(turn)
                self.turn = turn
            case TurnEnded(turn=turn):
                assert turn == self.turn, "the turn that ends is not the one that runs"
                still = [i for i, (t, _, over) in self._items.items() if t == turn and not over]
                assert not still, f"{still} are open at the end of {turn}"
                assert not self._requests, f"{self._requests} are open at the end of {turn}"
                self.turn = None
            case ItemOpened(item=item):
                assert item.id not in self._items, "an item's id is used twice"
                assert item.parent is None or item.parent in self._items
                assert item.turn in (self.turn, None), "an item is opened in a turn that is over"
                outside = item.replay or item.type == "user" or self._in_background(item)
                assert item.turn == self.turn or outside, "an item is opened outside its turn"
                assert not item.replay or item.turn is None
                self._parents[item.id] = item.parent
                self._items[item.id] = (item.turn, item.type, item.status in TERMINAL)
            case ItemDelta(item=id):
                turn, type, over = self._items[id]
                assert turn == self.turn or turn is None, "text for an item of an earlier turn"
                assert type == "tool" or not over, "text for an item that is closed"
                assert isinstance(event, _DELTAS[type])
            case ItemUpdated(item=id, patch=patch):
                turn, _, over = self._items[id]
                assert turn == self.turn or turn is None, "a change of an item of an earlier turn"
                assert patch, "an update without content"
                if "turn" in patch:
                    assert patch["turn"] is None, "only background work leaves its turn"
                    self._items[id] = (None, *self._items[id][1:])
                if "status" in patch:
                    assert not over, "a closed item is opened again"
                    assert patch["status"] not in TERMINAL
            case ItemClosed(item=id, status=status):
                turn, type, over = self._items[id]
                assert not over, "an item is closed twice"
                assert status in TERMINAL
                self._items[id] = (turn, type, True)
            case PermissionOpened(request=request):
                assert self.turn is not None, "a question outside a turn"
                assert request not in self._requests
                self._requests.add(request)
            case PermissionClosed(request=request):
                self._requests.remove(request)
            case _:
                pass
