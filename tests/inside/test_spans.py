"""What events mean for spans, without OpenTelemetry: events and times in, operations out.

Events come with chosen times and without OpenTelemetry, which the public class needs.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentrt._core.telemetry.spans import (
    Operation,
    SpanChange,
    SpanEnd,
    SpanEvent,
    Spans,
    SpanStart,
    together,
)
from agentrt.events import (
    AgentState,
    ErrorInfo,
    Event,
    Image,
    Item,
    ItemClosed,
    ItemOpened,
    ItemUpdated,
    Modes,
    ModesChanged,
    Notice,
    PermissionClosed,
    PermissionOpened,
    PermissionOption,
    State,
    StateChanged,
    Task,
    TaskChanged,
    Text,
    TextDelta,
    ToolCall,
    TurnEnded,
    TurnStarted,
    Usage,
)

OPTIONS = [PermissionOption("yes", "Yes", "allow_once")]


def operations(*batches: list[Event], **options: Any) -> list[Operation]:
    """What batches mean, each of which comes a second after the one before."""
    spans = Spans("claude", "s1", **options)
    return [o for at, batch in enumerate(batches) for o in spans.fold(batch, float(at))]


def begun(prompt: str = "hello") -> Event:
    return TurnStarted("t1", "user", [Text(prompt)])


def opened(id: str, parent: str | None = None, **tool: Any) -> Event:
    tool = {"call": f"call-{id}", "name": "Bash", "kind": "execute"} | tool
    return ItemOpened(Item(id=id, type="tool", turn="t1", parent=parent, tool=ToolCall(**tool)))


def said(id: str, text: str) -> list[Event]:
    return [ItemOpened(Item(id=id, type="text", turn="t1")), TextDelta(id, text)]


def only(kind: type, found: list[Operation]) -> Any:
    [one] = [each for each in found if type(each) is kind]
    return one


def tree(found: list[Operation]) -> dict[str, str | None]:
    """The names of spans, each with that of its parent; all of them are closed."""
    starts = {o.key: o for o in found if type(o) is SpanStart}
    assert sorted(starts) == sorted(o.key for o in found if type(o) is SpanEnd)
    return {o.name: starts[o.parent].name if o.parent else None for o in starts.values()}


def test_a_turn_is_a_span_with_the_words_of_the_conventions() -> None:
    ended = TurnEnded(turn="t1", outcome="completed", stop_reason="end_turn")
    start, end = operations([begun()], [ended])
    assert isinstance(start, SpanStart)
    assert (start.key, start.name, start.kind, start.at) == (
        "t1",
        "invoke_agent claude",
        "client",
        0,
    )
    assert start.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.agent.name": "claude",
        "gen_ai.conversation.id": "s1",
        "agentrt.turn.id": "t1",
    }
    assert end == SpanEnd(
        "t1",
        1.0,
        {"agentrt.turn.outcome": "completed", "gen_ai.response.finish_reasons": ("end_turn",)},
    )


def test_the_model_and_the_version_are_said_where_they_are_known() -> None:
    agent = AgentState("claude", "claude", "2.1")
    modes = ModesChanged(Modes(model="opus"))
    start = only(
        SpanStart, operations([StateChanged(State("idle", None, agent)), modes], [begun()])
    )
    assert start.attributes["gen_ai.agent.version"] == "2.1"
    assert start.attributes["gen_ai.request.model"] == "opus"


def test_input_tokens_count_what_was_cached_and_output_tokens_the_thoughts() -> None:
    usage = Usage(
        input_tokens=5,
        cache_read_tokens=7,
        cache_write_tokens=11,
        output_tokens=3,
        thought_tokens=2,
        cost=0.5,
        currency="USD",
    )
    ended = TurnEnded(turn="t1", outcome="completed", usage=usage)
    known = only(SpanEnd, operations([begun(), ended])).attributes
    assert {k: v for k, v in known.items() if "usage" in k} == {
        "gen_ai.usage.input_tokens": 23,
        "gen_ai.usage.cache_read.input_tokens": 7,
        "gen_ai.usage.cache_creation.input_tokens": 11,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.reasoning.output_tokens": 2,
        "agentrt.usage.cost": 0.5,
        "agentrt.usage.currency": "USD",
    }


def test_a_turn_that_failed_has_an_error_and_one_that_was_cancelled_has_none() -> None:
    failed = TurnEnded(turn="t1", outcome="failed", error=ErrorInfo("rate_limit", "too much"))
    cancelled = TurnEnded(turn="t1", outcome="cancelled", by="user")
    died = TurnEnded(turn="t1", outcome="agent_died")
    errors = [only(SpanEnd, operations([begun(), end])).error for end in (failed, cancelled, died)]
    assert errors == ["rate_limit", None, "agent_died"]
    known = only(SpanEnd, operations([begun(), cancelled])).attributes
    assert known["agentrt.turn.cancelled_by"] == "user"


def test_the_first_word_is_timed() -> None:
    found = operations([begun()], [], said("i1", "hi"), said("i2", "ho"), [_end()])
    assert only(SpanEnd, found).attributes["gen_ai.response.time_to_first_chunk"] == 2


def test_a_tool_call_is_a_span_in_its_turn_and_a_question_in_its_call() -> None:
    found = operations(
        [begun(), opened("i1")],
        [PermissionOpened(request="r1", title="make", item="i1", options=OPTIONS)],
        [],
        [PermissionClosed(request="r1", outcome="selected", option="yes", by="user")],
        [ItemClosed("i1", "completed"), _end()],
    )
    assert tree(found) == {
        "invoke_agent claude": None,
        "execute_tool Bash": "invoke_agent claude",
        "permission": "execute_tool Bash",
    }
    call = next(o for o in found if type(o) is SpanStart and o.key == "i1")
    assert call.attributes["gen_ai.tool.call.id"] == "call-i1"
    assert call.attributes["agentrt.tool.kind"] == "execute"
    ends = {o.key: o for o in found if type(o) is SpanEnd}
    assert ends["r1"].attributes == {
        "agentrt.permission.outcome": "selected",
        "agentrt.permission.by": "user",
        "agentrt.permission.option": "allow_once",
    }
    assert ends["t1"].attributes["agentrt.turn.waited"] == 2


def test_what_a_policy_takes_is_no_time_of_a_person() -> None:
    found = operations(
        [begun(), PermissionOpened(request="r1", title="make")],
        [PermissionClosed(request="r1", outcome="selected", by="policy")],
        [_end()],
    )
    end = next(o for o in found if type(o) is SpanEnd and o.key == "t1")
    assert "agentrt.turn.waited" not in end.attributes


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=8))
def test_waits_beside_each_other_are_counted_once(waits: list[tuple[int, int]]) -> None:
    spans = [(float(begin), float(begin + length)) for begin, length in waits]
    seconds = {at for begin, length in waits for at in range(begin, begin + length)}
    assert together(spans) == len(seconds)


def test_a_sub_agent_is_a_span_in_the_call_that_began_it() -> None:
    found = operations(
        [begun(), opened("i1", name="Agent", input={"subagent_type": "reader"})],
        [opened("i2", "i1", name="Read"), ItemClosed("i2", "completed")],
        [ItemOpened(Item(id="i3", type="text", turn="t1", parent="i1"))],
        [ItemClosed("i1", "completed"), _end()],
    )
    assert tree(found) == {
        "invoke_agent claude": None,
        "execute_tool Agent": "invoke_agent claude",
        "invoke_agent reader": "execute_tool Agent",
        "execute_tool Read": "invoke_agent reader",
    }


def test_a_call_whose_name_comes_later_is_renamed() -> None:
    named = ItemUpdated("i1", {"tool": {"name": "grep"}})
    found = operations([begun(), opened("i1", name="", kind="search"), named])
    assert [o.name for o in found if type(o) is SpanStart][1] == "execute_tool search"
    assert only(SpanChange, found) == SpanChange(
        "i1", {"gen_ai.tool.name": "grep"}, "execute_tool grep"
    )


def test_a_title_is_never_a_name() -> None:
    start = operations([begun(), opened("i1", name="", title="cat /etc/passwd")])[1]
    assert "passwd" not in repr(start)


def test_a_call_that_is_orphaned_or_has_failed_has_an_error() -> None:
    for status, error in (
        ("failed", "tool_failed"),
        ("orphaned", "tool_orphaned"),
        ("denied", None),
    ):
        closed = ItemClosed("i1", status)  # type: ignore[arg-type]
        assert only(SpanEnd, operations([begun(), opened("i1"), closed])).error == error


def test_a_restart_is_an_event_of_the_turn_that_follows_it() -> None:
    restarted = Notice("info", "agent_restarted", "again", {"resumed": True})
    point = only(SpanEvent, operations([restarted], [begun()]))
    assert point == SpanEvent("t1", "agent_restarted", 0, {"agentrt.resumed": True})


def test_a_cancel_and_a_warning_are_events_without_words() -> None:
    cancelling = StateChanged(State("cancelling", None, AgentState("claude", "claude")))
    warning = Notice("warning", "cancel_ignored", "about a secret")
    points = [o for o in operations([begun(), cancelling, warning]) if type(o) is SpanEvent]
    assert [point.name for point in points] == ["cancel", "cancel_ignored"]
    assert "secret" not in repr(points)


def test_a_background_task_outlives_its_turn() -> None:
    found = operations(
        [begun(), TaskChanged(Task(id="k", kind="local_agent"))],
        [_end()],
        [TaskChanged(Task(id="k", kind="local_agent", status="running"))],
        [TaskChanged(Task(id="k", kind="local_agent", status="completed"))],
    )
    assert tree(found) == {"invoke_agent claude": None, "invoke_agent": "invoke_agent claude"}
    assert found[-1].at == 3  # type: ignore[union-attr]


def test_no_content_is_recorded_unless_it_is_asked_for() -> None:
    batch = [
        begun("my word"),
        *said("i1", "my word"),
        opened("i2", input={"a": "my word"}, output="my word", title="my word"),
        PermissionOpened(request="r1", title="my word", item="i2", detail="my word"),
        PermissionClosed(request="r1", outcome="selected", by="user", reason="my word"),
        Notice("warning", "late", "my word"),
        ItemClosed("i2", "completed"),
        _end(),
    ]
    assert "my word" not in repr(operations(batch))
    assert repr(operations(batch, redact=lambda text: text)).count("my word") == 5


def test_contents_are_recorded_as_the_conventions_have_them_and_redacted() -> None:
    prompt = TurnStarted("t1", "user", [Text("go"), Image("AAAA", "image/png")])
    found = operations(
        [prompt, *said("i1", "so"), *said("i2", "be it"), opened("i3", input={"a": 1})],
        [ItemUpdated("i3", {"tool": {"output": {"b": 2}}}), ItemClosed("i3", "completed"), _end()],
        redact=str.upper,
    )
    asked = json.loads(only(SpanChange, found).attributes["gen_ai.input.messages"])
    text = {"type": "text", "content": "GO"}
    assert asked == [{"role": "user", "parts": [text, {"type": "image"}]}]
    tool, turn = [o.attributes for o in found if type(o) is SpanEnd]
    assert tool["gen_ai.tool.call.arguments"] == '{"A":1}'
    assert tool["gen_ai.tool.call.result"] == '{"B":2}'
    [answer] = json.loads(str(turn["gen_ai.output.messages"]))
    assert answer["parts"] == [{"type": "text", "content": "SO\n\nBE IT"}]
    assert (answer["role"], answer["finish_reason"]) == ("assistant", "completed")


def test_a_session_that_ends_closes_whatever_is_open() -> None:
    spans = Spans("claude", "s1")
    found = spans.fold([begun(), opened("i1"), opened("i2", "i1")], 0)
    found += spans.fold([PermissionOpened(request="r1", title="x", item="i2")], 1)
    found += spans.close(2)
    tree(found)
    assert {o.error for o in found if type(o) is SpanEnd} == {"session_closed"}


def test_what_an_agent_repeats_of_an_earlier_conversation_is_no_span() -> None:
    item = Item(id="i1", type="tool", tool=ToolCall(name="Bash"), replay=True)
    assert operations([ItemOpened(item), ItemClosed("i1", "completed")]) == []


def _end() -> Event:
    return TurnEnded(turn="t1", outcome="completed")
