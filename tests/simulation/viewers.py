"""Those who look on: cursors of the log, and viewers of the hub without their sockets."""

from __future__ import annotations

import re
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from agentrt import events as e
from agentrt._serve.native import NATIVE
from agentrt._serve.refusal import CloseCode, ConnectionRefusal

from . import kept
from .agent import TOKEN
from .fold import Fold, as_json

if TYPE_CHECKING:
    from .world import World

Json = dict[str, Any]
WHOLE = (
    e.QueueChanged,
    e.PlanChanged,
    e.UsageChanged,
    e.ModesChanged,
    e.CommandsChanged,
    e.TitleChanged,
)


def is_merge(events: list[Any], event: Any) -> bool:
    """Whether one event says what these neighbours said."""
    if len(events) == 1:
        [other] = events
        if type(other) is not type(event):
            return False
        # What is read from the disk has no types of its own in what an agent may fill freely.
        return bool(other == event) or _in_json(other) == _in_json(event)
    last = events[-1]
    if type(last) is not type(event) or any(type(other) is not type(event) for other in events):
        return False
    if isinstance(event, e.ItemDelta):
        same = all(other.item == event.item for other in events)
        return same and "".join(other.text for other in events) == event.text
    if isinstance(event, e.ItemUpdated):
        patch: Json = {}
        for other in events:
            if other.item != event.item:
                return False
            tool = {**patch.get("tool", {}), **other.patch.get("tool", {})}
            patch = {**patch, **other.patch, **({"tool": tool} if tool else {})}
        return patch == event.patch
    if isinstance(event, e.TaskChanged):
        return all(o.task.id == event.task.id for o in events) and bool(last == event)
    return isinstance(event, WHOLE) and bool(last == event)


def _in_json(event: Any) -> bytes:
    return msgspec.json.encode(event)


def _merge(events: list[Json]) -> list[Json]:
    """The events with neighbouring pieces of a text joined, as a frame for several has them."""
    found = events[:1]
    for event in events[1:]:
        last = found[-1]
        if event["kind"] == last["kind"] == "item.delta" and event["item"] == last["item"]:
            found[-1] = last | {"text": last["text"] + event["text"]}
        else:
            found.append(event)
    return found


class Reader:
    """A cursor's place: what it gives must be the log, in order, without a gap."""

    def __init__(self, world: World, seq: int, name: str) -> None:
        self.world = world
        self.seq = seq
        self.given = 0
        """The last event that it was given."""
        self.name = name

    def take(self, seq: int, event: Any, *, may_skip: bool = False) -> None:
        log = self.world.checker.events
        between = log[self.seq : seq]
        if may_skip and seq > self.seq and log[seq - 1] == event:
            pass
        elif seq <= self.seq or seq > len(log) or not is_merge(between, event):
            self.world.fail(
                "L1", f"{self.name} got {event} as {seq} behind {self.seq}, where {between[:4]} is"
            )
        self.seq = self.given = seq


class LogViewer:
    """An iterator over the log, which reads when the simulation lets it."""

    def __init__(
        self, world: World, number: int, after: int | None, *, lets_others_run: bool
    ) -> None:
        """`lets_others_run`: after each event, so that more of them are merged."""
        self.world = world
        self.lets_others_run = lets_others_run
        self.subscription = world.session.subscribe(after)
        self.reader = Reader(world, self.subscription.seq, f"viewer {number}")
        self.go = trio.Event()
        self.over = False

    async def run(self) -> None:
        world = self.world
        with self.subscription:
            while True:
                try:
                    event = await anext(self.subscription)
                except StopAsyncIteration:
                    break
                self.reader.take(self.subscription.seq, event)
                if self.lets_others_run or not self.go.is_set():
                    await self.go.wait()
        self.over = True
        missed = world.store is not None and (world.store.waited or world.store.lost)
        if self.reader.seq != world.checker.seq and not missed:
            world.fail("L1", f"{self.reader.name} ended at {self.reader.seq}")


class HubViewer:
    """A browser's tab: what a client makes of the frames of `agentrt.v1`."""

    def __init__(self, world: World, number: int, client: str) -> None:
        self.world = world
        self.name = f"tab {number}"
        self.viewer = world.hub.attach_viewer(NATIVE)
        self.client = client
        self.view: Fold | None = None
        self.ids = count(1)
        self.sent: dict[str, str] = {}
        """The commands sent on this connection that are not answered, by their ids."""
        self.accepted: dict[str, str] = {}
        """The commands of this client that were carried out."""
        self.times: Counter[str] = Counter()
        """How often each was sent, less the answers."""
        self.acks: dict[str, Json] = {}
        self.go = trio.Event()
        self.go.set()
        self.scope = trio.CancelScope()
        self.over = False
        self.refusal: ConnectionRefusal | None = None
        self.attached = False

    @property
    def connected(self) -> bool:
        return self.viewer._ended is None and not self.viewer._closed

    def send(self, type: str, *, id: str | None = None, **fields: Any) -> str:
        id = id or f"{self.name}-{next(self.ids)}"
        frame = msgspec.json.encode({"type": type, "id": id, **fields}).decode()
        self.repeat(id, frame)
        return id

    def repeat(self, id: str, frame: str) -> None:
        """Send a command of this client, perhaps once more."""
        self.sent[id] = frame
        self.times[id] += 1
        self.viewer.receive(frame)

    def hello(self, knows: Fold | None = None) -> None:
        session = self.world.checker.log.session
        known: Json = {"session": session}
        if knows is not None:
            known |= {"epoch": self.world.checker.log.epoch, "seq": knows.seq}
            self.view = knows
        self.attached = True
        self.send("hello", client=self.client, sessions=[known])

    async def run(self) -> None:
        with self.scope:
            try:
                while True:
                    await self.go.wait()
                    self.take(msgspec.json.decode(await self.viewer.next_frame()))
            except ConnectionRefusal as refusal:
                self.refusal = refusal
            except trio.ClosedResourceError:
                pass
        self.over = True
        self.viewer.close()

    def take(self, frame: Json | list[Json]) -> None:
        world = self.world
        for message in frame if isinstance(frame, list) else [frame]:
            match message["type"]:
                case "event":
                    self._event(message)
                case "snapshot":
                    self._snapshot(message)
                case "ack":
                    self._ack(message)
                case "ready" | "sessions" | "beat":
                    pass
                case "store" if world.store is not None:
                    pass
                case kind:
                    world.fail("W4", f"{self.name} got {kind}")

    def _event(self, message: Json) -> None:
        seq, view = message["seq"], self.view
        since = message.get("since", seq - 1)
        if view is None or since != view.seq:
            self.world.fail("W4", f"{self.name} got {seq} behind {view and view.seq}")
            return
        real = _merge(as_json(self.world.checker.events[since:seq]))
        if [message["event"]] != real:
            self.world.fail("W4", f"{self.name} got {message['event']} as {seq}: it is {real}")
        view.apply(message["event"], seq - since)

    def _snapshot(self, message: Json) -> None:
        seq = message["seq"]
        if seq > self.world.checker.seq:
            self.world.fail("W4", f"{self.name} got a snapshot of {seq}, which is not yet")
            return
        truth = Fold()
        truth.advance(self.world.checker.events[:seq])
        difference = truth.differs(message)
        if difference:
            self.world.fail("W1", f"{self.name} got a snapshot of {seq} with {difference}")
        self.view = Fold(message)

    def _history(self, message: Json) -> None:
        """What was before, as it is at the number up to which this tab was given events."""
        view, seq = self.view, message["seq"]
        if view is None or message["before"] != view.earlier:
            return  # it has had another snapshot meanwhile
        if seq != view.seq:
            if self.attached and self.connected and not self._joins:
                self.world.fail("W4", f"{self.name} got history of {seq} at {view.seq}")
            return
        view.add_history(message)
        truth = Fold()
        truth.advance(self.world.checker.events[:seq])
        difference = truth.shown_from(view.earlier).differs_from(view.shown_from(view.earlier))
        if difference:
            self.world.fail("W1", f"{self.name} got history up to {seq} with {difference}")

    @property
    def _joins(self) -> bool:
        """Whether it does not know yet that it follows: a stored session is read first."""
        return any(re.search(r'"type":"(hello|attach)"', frame) for frame in self.sent.values())

    def _ack(self, message: Json) -> None:
        id = message["id"]
        if id is None and not message["ok"]:
            return  # garbage was answered
        if message["ok"] and "before" in message:
            self._history(message)
        frame = self.sent.pop(id, None)
        again = frame is not None and re.search(r'"type":"(prompt|cancel|permission)"', frame)
        if frame is not None and again and message["ok"]:
            self.accepted[id] = frame
            if self.world.store is not None and (found := TOKEN.search(frame)) is not None:
                kept.acknowledged(self.world, found[1])
        self.times[id] -= 1
        if self.times[id] < 0 and not self._sent_before(id):
            self.world.fail("W7", f"{self.name} got an answer to {id}, which waits for none")
        known = self.world.acks.setdefault((self.client, id), message)
        if known != message:
            self.world.fail("W7", f"{id} was answered by {known}, and again by {message}")
        self.acks[id] = message

    def _sent_before(self, id: str) -> bool:
        """Whether the same client has sent it on another connection. What is answered when it is
        stored is answered on the connection that there is then."""
        tabs = self.world.tabs
        others = (tab for tab in tabs if tab is not self and tab.client == self.client)
        return self.world.store is not None and any(id in tab.times for tab in others)

    def check_end(self) -> None:
        """W7: what was sent before the server's end is answered."""
        if self.world.store is not None:
            return  # a prompt that was not stored is sent again to the next server
        told_all = self.refusal is not None and self.refusal.code is CloseCode.SHUTDOWN
        if told_all and self.sent:
            self.world.fail("W7", f"{self.name} has no answer to {list(self.sent)}")
