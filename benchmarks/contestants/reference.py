"""What a careful host on Trio costs that does no more than the workloads ask for: one task an agent
that reads, one typed decode a read, updates handed to the consumer without a step of the scheduler
for each. It keeps no log and no state, bounds nothing and serves nobody else.

argv[2] = claude | acp
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import trio
from msgspec import UNSET
from msgspec.json import Decoder, decode, encode

import harness
import models

PROTOCOL = sys.argv[2]
READ = 65536


class Reply:
    """What a request of the host waits for."""

    def __init__(self) -> None:
        self.come = trio.Event()
        self.value: Any = None


class Updates:
    """The texts of one turn, from the reader to the one consumer."""

    def __init__(self) -> None:
        self.texts: deque[str] = deque()
        self.over = False
        self._waits: trio.lowlevel.Task | None = None

    def wake(self) -> None:
        if self._waits is not None:
            trio.lowlevel.reschedule(self._waits)
            self._waits = None

    async def wait(self) -> None:
        def abort(_: Any) -> trio.lowlevel.Abort:
            self._waits = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._waits = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(abort)


class Adapter:
    async def open(self, agent: str, asks: str, line: int) -> None:
        self.process = await trio.lowlevel.open_process(
            [f"{agent}/fake-{PROTOCOL}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.updates = Updates()
        self.replies: dict[Any, Reply] = {}
        self.count = 0
        self.prompted: Any = None
        self.cancelling = False
        self.left = trio.Event()
        trio.lowlevel.spawn_system_task(self._read)
        if PROTOCOL == "claude":
            await self.control("initialize")
        else:
            await self.request("initialize", {"protocolVersion": 1})
            answer = await self.request("session/new", {"cwd": "/", "mcpServers": []})
            self.session = decode(answer)["sessionId"]

    # --- to the agent

    async def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        data = encode(message) + b"\n"
        try:
            written = os.write(self.process.stdin.fileno(), data)  # type: ignore[attr-defined]
        except BlockingIOError:
            written = 0
        if written < len(data):
            await self.process.stdin.send_all(data[written:])

    async def ask(self, key: Any, message: dict[str, Any]) -> Any:
        reply = self.replies[key] = Reply()
        await self.send(message)
        await reply.come.wait()
        return reply.value

    async def control(self, subtype: str) -> None:
        self.count += 1
        key = str(self.count)
        request = {"subtype": subtype}
        await self.ask(key, {"type": "control_request", "request_id": key, "request": request})

    def numbered(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.count += 1
        return {"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        message = self.numbered(method, params)
        return await self.ask(message["id"], message)

    # --- from the agent

    async def _read(self) -> None:
        assert self.process.stdout is not None
        fd: int = self.process.stdout.fileno()  # type: ignore[attr-defined]
        decoder: Decoder[Any] = models.CLAUDE if PROTOCOL == "claude" else models.ACP
        take = self.take_claude if PROTOCOL == "claude" else self.take_acp
        parts: list[bytes] = []
        async with trio.open_nursery() as self.nursery:
            while True:
                try:
                    chunk = os.read(fd, READ)
                except BlockingIOError:
                    await trio.lowlevel.wait_readable(fd)
                    continue
                if not chunk:
                    break
                cut = chunk.rfind(b"\n") + 1
                parts.append(chunk[:cut] if cut else chunk)
                if cut:
                    for message in decoder.decode_lines(b"".join(parts)):
                        take(message)
                    parts = [chunk[cut:]]
                    self.updates.wake()
                await trio.lowlevel.checkpoint()
        self.left.set()

    def show(self, text: str) -> None:
        if not self.cancelling:
            self.updates.texts.append(text)

    def take_claude(self, message: Any) -> None:
        kind = type(message)
        if kind is models.StreamEvent:
            self.show(message.event.delta.text)
        elif kind is models.Assistant or kind is models.User:
            for block in message.message.content:
                self.show(block.text if type(block) is models.Text else block.content)
        elif kind is models.Result:
            self.updates.over = True
        elif kind is models.ControlRequest:
            self.nursery.start_soon(self.answer_claude, message)
        elif kind is models.ControlResponse:
            self.settle(message.response["request_id"], message.response.get("response"))

    def take_acp(self, message: Any) -> None:
        if message.method == "session/update":
            update = message.params.update
            one = type(update) is models.Chunk
            self.show(update.content.text if one else update.content[0].content.text)
        elif message.method is not UNSET:
            self.nursery.start_soon(self.answer_acp, message)
        elif message.id == self.prompted:
            self.updates.over = True
        else:
            self.settle(message.id, message.result)

    def settle(self, key: Any, value: Any) -> None:
        reply = self.replies.pop(key)
        reply.value = value
        reply.come.set()

    async def answer_claude(self, asked: Any) -> None:
        request = asked.request
        if request["subtype"] == "can_use_tool":
            answer = {"behavior": "allow", "updatedInput": request["input"]}
        else:
            message = request["message"]
            result: dict[str, Any] = {}
            if message["method"] == "tools/call":
                text = message["params"]["arguments"]["text"]
                result = {"content": [{"type": "text", "text": text}]}
            response = {"jsonrpc": "2.0", "id": message.get("id"), "result": result}
            answer = {"mcp_response": response}
        response = {"subtype": "success", "request_id": asked.request_id, "response": answer}
        await self.send({"type": "control_response", "response": response})

    async def answer_acp(self, asked: Any) -> None:
        outcome = {"outcome": "selected", "optionId": asked.params.options[0]["optionId"]}
        await self.send({"jsonrpc": "2.0", "id": asked.id, "result": {"outcome": outcome}})

    # --- the workloads' side

    async def turn(self, prompt: str, seen: harness.Seen) -> None:
        self.cancelling = False
        updates = self.updates = Updates()
        if PROTOCOL == "claude":
            await self.send({"type": "user", "message": {"role": "user", "content": prompt}})
        else:
            text = {"type": "text", "text": prompt}
            message = self.numbered("session/prompt", {"sessionId": self.session, "prompt": [text]})
            self.prompted = message["id"]
            await self.send(message)
        while True:
            while updates.texts:
                seen(updates.texts.popleft())
                if seen.slow:
                    await seen.wait()
            if updates.over:
                return
            await updates.wait()

    async def cancel(self) -> None:
        self.cancelling = True
        self.updates.texts.clear()
        if PROTOCOL == "claude":
            await self.control("interrupt")
        else:
            params = {"sessionId": self.session}
            await self.send({"jsonrpc": "2.0", "method": "session/cancel", "params": params})

    async def close(self) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        await self.left.wait()
        await self.process.wait()


harness.run(Adapter, harness.TrioLoop)
