"""An ACP agent of a few lines that does one odd thing: `python odd_agent.py WHAT`.

It answers whatever comes, in order, and asks for permission in the middle of a prompt if WHAT says
so. Standard library only.
"""

from __future__ import annotations

import json
import sys
from typing import Any

WHAT = sys.argv[1]

EVIL = "\x1b[2Jwiped\x1b]0;title\x07 \x9b31mred \u202egnp.exe\u202c\r\nAllow? [y] "


PROVIDER: dict[str, Any] = {"providerId": "main", "supported": ["openai"], "current": None}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def update(what: str, **fields: Any) -> None:
    told = {"sessionUpdate": what, **fields}
    send({"method": "session/update", "params": {"sessionId": "s1", "update": told}})


def say(text: str) -> None:
    update("agent_message_chunk", content={"type": "text", "text": text})


def ask(title: str, options: list[tuple[str, str, str]], **call: Any) -> str | None:
    """Request a permission; the chosen option, or None."""
    told = {"toolCallId": "c1", "title": title, "kind": "execute", **call}
    update("tool_call", **told)
    listed = [{"optionId": id, "name": name, "kind": kind} for id, name, kind in options]
    params = {"sessionId": "s1", "toolCall": told, "options": listed}
    send({"id": 77, "method": "session/request_permission", "params": params})
    while (message := receive()).get("id") != 77:
        pass
    outcome: dict[str, Any] = message["result"]["outcome"]
    chosen: str | None = outcome.get("optionId")
    return chosen


def prompt() -> str:
    """Do the odd thing; returns the stop reason."""
    match WHAT:
        case "sulks":
            options = [("ok", "Yes", "allow_once"), ("no", "No", "reject_once")]
            if ask("Do it", options, rawInput={"command": "make it so"}) != "ok":
                return "refusal"
            say("done")
        case "shows":
            diff = {"type": "diff", "path": "/x.py", "oldText": "a\n", "newText": "b\n"}
            text = {"type": "content", "content": {"type": "text", "text": "why\x1b not"}}
            lines = {"command": "\n".join(f"line {n}" for n in range(40))}
            both = [("ok", "Sure", "allow_once"), ("fine", "Sure too", "allow_once")]
            both += [("odd", "Neither", "sideways"), ("no", "Never", "reject_once")]
            say(f"chosen: {ask('Change it', both, content=[diff, text], rawInput=lines)}")
        case "escapes":
            say(EVIL)
            evil = [("ok", "Reject" + EVIL, "allow_once"), ("no", "Allow", "reject_once")]
            chosen = ask(f"Run {EVIL}", evil, rawInput={"command": f"rm -rf /{EVIL}\u200bx"})
            say(f" chosen: {chosen}")
        case "pauses":
            say("a whole line\nand half of ano")
            while receive().get("method") != "session/cancel":
                pass
            return "cancelled"
        case "breaks":
            say("one paragraph")
            update("agent_thought_chunk", content={"type": "text", "text": "hm"})
            say("another\n")
            update("tool_call", toolCallId="c2", title="Look", kind="read", status="completed")
            update("agent_message_chunk", content={"type": "image", "data": "", "mimeType": "x/y"})
            say("the last")
    return "end_turn"


def main() -> None:
    while True:
        message = receive()
        id, method = message.get("id"), message.get("method")
        if id is None or method is None:
            continue
        if method == "initialize":
            version = {"name": "odd", "version": "1.2.3\x1b[31m"}
            can: dict[str, Any] = {"sessionCapabilities": {"fork": {}} if WHAT == "forks" else {}}
            if WHAT == "drafts":
                can = {"providers": {}, "sessionCapabilities": {"title": {}}}
            greeting = {"protocolVersion": 1, "agentInfo": version, "agentCapabilities": can}
            send({"id": id, "result": greeting})
        elif method == "session/new" and WHAT == "locked":
            print("\x1b[31mno key\x1b[0m in the environment", file=sys.stderr, flush=True)
            send({"id": id, "error": {"code": -32000, "message": "Log in first"}})
        elif method == "session/fork" and WHAT == "forks":
            send({"id": id, "result": {"sessionId": message["params"]["sessionId"] + "-fork"}})
        elif method == "session/new":
            send({"id": id, "result": {"sessionId": "s1"}})
        elif method == "session/set_title" and WHAT == "drafts":
            PROVIDER["providerId"] = message["params"]["title"]  # so that a test sees it
            send({"id": id, "result": {"title": message["params"]["title"]}})
        elif method in ("providers/set", "providers/disable") and WHAT == "drafts":
            PROVIDER["current"] = message["params"] if "baseUrl" in message["params"] else None
            send({"id": id, "result": {}})
        elif method == "providers/list" and WHAT == "drafts":
            send({"id": id, "result": {"providers": [PROVIDER]}})
        elif method == "session/prompt":
            send({"id": id, "result": {"stopReason": prompt()}})
        else:
            send({"id": id, "error": {"code": -32601, "message": f"no {method}"}})


main()
