"""An agent with a protocol of its own, without a model; `own_driver.py` starts it.

A message is a JSON object in one line. It reads `hello`, `prompt`, `stop` and `answer`, and writes
`ready`, `text`, `ask` and `done`. It repeats a prompt word by word, and asks before it would run a
command: `run COMMAND`.
"""

import json
import os
import sys
from typing import Any


def write(type: str, **fields: object) -> None:
    print(json.dumps({"type": type, **fields}), flush=True)


def read() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    return dict(json.loads(line))


while True:
    message = read()
    if message["type"] == "hello":
        write("ready", session=f"mini-{os.getpid()}")
    elif message["type"] == "prompt":
        text, stopped = message["text"], False
        if text.startswith("run "):
            write("ask", id=1, command=text.removeprefix("run "))
            answer = read()
            stopped = answer["type"] == "stop"
            text = "I would run it." if answer.get("allowed") else "I leave it."
        for word in [] if stopped else text.split():
            write("text", text=f"{word} ")
        write("done", stopped=stopped)
