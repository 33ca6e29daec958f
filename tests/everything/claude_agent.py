"""A Claude Code that says one of everything: `python claude_agent.py PIPE [TEXT]`.

TEXT, a string in JSON, is appended to every string with a mark.

The messages have the shapes of the recordings in `tests/shown/recorded/claude`.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from marks import CLAUDE
from stepping import PIXEL, Message, play, received, send, with_appended

SESSION = "s1"


def system(subtype: str, **fields: object) -> Message:
    return {"type": "system", "subtype": subtype, "session_id": SESSION, "uuid": "u", **fields}


def event(kind: str, **fields: object) -> Message:
    return {
        "type": "stream_event",
        "event": {"type": kind, **fields},
        "parent_tool_use_id": None,
        "session_id": SESSION,
        "uuid": "u",
    }


def assistant(message: str, *blocks: Message, parent: str | None = None) -> Message:
    said = {"id": message, "role": "assistant", "model": "scripted", "content": list(blocks)}
    return {
        "type": "assistant",
        "message": said,
        "parent_tool_use_id": parent,
        "session_id": SESSION,
    }


def use(call: str, name: str, **given: object) -> Message:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


def result(
    call: str, content: object, *, parent: str | None = None, structured: object = None
) -> Message:
    block = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": False}
    return {
        "type": "user",
        "message": {"role": "user", "content": [block]},
        "parent_tool_use_id": parent,
        "session_id": SESSION,
        "tool_use_result": structured,
    }


def init(**fields: object) -> Message:
    return system("init", model="scripted", permissionMode="default", **fields)


def steps(uuid: str) -> list[list[Message]]:
    """Return the messages of each of the steps in `marks.CLAUDE`."""
    typed = json.dumps({"command": "echo streamed-input " + "and more " * 40})
    text = {"type": "text", "text": ""}
    cited = {
        "type": "web_search_result_location",
        "url": "https://cited.example/page",
        "title": "citation-title",
        "cited_text": "citation-text",
        "encrypted_index": "c2VhbGVk",
    }
    found = {
        "type": "web_search_result",
        "url": "https://found.example/page",
        "title": "search-result",
        "encrypted_content": "c2VhbGVk",
        "page_age": "2 days ago",
    }
    task = {"task_id": "t1", "tool_use_id": "call-agent"}
    return [
        [
            event("message_start", message={"id": "m1", "role": "assistant", "content": []}),
            event("content_block_start", index=0, content_block={"type": "thinking"}),
            event(
                "content_block_delta",
                index=0,
                delta={"type": "thinking_delta", "thinking": "a-thought"},
            ),
            event("content_block_stop", index=0),
            event("content_block_start", index=1, content_block=text),
            event(
                "content_block_delta",
                index=1,
                delta={"type": "text_delta", "text": "streamed-text"},
            ),
            event("content_block_stop", index=1),
        ],
        [
            event(
                "content_block_start",
                index=2,
                content_block={"type": "tool_use", "id": "call-1", "name": "Bash", "input": {}},
            ),
            event(
                "content_block_delta",
                index=2,
                delta={"type": "input_json_delta", "partial_json": typed[:300]},
            ),
        ],
        [
            event("content_block_stop", index=2),
            assistant("m1", {"type": "thinking", "thinking": "a-thought", "signature": "x"}),
            assistant("m1", {"type": "text", "text": "streamed-text"}),
            assistant("m1", use("call-1", "Bash", command="whole-command")),
        ],
        [
            {
                "type": "tool_progress",
                "tool_use_id": "call-1",
                "tool_name": "Bash",
                "parent_tool_use_id": None,
                "elapsed_time_seconds": 3,
                "session_id": SESSION,
            },
            result("call-1", "tool-output", structured={"stdout": "tool-output"}),
        ],
        [
            assistant("m2", use("call-2", "mcp__pictures__draw", subject="draw-subject")),
            result(
                "call-2",
                [
                    {"type": "text", "text": "picture-text"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
                    },
                    {
                        "type": "resource_link",
                        "uri": "https://linked.example/x",
                        "name": "linked-name",
                    },
                ],
                structured={"structured-key": "structured-value"},
            ),
        ],
        [
            assistant(
                "m3",
                use(
                    "call-3", "Edit", file_path="/w/a.py", old_string="was-old", new_string="is-new"
                ),
            ),
            result("call-3", "edited"),
        ],
        [
            assistant(
                "m4",
                {
                    "type": "server_tool_use",
                    "id": "srv-1",
                    "name": "web_search",
                    "input": {"query": "search-query"},
                },
            ),
            assistant(
                "m4",
                {"type": "web_search_tool_result", "tool_use_id": "srv-1", "content": [found]},
            ),
        ],
        [assistant("m5", {"type": "text", "text": "cited-answer", "citations": [cited]})],
        [
            assistant(
                "m6",
                use(
                    "call-plan",
                    "TodoWrite",
                    todos=[{"content": "plan-entry", "status": "in_progress", "activeForm": "x"}],
                ),
            ),
            result("call-plan", "ok"),
        ],
        [
            assistant(
                "m7",
                use(
                    "call-agent",
                    "Agent",
                    description="agent-title",
                    prompt="look",
                    subagent_type="general-purpose",
                    run_in_background=True,
                ),
            ),
            system(
                "task_started",
                **task,
                description="agent-title",
                task_type="local_agent",
                is_backgrounded=True,
            ),
            result("call-agent", "launched", structured={"isAsync": True}),
        ],
        [
            assistant("m8", {"type": "text", "text": "agent-words"}, parent="call-agent"),
            assistant("m8", use("call-inner", "Bash", command="agent-step"), parent="call-agent"),
            result("call-inner", "agent-output", parent="call-agent"),
        ],
        [
            system(
                "task_progress",
                **task,
                description="agent-progress",
                usage={"total_tokens": 4321, "tool_uses": 7, "duration_ms": 100},
            )
        ],
        [
            system("task_updated", task_id="t1", patch={"status": "completed"}),
            system(
                "task_notification",
                **task,
                status="completed",
                summary="agent-report",
                usage={"total_tokens": 9876, "tool_uses": 8, "duration_ms": 200},
            ),
            system("background_tasks_changed", tasks=[]),
        ],
        [
            {
                "type": "rate_limit_event",
                "session_id": SESSION,
                "rate_limit_info": {
                    "status": "allowed_warning",
                    "rateLimitType": "five_hour",
                    "utilization": 0.91,
                    "resetsAt": 4_000_000_000,
                },
            }
        ],
        [init(mcp_servers=[{"name": "broken-server", "status": "failed"}])],
        [
            system(
                "hook_response",
                hook_id="h1",
                hook_name="PreToolUse:Bash",
                hook_event="PreToolUse",
                stderr="hook-words",
                exit_code=1,
                outcome="error",
            )
        ],
        [system("api_retry", attempt=1, max_retries=3, error="overloaded-words", error_status=529)],
        [
            system(
                "permission_denied",
                tool_name="Bash",
                tool_use_id="call-9",
                decision_reason="rule",
                message="denied-words",
            )
        ],
        [system("informational", level="warning", content="hint-words", tag="hint")],
        [
            system("status", status="compacting"),
            system("compact_boundary", compact_metadata={"trigger": "auto", "pre_tokens": 20}),
        ],
        [
            system(
                "commands_changed",
                commands=[
                    {"name": "new-command", "description": "command-words", "argumentHint": ""}
                ],
            )
        ],
        [
            assistant("m9", {"type": "text", "text": "last-words"}),
            {
                "type": "result",
                "subtype": "success",
                "is_error": False,
                "result": "last-words",
                "terminal_reason": "completed",
                "stop_reason": "end_turn",
                "num_turns": 9,
                "duration_ms": 65_000,
                "duration_api_ms": 61_000,
                "ttft_ms": 1234,
                "total_cost_usd": 0.4242,
                "usage": {"input_tokens": 1111, "output_tokens": 2222},
                "modelUsage": {
                    "scripted": {"inputTokens": 1111, "outputTokens": 2222, "contextWindow": 200000}
                },
                "user_message_uuid": uuid,
                "session_id": SESSION,
            },
            system("session_state_changed", state="idle"),
        ],
    ]


def main() -> None:
    pipe = Path(sys.argv[1])
    # What follows may also be the options of Claude Code itself.
    text = next((json.loads(each) for each in sys.argv[2:3] if each.startswith('"')), "")
    for message in received():
        if message["type"] == "control_request":
            body = {"subtype": "success", "request_id": message["request_id"]}
            answer = {"commands": [], "models": [], "claude_code_version": "2.1.300"}
            send({"type": "control_response", "response": {**body, "response": answer}})
        elif message["type"] == "user":
            uuid = message["uuid"]
            send(
                system("session_state_changed", state="running"),
                {"type": "command_lifecycle", "command_uuid": uuid, "state": "started"},
                init(),
            )
            script = with_appended(steps(uuid), text, CLAUDE)
            threading.Thread(target=play, args=(pipe, script), daemon=True).start()


if __name__ == "__main__":
    main()
