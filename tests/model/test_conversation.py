"""Turns begin and end once, a cancel closes at once, and the state is told when it changes."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from agentrt.effects import (
    BlockReceived,
    CommandsSet,
    DecisionRequested,
    ModesSet,
    PlanSet,
    TaskSet,
    TextReceived,
    TitleSet,
    ToolCalled,
    UsageSet,
    UserContentReceived,
)
from agentrt.errors import LocalProtocolError
from agentrt.events import (
    Command,
    CommandsChanged,
    ErrorInfo,
    Modes,
    ModesChanged,
    Notice,
    Outcome,
    PermissionClosed,
    PlanChanged,
    PlanEntry,
    QueueEntry,
    RunningTurn,
    StateChanged,
    Task,
    TerminalRef,
    Text,
    TitleChanged,
    TurnEnded,
    TurnStarted,
    Usage,
    UsageChanged,
)

from .talk import Rules, Talk, ask, call, shown


@pytest.fixture
def talk() -> Talk:
    """Ready for a prompt, with all before it read."""
    talk = Talk()
    talk.events()
    return talk


# --- turns


def test_a_turn_of_the_users_begins_with_its_prompt(talk: Talk) -> None:
    turn = talk.begin([Text("hi")], hard=60.0)
    started, _ = talk.events()
    assert started == TurnStarted("t1", "user", [Text("hi")])
    assert talk.state.items["i1"].content == (Text("hi"),)
    assert (turn.id, turn.since, turn.deadline, turn.explicit) == ("t1", 1000.0, 1060.0, True)


def test_a_turn_takes_the_id_it_is_given(talk: Talk) -> None:
    assert talk.begin([], id="t7").id == "t7"
    assert talk.told()[0] == "turn t7 by user"


def test_a_second_turn_cannot_begin_inside_the_first(talk: Talk) -> None:
    talk.begin([])
    talk.events()
    with pytest.raises(LocalProtocolError, match="t1 is running"):
        talk.conversation.begin_own(explicit=True)
    assert talk.told() == []


def test_without_a_turn_there_is_nothing_to_cancel_or_end(talk: Talk) -> None:
    with pytest.raises(LocalProtocolError, match="no turn is running"):
        talk.conversation.cancel("user", None)
    with pytest.raises(LocalProtocolError, match="no turn is running"):
        talk.conversation.end("completed")
    assert talk.told() == []


def test_the_end_says_all_that_is_known_of_it(talk: Talk) -> None:
    talk.begin([])
    ended = talk.conversation.end(
        "failed",
        stop_reason="error",
        usage=Usage(total_tokens=3),
        error=ErrorInfo("agent_error", "no"),
        structured_output={"a": 1},
    )
    assert ended == TurnEnded(
        turn="t1",
        outcome="failed",
        stop_reason="error",
        usage=Usage(total_tokens=3),
        error=ErrorInfo("agent_error", "no"),
        structured_output={"a": 1},
    )
    assert talk.events()[-1] == ended


@pytest.mark.parametrize(
    "content", [TextReceived("a"), BlockReceived(block=Text("a")), call("c1", opens=True)]
)
def test_content_outside_a_turn_begins_one_of_the_agents(talk: Talk, content: TextReceived) -> None:
    talk.tell(content)
    assert talk.told()[0] == "turn t1 by agent"
    turn = talk.conversation.turn
    assert turn is not None
    assert (turn.origin, turn.explicit) == ("agent", False)


def test_the_tail_of_an_answer_behind_its_end_is_a_turn_of_its_own(talk: Talk) -> None:
    talk.begin([])
    talk.tell(TextReceived("ans", message="m1"))
    talk.conversation.end("completed")
    talk.events()
    talk.tell(TextReceived("wer", message="m1"))
    talk.conversation.end("completed")
    assert talk.told() == [
        "turn t2 by agent",
        "i3 text running in t2",
        "i3 + wer",
        "i3 completed",
        "turn t2 completed",
    ]


@pytest.mark.parametrize(
    "effect",
    [
        PlanSet([PlanEntry("a")]),
        UsageSet(Usage(used=1)),
        ModesSet(Modes(mode="ask")),
        CommandsSet([Command("help")]),
        TitleSet("A title"),
        TaskSet(Task(id="b1")),
        Notice("info", "n", "n"),
        TextReceived("a", replay=True),
    ],
)
def test_what_is_no_content_begins_no_turn(talk: Talk, effect: PlanSet) -> None:
    talk.tell(effect)
    assert talk.conversation.turn is None
    assert not [event for event in talk.events() if isinstance(event, TurnStarted)]


# --- cancel


def test_a_cancel_closes_everything_at_once_and_drops_what_follows(talk: Talk) -> None:
    talk.begin([])
    talk.tell(
        TextReceived("a"), call("c1", opens=True), ask("r1", "c1"), TextReceived("b", parent="c1")
    )
    talk.events()
    talk.conversation.cancel("user", 1010.0)
    assert talk.told() == ["r1 cancelled by turn", "i4 cancelled", "i3 cancelled"]
    talk.tell(
        TextReceived("c"),
        BlockReceived(block=Text("c")),
        call("c1", status="completed"),
        call("c2", opens=True),
        ask("r2", "c2"),
    )
    assert talk.told() == []
    assert talk.items.dropped == {"cancelling": 5}


def test_values_and_notices_are_still_reported_during_a_cancel(talk: Talk) -> None:
    talk.begin([])
    talk.conversation.cancel("user", None)
    talk.events()
    talk.tell(UsageSet(Usage(used=1)), Notice("info", "n", "n"))
    assert talk.told() == ["UsageChanged", "notice n"]


def test_a_second_cancel_changes_nothing(talk: Talk) -> None:
    talk.begin([])
    talk.conversation.cancel("user", 1010.0)
    talk.conversation.cancel("caller", 1099.0)
    talk.step()
    ended = talk.conversation.end("cancelled")
    assert ended.by == "user"
    state = talk.state.state
    assert state.turn == RunningTurn("t1", "user", 1000.0, None, cancel_deadline=1010.0)


def test_a_turn_that_nobody_cancelled_was_cancelled_by_the_agent(talk: Talk) -> None:
    talk.begin([])
    assert talk.conversation.end("cancelled").by == "agent"


@pytest.mark.parametrize("outcome", ["timed_out", "completed", "agent_died"])
def test_nobody_cancelled_a_turn_that_ended_otherwise(talk: Talk, outcome: Outcome) -> None:
    talk.begin([])
    talk.conversation.cancel("user", None)
    assert talk.conversation.end(outcome).by is None


def test_after_a_cancelled_turn_the_next_one_shows_everything_again(talk: Talk) -> None:
    talk.begin([])
    talk.conversation.cancel("user", None)
    talk.conversation.end("cancelled")
    talk.begin([])
    talk.events()
    talk.tell(TextReceived("a"), call("c1", opens=True))
    assert talk.told() == [
        "i3 text running in t2",
        "i3 + a",
        "i3 completed",
        "i4 tool pending in t2",
    ]


# --- values


def test_values_are_passed_on_as_they_are(talk: Talk) -> None:
    talk.tell(
        PlanSet([PlanEntry("a")]),
        ModesSet(Modes(mode="ask")),
        CommandsSet([Command("help")]),
        TitleSet(None),
    )
    assert talk.events() == [
        PlanChanged([PlanEntry("a")]),
        ModesChanged(Modes(mode="ask")),
        CommandsChanged([Command("help")]),
        TitleChanged(None),
    ]


def test_usage_keeps_what_an_update_does_not_mention(talk: Talk) -> None:
    talk.tell(UsageSet(Usage(used=1, size=9)), UsageSet(Usage(used=2, cost=0.5)))
    assert talk.events()[-1] == UsageChanged(Usage(used=2, size=9, cost=0.5))


def test_the_queue_is_reported_when_it_changes(talk: Talk) -> None:
    entry = QueueEntry("q1", [Text("next")])
    talk.queued()
    talk.queued(entry, paused=False)
    talk.queued(entry, paused=False)
    talk.queued(entry, paused=True)
    talk.queued()
    assert talk.told() == ["queue q1", "queue q1 paused", "queue nothing"]


# --- the state


def test_the_state_is_reported_only_when_it_changes(talk: Talk) -> None:
    for _ in range(3):
        talk.step()
    talk.tell(TextReceived("a"))
    talk.step()
    talk.tell(TextReceived("b"))
    talk.step()
    assert talk.phases() == ["running"]


def test_the_phases_of_a_session_follow_its_turn() -> None:
    talk = Talk(ready=False)
    conversation = talk.conversation
    talk.step()
    talk.live("open")
    talk.step()
    talk.begin([])
    talk.step()
    talk.tell(ask("r1"))
    talk.step()
    conversation.cancel("user", None)
    talk.step()
    conversation.end("cancelled")
    talk.step()
    talk.live("end")
    talk.step()
    talk.live("close")
    talk.step()
    assert talk.phases() == [
        *("starting", "idle", "running", "waiting", "cancelling", "idle", "dead", "closed")
    ]


def test_the_state_follows_the_agent_and_the_error(talk: Talk) -> None:
    talk.set_agent(pid=42, version="1.2")
    talk.step()
    talk.set_agent(alive=False)
    talk.conversation.error = ErrorInfo("agent_failed", "gone")
    talk.step()
    first, second = (e.state for e in talk.events() if isinstance(e, StateChanged))
    assert (first.agent.pid, first.agent.version, first.agent.alive) == (42, "1.2", True)
    assert (second.agent.alive, second.error) == (False, ErrorInfo("agent_failed", "gone"))


def test_the_session_is_busy_exactly_while_a_turn_runs(talk: Talk) -> None:
    talk.begin([], hard=60.0)
    talk.step()
    assert talk.state.state.turn == RunningTurn("t1", "user", 1000.0, 1060.0)
    talk.conversation.end("completed")
    talk.step()
    assert talk.state.state.turn is None


def test_ids_are_unique_by_kind(talk: Talk) -> None:
    kinds = ["t", "i", "t", "r", "tool", "t"]
    assert [talk.conversation.new_id(kind) for kind in kinds] == [
        *("t1", "i1", "t2", "r1", "tool1", "t3")
    ]


# --- after the agent, and after a restart of ours


@pytest.mark.parametrize("inputs", [["end"], ["close", "end"]])
def test_background_work_of_a_process_that_is_gone_is_orphaned(
    talk: Talk, inputs: list[Literal["close", "end"]]
) -> None:
    talk.tell(TaskSet(Task(id="b1")), TaskSet(Task(id="b2", status="completed")))
    talk.step()
    talk.events()
    talk.live(*inputs)
    talk.step()
    talk.step()
    assert talk.told() == ["task b1 orphaned"]


def interrupted() -> Talk:
    """A conversation whose process was killed with everything open."""
    talk = Talk()
    talk.begin([Text("hi")])
    talk.tell(
        TaskSet(Task(id="b1")),
        TextReceived("a"),
        call("c1", opens=True, title="x"),
        ask("r12", "c1"),
        TextReceived("b"),
    )
    talk.queued(QueueEntry("q5", [Text("next")]), paused=False)
    talk.step()
    return talk


def test_after_a_restart_nothing_is_open() -> None:
    old = interrupted()
    new = old.restarted()
    [*_, permission, tool, speech, turn, _task, _queue, _state] = new.log.since(0)
    error = {
        "code": "interrupted",
        "message": "the program that ran the agent ended during this turn",
    }
    assert permission.reason == (
        "the program that ran the agent ended before an answer, and the agent cannot resume its"
        " conversation"
    )
    permission.reason = ""
    assert [msgspec.to_builtins(event) for event in (permission, tool, speech, turn)] == [
        {"kind": "permission.closed", "request": "r12", "outcome": "cancelled", "by": "turn"},
        {"kind": "item.closed", "item": "i3", "status": "orphaned"},
        {"kind": "item.closed", "item": "i4", "status": "orphaned"},
        {"kind": "turn.ended", "turn": "t1", "outcome": "agent_died", "error": error},
    ]
    assert new.state.tasks["b1"].status == "orphaned"
    assert new.state.state.phase == "dead"
    assert new.state.state.turn is None
    assert new.state.queue == [QueueEntry("q5", [Text("next")], paused=True)]
    rules = Rules()
    for event in new.log.since(0):
        rules.check(event)
    assert rules.turn is None


@pytest.mark.parametrize(
    ("asked", "again"),
    [
        (ask("r1"), [("May I?", ["allow_once", "reject_once"], None)]),
        (ask("r1", options=[], form={"type": "object"}), [("May I?", [], {"type": "object"})]),
        (ask("r1", options=[], url="https://example.com"), []),
    ],
    ids=["options", "a form", "a page to visit"],
)
def test_what_can_still_be_answered_is_asked_again_where_the_agent_goes_on(
    asked: DecisionRequested, again: list[object]
) -> None:
    old = Talk()
    old.begin([Text("hi")])
    old.tell(asked)
    old.step()
    new = old.restarted(resumes=True)
    [closed] = [e for e in new.log.since(old.log.seq) if isinstance(e, PermissionClosed)]
    assert (closed.by, closed.reason) == (
        "turn",
        "the program that ran the agent ended before an answer",
    )
    open_now = list(new.state.permissions.values())
    assert [(e.title, [o.kind for o in e.options], e.form) for e in open_now] == again
    assert all(e.orphaned and e.background and e.request != closed.request for e in open_now)
    assert not old.restarted().state.permissions


def test_a_question_that_is_asked_again_stays_the_same_one_in_the_next_restart() -> None:
    old = Talk()
    old.begin([Text("hi")])
    old.tell(ask("r1"))
    old.step()
    once = old.restarted(resumes=True)
    twice = once.restarted(resumes=True)
    assert list(twice.state.permissions) == list(once.state.permissions)
    assert not any(isinstance(e, PermissionClosed) for e in twice.log.since(once.log.seq))


def test_after_a_restart_what_was_logged_is_still_the_same() -> None:
    old = interrupted()
    new = old.restarted()
    assert new.log.since(0)[: old.log.seq] == old.log.since(0)
    kept = Talk(ready=False).state
    for event in new.log.since(0)[: old.log.seq]:
        kept.apply(event)
    assert shown(kept, old.log.seq) == shown(old.state, old.log.seq)


def test_after_a_restart_no_id_is_given_twice() -> None:
    new = interrupted().restarted().conversation
    assert [new.new_id(kind) for kind in "tirq"] == ["t2", "i5", "r13", "q6"]


def test_after_a_restart_a_whole_conversation_gets_nothing_but_its_state() -> None:
    old = Talk()
    old.begin([Text("hi")])
    old.tell(TextReceived("a"))
    old.conversation.end("completed")
    old.step()
    new = old.restarted()
    assert new.log.seq == old.log.seq + 1
    assert isinstance(new.log.since(old.log.seq)[0], StateChanged)


def test_after_a_restart_the_queue_is_what_was_logged_and_held_back() -> None:
    new = interrupted().restarted()
    assert new.state.paused
    seq = new.log.seq
    new.queued(QueueEntry("q5", [Text("next")]), paused=True)
    assert new.log.seq == seq
    new.queued()
    assert new.log.seq == seq + 1


def test_after_a_restart_the_history_is_not_shown_again() -> None:
    new = interrupted().restarted()
    seq = new.log.seq
    new.tell(UserContentReceived(content=[Text("hi")], replay=True), TextReceived("a", replay=True))
    assert new.log.seq == seq


def test_output_that_comes_before_its_tool_call_shows_the_terminal_is_kept_for_it() -> None:
    talk = Talk()
    talk.begin([Text("go")])
    talk.conversation.items.append_output("term-1", "early ")
    talk.tell(ToolCalled(id="c1", title="Run"))
    talk.tell(ToolCalled(id="c1", content=[TerminalRef("term-1")]))
    talk.conversation.items.append_output("term-1", "late")
    [item] = [i for i in talk.log.snapshot().items if i.type == "tool"]
    assert item.text == "early late"
