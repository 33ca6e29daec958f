"""The reducer of `agentrt-client` agrees with the Python one after every event (W1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrt.events import (
    TERMINAL,
    AgentState,
    Choice,
    Command,
    CommandsChanged,
    Diff,
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
    PermissionClosed,
    PermissionOpened,
    PermissionOption,
    PlanChanged,
    PlanEntry,
    QueueChanged,
    QueueEntry,
    RunningTurn,
    Snapshot,
    State,
    StateChanged,
    Task,
    TaskChanged,
    Text,
    TitleChanged,
    ToolCall,
    ToolText,
    TurnEnded,
    TurnStarted,
    Usage,
    UsageChanged,
)
from agentrt.hosting import left_open
from agentrt.lowlevel import SessionState
from model.make_golden import FOLDER
from page.kit import Answering, needs_node, running

pytestmark = needs_node
HERE = Path(__file__).parent

_snapshots: msgspec.json.Decoder[Snapshot] = msgspec.json.Decoder(Snapshot)


class Page:
    """The reducer of the JavaScript client."""

    def __init__(self, node: Answering) -> None:
        self._node = node

    def fold(self, start: Any, events: Sequence[Any]) -> list[Snapshot]:
        """The snapshots before, between and behind the events."""
        return _convert(self._node.ask([start, *events])["snapshots"])

    def leave(self, start: Any, events: Sequence[Any]) -> tuple[list[list[Event]], list[Snapshot]]:
        """What is left open before, between and behind the events, and the snapshots of a session
        that is gone there."""
        told = self._node.ask([start, *events])
        return msgspec.convert(told["open"], list[list[Event]]), _convert(told["gone"])


def _convert(snapshots: list[Any]) -> list[Snapshot]:
    place = {"session": "s1", "epoch": "e1"}
    return [msgspec.convert({**place, "seq": n, **s}, Snapshot) for n, s in enumerate(snapshots)]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with running("fold.mjs", HERE) as node:
        yield Page(node)


golden = pytest.mark.parametrize(
    "trace", sorted(FOLDER.glob("*.ndjson")), ids=lambda path: path.stem
)


@golden
def test_every_prefix_of_a_golden_trace_folds_to_the_snapshot_behind_it(
    page: Page, trace: Path
) -> None:
    frames = [msgspec.json.decode(line) for line in trace.read_bytes().splitlines()]
    events = [frame["event"] for frame in frames if frame["type"] == "event"]
    recorded = [frame for frame in frames if frame["type"] == "snapshot"]
    expected = [msgspec.convert(frame, Snapshot) for frame in recorded]
    assert page.fold(frames[0], events) == expected


@golden
def test_a_session_that_goes_behind_any_event_of_a_golden_trace_leaves_nothing_open(
    page: Page, trace: Path
) -> None:
    frames = [msgspec.json.decode(line) for line in trace.read_bytes().splitlines()]
    events = [frame["event"] for frame in frames if frame["type"] == "event"]
    state = SessionState(AgentState("demo", "acp"))
    check_leaving(page, state, frames[0], msgspec.convert(events, list[Event]))


def check_leaving(page: Page, state: SessionState, start: Any, events: list[Event]) -> None:
    """Behind each event, the page closes what `left_open` does, and shows no work any more."""
    opens, gone = page.leave(start, events)
    expected = [left_open(state)]
    for event in events:
        state.apply(event)
        expected.append(left_open(state))
    assert opens == _told(expected)
    for view in gone:
        assert view.state.phase == "closed"
        assert view.state.turn is None
        assert not view.state.agent.alive
        assert not view.permissions
        assert all(turn.outcome is not None for turn in view.turns)
        assert all(item.status in TERMINAL for item in view.items)
        assert all(task.status in TERMINAL for task in view.tasks)


def _told(events: list[list[Event]]) -> list[list[Event]]:
    """As somebody gets them who reads them from a socket."""
    return msgspec.json.decode(msgspec.json.encode(events), type=list[list[Event]])


ids = st.sampled_from(["a", "b", "c"])
words = st.text(st.characters(codec="utf-8"), max_size=6)
maybe = st.none() | words
blocks = st.lists(st.builds(Text, words), max_size=2)
tools = st.builds(
    ToolCall, title=words, input=st.none() | st.dictionaries(words, words, max_size=1)
)
patches = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["waiting", "running"]),
        "tool": st.fixed_dictionaries(
            {},
            optional={
                "title": words,
                "output": maybe,
                "content": st.lists(
                    st.builds(ToolText, st.builds(Text, words)) | st.builds(Diff, words, words),
                    max_size=2,
                ),
            },
        ),
    },
)
errors = st.none() | st.builds(ErrorInfo, words, words)
usages = st.builds(Usage, used=st.integers(0, 9), cost=st.none() | st.floats(0, 1))
turn_states = st.builds(RunningTurn, ids, st.just("user"), st.floats(0, 1e9))
agents = st.builds(AgentState, words, st.just("acp"), pid=st.none() | st.integers(1, 9))
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        StateChanged,
        st.builds(
            State, st.sampled_from(["idle", "running"]), st.none() | turn_states, agents, errors
        ),
    ),
    st.builds(TurnStarted, ids, st.sampled_from(["user", "agent"])),
    st.builds(
        TurnEnded,
        turn=ids,
        outcome=st.sampled_from(["completed", "cancelled", "failed"]),
        by=st.sampled_from([None, "user"]),
        stop_reason=maybe,
        usage=st.none() | usages,
        error=errors,
        structured_output=st.none() | st.lists(words, max_size=1),
    ),
    st.builds(ItemDelta, ids, words),
    st.builds(ItemUpdated, ids, patches),
    st.builds(ItemClosed, ids, st.sampled_from(["completed", "cancelled"])),
    st.builds(
        PermissionOpened,
        request=ids,
        title=words,
        options=st.lists(st.builds(PermissionOption, ids, words, words), max_size=1),
    ),
    st.builds(PermissionClosed, request=ids, outcome=st.just("selected"), option=maybe),
    st.builds(QueueChanged, st.lists(st.builds(QueueEntry, ids, blocks), max_size=2)),
    st.builds(QueueChanged, st.just([]), st.booleans()),
    st.builds(PlanChanged, st.lists(st.builds(PlanEntry, words), max_size=2)),
    st.builds(UsageChanged, usages),
    st.builds(
        ModesChanged,
        st.builds(Modes, mode=maybe, modes=st.lists(st.builds(Choice, ids, words), max_size=1)),
    ),
    st.builds(CommandsChanged, st.lists(st.builds(Command, words), max_size=2)),
    st.builds(TitleChanged, maybe),
    st.builds(TaskChanged, st.builds(Task, id=ids, status=words)),
    st.builds(Notice, st.just("info"), words, words),
)
opened = st.lists(
    st.builds(
        ItemOpened,
        st.builds(
            Item,
            id=ids,
            type=st.sampled_from(["text", "tool"]),
            turn=st.none() | ids,
            text=words,
            content=blocks,
            tool=st.none() | tools,
        ),
    ),
    unique_by=lambda event: event.item.id,
)


@pytest.mark.slow
@given(opened=opened, more=st.lists(events, max_size=15), seed=st.randoms(use_true_random=False))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_events_in_any_order_fold_alike(
    page: Page, opened: list[Event], more: list[Event], seed: Any
) -> None:
    """Also those that make no sense: of a turn or an item that nobody knows, or that is over."""
    trace = [*opened, *more]
    seed.shuffle(trace)
    state = SessionState(AgentState("demo", "acp"))
    snapshots = [_read(state, 0)]
    for seq, event in enumerate(trace, 1):
        state.apply(event)
        snapshots.append(_read(state, seq))
    start = SessionState(AgentState("demo", "acp")).snapshot("s1", "e1", 0)
    assert page.fold(start, trace) == snapshots
    check_leaving(page, SessionState(AgentState("demo", "acp")), start, trace)


def _read(state: SessionState, seq: int) -> Snapshot:
    """As somebody gets it who reads it from a socket."""
    return _snapshots.decode(msgspec.json.encode(state.snapshot("s1", "e1", seq)))
