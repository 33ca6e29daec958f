"""An ACP agent that writes down each prompt that it gets, and talks: `python recording_agent.py
FILE`. It can resume its conversations. Standard library only."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

WORDS = 40


def send(message: dict[str, Any]) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def main() -> None:
    record = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for line in sys.stdin:
        message: dict[str, Any] = json.loads(line)
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        result: dict[str, Any] = {}
        if method == "initialize":
            result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
        elif method == "session/new":
            result = {"sessionId": os.urandom(8).hex()}
        elif method == "session/prompt":
            text = params["prompt"][0]["text"]
            os.write(record, text.encode() + b"\n")
            for number in range(WORDS):
                content = {"type": "text", "text": f"{text}:{number} "}
                update = {"sessionUpdate": "agent_message_chunk", "content": content}
                about = {"sessionId": params["sessionId"], "update": update}
                send({"method": "session/update", "params": about})
                time.sleep(0.005)
            result = {"stopReason": "end_turn"}
        if id is not None and method is not None:
            send({"id": id, "result": result})


if __name__ == "__main__":
    main()
