"""The checker of histories finds what is wrong: in each of these one thing is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from .agents import Agents, Record
from .history import (
    Frame,
    History,
    Json,
    Lease,
    Look,
    Process,
    Said,
    Shown,
    Stored,
    check,
    disturbed,
    overdue,
)


def turn(id: str, prompt: str, outcome: str = "completed") -> list[Json]:
    content = [{"type": "text", "text": prompt}]
    item = {"id": f"i-{id}", "type": "text", "turn": id}
    return [
        {"kind": "turn.started", "turn": id, "origin": "user", "prompt": content},
        {"kind": "item.opened", "item": item},
        {"kind": "item.delta", "item": f"i-{id}", "text": prompt},
        {"kind": "item.closed", "item": f"i-{id}", "status": "completed"},
        {"kind": "turn.ended", "turn": id, "outcome": outcome},
    ]


def history() -> History:
    """A session of two owners with a turn each, which one client has led and another has seen."""
    first, second = turn("t1", "one"), turn("t2", "two")
    frames = [Frame(1, 2, 1, first[:2]), Frame(3, 5, 1, first[2:]), Frame(6, 10, 3, second)]
    shown = [
        Shown(client, "s", "e", seq - 1, seq, event)
        for client in ("a", "b")
        for seq, event in enumerate(first + second, 1)
    ]
    said = [
        Said("a", "s", "one", {"turn": "t1", "seq": 1}),
        Said("a", "s", "two", {"turn": "t2", "seq": 6}),
        Said("a", "s", "never answered"),
    ]
    return History(
        shown=shown,
        said=said,
        received=["one", "two"],
        sessions=[Stored("s", "e", 11, 3, frames)],
    )


def test_nothing_is_wrong_where_nothing_is() -> None:
    assert check(history()) == []
    assert disturbed(history()) == []


def lose_the_last_frame(h: History) -> None:
    h.sessions[0].frames.pop()


def lose_a_frame(h: History) -> None:
    del h.sessions[0].frames[1]


def lose_a_session(h: History) -> None:
    h.sessions.clear()


def lose_the_end_of_the_row(h: History) -> None:
    h.sessions[0].frames.pop()
    h.sessions[0].next = 6


def write_a_frame_twice(h: History) -> None:
    h.sessions[0].frames.insert(1, h.sessions[0].frames[1])


def overlap(h: History) -> None:
    frame = h.sessions[0].frames[1]
    frame.first, frame.events = 2, [h.sessions[0].frames[0].events[-1], *frame.events]


def drop_an_event_of_a_frame(h: History) -> None:
    h.sessions[0].frames[1].events.pop(0)


def let_an_earlier_owner_write(h: History) -> None:
    h.sessions[0].frames[1].owner = 4
    h.sessions[0].owner = 4


def let_nobody_write(h: History) -> None:
    h.sessions[0].owner = 2


def show_what_is_stored_otherwise(h: History) -> None:
    h.shown[2].event = h.shown[2].event | {"text": "won"}


def show_a_merged_event_of_another_text(h: History) -> None:
    h.shown = [Shown("a", "s", "e", 0, 3, {"kind": "item.delta", "item": "i-t1", "text": "one"})]


def show_another_epoch(h: History) -> None:
    h.shown[2].epoch = "f"


def show_what_is_not_stored(h: History) -> None:
    h.shown.append(Shown("b", "s", "e", 10, 11, {"kind": "title", "title": "one"}))


def send_a_prompt_twice(h: History) -> None:
    h.received.append("one")


def send_a_prompt_that_is_not_stored(h: History) -> None:
    h.received.append("never answered")


def begin_a_prompt_twice(h: History) -> None:
    h.sessions[0].frames.append(Frame(11, 15, 3, turn("t3", "two")))
    h.sessions[0].next = 16


def acknowledge_what_is_not_there(h: History) -> None:
    h.said[2].answer = {"turn": "t3", "seq": 11}


def acknowledge_what_does_not_wait(h: History) -> None:
    h.said[2].answer = {"queued": 1, "entry": "q1", "seq": 11}


def acknowledge_another_turn(h: History) -> None:
    h.said[0].answer = {"turn": "t2", "seq": 1}


def end_a_turn_twice(h: History) -> None:
    frame = h.sessions[0].frames[2]
    frame.events.append(frame.events[-1])
    frame.last, h.sessions[0].next = 11, 12


def never_end_a_turn(h: History) -> None:
    frame = h.sessions[0].frames[2]
    for shown in [each for each in h.shown if each.seq == 10]:
        h.shown.remove(shown)
    frame.events.pop()
    frame.last, h.sessions[0].next = 9, 10


def see_a_gap(h: History) -> None:
    h.broken.append("b: after 3 came 5")


def live_too_long(h: History) -> None:
    h.overdue.append("an agent")


@pytest.mark.parametrize(
    "fault",
    [
        lose_the_last_frame,
        lose_a_frame,
        lose_a_session,
        lose_the_end_of_the_row,
        write_a_frame_twice,
        overlap,
        drop_an_event_of_a_frame,
        let_an_earlier_owner_write,
        let_nobody_write,
        show_what_is_stored_otherwise,
        show_a_merged_event_of_another_text,
        show_another_epoch,
        show_what_is_not_stored,
        send_a_prompt_twice,
        send_a_prompt_that_is_not_stored,
        begin_a_prompt_twice,
        acknowledge_what_is_not_there,
        acknowledge_what_does_not_wait,
        acknowledge_another_turn,
        end_a_turn_twice,
        never_end_a_turn,
        see_a_gap,
        live_too_long,
    ],
)
def test_a_planted_fault_is_found(fault: Callable[[History], None]) -> None:
    planted = deepcopy(history())
    fault(planted)
    assert check(planted)


def test_an_event_may_stand_for_the_pieces_of_a_text() -> None:
    one = history()
    piece = {"kind": "item.delta", "item": "i-t1", "text": "one"}
    one.sessions[0].frames[1:2] = [
        Frame(3, 4, 1, [piece, piece]),
        Frame(5, 6, 1, turn("t1", "one")[3:]),
    ]
    for frame in one.sessions[0].frames[3:]:
        frame.first, frame.last = frame.first + 1, frame.last + 1
    one.sessions[0].next += 1
    one.said[1].answer = {"turn": "t2", "seq": 7}
    one.shown = [Shown("a", "s", "e", 2, 4, {**piece, "text": "oneone"})]
    assert check(one) == []


def test_a_prompt_that_waited_and_became_a_turn_later_is_there() -> None:
    one = history()
    one.said[1].answer = {"queued": 1, "entry": "q1", "seq": 6}
    assert check(one) == []


def test_a_restart_disturbs_by_a_refusal_and_by_an_end_of_a_turn() -> None:
    one = history()
    one.said[0].refused.append("unavailable: it is being drained")
    assert len(disturbed(one)) == 1
    one.sessions[0].frames[2].events[-1]["outcome"] = "agent_died"
    assert len(disturbed(one)) == 2


LEASES = [Lease(1, 7, 100.0, 110.0), Lease(2, 8, 100.0, 130.0), Lease(3, 7, 115.0, 130.0)]


@pytest.mark.parametrize(
    ("agent", "late"),
    [
        (Process(50, 7, 101.0), True),  # its lease is over, and its server has another one
        (Process(50, 7, 116.0), False),
        (Process(50, 8, 101.0), False),
        (Process(50, 9, 101.0), True),  # the lease was given back
        (Process(50, 9, 121.0), False),  # it began behind the look at the leases
    ],
)
def test_an_agent_that_outlives_its_lease_is_found(agent: Process, late: bool) -> None:
    assert bool(list(overdue(Look(120.0, LEASES, [agent])))) is late


def test_an_agent_is_alive_from_its_first_line_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "record"
    record, agents = Record(file), Agents(tmp_path)
    assert record.new() == []
    command = [sys.executable, "-S", "-c", "input()", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as agent:
        started: dict[str, Any] = {"label": "w1.1", "pid": agent.pid, "at": 7.0, "started": True}
        line = json.dumps(started).encode()
        file.write_bytes(line)
        assert record.new() == []  # it may be the half of it
        file.write_bytes(line + b"\n")
        assert agents.alive(record.new(), {"w1.1": 50}) == [Process(agent.pid, 50, 7.0)]
        assert record.new() == []
        assert agents.alive([], {}) == [Process(agent.pid, 50, 7.0)]
        agent.communicate(b"\n")
    assert agents.alive([], {}) == []
    assert record.lines == [started]
