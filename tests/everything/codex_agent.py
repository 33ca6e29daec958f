"""A `codex app-server` that says one of everything: `python codex_agent.py PIPE [TEXT]`.

TEXT, a string in JSON, is appended to every string with a mark.

The messages have the shapes of the pinned schema in `tests/shown/recorded`.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from marks import CODEX
from stepping import EVERYTHING, PIXEL, Message, play, received, send, with_appended

THREAD, TURN, CHILD = "t1", "u1", "child"


def running(turn: str) -> Message:
    return {"id": turn, "status": "inProgress", "items": []}


def told(method: str, **params: object) -> Message:
    return {"method": method, "params": {"threadId": THREAD, **params}}


def item(when: str, kind: str, id: str, *, thread: str = THREAD, **fields: object) -> Message:
    about = {"threadId": thread, "turnId": TURN if thread == THREAD else "u2"}
    at = {"startedAtMs": 1, "completedAtMs": None if when == "started" else 2}
    return {
        "method": f"item/{when}",
        "params": {**about, "startedAtMs": 1, "item": {"type": kind, "id": id, **fields, **at}},
    }


def whole(kind: str, id: str, **fields: object) -> list[Message]:
    """Return an item that starts and completes at once."""
    return [item("started", kind, id, **fields), item("completed", kind, id, **fields)]


def said(id: str, text: str, thread: str = THREAD) -> list[Message]:
    return whole("agentMessage", id, text=text, thread=thread)


def delta(kind: str, id: str, text: str, **more: object) -> Message:
    return told(f"item/{kind}", turnId=TURN, itemId=id, delta=text, **more)


def steps() -> list[list[Message]]:
    """Return the messages of each of the steps in `marks.CODEX`."""
    command = {"command": "/bin/bash -lc whole-command", "cwd": "/w", "commandActions": []}
    edit = {
        "changes": [
            {
                "path": "/w/a.py",
                "kind": {"type": "update", "move_path": None},
                "diff": "@@ -1 +1 @@\n-was-old\n+is-new\n",
            }
        ]
    }
    drawn = {"server": "pictures", "tool": "draw", "arguments": {"subject": "draw-subject"}}
    made = {
        "content": [
            {"type": "text", "text": "picture-text"},
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
            {"type": "resource_link", "uri": "https://linked.example/x", "name": "linked-name"},
            {
                "type": "resource",
                "resource": {"uri": "file:///r.txt", "text": "resource-text"},
            },
        ],
        "structuredContent": {"structured-key": "structured-value"},
        "_meta": None,
    }
    spawn = {
        "tool": "spawnAgent",
        "senderThreadId": THREAD,
        "prompt": "agent-title",
        "model": "scripted",
        "reasoningEffort": None,
    }
    goal = {
        "threadId": THREAD,
        "objective": "goal-words",
        "status": "active",
        "tokenBudget": None,
        "tokensUsed": 5,
        "timeUsedSeconds": 6,
        "createdAt": 1,
        "updatedAt": 1,
    }
    hook = {
        "id": "h1",
        "eventName": "preToolUse",
        "status": "failed",
        "statusMessage": "hook-words",
        "entries": [{"kind": "error", "text": "hook-entry"}],
        "sourcePath": "/w/hooks.json",
        "displayOrder": 0,
        "executionMode": "sync",
        "handlerType": "command",
        "scope": "turn",
        "startedAt": 1,
        "completedAt": 2,
        "durationMs": 3,
    }
    window = {"usedPercent": 91, "windowDurationMins": 300, "resetsAt": 4_000_000_000}
    tokens = {
        "totalTokens": 3333,
        "inputTokens": 1111,
        "cachedInputTokens": 0,
        "outputTokens": 2222,
        "reasoningOutputTokens": 0,
    }
    return [
        [
            item("started", "reasoning", "r1", summary=[], content=[]),
            delta("reasoning/summaryTextDelta", "r1", "a-thought", summaryIndex=0),
            item("completed", "reasoning", "r1", summary=["a-thought"], content=[]),
            item("started", "agentMessage", "m1", text=""),
            delta("agentMessage/delta", "m1", "streamed-text"),
            item("completed", "agentMessage", "m1", text="streamed-text"),
        ],
        [item("started", "commandExecution", "c1", status="inProgress", **command)],
        [
            delta("commandExecution/outputDelta", "c1", "tool-output"),
            item(
                "completed",
                "commandExecution",
                "c1",
                status="completed",
                aggregatedOutput="tool-output",
                exitCode=0,
                durationMs=5,
                **command,
            ),
        ],
        [
            item("started", "mcpToolCall", "c2", status="inProgress", **drawn),
            told("item/mcpToolCall/progress", turnId=TURN, itemId="c2", message="tool-progress"),
        ],
        [item("completed", "mcpToolCall", "c2", status="completed", result=made, **drawn)],
        [
            item("started", "fileChange", "c3", status="inProgress", **edit),
            item("completed", "fileChange", "c3", status="completed", **edit),
        ],
        whole(
            "webSearch",
            "w1",
            query="search-query",
            action={"type": "search", "query": "search-query", "queries": None},
            results=[{"title": "search-result", "url": "https://found.example/page"}],
        ),
        whole(
            "webSearch",
            "w2",
            query="",
            action={"type": "openPage", "url": "https://opened.example/"},
        ),
        whole(
            "webSearch",
            "w3",
            query="",
            action={"type": "findInPage", "url": "https://x.example/", "pattern": "found-pattern"},
        ),
        whole("imageView", "v1", path="/w/viewed-image.png"),
        whole(
            "imageGeneration",
            "g1",
            status="completed",
            revisedPrompt="image-prompt",
            result=PIXEL,
            savedPath="/w/generated-image.png",
        ),
        [
            told(
                "turn/plan/updated",
                turnId=TURN,
                explanation=None,
                plan=[{"step": "plan-entry", "status": "inProgress"}],
            )
        ],
        [
            item(
                "started",
                "collabAgentToolCall",
                "a1",
                status="inProgress",
                receiverThreadIds=[],
                agentsStates={},
                **spawn,
            ),
            item(
                "completed",
                "collabAgentToolCall",
                "a1",
                status="completed",
                receiverThreadIds=[CHILD],
                agentsStates={CHILD: {"status": "running", "message": None}},
                **spawn,
            ),
        ],
        [
            {
                "method": "turn/started",
                "params": {
                    "threadId": CHILD,
                    "turn": {"id": "u2", "status": "inProgress", "items": []},
                },
            },
            *said("cm1", "agent-words", CHILD),
            item(
                "started",
                "commandExecution",
                "cc1",
                thread=CHILD,
                command="agent-step",
                cwd="/w",
                commandActions=[],
                status="inProgress",
            ),
            item(
                "completed",
                "commandExecution",
                "cc1",
                thread=CHILD,
                command="agent-step",
                cwd="/w",
                commandActions=[],
                status="completed",
                aggregatedOutput="agent-output",
                exitCode=0,
            ),
        ],
        [
            {
                "method": "thread/tokenUsage/updated",
                "params": {
                    "threadId": CHILD,
                    "turnId": "u2",
                    "tokenUsage": {
                        "total": {**tokens, "totalTokens": 9876},
                        "last": tokens,
                        "modelContextWindow": 200_000,
                    },
                },
            }
        ],
        [
            *said("cm2", "agent-report", CHILD),
            {
                "method": "turn/completed",
                "params": {
                    "threadId": CHILD,
                    "turn": {"id": "u2", "status": "completed", "items": []},
                },
            },
        ],
        [told("thread/goal/updated", turnId=TURN, goal=goal)],
        whole("enteredReviewMode", "e1", review="review-words"),
        whole("exitedReviewMode", "e2", review="review-result"),
        [told("hook/completed", turnId=TURN, run=hook)],
        whole("hookPrompt", "hp1", fragments=[{"text": "hook-prompt", "hookRunId": "h1"}]),
        whole("contextCompaction", "k1"),
        [
            {
                "method": "account/rateLimits/updated",
                "params": {"rateLimits": {"limitId": "codex", "primary": window}},
            }
        ],
        [
            {
                "method": "mcpServer/startupStatus/updated",
                "params": {
                    "name": "broken-server",
                    "status": "failed",
                    "error": "server-error",
                    "failureReason": None,
                    "threadId": THREAD,
                },
            }
        ],
        [
            told(
                "error",
                turnId=TURN,
                willRetry=True,
                error={"message": "retry-words", "codexErrorInfo": None, "additionalDetails": None},
            )
        ],
        [told("warning", message="warning-words")],
        [
            told(
                "thread/tokenUsage/updated",
                turnId=TURN,
                tokenUsage={"total": tokens, "last": tokens, "modelContextWindow": 200_000},
            ),
            *said("m9", "last-words"),
            told("turn/completed", turn={"id": TURN, "status": "completed", "items": []}),
        ],
    ]


def commanded(method: str, text: str, turn: str) -> list[Message]:
    """Return the messages of a turn behind its start: of a slash command, or of a prompt."""
    match method:
        case "thread/compact/start":
            shown = whole("contextCompaction", f"{turn}-k")
        case "review/start":
            shown = [
                *whole("enteredReviewMode", f"{turn}-e", review="slash-review-words"),
                *whole("exitedReviewMode", f"{turn}-x", review="slash-review-result"),
                *said(f"{turn}-m", "slash-review-result"),
            ]
        case _ if "AGENTS.md" in text:
            shown = said(f"{turn}-m", "slash-init-words")
        case _:
            shown = said(f"{turn}-m", f"to the model: {text}")
    for each in shown:
        each["params"]["turnId"] = turn
    return [*shown, told("turn/completed", turn=running(turn) | {"status": "completed"})]


def main() -> None:
    pipe = Path(sys.argv[1])
    appended = json.loads(sys.argv[2]) if len(sys.argv) > 2 else ""
    settings = {
        "model": "scripted",
        "approvalPolicy": "untrusted",
        "sandboxPolicy": {"type": "readOnly"},
        "sandbox": {"type": "readOnly"},
    }
    answers: dict[str, Message] = {
        "initialize": {"userAgent": "agentrt/0.169.0 (scripted)"},
        "account/read": {"account": None, "requiresOpenaiAuth": False},
        "model/list": {"data": []},
        "thread/start": {
            "thread": {"id": THREAD, "preview": "", "cwd": "/w", "updatedAt": 0},
            **settings,
        },
        "thread/compact/start": {},
    }
    turns = 0
    for message in received():
        method = message.get("method")
        if "id" not in message or method is None:
            continue
        if method in ("turn/start", "thread/compact/start", "review/start"):
            turns += 1
            turn = TURN if turns == 1 else f"{TURN}-{turns}"
            begun = {"turn": running(turn), "reviewThreadId": THREAD}
            send({"id": message["id"], "result": answers.get(method, begun)})
            send(told("turn/started", turn=running(turn)))
            text = str(message["params"].get("input"))
            if EVERYTHING in text:
                script = with_appended(steps(), appended, CODEX)
                threading.Thread(target=play, args=(pipe, script), daemon=True).start()
            else:
                send(*commanded(method, text, turn))
        elif method in answers:
            send({"id": message["id"], "result": answers[method]})
        else:
            send({"id": message["id"], "error": {"code": -32601, "message": f"no {method}"}})


if __name__ == "__main__":
    main()
