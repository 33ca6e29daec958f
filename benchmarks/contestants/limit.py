"""The physical limit: one blocking thread, typed batch decode; no loop, no fairness, no cancel.

argv[2] = claude | acp
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from msgspec import UNSET
from msgspec.json import encode

import harness
import models

PROTOCOL = sys.argv[2]
READ = 65536


class Adapter:
    async def open(self, agent: str, asks: str, line: int) -> None:
        self.process = subprocess.Popen(  # noqa: ASYNC220  the limit is a blocking host
            [f"{agent}/fake-{PROTOCOL}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin.fileno(), self.process.stdout.fileno()
        if PROTOCOL == "claude":
            self.take, self.decode = self.take_claude, models.CLAUDE.decode_lines
            request = {"subtype": "initialize"}
            self.call({"type": "control_request", "request_id": "1", "request": request})
        else:
            self.take, self.decode = self.take_acp, models.ACP.decode_lines
            self.rpc(1, "initialize", {"protocolVersion": 1})
            self.rpc(2, "session/new", {"cwd": "/", "mcpServers": []})

    def rpc(self, id: int, method: str, params: dict[str, Any]) -> None:
        self.call({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def call(self, message: dict[str, Any]) -> None:
        self.send(message)
        while not os.read(self.stdout, READ).endswith(b"\n"):
            pass

    def send(self, message: dict[str, Any]) -> None:
        os.write(self.stdin, encode(message) + b"\n")

    async def turn(self, prompt: str, seen: harness.Seen) -> None:
        if PROTOCOL == "claude":
            self.send({"type": "user", "message": {"role": "user", "content": prompt}})
        else:
            params = {"sessionId": "s", "prompt": [{"type": "text", "text": prompt}]}
            self.send({"jsonrpc": "2.0", "id": 9, "method": "session/prompt", "params": params})
        parts: list[bytes] = []
        while True:
            chunk = os.read(self.stdout, READ)
            cut = chunk.rfind(b"\n") + 1
            if not cut:
                parts.append(chunk)
                continue
            parts.append(chunk[:cut])
            for message in self.decode(b"".join(parts) if len(parts) > 1 else parts[0]):
                if self.take(message, seen):
                    return
            parts = [chunk[cut:]] if cut < len(chunk) else []

    def take_claude(self, message: Any, seen: harness.Seen) -> bool:
        kind = type(message)
        if kind is models.StreamEvent:
            seen(message.event.delta.text)
        elif kind is models.Assistant or kind is models.User:
            for block in message.message.content:
                seen(block.text if type(block) is models.Text else block.content)
        elif kind is models.ControlRequest:
            answer = self.answer(message.request)
            response = {"subtype": "success", "request_id": message.request_id, "response": answer}
            self.send({"type": "control_response", "response": response})
        return kind is models.Result

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["subtype"] == "can_use_tool":
            return {"behavior": "allow", "updatedInput": request["input"]}
        message = request["message"]
        result: dict[str, Any] = {}
        if message["method"] == "tools/call":
            text = message["params"]["arguments"]["text"]
            result = {"content": [{"type": "text", "text": text}]}
        return {"mcp_response": {"jsonrpc": "2.0", "id": message.get("id"), "result": result}}

    def take_acp(self, message: Any, seen: harness.Seen) -> bool:
        if message.method == "session/update":
            update = message.params.update
            if type(update) is models.Chunk:
                seen(update.content.text)
            else:
                seen(update.content[0].content.text)
            return False
        if message.method is UNSET:
            return True
        outcome = {"outcome": "selected", "optionId": message.params.options[0]["optionId"]}
        self.send({"jsonrpc": "2.0", "id": message.id, "result": {"outcome": outcome}})
        return False

    async def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


harness.run(Adapter, harness.TrioLoop)
