"""An ACP agent that runs each prompt as a shell line, by itself or in a terminal of its client.

`shell LINE` runs a line as its own child, `terminal LINE` asks the client to, `read PATH` and
`write PATH` ask the client for a file. The answer is the output. Other words: `pid`, `sleep N`,
`die SIGNAL`, `exit N`.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

ids = itertools.count(1)
cancelled = False


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        raise SystemExit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request to the client and wait for its answer."""
    id = next(ids)
    send({"id": id, "method": method, "params": params})
    while True:
        message = receive()
        if message.get("id") == id and "method" not in message:
            return message


def answer(session: str, text: str) -> str:
    word, _, rest = text.partition(" ")
    match word:
        case "shell":
            done = subprocess.run(
                rest, shell=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
            )
            return done.stdout + done.stderr
        case "terminal":
            made = ask("terminal/create", {"sessionId": session, "command": rest})
            if "error" in made:
                return json.dumps(made["error"])
            named = {"sessionId": session, "terminalId": made["result"]["terminalId"]}
            ask("terminal/wait_for_exit", named)
            return str(ask("terminal/output", named)["result"]["output"])
        case "read":
            return json.dumps(ask("fs/read_text_file", {"sessionId": session, "path": rest}))
        case "write":
            params = {"sessionId": session, "path": rest, "content": "x"}
            return json.dumps(ask("fs/write_text_file", params))
        case "sleep":
            time.sleep(float(rest))
            return "slept"
        case "die":
            os.kill(os.getpid(), getattr(signal, rest))
        case "exit":
            os._exit(int(rest))
    return str(os.getpid())


def main() -> None:
    while True:
        message = receive()
        params, result = message.get("params", {}), None
        match message.get("method"):
            case "initialize":
                result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
            case "session/new":
                result = {"sessionId": "s1"}
            case "session/load":
                result = {}
            case "session/prompt":
                text = "".join(each.get("text", "") for each in params["prompt"])
                said = answer(params["sessionId"], text)
                piece = {
                    "sessionUpdate": "agent_message_chunk",
                    "content": {"type": "text", "text": said},
                }
                update = {"sessionId": params["sessionId"], "update": piece}
                send({"method": "session/update", "params": update})
                result = {"stopReason": "end_turn"}
            case _:
                result = {}
        if "id" in message:
            send({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
