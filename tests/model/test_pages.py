"""The last turns of a long session, those before them, and all of them copied in steps."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import FrameType, FunctionType, ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt._core.model.checkpoint import Checkpoints, prepend_records, restored
from agentrt._core.model.snapshot_copy import SnapshotCopy
from agentrt.effects import TaskSet, TextReceived, ToolCalled, UserContentReceived
from agentrt.events import (
    History,
    Item,
    ItemOpened,
    Snapshot,
    Task,
    Text,
    TurnRecord,
    TurnStarted,
)
from agentrt.lowlevel import SessionState
from agentrt.store import Record, StoredHistory

from .talk import Talk

ALL = 1_000


def run(talk: Talk, name: str, *, calls: int = 1) -> None:
    """A turn with a prompt, calls and an answer: as many items and two more."""
    talk.begin([Text(name)])
    for number in range(calls):
        talk.tell(ToolCalled(id=f"{name}-{number}", title=f"{name} call", status="completed"))
    talk.tell(TextReceived(f"{name} answer"))
    talk.conversation.end("completed")
    talk.step()


def of(*turns: str, calls: int = 1) -> Talk:
    talk = Talk()
    for turn in turns:
        run(talk, turn, calls=calls)
    return talk


def recent(talk: Talk, turns: int, items: int = ALL) -> Snapshot:
    return talk.state.snapshot("s1", "e1", talk.log.seq, turns=turns, items=items)


def prompts(page: Snapshot | History) -> list[str]:
    users = [item for item in page.items if item.type == "user"]
    return [block.text for item in users for block in item.content if isinstance(block, Text)]


def pages(talk: Talk, turns: int, items: int = ALL) -> Iterator[Snapshot | History]:
    page: Snapshot | History = recent(talk, turns, items)
    yield page
    while page.earlier is not None:
        page = talk.state.history(page.earlier, turns, items)
        yield page


def test_a_snapshot_of_the_last_turns_has_what_was_shown_in_them() -> None:
    talk = of("a", "b", "c", "d")
    snapshot = recent(talk, 2)
    assert prompts(snapshot) == ["c", "d"]
    assert [item.type for item in snapshot.items] == ["user", "tool", "text"] * 2
    assert [turn.id for turn in snapshot.turns] == ["t3", "t4"]
    assert snapshot.earlier == snapshot.items[0].id


def test_of_a_short_session_it_is_the_whole_one() -> None:
    talk = of("a", "b")
    assert recent(talk, 2) == talk.log.snapshot()
    assert recent(talk, 2).earlier is None


def test_the_turns_before_it_come_page_by_page_until_there_are_no_more() -> None:
    talk = of("a", "b", "c", "d", "e")
    assert [prompts(page) for page in pages(talk, 2)] == [["d", "e"], ["b", "c"], ["a"]]
    assert [[turn.id for turn in page.turns] for page in pages(talk, 2)][1:] == [
        ["t2", "t3", "t4"],
        ["t1", "t2"],
    ]


def test_a_turn_of_very_many_items_comes_in_pieces() -> None:
    talk = of("a", calls=20)
    found = list(pages(talk, 50, 6))
    assert [len(page.items) for page in found] == [6, 6, 6, 4]
    assert all([turn.id for turn in page.turns] == ["t1"] for page in found)


def test_all_pages_together_are_the_session() -> None:
    talk = of("a", "b", "c", calls=5)
    items = [item for page in reversed(list(pages(talk, 2, 4))) for item in page.items]
    assert items == talk.log.snapshot().items


def test_what_is_still_open_is_there_whatever_is_left_out() -> None:
    talk = of("a")
    talk.begin([Text("b")])
    talk.tell(ToolCalled(id="long", title="a server", status="running"))
    for number in range(20):
        talk.tell(ToolCalled(id=f"n{number}", title="a step", status="completed"))
    talk.step()
    snapshot = recent(talk, 50, 5)
    assert snapshot.items[0].tool is not None
    assert snapshot.items[0].tool.title == "a server"
    assert snapshot.earlier == snapshot.items[1].id
    assert len(snapshot.items) == 6


def test_of_the_work_in_the_background_what_runs_is_there_and_the_newest_of_the_rest() -> None:
    talk = of("a")
    for number in range(300):
        status = "running" if number % 100 == 7 else "completed"
        talk.tell(TaskSet(Task(id=f"b{number}", status=status)))
    tasks = [task.id for task in recent(talk, 1).tasks]
    assert tasks == ["b7", "b107", *(f"b{number}" for number in range(200, 300))]
    assert len(talk.log.snapshot().tasks) == 300


def test_in_what_the_agent_repeats_each_prompt_stands_for_a_turn() -> None:
    talk = Talk()
    for name in "abcd":
        talk.tell(UserContentReceived(content=[Text(name)], replay=True))
        talk.tell(TextReceived(f"{name} answer", replay=True))
    talk.items.replayed()
    talk.step()
    run(talk, "e")
    assert [prompts(page) for page in pages(talk, 2)] == [["d", "e"], ["b", "c"], ["a"]]
    assert [[turn.id for turn in page.turns] for page in pages(talk, 2)] == [["t1"], [], []]


def test_what_was_said_between_two_turns_goes_with_the_first() -> None:
    talk = of("a")
    talk.tell(UserContentReceived(content=[Text("between")]))
    talk.step()
    run(talk, "b")
    assert [prompts(page) for page in pages(talk, 1)] == [["b"], ["a", "between"]]


def test_a_page_before_something_that_nobody_knows_is_refused() -> None:
    with pytest.raises(KeyError):
        of("a").state.history("i99", 1, ALL)


def test_a_page_has_the_text_that_there_is_by_now() -> None:
    talk = Talk()
    talk.begin([Text("a")])
    for _ in range(2_000):
        talk.tell(TextReceived("word "))
    assert recent(talk, 1).items[-1].text == "word " * 2_000


def test_a_state_that_was_restored_has_the_same_pages() -> None:
    talk = Talk()
    checkpoints = Checkpoints(talk.state)
    for name in "abcd":
        run(talk, name)
    talk.begin([Text("e")])
    talk.tell(ToolCalled(id="open", title="a call", status="running"))
    talk.tell(TextReceived("words"), TaskSet(Task(id="b1", status="running")))
    talk.step()
    head, record = checkpoints.take(talk.log.seq, {}, named=False)
    assert record is not None
    state = restored(head, [record])
    again = state.snapshot("s1", "e1", talk.log.seq, turns=1, items=1)
    assert again == recent(talk, 1, 1)
    assert again.earlier is not None
    assert state.history(again.earlier, 2, ALL) == talk.state.history(again.earlier, 2, ALL)


@pytest.mark.parametrize("last", [1, 2, 4, 6])
def test_of_its_last_records_and_then_those_ahead_of_them_it_has_the_same_pages(last: int) -> None:
    talk, records = Talk(), list[Record]()
    checkpoints = Checkpoints(talk.state)
    for name in "abcdef":
        run(talk, name)
        talk.tell(UserContentReceived(content=[Text(f"behind {name}")]))
        talk.step()
        head, record = checkpoints.take(talk.log.seq, {}, named=False)
        assert record is not None
        records.append(record)
    left = len(records) - last
    ahead = StoredHistory(left, left, "a") if left else None
    part = restored(head, records[left:], ahead)
    assert part.turn_count == 6
    page: Snapshot | History = part.snapshot("s1", "e1", talk.log.seq, turns=2, items=ALL)
    shown = [*page.items]
    while page.earlier is not None:
        while part.lacks(page.earlier, 2, ALL):
            assert part.ahead is not None
            number = part.ahead.records
            prepend_records(part, records[max(0, number - 2) : number])
            assert part.turn_count == 6
        page = part.history(page.earlier, 2, ALL)
        shown[:0] = page.items
    assert shown == talk.log.snapshot().items
    assert list(part.turns.values()) == talk.log.snapshot().turns
    assert part.snapshot("s1", "e1", talk.log.seq) == talk.log.snapshot()


def lines_run(call: Any) -> int:
    """How many lines of Python a call takes: what it costs, whatever the machine does beside."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    gc.disable()  # a collection may run the finalizers of earlier tests
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def test_an_old_page_and_the_whole_session_are_found_without_a_step_for_each_item() -> None:
    short, long = of(*"abcdefgh"), of(*(f"n{number}" for number in range(1_000)))
    oldest = lines_run(lambda: long.state.history("i13", 2, ALL))
    assert oldest == lines_run(lambda: short.state.history("i13", 2, ALL))
    whole = lines_run(long.log.snapshot) - lines_run(short.log.snapshot)
    assert whole <= 2 * (1_000 - 8)  # those of the list of turns


def test_the_last_turns_cost_the_same_however_long_the_session_is() -> None:
    short, long = of(*"abcdefgh"), of(*(f"n{number}" for number in range(1_000)))
    assert lines_run(lambda: recent(long, 3)) == lines_run(lambda: recent(short, 3))


class CountedId(str):
    """An id that counts how often ids are compared or hashed."""

    __slots__ = ()
    uses = 0

    def __eq__(self, other: object) -> bool:
        CountedId.uses += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        CountedId.uses += 1
        return str.__hash__(self)


def item(number: int) -> Item:
    """The only item of the turn of this number."""
    turn = CountedId(f"t{number}")
    return Item(id=CountedId(f"i{number}"), type="user", status="completed", turn=turn)


def uses_of_ids_in_a_walk(count: int, *, stored: int) -> int:
    """The comparisons and hashes of ids in a walk through as many pages of one turn each."""
    state = SessionState()
    for number in range(stored, count):
        new = item(number)
        assert new.turn is not None
        state.apply(TurnStarted(turn=new.turn, origin="user"))
        state.apply(ItemOpened(new))
    state.ahead = StoredHistory(stored, stored, "") if stored else None
    before = CountedId.uses
    earlier = state.snapshot("s1", "e1", 0, turns=1, items=ALL).earlier
    pages = 1
    while earlier is not None:
        while state.lacks(earlier, 1, ALL):
            assert state.ahead is not None
            number = state.ahead.records - 1
            left = StoredHistory(number, number, "") if number else None
            old = item(number)
            state.prepend_history([TurnRecord(id=old.turn or "", origin="user")], [old], left)
        page = state.history(earlier, 1, ALL)
        earlier = page.earlier
        pages += 1
    assert pages == count
    return CountedId.uses - before


@pytest.mark.parametrize("stored", [False, True])
def test_a_walk_through_all_pages_costs_as_much_as_they_hold(stored: bool) -> None:
    few = uses_of_ids_in_a_walk(100, stored=50 * stored)
    assert uses_of_ids_in_a_walk(800, stored=400 * stored) <= 9 * few


def test_a_page_is_found_the_same_way_from_any_item() -> None:
    """Also from one that no page began with, and after older ones came before them."""
    whole = of("a", "b", "c", "d")
    assert len(list(pages(whole, 1))) == 4
    ids = list(whole.state.items)
    for found in ids[1:]:
        fresh = of("a", "b", "c", "d").state
        assert fresh.history(found, 2, ALL) == whole.state.history(found, 2, ALL)


def test_older_items_come_first_in_order_and_keep_the_places_of_the_others() -> None:
    state = SessionState()

    def add(ids: str) -> None:
        state.add_items(Item(id=id, type="assistant", text=id) for id in ids)

    def prepend(ids: str, text: str = "") -> None:
        items = [Item(id=id, type="assistant", text=text or id) for id in ids]
        state.prepend_history([], items, None)

    def before(id: str) -> list[str]:
        return [item.id for item in state.history(id, ALL, ALL).items]

    add("d")
    prepend("bc")
    add("e")
    prepend("")
    assert before("e") == ["b", "c", "d"]
    prepend("ad", "older")
    assert before("e") == ["a", "b", "c", "d"]
    assert before("c") == ["a", "b"]
    add("f")
    assert list(state.item_ids) == [*"abcdef"] == list(state.items)
    assert (state.items["a"].text, state.items["d"].text) == ("older", "d")
    with pytest.raises(KeyError):
        before("g")


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2_000)), max_size=8), st.data())
def test_ids_in_groups_are_the_same_as_in_a_list(
    added: list[tuple[bool, int]], data: st.DataObject
) -> None:
    """Whether they came before or behind the others, and in groups of whatever size."""
    ids: Any = type(SessionState().item_ids)()
    expected: list[str] = []
    for first, count in added:
        new = [f"k{len(expected) + n}" for n in range(count)]
        if first:
            ids.prepend(new)
            expected[:0] = new
        elif new:
            ids.append(new)
            expected += new
    size = len(expected)
    at, end = data.draw(st.tuples(st.integers(-9, size), st.integers(0, size)))
    assert len(ids) == size
    assert list(ids) == expected
    assert ids[at:end] == expected[at:end]
    assert list(ids.before(end)) == expected[:end][::-1]
    for position in {0, end, size - 1} & {*range(size)}:
        assert ids[position] == expected[position]
        assert ids.index(expected[position]) == ids.index(expected[position], 0, size) == position
    with pytest.raises(IndexError):
        ids[size]
    with pytest.raises(ValueError, match="unknown"):
        ids.index("unknown")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="every dictionary is tracked there")
def test_the_garbage_collector_does_not_look_through_a_long_session() -> None:
    """Otherwise its pauses would grow with the session."""
    talk = Talk()
    for turn in range(200):
        run(talk, f"turn{turn}", calls=100)
        talk.told()
    gc.collect()
    found, looked_through, todo = {id(talk.log)}, 0, [talk.log, talk.state]
    while todo:
        each = todo.pop()
        referents = gc.get_referents(each)
        looked_through += len(referents) if gc.is_tracked(each) else 0
        new = [one for one in referents if not isinstance(one, (type, ModuleType, FunctionType))]
        todo += [one for one in new if id(one) not in found]
        found |= set(map(id, new))
    assert len(found) > 20_000
    assert looked_through < 5_000


# --- copies in steps; `test_any_order.py` makes some in any course of events

TURNS = 20


@pytest.mark.parametrize("piece", [1, 3, ALL])
def test_a_copy_in_steps_includes_what_happened_between_its_steps(piece: int) -> None:
    talk = of(*map(str, range(TURNS)))
    talk.begin([Text("now")])
    copy = SnapshotCopy(talk.log, piece=piece)
    steps = 0
    while (found := copy.step()) is None:
        steps += 1
        if steps < TURNS:
            talk.tell(TextReceived(f"word {steps} "))
        elif steps == TURNS:
            talk.conversation.end("completed")
        talk.step()
    assert found == talk.log.snapshot()
    assert steps == 0 if piece == ALL else steps > TURNS / piece
    copy.close()


def test_a_later_event_does_not_change_a_copy() -> None:
    talk = of("1", "2")
    talk.begin([Text("now")])
    copy = SnapshotCopy(talk.log)
    found, same = copy.step(), talk.log.snapshot()
    talk.tell(TextReceived("more"))
    talk.conversation.end("completed")
    talk.step()
    assert found == same


def test_a_copy_includes_history_that_is_loaded_in_the_meantime() -> None:
    talk = of(*map(str, range(TURNS)))
    talk.state.ahead = StoredHistory(2, 2, "first")
    copy = SnapshotCopy(talk.log, piece=2)
    left: StoredHistory | None = StoredHistory(1, 1, "first")
    for number in (1, 0):
        for _ in range(3):
            assert copy.step() is None
        turn = TurnRecord(id=f"old{number}", origin="user", outcome="completed")
        item = Item(id=f"older{number}", type="user", turn=turn.id, status="completed")
        talk.state.prepend_history([turn], [item], left)
        left = None
    while (found := copy.step()) is None:
        pass
    assert found == talk.log.snapshot()
    assert [item.id for item in found.items[:2]] == ["older0", "older1"]
