"""The numbered log: numbers, the ring and its bounds, cursors, wake-ups."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import EventsExpired
from agentrt.events import (
    Event,
    Item,
    ItemClosed,
    ItemOpened,
    ItemUpdated,
    Notice,
    PlanChanged,
    PlanEntry,
    Task,
    TaskChanged,
    TextDelta,
    ThoughtDelta,
    TitleChanged,
    TurnStarted,
    Usage,
    UsageChanged,
)
from agentrt.lowlevel import Log, SessionState

from .logs import drain, drain_numbered, fill, make_log
from .talk import shown


def titles(count: int, first: int = 1) -> list[Event]:
    return [TitleChanged(str(number)) for number in range(first, first + count)]


def notices(count: int) -> list[Event]:
    """Events of which no two can be joined."""
    return [Notice("info", str(number), "") for number in range(count)]


# --- numbers


def test_events_are_numbered_from_one_without_gaps() -> None:
    log = make_log()
    cursor = log.cursor()
    fill(log, *titles(3))
    assert drain_numbered(cursor) == list(enumerate(titles(3), 1))
    assert log.seq == 3


def test_an_event_is_in_the_state_as_soon_as_it_is_appended() -> None:
    log = make_log()
    log.append(TitleChanged("now"))
    assert log.state.title == "now"
    assert (log.snapshot().seq, log.snapshot().title) == (1, "now")


def test_a_snapshot_carries_session_epoch_and_number() -> None:
    log = make_log()
    fill(log, *titles(7))
    snapshot = log.snapshot()
    assert (snapshot.session, snapshot.epoch, snapshot.seq) == ("s1", "e1", 7)


# --- what follows a number


def test_since_gives_exactly_what_follows() -> None:
    log = make_log()
    fill(log, *titles(5))
    assert log.since(0) == titles(5)
    assert log.since(3) == titles(2, first=4)
    assert log.since(5) == []


@pytest.mark.parametrize("seq", [-1, 6, 10**9])
def test_a_number_that_the_log_never_gave_is_an_overrun(seq: int) -> None:
    log = make_log()
    fill(log, *titles(5))
    with pytest.raises(EventsExpired):
        log.since(seq)
    with pytest.raises(EventsExpired):
        log.cursor(after=seq)


def test_a_cursor_begins_behind_the_last_event_or_behind_a_given_one() -> None:
    log = make_log()
    fill(log, *titles(5))
    behind, early = log.cursor(), log.cursor(after=2)
    fill(log, *titles(1, first=6))
    assert drain(behind) == titles(1, first=6)
    assert drain(early) == titles(4, first=3)


def test_cursors_do_not_disturb_each_other() -> None:
    log = make_log()
    cursors = [log.cursor() for _ in range(3)]
    fill(log, *titles(4))
    cursors[0].pop()
    assert [len(drain(cursor)) for cursor in cursors] == [3, 4, 4]


# --- the ring


def test_the_ring_is_bounded_by_the_number_of_events() -> None:
    log = make_log(events=100)
    fill(log, *titles(1000))
    kept = log.since(log.seq - 75)
    assert kept == titles(75, first=926)
    with pytest.raises(EventsExpired):
        log.since(log.seq - 101)


def test_the_ring_is_bounded_by_the_bytes_that_the_events_came_from() -> None:
    log = make_log(size=100_000)
    for event in titles(50):
        log.arrived = 10_000
        log.append(event)
        log.publish()
    assert log.since(log.seq - 6)
    with pytest.raises(EventsExpired):
        log.since(log.seq - 11)


def test_bytes_that_became_no_event_weigh_nothing() -> None:
    log = make_log(size=100_000)
    fill(log, *titles(10))
    for _ in range(50):
        log.arrived = 10_000
        log.publish()
    log.arrived = 1_000
    fill(log, *titles(1, first=11))
    assert log.since(0) == titles(11)


def test_the_newest_batch_stays_however_big_it_is() -> None:
    log = make_log(events=10)
    log.publish()
    fill(log, *titles(500), batch=500)
    assert len(log.since(0)) == 500
    fill(log, *titles(1, first=501))
    with pytest.raises(EventsExpired):
        log.since(499)
    assert log.since(500) == titles(1, first=501)


@given(
    st.integers(16, 600),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 2000)), max_size=12),
    st.data(),
)
def test_the_ring_has_the_last_events_whatever_the_batches_are(
    bound: int, batches: list[tuple[int, int]], data: st.DataObject
) -> None:
    log, count = make_log(events=bound, size=200_000), 0
    lossless, newest = log.cursor(lossless=True), 0
    for size, arrived in batches:
        for event in notices(count + size)[count:]:
            log.append(event)
        log.arrived = arrived
        log.publish()
        count, newest = count + size, size or newest
    expected, first = notices(count), log.kept_after
    assert count - first <= max(bound, newest + 256)
    after = data.draw(st.integers(first, count))
    assert log.since(after) == expected[after:]
    assert drain(log.cursor(after)) == expected[after:]
    assert drain(lossless) == expected
    if first:
        assert count - first >= min(bound // 2, newest)
        with pytest.raises(EventsExpired):
            log.since(first - 1)
        with pytest.raises(EventsExpired):
            log.cursor(first - 1)


def test_a_cursor_that_fell_behind_the_ring_raises() -> None:
    log = make_log(events=10)
    cursor = log.cursor()
    fill(log, *titles(100))
    with pytest.raises(EventsExpired):
        cursor.pop()


def test_the_state_outlives_the_ring() -> None:
    log = make_log(events=10)
    fill(log, ItemOpened(Item(id="i1", type="text")), *(TextDelta("i1", "ab") for _ in range(500)))
    assert log.snapshot().items[0].text == "ab" * 500


# --- wake-ups


def test_a_batch_wakes_a_listener_once_and_no_batch_does_not() -> None:
    log, woken = make_log(), []
    log.listen(lambda: woken.append(log.seq))
    for event in titles(3):
        log.append(event)
    assert woken == []
    log.publish()
    log.publish()
    assert woken == [3]


def test_a_listener_that_left_is_not_woken() -> None:
    log, woken = make_log(), []
    leave = log.listen(lambda: woken.append("first"))
    log.listen(lambda: woken.append("second"))
    leave()
    leave()
    fill(log, *titles(1))
    assert woken == ["second"]


def test_a_listener_may_leave_while_it_is_woken() -> None:
    log, woken = make_log(), []

    def wake() -> None:
        woken.append(log.seq)
        leave()

    leave = log.listen(wake)
    fill(log, *titles(2))
    assert woken == [1]


def test_a_listener_reads_the_whole_batch_before_the_ring_is_cut() -> None:
    log, read = make_log(events=10), []
    cursor = log.cursor()
    log.listen(lambda: read.extend(drain(cursor)))
    fill(log, *titles(1000), batch=8)
    assert read == titles(1000)


# --- lossless cursors


def test_a_lossless_cursor_misses_nothing_however_late_it_reads() -> None:
    log = make_log(events=10)
    cursor = log.cursor(lossless=True)
    events = notices(1000)
    fill(log, *events)
    assert drain_numbered(cursor) == list(enumerate(events, 1))
    assert cursor.pop() is None


def test_what_a_lossless_cursor_has_in_hand_is_not_lost_when_the_ring_goes_on() -> None:
    log = make_log(events=10)
    cursor = log.cursor(lossless=True)
    events = notices(100)
    for first in range(0, 100, 20):  # what it has in hand was in the ring, and kept ones later
        fill(log, *events[first : first + 20])
        assert cursor.ready or cursor.more()
    assert drain_numbered(cursor) == list(enumerate(events, 1))


def test_a_cursor_that_pauses_is_given_nothing_until_it_goes_on_behind_a_place() -> None:
    log = make_log(events=10)
    cursor = log.cursor(lossless=True)
    fill(log, *notices(3))
    assert cursor.more()
    cursor.pause()
    fill(log, *notices(30))
    assert cursor.pop() is None
    assert cursor.seq == 33
    cursor.skip(32)
    fill(log, *notices(30))
    assert [seq for seq, _ in drain_numbered(cursor)] == list(range(33, 64))


def test_unread_text_is_joined_so_that_memory_is_bounded_by_content() -> None:
    log = make_log(events=100)
    cursor = log.cursor(lossless=True)
    fill(log, ItemOpened(Item(id="i1", type="text")))
    fill(log, *(TextDelta("i1", str(n % 10)) for n in range(100_000)), batch=50)
    read = drain(cursor)
    assert len(read) < 200
    assert "".join(e.text for e in read if isinstance(e, TextDelta)) == "0123456789" * 10_000


def test_joined_text_stays_in_pieces_of_a_bounded_size() -> None:
    log = make_log(events=10)
    cursor = log.cursor(lossless=True)
    piece = "x" * 10_000
    fill(log, ItemOpened(Item(id="i1", type="text")))
    fill(log, *(TextDelta("i1", piece) for _ in range(300)))
    read = [event for event in drain(cursor) if isinstance(event, TextDelta)]
    assert sum(len(event.text) for event in read) == 300 * len(piece)
    assert all(len(event.text) < 256 * 1024 + 10 * len(piece) for event in read)
    assert len(read) < 30


def unread(*events: Event) -> list[Event]:
    """What a reader gets of events that the ring has no room for."""
    log = make_log(events=1)
    cursor = log.cursor(lossless=True)
    fill(log, *events, *notices(20))
    return [event for event in drain(cursor) if event not in notices(20)]


def test_joined_updates_keep_the_fields_that_only_the_first_one_names() -> None:
    first = ItemUpdated("i1", {"status": "running", "tool": {"title": "a", "output": 1}})
    second = ItemUpdated("i1", {"tool": {"title": "b"}})
    assert unread(first, second) == [
        ItemUpdated("i1", {"status": "running", "tool": {"title": "b", "output": 1}})
    ]
    assert first.patch["tool"]["title"] == "a"


@pytest.mark.parametrize(
    "events",
    [
        (TurnStarted("t1", "user"), TurnStarted("t2", "user")),
        (Notice("info", "a", ""), Notice("info", "a", "")),
        (TitleChanged("a"), UsageChanged(Usage())),
        (ItemUpdated("i1", {"a": 1}), ItemUpdated("i2", {"a": 1})),
    ],
    ids=["starts", "notices", "other kinds", "other items"],
)
def test_a_start_and_a_notice_are_never_joined(events: tuple[Event, ...]) -> None:
    assert unread(*events) == [*events]


@pytest.mark.parametrize(
    "event",
    [
        lambda n: ItemUpdated("i1", {"tool": {"output": n}}),
        lambda n: UsageChanged(Usage(used=n)),
        lambda n: PlanChanged([PlanEntry(str(n))]),
        lambda n: TaskChanged(Task(id="b1", detail=str(n))),
    ],
    ids=["tool update", "usage", "plan", "task"],
)
def test_unread_events_that_replace_each_other_do_not_pile_up(event: Any) -> None:
    log = make_log(events=100)
    cursor = log.cursor(lossless=True)
    fill(log, *(event(n) for n in range(10_000)), batch=50)
    read = drain(cursor)
    assert len(read) < 200
    assert read[-1] == event(9999)


def test_text_is_not_joined_over_what_stands_between() -> None:
    log = make_log(events=4)
    cursor = log.cursor(lossless=True)
    fill(
        log,
        *opened(),
        TextDelta("i1", "a"),
        TextDelta("i1", "b"),
        ThoughtDelta("i2", "c"),
        TextDelta("i1", "d"),
        ItemClosed("i1", "completed"),
        *notices(20),
    )
    assert drain_numbered(cursor)[2:6] == [
        (4, TextDelta("i1", "ab")),
        (5, ThoughtDelta("i2", "c")),
        (6, TextDelta("i1", "d")),
        (7, ItemClosed("i1", "completed")),
    ]


def test_unread_text_is_kept_only_in_the_state() -> None:
    log = make_log(events=10)
    cursor = log.cursor(lossless=True)
    fill(log, ItemOpened(Item(id="i1", type="text", text="begun ")))
    fill(log, *(TextDelta("i1", str(n % 10)) for n in range(1000)), *notices(20))
    assert not any(isinstance(event, TextDelta) for _, event in cursor._kept)
    texts = [event.text for event in drain(cursor) if isinstance(event, TextDelta)]
    assert "begun " + "".join(texts) == log.state.text("i1")


def test_unread_text_of_an_item_that_nobody_knows_is_not_lost() -> None:
    log = make_log(events=4)
    cursor = log.cursor(lossless=True)
    fill(log, TextDelta("i9", "a"), *notices(20))
    assert cursor.pop() == TextDelta("i9", "a")


class Kept:
    """Keeps the batches of a log until the test shows them."""

    def __init__(self, log: Log, shown: Log) -> None:
        self.batches: list[tuple[int, list[Event], int]] = []
        self._shown = shown
        log.persist_with(self, shown)

    def put(self, first: int, events: list[Event], size: int) -> None:
        self.batches.append((first, events, size))

    def check(self) -> None:
        pass

    def show(self, count: int) -> None:
        for first, events, size in self.batches[:count]:
            assert first == self._shown.seq + 1
            self._shown.extend(events, size)
        del self.batches[:count]


def test_a_reader_of_a_kept_log_gets_the_text_that_is_shown_whole() -> None:
    log, shown = make_log(), make_log(events=10)
    kept = Kept(log, shown)
    cursor = log.shown.cursor(lossless=True)
    fill(log, *opened(), TextDelta("i1", "a"), TextDelta("i1", "b"), *notices(20))
    fill(log, TextDelta("i1", "c"), ItemClosed("i1", "completed"))
    assert drain(cursor) == []
    kept.show(24)
    assert shown.state.text("i1") == "ab"
    assert log.state.text("i1") == "abc"
    assert TextDelta("i1", "ab") in drain(cursor)
    kept.show(2)
    assert drain(cursor) == [TextDelta("i1", "c"), ItemClosed("i1", "completed")]
    assert not log.behind


@given(
    st.lists(st.builds(TextDelta, st.sampled_from(["i1", "i2"]), st.text(max_size=3)), max_size=30),
    st.integers(1, 6),
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5))),
)
def test_whenever_a_kept_log_is_shown_its_readers_get_what_happened(
    events: list[Event], batch: int, ring: int, steps: list[tuple[int, int]]
) -> None:
    log, shown = make_log(events=ring), make_log(events=ring)
    kept = Kept(log, shown)
    cursor = log.shown.cursor(lossless=True)
    fill(log, *opened(), *events, batch=batch)
    got: list[Event] = []
    for show, reads in steps:
        kept.show(show)
        got += [event for _ in range(reads) if (event := cursor.pop()) is not None]
        assert cursor.seq <= shown.seq
    kept.show(len(kept.batches))
    folded = SessionState()
    for event in [*got, *drain(cursor)]:
        folded.apply(event)
    for item in ("i1", "i2"):
        assert folded.text(item) == shown.state.text(item) == log.state.text(item)
    assert cursor.seq == shown.seq == log.seq


def test_a_closed_lossless_cursor_keeps_nothing_more() -> None:
    log = make_log(events=10)
    cursor = log.cursor(lossless=True)
    fill(log, *notices(100))
    cursor.close()
    fill(log, *notices(100))
    with pytest.raises(EventsExpired):
        cursor.pop()


texts = st.lists(
    st.one_of(
        st.builds(TextDelta, st.sampled_from(["i1", "i2"]), st.text(max_size=4)),
        st.builds(TitleChanged, st.text(max_size=2)),
        st.builds(lambda n: ItemUpdated("i1", {"tool": {"output": n}}), st.integers()),
        st.builds(lambda n: ItemUpdated("i1", {"tool": {"title": n}}), st.text(max_size=2)),
        st.builds(lambda n: Notice("info", n, ""), st.text(max_size=2)),
    ),
    max_size=60,
)


def opened() -> list[Event]:
    return [ItemOpened(Item(id=id, type="tool")) for id in ("i1", "i2")]


@given(texts, st.integers(1, 6), st.integers(1, 12), st.lists(st.integers(0, 5)), st.booleans())
def test_whatever_a_lossless_cursor_joins_folds_to_the_same_state(
    events: list[Event], batch: int, ring: int, reads: list[int], ahead: bool
) -> None:
    log = make_log(events=ring)
    cursor = log.cursor(lossless=True)
    read: list[tuple[int, Event]] = []

    def read_some() -> None:
        for _ in range(reads.pop() if reads else 0):
            if (event := cursor.pop()) is not None:
                read.append((cursor.seq, event))
        if ahead and not cursor.ready:
            cursor.more()

    log.listen(read_some)
    fill(log, *opened(), *events, batch=batch)
    read += drain_numbered(cursor)

    state = SessionState()
    for _, event in read:
        state.apply(event)
    assert shown(state, log.seq) == shown(log.state, log.seq)
    assert all(a < b for (a, _), (b, _) in pairwise(read))
    assert cursor.seq == log.seq
