"""An ACP agent that writes down each prompt it gets: `python agent.py FILE`. Standard library only.

A prompt with `hold` runs until it is cancelled, one with `work` for a moment. Loading a
conversation takes a while, so that a server can end in the middle of it.
"""

from __future__ import annotations

import json
import os
import random
import select
import sys
import time
from typing import Any


class Agent:
    """One process, which reads one line after the other."""

    def __init__(self, record: str) -> None:
        self._record = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._rest = b""
        self._messages: list[dict[str, Any]] = []

    def run(self) -> None:
        while (message := self.next(None)) is not None:
            method, id = message.get("method"), message.get("id")
            params = message.get("params") or {}
            result: dict[str, Any] = {}
            if method == "initialize":
                result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
            elif method == "session/new":
                result = {"sessionId": os.urandom(8).hex()}
            elif method == "session/load":
                time.sleep(random.uniform(0.1, 1.0))
            elif method == "session/prompt":
                result = {"stopReason": self.prompt(params["prompt"][0]["text"])}
            if id is not None and method is not None:
                self.send({"id": id, "result": result})

    def prompt(self, text: str) -> str:
        os.write(self._record, text.split()[0].encode() + b"\n")
        if "hold" in text:
            while (message := self.next(None)) is not None:
                if message.get("method") == "session/cancel":
                    return "cancelled"
        elif "work" in text:
            until = time.monotonic() + 0.1
            while (left := until - time.monotonic()) > 0:
                message = self.next(left)
                if message is not None and message.get("method") == "session/cancel":
                    return "cancelled"
        return "end_turn"

    def next(self, seconds: float | None) -> dict[str, Any] | None:
        """The next message; None at the end of the input, or if none comes in time."""
        until = None if seconds is None else time.monotonic() + seconds
        while not self._messages:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([0], [], [], left)[0] or not (data := os.read(0, 65536)):
                return None
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._messages += [json.loads(line) for line in lines]
        return self._messages.pop(0)

    def send(self, message: dict[str, Any]) -> None:
        os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


if __name__ == "__main__":
    Agent(sys.argv[1]).run()
