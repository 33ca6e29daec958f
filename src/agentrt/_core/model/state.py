"""The state of a session as the fold of its events, and the snapshot that viewers start from.

`SessionState` over events `1..n` gives the snapshot at `n`, for every `n`; the JavaScript client's
`reduce` does the same. The code here makes no decisions: it only applies events.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice
from typing import Any, Final, Generic, Protocol, TypeVar, overload

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from .content import Block, Cut, GrowingText, JsonObject, ToolContent
from .events import (
    TERMINAL,
    AgentState,
    CancelledBy,
    Command,
    CommandsChanged,
    ErrorInfo,
    Event,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemUpdated,
    Modes,
    ModesChanged,
    Notice,
    Origin,
    Outcome,
    PermissionClosed,
    PermissionOpened,
    PlanChanged,
    PlanEntry,
    QueueChanged,
    QueueEntry,
    State,
    StateChanged,
    Task,
    TaskChanged,
    TextDelta,
    ThoughtDelta,
    TitleChanged,
    ToolCall,
    TurnEnded,
    TurnStarted,
    Usage,
    UsageChanged,
)

T = TypeVar("T")

MAX_FINISHED_TASKS: Final = 100
"""The number of finished background tasks in a snapshot of the last turns, newest first."""

KEYS_PER_STEP: Final = 1024
"""Keys of a transcript that are numbered together."""


class TurnRecord(Struct, omit_defaults=True, kw_only=True, gc=False):
    """A turn in the snapshot. A turn without an `outcome` is running."""

    id: str
    """The turn's id."""
    origin: Origin
    """The starter of the turn."""
    outcome: Outcome | None = None
    """The end of the turn; None while it runs."""
    by: CancelledBy | None = None
    """The party that cancelled the turn; None for every other outcome."""
    who: str = ""
    """As in `TurnEnded`."""
    via: str = ""
    """As in `TurnEnded`."""
    stop_reason: str | None = None
    """The agent's own reason; None if it gave none."""
    usage: Usage | None = None
    """Tokens and cost of the turn, if the agent reports them."""
    error: ErrorInfo | None = None
    """The error of a turn that did not end well, if one is known."""
    structured_output: Any = None
    """The parsed answer, if the session has a JSON schema for answers."""
    cut: dict[str, Cut] | UnsetType = field(default=UNSET, name="_cut")
    """Members of which this is only a preview, `_cut` in JSON. Set only in objects for viewers."""


class StoredHistory(Struct, frozen=True):
    """The part of the history before a state's first item that is only in a store."""

    records: int
    """Its number of records."""
    turns: int
    """Its number of turns."""
    prompt: str
    """The beginning of its first prompt."""


class History(Struct, kw_only=True):
    """A page of earlier `items`, in order, with their `turns`.

    `earlier` is the id of the first item if there is more before it, else None.
    """

    turns: list[TurnRecord]
    items: list[Item]
    earlier: str | None


class Snapshot(Struct, kw_only=True):
    """Everything a viewer shows, at event number `seq` of `epoch`.

    `earlier` is None if the snapshot is complete. Otherwise it is the id of the first of the latest
    items, all of which are included; of the items before it, only the open ones are.
    """

    session: str
    """The session's id."""
    epoch: str
    """The numbering that `seq` belongs to."""
    seq: int
    """The number of the last event that is included."""
    state: State
    """The session's state."""
    turns: list[TurnRecord]
    """The turns of the included items, oldest first."""
    items: list[Item]
    """The items in the order of the transcript."""
    permissions: list[PermissionOpened]
    """The open requests."""
    queue: list[QueueEntry]
    """The queued prompts."""
    paused: bool
    """True if any of them is paused."""
    plan: list[PlanEntry]
    """The agent's plan; empty if it has none."""
    tasks: list[Task]
    """Background work."""
    usage: Usage | None
    """The latest figures, if the agent reports any."""
    modes: Modes | None
    """Mode, model and options, if the agent has any."""
    commands: list[Command]
    """The agent's slash commands."""
    title: str | None
    """The session's title."""
    earlier: str | None = None
    """None if the snapshot is complete. Otherwise the id of the first of the latest items, all of
    which are included; of the items before it, only the open ones are.
    """


class PageRoom(Protocol):
    """The room for the items of a page. Their texts may still be incomplete: see
    `SessionState.length` and `SessionState.part`.
    """

    def take(self, item: Item) -> bool:
        """Take room for one more item. Returns False if there was too little."""
        ...


class Keys(Sequence[str]):
    """The keys of a `Transcript`, the oldest first.

    They are in tuples: the garbage collector looks through a list of strings again and again, but
    only once through a tuple of strings.
    """

    __slots__ = ("_ends", "_groups")

    def __init__(self) -> None:
        """Begin without keys."""
        self._groups: tuple[tuple[str, ...], ...] = ()
        self._ends: tuple[int, ...] = ()  # the number of keys up to the end of each group

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._groups)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        """Return the key at a position, or a list of the keys at several."""
        positions = range(len(self))[at]
        if isinstance(positions, range):
            return [self[n] for n in positions]
        group = bisect_right(self._ends, positions)
        return self._groups[group][positions - self._ends[group]]

    def before(self, end: int) -> Iterator[str]:
        """Iterate over the keys before position `end`, the newest first."""
        while end > 0:
            n = bisect_left(self._ends, end)
            group = self._groups[n]
            start = self._ends[n] - len(group)
            yield from reversed(group[: end - start])
            end = start

    def index(self, key: object, start: int = 0, stop: int = sys.maxsize) -> int:
        """Return the position of a key. Raises `ValueError`."""
        if start or stop != sys.maxsize:
            return super().index(key, start, stop)
        for group, end in zip(self._groups, self._ends, strict=True):
            if key in group:
                return end - len(group) + group.index(key)
        raise ValueError(key)

    def append(self, keys: Iterable[str]) -> None:
        """Add keys at the end. Small groups are joined."""
        group = tuple(keys)
        if self._groups and len(self._groups[-1]) < KEYS_PER_STEP:
            group = self._groups[-1] + group
            self._groups, self._ends = self._groups[:-1], self._ends[:-1]
        self._ends += (len(self) + len(group),)
        self._groups += (group,)

    def prepend(self, keys: Iterable[str]) -> None:
        """Insert keys at the start."""
        self._groups = (tuple(keys), *self._groups)
        self._ends = tuple(accumulate(map(len, self._groups)))


class Transcript(Generic[T]):
    """A growing dictionary that is read backwards in pages.

    The first key of each page is remembered, so the page before it is found without a search.
    Values from `prepend` are last in the dictionary until `sort`. Keys are never removed.
    """

    __slots__ = ("_keys", "_places", "_prepended", "_sorted", "values")

    def __init__(self) -> None:
        """Begin without values."""
        self.values: dict[str, T] = {}
        """The values by key; their order is that of `sort` only after it. A value may be replaced
        here; new ones are added by `add`. The garbage collector does not look through a plain
        dictionary of strings and of structs that it need not see.
        """
        self._keys = Keys()  # the newest keys may be missing
        self._prepended = 0  # the number of keys from `prepend`
        self._places: dict[str, int] = {}  # of the pages, counted from the first other key
        self._sorted = True

    def add(self, key: str, value: T) -> None:
        """Set the value of a key that is new, or replace it.

        New keys are numbered in groups, so that no later step has to number all of them.
        """
        values = self.values
        values[key] = value
        if len(values) - len(self._keys) >= KEYS_PER_STEP:
            self._number()

    def _number(self) -> None:
        """Number the keys that are not numbered yet."""
        if new := len(self.values) - len(self._keys):
            self._keys.append(reversed([*islice(reversed(self.values), new)]))

    @property
    def keys(self) -> Keys:
        """The keys, the oldest first."""
        self._number()
        return self._keys

    def prepend(self, values: Mapping[str, T]) -> None:
        """Insert the keys that are new before the existing ones."""
        new = {key: value for key, value in values.items() if key not in self.values}
        if new:
            self.keys.prepend(new)
            self._prepended += len(new)
            self.values.update(new)
            self._sorted = False

    def sort(self) -> dict[str, T]:
        """Return the dictionary, with all keys in order."""
        if not self._sorted:
            ordered = {key: self.values[key] for key in self.keys}
            self.values.clear()
            self.values.update(ordered)
            self._sorted = True
        return self.values

    def index(self, key: str) -> int:
        """Return the position of a key in `keys`. Raises `KeyError`."""
        if key in self._places:
            return self._places[key] + self._prepended
        if key not in self.values:
            raise KeyError(key)
        return self.keys.index(key)

    def remember(self, key: str, index: int) -> None:
        """Remember the position of a key that the next page ends at."""
        self._places[key] = index - self._prepended


class SessionState:
    """The fold of a session's events.

    `apply` is total: it ignores an event about an unknown item, as a viewer that joined late would.

    - `state`: the last `State`, with the session's phase and its agent.
    - `turns`: each `TurnRecord` by the turn's id, the oldest first.
    - `permissions`: the open requests (`PermissionOpened`) by their ids.
    - `queue`, `paused`: the waiting prompts, and True if they wait for a client to resume them.
    - `plan`, `usage`, `modes`, `commands`, `title`: from the last event that reported them.
    - `tasks`: the agent's background tasks by id.
    - `ahead`: the part of the history that is only in a store.
    """

    def __init__(self, agent: AgentState | None = None) -> None:
        """Create the state of a session without events.

        `agent`: the name and protocol of its agent.

        The state begins as `starting`, also in viewers that have not received an event yet.
        """
        agent = AgentState("", "acp") if agent is None else msgspec.structs.replace(agent)
        self.state: State = State("starting", None, agent)  # a copy: only events change it
        self.ahead: StoredHistory | None = None
        self._turns: Transcript[TurnRecord] = Transcript()
        self._items: Transcript[Item] = Transcript()
        self._loose: list[str] = []  # closed items with their text still in pieces
        self._open: dict[str, None] = {}  # items that are not closed
        self._open_turns: dict[str, None] = {}
        self._open_tasks: dict[str, None] = {}
        self.permissions: dict[str, PermissionOpened] = {}
        self.queue: list[QueueEntry] = []
        self.paused: bool = False
        self.plan: list[PlanEntry] = []
        self.tasks: dict[str, Task] = {}
        self.usage: Usage | None = None
        self.modes: Modes | None = None
        self.commands: list[Command] = []
        self.title: str | None = None
        self._growing: dict[str, GrowingText] = {}

    def apply(self, event: Event) -> None:
        """Apply one event."""
        self.HANDLERS[type(event)](self, event)

    @property
    def turns(self) -> dict[str, TurnRecord]:
        """The turns by id, the oldest first."""
        return self._turns.sort()

    @property
    def items(self) -> dict[str, Item]:
        """The items by id. `text` is complete for closed items."""
        while self._loose:  # join a long text only when it is read
            id = self._loose.pop()
            if (growing := self._growing.pop(id, None)) is not None:
                self._items.values[id] = msgspec.structs.replace(
                    self._items.values[id], text=str(growing)
                )
        return self._items.sort()

    def item(self, id: str) -> Item | None:
        """Return an item, whose text may be incomplete, or None if it does not exist."""
        return self._items.values.get(id)

    def text(self, item: str) -> str:
        """Return the text of an item so far."""
        growing = self._growing.get(item)
        if growing is not None:
            return str(growing)
        known = self._items.values.get(item)
        return known.text if known is not None else ""

    def part(self, item: str, start: int, end: int) -> str:
        """Return the characters from `start` to `end` of an item's text."""
        growing = self._growing.get(item)
        return growing.part(start, end) if growing is not None else self.text(item)[start:end]

    def length(self, item: str) -> int | None:
        """Return the length of an item's text, or None if the item is unknown."""
        growing = self._growing.get(item)
        if growing is not None:
            return growing.size
        known = self._items.values.get(item)
        return len(known.text) if known is not None else None

    @property
    def item_ids(self) -> Sequence[str]:
        """The ids of the items, the oldest first."""
        return self._items.keys

    @property
    def turn_ids(self) -> Sequence[str]:
        """The ids of the turns, the oldest first."""
        return self._turns.keys

    def complete_item(self, id: str) -> Item:
        """Return an item with its text so far. Raises `KeyError`."""
        return self._complete(self._items.values[id])

    def turn(self, id: str) -> TurnRecord:
        """Return a turn that later events do not change. Raises `KeyError`."""
        turn = self._turns.values[id]
        return turn if turn.outcome else _copy(turn)

    def open_items(self) -> list[Item]:
        """Return the items that are not closed, in the order in which they were opened. Their texts
        may be incomplete.
        """
        return [self._items.values[id] for id in self._open]

    def open_tasks(self) -> list[Task]:
        """Return the background tasks that have not ended."""
        return [self.tasks[id] for id in self._open_tasks]

    @property
    def open_turns(self) -> list[str]:
        """The ids of the turns that have not ended."""
        return list(self._open_turns)

    def add_turns(self, turns: Iterable[TurnRecord]) -> None:
        """Append copies of turns after the existing ones."""
        for turn in turns:
            self._turns.add(turn.id, _copy(turn))
            if turn.outcome is None:
                self._open_turns[turn.id] = None

    def add_items(self, items: Iterable[Item]) -> None:
        """Append items unchanged after the existing ones."""
        for item in items:
            self._items.add(item.id, item)
            if item.status not in TERMINAL:
                self._open[item.id] = None

    def prepend_history(
        self, turns: Iterable[TurnRecord], items: Iterable[Item], left: StoredHistory | None
    ) -> None:
        """Insert closed turns and items before the existing ones.

        `left` describes the part before them that is only in a store.
        """
        self._turns.prepend({turn.id: turn for turn in turns})
        self._items.prepend({item.id: item for item in items})
        self.ahead = left

    def lacks(self, before: str | None, turns: int, items: int) -> bool:
        """Return True if part of the requested `history` page is only in a store.

        `before=None` means the whole history.
        """
        if self.ahead is None:
            return False
        if before is None or before not in self._items.values:
            return True
        found, _ = self._last_items(self._items.index(before), turns, items, None)
        return not found or found[0].id == self._items.keys[0]

    @property
    def turn_count(self) -> int:
        """The number of turns so far, including those that are only in a store."""
        return len(self._turns.values) + (self.ahead.turns if self.ahead is not None else 0)

    def snapshot(
        self,
        session: str,
        epoch: str,
        seq: int,
        *,
        turns: int | None = None,
        items: int = 0,
        room: PageRoom | None = None,
    ) -> Snapshot:
        """Return a copy that later events do not change.

        `turns`: include only that many of the last turns, with at most about `items` items that
        fit into the `room`. The time taken then does not depend on the turns left out.
        """
        tasks: Iterable[Task] = self.tasks.values()
        if turns is None:
            page = History(
                turns=[turn if turn.outcome else _copy(turn) for turn in self.turns.values()],
                items=self._all_items(),
                earlier=next(iter(self._items.sort()), None) if self.ahead is not None else None,
            )
        else:
            page = self._page(None, turns, items, room)
            if page.earlier is not None:
                shown = {item.id for item in page.items}
                left = [self._items.values[id] for id in self._open if id not in shown]
                page.items[:0] = left if room is not None else map(self._complete, left)
            tasks = self.latest_tasks()
        return self.show(page, tasks, session, epoch, seq)

    def latest_tasks(self) -> list[Task]:
        """Return all open background tasks, and the finished ones among the latest.

        The time taken does not depend on the number of all tasks.
        """
        newest = {
            task.id: task for task in islice(reversed(self.tasks.values()), MAX_FINISHED_TASKS)
        }
        running = [self.tasks[id] for id in self._open_tasks if id not in newest]
        return [*running, *reversed(newest.values())]

    def show(
        self, page: History, tasks: Iterable[Task], session: str, epoch: str, seq: int
    ) -> Snapshot:
        """Return a snapshot with this page as its turns and items, and with these tasks."""
        return Snapshot(
            session=session,
            epoch=epoch,
            seq=seq,
            state=self.state,
            turns=page.turns,
            items=page.items,
            permissions=list(self.permissions.values()),
            queue=self.queue,
            paused=self.paused,
            plan=self.plan,
            tasks=list(tasks),
            usage=self.usage,
            modes=self.modes,
            commands=self.commands,
            title=self.title,
            earlier=page.earlier,
        )

    def history(self, before: str, turns: int, items: int, room: PageRoom | None = None) -> History:
        """Return a copy of the `turns` turns before the item `before`.

        The page has at most about `items` items that fit into the `room`. Raises `KeyError` if
        `before` does not exist.
        """
        return self._page(self._items.values[before], turns, items, room)

    def _page(self, before: Item | None, turns: int, items: int, room: PageRoom | None) -> History:
        """Return the page of the last turns before the item `before`, or of all if it is None.

        History that the agent repeated from another process has no turns: each of its prompts
        counts as one. An item between two turns goes with the first of them.
        """
        end = len(self._items.values) if before is None else self._items.index(before.id)
        found, more = self._last_items(end, turns, items, room)
        if more:
            self._items.remember(found[0].id, end - len(found))
        named = [item.turn for item in found if item.turn is not None]
        oldest = named[0] if more and named else None
        shown: list[TurnRecord] = []
        if before is None:
            shown = self._turns_between(oldest, None)
        elif newest := before.turn or (named[-1] if named else None):
            shown = self._turns_between(oldest, newest)
        return History(
            turns=shown,
            items=found if room is not None else list(map(self._complete, found)),
            earlier=found[0].id if more else None,
        )

    def _last_items(
        self, end: int, turns: int, items: int, room: PageRoom | None
    ) -> tuple[list[Item], bool]:
        """Return the items of the page before position `end`, oldest first.

        The flag is True if there are earlier ones.
        """
        found: list[Item] = []
        whole = begun = 0  # items that may form a page, and the number of their turns
        last: Item | None = None  # the oldest item that has a turn or counts as one
        for id in self._items.keys.before(end):
            item = self._items.values[id]
            full = len(found) >= items or (room is not None and not room.take(item))
            counts = item.turn is not None or item.replay
            begun += counts and (last is None or _begins_turn(item, last))
            if whole and (begun > turns or full):
                return found[:whole][::-1], True
            if counts:
                last, whole = item, len(found) + 1
            found.append(item)
        if self.ahead is not None and whole:
            return found[:whole][::-1], True
        return found[::-1], False

    def _turns_between(self, first: str | None, last: str | None) -> list[TurnRecord]:
        """Return copies of the turns from `first` (default: oldest) to `last` (default: newest)."""
        if last is None:
            end = len(self._turns.values)
        elif last in self._turns.values:
            end = self._turns.index(last) + 1
        else:
            return []
        found: list[TurnRecord] = []
        for id in self._turns.keys.before(end):
            found.append(_copy(self._turns.values[id]))
            if id == first:
                self._turns.remember(id, end - len(found))
                break
        found.reverse()
        return found

    def _all_items(self) -> list[Item]:
        """Return all items with their texts. Only those with a growing text are looked at."""
        items = self._items.sort()
        if self._growing:
            items = items.copy()
        for id in self._growing:
            items[id] = self._complete(items[id])
        return list(items.values())

    def _complete(self, item: Item) -> Item:
        """Return an item with its text so far."""
        if item.id not in self._growing:
            return item
        return msgspec.structs.replace(item, text=self.text(item.id))

    # --- one method per event

    def _state(self, event: StateChanged) -> None:
        """Replace the session's state as a whole; the event carries all of it."""
        self.state = event.state

    def _turn_started(self, event: TurnStarted) -> None:
        """Add a running turn at the end."""
        self._turns.add(event.turn, TurnRecord(id=event.turn, origin=event.origin))
        self._open_turns[event.turn] = None

    def _turn_ended(self, event: TurnEnded) -> None:
        """Complete the record of a turn in place.

        Snapshots have copies of running turns, not this object.
        """
        turn = self._turns.values.get(event.turn)
        if turn is not None:
            self._open_turns.pop(event.turn, None)
            turn.outcome = event.outcome
            turn.by = event.by
            turn.who = event.who
            turn.via = event.via
            turn.stop_reason = event.stop_reason
            turn.usage = event.usage
            turn.error = event.error
            turn.structured_output = event.structured_output
            turn.cut = event.cut

    def _item_opened(self, event: ItemOpened) -> None:
        """Add an item. Its place in the transcript is that of this event and never changes."""
        # This is the event's own object. It is never changed: an update replaces it.
        item = event.item
        self._items.add(item.id, item)
        if item.status not in TERMINAL:
            self._open[item.id] = None

    def _item_delta(self, event: ItemDelta) -> None:
        """Append text to an item without copying the text so far.

        Pieces are collected per item and joined when the text is read, so that a long answer in
        many small pieces takes time proportional to its length.
        """
        growing = self._growing.get(event.item)
        if growing is None:
            item = self._items.values.get(event.item)
            if item is None:
                return
            growing = self._growing[event.item] = GrowingText(item.text)
        growing.append(event.text)

    def _item_updated(self, event: ItemUpdated) -> None:
        """Apply a patch to an item, and keep track of its being open.

        A patch can open an item again: the status of a tool call changes between `waiting`,
        `running` and `pending`.
        """
        item = self._items.values.get(event.item)
        if item is None:
            return
        if event.patch.get("status") in TERMINAL:
            self._open.pop(event.item, None)
        elif "status" in event.patch:
            self._open[event.item] = None
        self._items.values[event.item] = updated_item(item, event.patch)

    def _item_closed(self, event: ItemClosed) -> None:
        """Set an item's final status. A long text stays in pieces until `items` is read."""
        item = self._items.values.get(event.item)
        if item is None:
            return
        growing, text = self._growing.get(event.item), item.text
        if growing is not None:
            short = growing.short()
            if short is None:
                self._loose.append(event.item)
            else:
                text = short
                del self._growing[event.item]
        self._open.pop(event.item, None)
        self._items.values[event.item] = msgspec.structs.replace(
            item, status=event.status, text=text
        )

    def _permission_opened(self, event: PermissionOpened) -> None:
        self.permissions[event.request] = event

    def _permission_closed(self, event: PermissionClosed) -> None:
        self.permissions.pop(event.request, None)

    def _queue(self, event: QueueChanged) -> None:
        self.queue = event.queue
        self.paused = event.paused

    def _plan(self, event: PlanChanged) -> None:
        self.plan = event.plan

    def _usage(self, event: UsageChanged) -> None:
        self.usage = event.usage

    def _modes(self, event: ModesChanged) -> None:
        self.modes = event.modes

    def _commands(self, event: CommandsChanged) -> None:
        self.commands = event.commands

    def _title(self, event: TitleChanged) -> None:
        self.title = event.title

    def _task(self, event: TaskChanged) -> None:
        """Add or replace a background task.

        Open ones are also listed apart, so that a short snapshot has all of them.
        """
        task = event.task
        self.tasks[task.id] = task
        if task.status in TERMINAL:
            self._open_tasks.pop(task.id, None)
        else:
            self._open_tasks[task.id] = None

    def _notice(self, event: Notice) -> None:
        """Ignore a notice: viewers that join later do not get it."""

    HANDLERS: Final[Mapping[type, Callable[..., None]]] = {
        StateChanged: _state,
        TurnStarted: _turn_started,
        TurnEnded: _turn_ended,
        ItemOpened: _item_opened,
        ItemDelta: _item_delta,
        TextDelta: _item_delta,
        ThoughtDelta: _item_delta,
        ItemUpdated: _item_updated,
        ItemClosed: _item_closed,
        PermissionOpened: _permission_opened,
        PermissionClosed: _permission_closed,
        QueueChanged: _queue,
        PlanChanged: _plan,
        UsageChanged: _usage,
        ModesChanged: _modes,
        CommandsChanged: _commands,
        TitleChanged: _title,
        TaskChanged: _task,
        Notice: _notice,
    }
    """The function that applies each kind of event to a state."""


_copy: Final[Callable[[TurnRecord], TurnRecord]] = msgspec.structs.replace


def _begins_turn(item: Item, later: Item) -> bool:
    """Return True if `item` belongs to another turn than the item `later` after it."""
    return item.turn != later.turn or (item.turn is None and later.type == "user")


def left_open(state: SessionState) -> list[Event]:
    """Return the events that close everything still open after the logging process has ended.

    `leftOpen` in the page's `reduce.js` does the same for a session after the end of its process.
    """
    asked = [
        PermissionClosed(request=request, outcome="cancelled", by="turn")
        for request in state.permissions
    ]
    items = [ItemClosed(item.id, "orphaned") for item in state.open_items()]
    turns = [TurnEnded(turn=id, outcome="agent_died") for id in state.open_turns]
    tasks = [
        TaskChanged(msgspec.structs.replace(task, status="orphaned")) for task in state.open_tasks()
    ]
    return [*asked, *items, *turns, *tasks]


def patched(patch: JsonObject, later: JsonObject) -> JsonObject:
    """Merge two consecutive patches of an item."""
    both = _merged(patch, later)
    if "tool" in patch and "tool" in later:
        both["tool"] = _merged(patch["tool"], later["tool"])
    return both


def _merged(patch: JsonObject, later: JsonObject) -> JsonObject:
    """Merge the members of two patches; the later one wins.

    Previews are merged member by member: a member that the later patch replaces in full loses the
    preview of the earlier one.
    """
    both = {**patch, **later}
    if "_cut" in patch:
        left = {name: cut for name, cut in patch["_cut"].items() if name not in later}
        both["_cut"] = {**left, **later.get("_cut", {})}
    return both


def _patch(known: dict[str, Cut] | UnsetType, patch: JsonObject) -> JsonObject:
    """Return the patch of an object for viewers: a replaced member is not a preview any more,
    unless the patch has a preview of it.
    """
    if known is UNSET and "_cut" not in patch:
        return patch
    cuts = msgspec.convert(patch.get("_cut", {}), dict[str, Cut])
    left = {} if known is UNSET else {k: cut for k, cut in known.items() if k not in patch}
    return {
        **{name: value for name, value in patch.items() if name != "_cut"},
        "cut": {**left, **cuts} or UNSET,
    }


_ITEM_TUPLES: Final[JsonObject] = {"content": tuple[Block, ...]}
_TOOL_TUPLES: Final[JsonObject] = {
    "content": tuple[ToolContent, ...],
    "locations": tuple[JsonObject, ...],
}
"""The types of the members of an item and a tool call that are lists in JSON."""


def updated_item(item: Item, patch: JsonObject) -> Item:
    """Return an item with the changes of an `ItemUpdated`.

    The patch of an event that came as JSON has plain objects in place of content blocks; they
    become blocks. Raises `msgspec.ValidationError` if they are not of the form of blocks.
    """
    if len(patch) == 1 and "status" in patch:  # most patches change only that
        return msgspec.structs.replace(item, status=patch["status"])
    if "tool" in patch:
        known = item.tool or ToolCall()
        changed = _patch(known.cut, _typed(patch["tool"], _TOOL_TUPLES))
        tool = msgspec.structs.replace(known, **changed)
        if len(patch) == 1 and item.cut is UNSET:  # most others change only the tool call
            return msgspec.structs.replace(item, tool=tool)
        patch = {**patch, "tool": tool}
    return msgspec.structs.replace(item, **_patch(item.cut, _typed(patch, _ITEM_TUPLES)))


def _typed(patch: JsonObject, forms: JsonObject) -> JsonObject:
    """Convert a patch that came as JSON: replace lists of plain objects with tuples of structs."""
    for name, form in forms.items():
        if isinstance(patch.get(name), list):
            patch = {**patch, name: msgspec.convert(patch[name], form)}
    return patch
