"""An ACP agent that writes down what it is told: `python agent.py RECORD LABEL`.

Each prompt is a turn of some pieces of text, whose number and pace its own words decide; one with
`ask` in it asks a question half way. It can resume its conversations. Standard library only, so
that a hundred of them start on a small machine.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
import zlib
from typing import Any

RECORD = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
LABEL = sys.argv[2]
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]

unread = b""
waiting: list[dict[str, Any]] = []


def record(**fields: Any) -> None:
    line = {"label": LABEL, "pid": os.getpid(), "at": time.time(), **fields}
    os.write(RECORD, json.dumps(line).encode() + b"\n")


def send(**message: Any) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def receive(patience: float | None) -> bool:
    """Read what there is, or comes within so many seconds; whether anything did."""
    global unread
    if not select.select([0], [], [], patience)[0]:
        return False
    data = os.read(0, 65536)
    if not data:
        sys.exit()
    *lines, unread = (unread + data).split(b"\n")
    waiting.extend(json.loads(line) for line in lines)
    return True


def taken(wanted: Any) -> dict[str, Any] | None:
    for message in waiting:
        if wanted(message):
            waiting.remove(message)
            return message
    return None


def cancelled() -> bool:
    return taken(lambda message: message.get("method") == "session/cancel") is not None


def turn(session: str, text: str) -> str:
    """Returns the stop reason."""
    chance = zlib.crc32(text.encode())
    # Not in what agentrt says by itself: by then there may be nobody who answers.
    asks = "ask" in text and not text.startswith("[agentrt]")
    words, pause = 5 + chance % 40, 0.005 + chance % 7 * 0.01
    for number in range(words):
        if asks and number == words // 2 and not ask(session, text):
            return "cancelled"
        content = {"type": "text", "text": f"{text}:{number} "}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        send(method="session/update", params={"sessionId": session, "update": update})
        receive(pause)
        if cancelled():
            return "cancelled"
    return "end_turn"


def ask(session: str, text: str) -> bool:
    call = {"toolCallId": f"call-{text}", "title": f"touch {text}", "kind": "execute"}
    params = {"sessionId": session, "toolCall": call, "options": OPTIONS}
    send(id=f"ask-{text}", method="session/request_permission", params=params)
    while True:
        answer = taken(lambda message: message.get("id") == f"ask-{text}")
        if answer is not None:
            outcome = answer["result"]["outcome"]
            record(answer=text, option=outcome.get("optionId"))
            return outcome["outcome"] == "selected" or not cancelled()
        receive(None)


def main() -> None:
    record(started=True)
    while True:
        message = taken(lambda message: True)
        if message is None:
            receive(None)
            continue
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        result: dict[str, Any] = {}
        if method == "initialize":
            result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
        elif method == "session/new":
            result = {"sessionId": os.urandom(8).hex()}
        elif method == "session/prompt":
            text = params["prompt"][0]["text"]
            record(prompt=text)
            result = {"stopReason": turn(params["sessionId"], text)}
        if id is not None and method is not None:
            send(id=id, result=result)


if __name__ == "__main__":
    main()
