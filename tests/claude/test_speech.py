"""What Claude says and does: texts, thoughts, tool calls, sub-agents, plans."""

from __future__ import annotations

import json

import pytest
from msgspec import UNSET

from agentrt.effects import (
    BlockReceived,
    CommandsSet,
    ModesSet,
    PlanSet,
    TaskSet,
    TextEnded,
    TextReceived,
    ToolCalled,
    UsageSet,
    UserContentReceived,
)
from agentrt.events import Diff, Image, LimitWindow, Notice, PlanEntry, ResourceLink, Text, ToolText
from agentrt.lowlevel import Effect

from .rig import (
    INIT,
    Json,
    Rig,
    assistant,
    delta,
    event,
    only,
    result,
    state,
    streamed,
    success,
    system,
    text,
    thinking,
    tool_result,
    tool_use,
)


def shape(effects: list[Effect]) -> list[object]:
    """Speech as texts and ends."""
    return [
        e.text if isinstance(e, TextReceived) else "|"
        for e in effects
        if isinstance(e, TextReceived | TextEnded)
    ]


# --- texts


def test_a_streamed_text_is_reported_once(rig: Rig) -> None:
    assert shape(rig.feed(*streamed("Hello ", "world"))) == ["Hello world", "|"]


def test_pieces_are_reported_as_they_come(rig: Rig) -> None:
    lines = streamed("Hello ", "world")
    assert shape([e for line in lines for e in rig.feed(line)]) == ["Hello ", "world", "|"]


def test_a_text_without_pieces_is_reported_whole(rig: Rig) -> None:
    assert shape(rig.feed(assistant(text("all at once")))) == ["all at once", "|"]


def test_a_whole_text_adds_what_its_pieces_lacked(rig: Rig) -> None:
    start = event("message_start", message={"id": "m1", "content": []})
    told = rig.feed(
        start,
        event("content_block_start", index=0, content_block=text("")),
        delta("Hi th"),
        assistant(text("Hi there"), id="m1"),
        event("content_block_stop", index=0),
    )
    assert shape(told) == ["Hi th", "ere", "|"]


def test_a_whole_text_after_its_blocks_end_is_not_repeated(rig: Rig) -> None:
    lines = [line for line in streamed("Hello") if line["type"] != "assistant"]
    assert shape(rig.feed(*lines, assistant(text("Hello"), id="m1"))) == ["Hello", "|"]


def test_blocks_of_one_message_are_distinguished(rig: Rig) -> None:
    told = rig.feed(
        event("message_start", message={"id": "m1", "content": []}),
        event("content_block_start", index=0, content_block=thinking("")),
        delta("hmm", 0, thought=True),
        assistant(thinking("hmm"), id="m1"),
        event("content_block_stop", index=0),
        event("content_block_start", index=1, content_block=text("")),
        delta("so", 1),
        assistant(text("so"), id="m1"),
        event("content_block_stop", index=1),
    )
    spoken = [e for e in told if isinstance(e, TextReceived)]
    assert [(e.text, e.thought, e.message) for e in spoken] == [
        ("hmm", True, "m1"),
        ("so", False, "m1"),
    ]
    assert shape(told) == ["hmm", "|", "so", "|"]


def test_interleaved_streams_of_two_agents_stay_apart(rig: Rig) -> None:
    main, sub = streamed("main"), streamed("sub", id="m2", parent="c1")
    told = rig.feed(*[line for pair in zip(main, sub, strict=True) for line in pair])
    assert [(e.text, e.parent) for e in told if isinstance(e, TextReceived)] == [
        ("main", None),
        ("sub", "c1"),
    ]


def test_empty_texts_are_not_reported(rig: Rig) -> None:
    assert shape(rig.feed(*streamed(""), assistant(text(""), id="m2"))) == []


def test_content_as_a_plain_string_is_text(rig: Rig) -> None:
    message = {"type": "assistant", "message": {"id": "m1", "content": "plain"}}
    assert shape(rig.feed(message)) == ["plain", "|"]


def test_an_image_in_the_answer_is_shown(rig: Rig) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    told = rig.feed(assistant({"type": "image", "source": source}))
    assert only(told, BlockReceived).block == Image("aGk=", "image/png")


def test_unknown_blocks_deltas_and_events_cost_nothing(rig: Rig) -> None:
    told = rig.feed(
        assistant({"type": "hologram", "depth": 3}, text("and text")),
        event("content_block_delta", index=0, delta={"type": "smell_delta", "smell": "rose"}),
        event("weather_report", outlook="fair"),
    )
    assert shape(told) == ["and text", "|"]
    assert not rig.of(Notice)


def test_output_of_a_local_command_is_said(rig: Rig) -> None:
    assert shape(rig.feed(system("local_command_output", content="42 tokens"))) == [
        "42 tokens",
        "|",
    ]


def test_the_echo_of_our_prompt_is_not_reported_and_that_of_another_is(rig: Rig) -> None:
    def echo(uuid: str) -> Json:
        message = {"role": "user", "content": "hello"}
        return {"type": "user", "message": message, "uuid": uuid, "isReplay": True}

    assert rig.feed(echo("u1")) == []
    assert only(rig.feed(echo("x9")), UserContentReceived) == UserContentReceived(
        content=[Text("hello")], message="x9"
    )


def test_what_a_setting_says_of_itself_is_a_notice(rig: Rig) -> None:
    words = "<local-command-stdout>Set model to haiku</local-command-stdout>"
    line = {"type": "user", "message": {"content": words}, "isReplay": True, "uuid": "x"}
    notice = only(rig.feed(line), Notice)
    assert (notice.code, notice.message) == ("local_command", "Set model to haiku")


# --- tool calls


def test_a_tool_call_is_pending_while_it_is_written_then_runs_then_completes(rig: Rig) -> None:
    block = tool_use("c1", "Bash", command="ls")
    told = rig.feed(
        event("message_start", message={"id": "m1", "content": []}),
        event("content_block_start", index=0, content_block={**block, "input": {}}),
        event("content_block_delta", index=0, delta={"partial_json": '{"command'}),
        assistant(block, id="m1"),
        event("content_block_stop", index=0),
        tool_result("c1", "README.md", tool_use_result={"stdout": "README.md"}),
    )
    opened, runs, done = [e for e in told if isinstance(e, ToolCalled)]
    assert (opened.opens, opened.status, opened.name) == (True, "pending", "Bash")
    assert (runs.opens, runs.status, runs.title) == (False, "running", "ls")
    assert runs.input == {"command": "ls"}
    assert (done.status, done.content) == ("completed", [ToolText(Text("README.md"))])
    assert done.output == {"stdout": "README.md"}
    assert shape(told) == []


def test_a_call_without_pieces_opens_with_its_whole_input(rig: Rig) -> None:
    called = only(rig.feed(assistant(tool_use("c1", "Bash", command="ls"))), ToolCalled)
    assert (called.opens, called.status, called.kind) == (True, "running", "execute")


def test_a_failed_tool_shows_its_error_without_the_tags(rig: Rig) -> None:
    rig.feed(assistant(tool_use("c1", "Skill", skill="x")))
    words = "<tool_use_error>Unknown skill: x</tool_use_error>"
    done = only(rig.feed(tool_result("c1", words, error=True)), ToolCalled)
    assert (done.status, done.content) == ("failed", [ToolText(Text("Unknown skill: x"))])


@pytest.mark.parametrize(
    ("kind", "interrupted", "status"),
    [
        ("user-rejected", False, "cancelled"),
        ("permission-rule", False, "denied"),
        ("user-rejected", True, "cancelled"),
        ("interrupted", False, "cancelled"),
        (None, True, "cancelled"),
        (None, False, "failed"),
    ],
)
def test_why_a_tool_did_not_run(rig: Rig, kind: str | None, interrupted: bool, status: str) -> None:
    rig.feed(assistant(tool_use("c1", "Bash", command="ls")))
    if interrupted:
        rig.do(rig.driver.cancel())
    done = only(rig.feed(tool_result("c1", "no", error=True, kind=kind)), ToolCalled)
    assert done.status == status


def test_an_automatic_denial_is_a_denial(rig: Rig) -> None:
    rig.feed(assistant(tool_use("c1", "Bash", command="rm -rf /")))
    denial = system("permission_denied", tool_name="Bash", tool_use_id="c1", message="by a rule")
    assert only(rig.feed(denial), Notice).code == "permission_denied"
    assert only(rig.feed(tool_result("c1", "no", error=True)), ToolCalled).status == "denied"


def test_an_edit_shows_its_change_and_keeps_it(rig: Rig) -> None:
    edit = tool_use("c1", "Edit", file_path="/a.py", old_string="one", new_string="two")
    called = only(rig.feed(assistant(edit)), ToolCalled)
    assert called.content == [Diff("/a.py", "two", "one")]
    assert called.locations == [{"path": "/a.py"}]
    assert only(rig.feed(tool_result("c1", "updated")), ToolCalled).content is UNSET


def test_a_failed_edit_says_why(rig: Rig) -> None:
    rig.feed(assistant(tool_use("c1", "Write", file_path="/a.py", content="x")))
    done = only(rig.feed(tool_result("c1", "read-only", error=True)), ToolCalled)
    assert done.content == [ToolText(Text("read-only"))]


def test_several_edits_are_several_changes(rig: Rig) -> None:
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d"}]
    call = tool_use("c1", "MultiEdit", file_path="/x", edits=edits)
    assert only(rig.feed(assistant(call)), ToolCalled).content == [
        Diff("/x", "b", "a"),
        Diff("/x", "d", "c"),
    ]


@pytest.mark.parametrize("edits", [5, "no", [7], [{}], None, [{"new_string": 1}]])
def test_a_broken_edit_shows_nothing_and_costs_nothing(rig: Rig, edits: object) -> None:
    call = tool_use("c1", "MultiEdit", file_path="/x", edits=edits)
    assert only(rig.feed(assistant(call)), ToolCalled).content is UNSET


def test_images_in_a_result_are_shown(rig: Rig) -> None:
    rig.feed(assistant(tool_use("c1", "Read", file_path="/a.png")))
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    done = only(rig.feed(tool_result("c1", [{"type": "image", "source": source}])), ToolCalled)
    assert done.content == [ToolText(Image("aGk=", "image/png"))]


def test_tools_that_run_at_the_provider_are_calls_too(rig: Rig) -> None:
    call = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    told = rig.feed(assistant(call), assistant(found))
    assert [e.status for e in told if isinstance(e, ToolCalled)] == ["running", "completed"]


# --- sub-agents


def test_steps_of_a_sub_agent_belong_to_its_call(rig: Rig) -> None:
    rig.feed(assistant(tool_use("c1", "Task", description="dig", prompt="dig!")))
    prompt = {"type": "user", "message": {"content": [text("dig!")]}, "parent_tool_use_id": "c1"}
    told = rig.feed(
        prompt,
        assistant(text("digging"), parent="c1", id="m2"),
        assistant(tool_use("c2", "Bash", command="ls"), parent="c1", id="m2"),
        tool_result("c2", parent_tool_use_id="c1"),
    )
    assert {e.parent for e in told if isinstance(e, TextReceived | ToolCalled)} == {"c1"}
    assert not rig.of(UserContentReceived)


def test_a_heartbeat_is_no_sub_agent(rig: Rig) -> None:
    rig.feed(assistant(tool_use("c1", "Bash", command="make")))
    beat = {
        "type": "tool_progress",
        "tool_use_id": "c1-heartbeat-1",
        "tool_name": "Bash",
        "parent_tool_use_id": "c1",
        "elapsed_time_seconds": 30,
    }
    assert rig.feed(beat) == []


def test_steps_of_a_background_agent_belong_to_its_call(rig: Rig) -> None:
    rig.feed(assistant(tool_use("c1", "Task", description="dig", run_in_background=True)))
    rig.feed(
        system(
            "task_started",
            task_id="a1",
            tool_use_id="c1",
            task_type="local_agent",
            description="dig",
            is_backgrounded=True,
        ),
        tool_result("c1", "Async agent launched"),
        assistant(tool_use("c2", "Task", description="deeper"), parent="c1", id="m2"),
        assistant(text("deep down"), parent="c2", id="m3"),
        *streamed("digging", id="m4", parent="c1"),
        system("task_progress", task_id="a1", description="Running ls"),
    )
    said = [(e.parent, e.text) for e in rig.of(TextReceived)]
    assert said == [("c2", "deep down"), ("c1", "digging")]
    assert [(e.id, e.parent) for e in rig.of(ToolCalled)] == [
        ("c1", None),
        ("c1", None),
        ("c2", "c1"),
    ]
    last = rig.of(TaskSet)[-1]
    assert (last.task.detail, last.call, last.detaches) == ("Running ls", "c1", True)


def test_a_turn_s_end_does_not_forget_the_calls_of_a_background_agent(rig: Rig) -> None:
    rig.feed(assistant(tool_use("c1", "Agent", description="dig")))
    rig.feed(
        system("task_started", task_id="a1", tool_use_id="c1", task_type="local_agent"),
        system("task_updated", task_id="a1", patch={"is_backgrounded": True}),
        tool_result("c1", "Async agent launched"),
        assistant(tool_use("c2", "Edit", file_path="/a"), parent="c1", id="m2"),
    )
    rig.driver._forget_turn()
    edited = only(rig.feed(tool_result("c2", "done", parent_tool_use_id="c1")), ToolCalled)
    assert edited.content is UNSET  # an edit shows its change, not what the tool says about it


# --- the plan


def test_a_todo_list_is_the_plan(rig: Rig) -> None:
    todos = [{"content": "one", "status": "completed"}, {"content": "two", "status": "pending"}]
    told = rig.feed(assistant(tool_use("c1", "TodoWrite", todos=todos)))
    assert only(told, PlanSet).entries == [PlanEntry("one", "completed"), PlanEntry("two")]


def test_a_plan_kept_entry_by_entry(rig: Rig) -> None:
    def done(call: str, name: str, structured: Json, **arguments: object) -> list[PlanEntry]:
        told = rig.feed(
            assistant(tool_use(call, name, **arguments)),
            tool_result(call, tool_use_result=structured),
        )
        return only(told, PlanSet).entries

    created = {"task": {"id": "1", "subject": "Write it"}}
    assert done("c1", "TaskCreate", created, subject="Write it") == [PlanEntry("Write it")]
    updated = {"success": True, "taskId": "1"}
    assert done("c2", "TaskUpdate", updated, taskId="1", status="in_progress") == [
        PlanEntry("Write it", "in_progress")
    ]
    whole = {"tasks": [{"id": "2", "subject": "Test it", "status": "pending"}]}
    assert done("c3", "TaskList", whole) == [PlanEntry("Test it")]
    assert done("c4", "TaskUpdate", updated, taskId="2", status="deleted") == []


# --- usage, modes, commands


def test_usage_is_reported_for_the_turn_and_for_the_session(rig: Rig) -> None:
    spent = {"inputTokens": 10, "outputTokens": 5, "costUSD": 0.5}
    total = {"m": {**spent, "inputTokens": 30, "costUSD": 2.0, "contextWindow": 200_000}}
    rig.feed(
        event("message_start", message={"id": "m1", "content": [], "usage": {"input_tokens": 7}}),
        event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5}),
    )
    fields = {"modelUsage": total, "model_usage_since_last_result": {"m": spent}}
    told = rig.feed(result("u1", total_cost_usd=2.0, **fields), state("idle"))
    session = only(told, UsageSet).usage
    assert (session.used, session.size, session.cost) == (12, 200_000, 2.0)
    assert session.input_tokens == 30
    finished = rig.effects[-1].usage  # type: ignore[union-attr]
    assert finished.steps == 1
    assert set(finished.models) == set(session.models) == {"m"}
    assert finished.models["m"].input_tokens == finished.input_tokens
    assert (finished.input_tokens, finished.total_tokens, finished.cost) == (10, 15, 0.5)


def test_an_older_cli_reports_the_sessions_cost_only(rig: Rig) -> None:
    rig.feed(result("u1", total_cost_usd=1.0, usage={"input_tokens": 3}), state("idle"))
    rig.prompt(turn="t2")
    rig.feed(state("running"), result("u2", total_cost_usd=1.5, usage={}), state("idle"))
    costs = [e.usage.cost for e in rig.effects if getattr(e, "turn", None)]  # type: ignore[union-attr]
    assert costs == [1.0, 0.5]


def test_modes_models_and_commands_come_with_the_handshake() -> None:
    rig = Rig()
    rig.start(
        {
            "models": [
                {"value": "default", "resolvedModel": "claude-opus", "displayName": "Default"},
                {"value": "haiku", "resolvedModel": "claude-haiku", "displayName": "Haiku"},
            ],
            "commands": [{"name": "compact", "description": "d", "argumentHint": "[what]"}],
            "current_permission_mode": "plan",
        }
    )
    modes = rig.of(ModesSet)[-1].modes
    assert (modes.mode, modes.model) == ("plan", "default")
    assert [m.id for m in modes.models] == ["default", "haiku"]
    assert "bypassPermissions" not in [m.id for m in modes.modes]
    assert rig.of(CommandsSet)[-1].commands[0].hint == "[what]"
    rig.feed({**INIT, "model": "claude-haiku", "permissionMode": "plan"})
    assert rig.of(ModesSet)[-1].modes.model == "haiku"
    rig.feed(system("status", status=None, permissionMode="default"))
    assert rig.of(ModesSet)[-1].modes.mode == "default"


def test_a_changed_model_is_reported_when_the_cli_has_taken_it(rig: Rig) -> None:
    rig.do(rig.driver.call("x1", "set_model", {"model": "haiku"}))
    assert not [e for e in rig.of(ModesSet) if e.modes.model == "haiku"]
    rig.feed(success(rig.written[-1]["request_id"], {"model": "claude-haiku"}))
    assert rig.of(ModesSet)[-1].modes.model == "haiku"


# --- notices


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (system("api_retry", attempt=1, max_retries=10, error="overloaded"), "api_retry"),
        (system("compact_boundary", compact_metadata={"trigger": "auto"}), "compacted"),
        (system("status", status="compacting"), "compacting"),
        (system("status", status=None, compact_result="failed"), "compact_failed"),
        (system("informational", content="blocked", tag="hook_callback_failed"), None),
        (system("notification", text="hi"), "notification"),
        (system("hook_response", outcome="error", hook_name="h"), "hook_failed"),
        (system("plugin_install", status="failed", name="p"), "plugin_failed"),
        (system("model_refusal_fallback", content="fell back"), "model_fallback"),
        (system("session_writes_lost"), "session_writes_lost"),
        ({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected"}}, "rate_limit"),
        ({"type": "auth_status", "error": "expired"}, "auth"),
        ({"type": "prompt_suggestion", "suggestion": "next?"}, "prompt_suggestion"),
        (b"[SandboxDebug] hello\n", "bad_line"),
    ],
)
def test_remarks_are_notices(rig: Rig, line: Json | bytes, code: str | None) -> None:
    assert only(rig.feed(line), Notice).code == (code or "hook_callback_failed")


@pytest.mark.parametrize(
    "line",
    [
        {"type": "keep_alive"},
        {"type": "transcript_mirror", "filePath": "x", "entries": []},
        {"type": "tool_use_summary", "summary": "s"},
        system("thinking_tokens", estimated_tokens=4),
        system("status", status="requesting"),
        system("hook_started", hook_id="h"),
        {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}},
    ],
)
def test_what_says_nothing_to_a_person_gives_nothing(rig: Rig, line: Json) -> None:
    assert rig.feed(line) == []


@pytest.mark.parametrize(
    "line", [{"type": "brand_new", "payload": {"a": [1]}}, system("brand_new", payload=1)]
)
def test_a_message_that_the_driver_does_not_know_is_reported(rig: Rig, line: Json) -> None:
    notice = only(rig.feed(line), Notice)
    assert notice.code == "unknown_update"
    assert "brand_new" in notice.message
    assert notice.data["payload"] == line["payload"]


def test_the_windows_of_the_account_are_shown_with_their_use(rig: Rig) -> None:
    five_hour = {
        "status": "allowed",
        "rateLimitType": "five_hour",
        "utilization": 0.625,
        "resetsAt": 1795680000,
    }
    weekly = {"status": "rejected", "rateLimitType": "seven_day", "resetsAt": 1795690000}
    line = {"type": "rate_limit_event", "rate_limit_info": five_hour}
    window = LimitWindow(name="five_hour", used_percent=62.5, resets_at=1795680000)
    assert only(rig.feed(line), UsageSet).usage.limits == [window]
    assert rig.feed(line) == []
    told = rig.feed({"type": "rate_limit_event", "rate_limit_info": weekly})
    assert only(told, UsageSet).usage.limits == [
        window,
        LimitWindow(name="seven_day", resets_at=1795690000, reached=True),
    ]


def test_what_the_providers_web_search_found_is_the_result_of_its_call(rig: Rig) -> None:
    found = {
        "type": "web_search_result",
        "url": "https://example.com/a",
        "title": "A page",
        "page_age": "2 days",
        "encrypted_content": "c2VjcmV0",
    }
    search = {
        "type": "server_tool_use",
        "id": "s1",
        "name": "web_search",
        "input": {"query": "pages"},
    }
    answer = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [found]}
    told = rig.feed(assistant(search), assistant(answer, uuid="w2"))
    last = [each for each in told if isinstance(each, ToolCalled)][-1]
    assert (last.id, last.status) == ("s1", "completed")
    link = ResourceLink("https://example.com/a", "A page", description="2 days")
    assert last.content == [ToolText(link)]


def test_an_error_of_the_providers_tool_is_its_result(rig: Rig) -> None:
    error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    answer = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": error}
    [content] = only(rig.feed(assistant(answer)), ToolCalled).content
    assert "max_uses_exceeded" in content.content.text


def test_the_sources_of_a_text_follow_it_once_each(rig: Rig) -> None:
    cited = {
        "type": "web_search_result_location",
        "url": "https://example.com/a",
        "title": "A page",
        "cited_text": "So it is.",
    }
    block = {**text("It is so."), "citations": [cited, cited]}
    told = rig.feed(assistant(block))
    link = ResourceLink("https://example.com/a", "A page", description="So it is.")
    assert [each.block for each in told if isinstance(each, BlockReceived)] == [link]


def test_the_arguments_of_a_call_are_shown_while_they_are_written(rig: Rig) -> None:
    """At lengths that double, so that a long text costs no more than twice its length."""
    rig.feed(event("message_start", message={"id": "m1", "content": [], "role": "assistant"}))
    rig.feed(event("content_block_start", index=0, content_block=tool_use("c1", "Write")))
    written = json.dumps({"file_path": "/a", "content": "x" * 20_000})
    shown = []
    for at in range(0, len(written), 50):
        piece = {"type": "input_json_delta", "partial_json": written[at : at + 50]}
        told = rig.feed(event("content_block_delta", index=0, delta=piece))
        shown += [each.input_text for each in told if isinstance(each, ToolCalled)]
    assert shown
    assert all(written.startswith(each) for each in shown)
    assert sum(map(len, shown)) <= 2 * len(written)
    whole = only(rig.feed(assistant(tool_use("c1", "Write", file_path="/a"))), ToolCalled)
    assert (whole.input, whole.input_text) == ({"file_path": "/a"}, "")


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "title"),
    [
        ("Read", {"file_path": "/a"}, "read", "Read /a"),
        ("Bash", {"command": "ls\n -l"}, "execute", "ls -l"),
        ("Bash", {"command": "x" * 500}, "execute", "x" * 199 + "…"),
        ("Grep", {"pattern": "def"}, "search", "Search def"),
        ("WebFetch", {"url": "u"}, "fetch", "Fetch u"),
        ("Task", {"description": "dig"}, "think", "dig"),
        ("ExitPlanMode", {"plan": "p"}, "switch_mode", "Ready to code?"),
        ("mcp__app__record_result", {}, "other", "record_result (app)"),
        ("Mystery", {"a": 1}, "other", "Mystery"),
        ("Read", None, "read", "Read"),
        ("Read", {"file_path": 7}, "read", "Read"),
    ],
)
def test_calls_have_kinds_and_headlines(
    rig: Rig, name: str, arguments: object, kind: str, title: str
) -> None:
    called = only(rig.feed(assistant({**tool_use("c1", name), "input": arguments})), ToolCalled)
    assert (called.kind, called.title) == (kind, title)


def test_a_read_says_where_in_the_file(rig: Rig) -> None:
    read = assistant(tool_use("c1", "Read", file_path="/a", offset=7))
    assert only(rig.feed(read), ToolCalled).locations == [{"path": "/a", "line": 7}]
