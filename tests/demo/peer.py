"""A client for the demo agent: drives the real process, and checks every line that it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from forked import becoming

from . import schema

Json = dict[str, Any]

EVERYTHING: Json = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
    "elicitation": {"form": {}, "url": {}},
}


class Refusal(Exception):
    """An error answer of the agent."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["message"])
        self.code = error["code"]
        self.data = error.get("data")


class Asked:
    """A request of ours that is under way."""

    def __init__(self, id: object, method: str) -> None:
        self.id = id
        self.method = method
        self.message: Json = {}
        self.answered = trio.Event()

    async def result(self) -> Json:
        with trio.fail_after(60):
            await self.answered.wait()
        if "error" in self.message:
            raise Refusal(self.message["error"])
        answer: Json = self.message["result"]
        return answer


class Peer:
    """One demo process. `updates` and `requests` hold what it said, in order."""

    def __init__(self, process: trio.Process, cwd: Path) -> None:
        self.process = process
        self.cwd = cwd
        self.updates: list[Json] = []
        self.notifications: list[Json] = []
        self.requests: list[Json] = []
        self.errors: list[Json] = []
        """Error answers to nothing in particular."""
        self.answers: dict[str, Callable[[Json], Json | None]] = {}
        """How requests of the agent are answered, by method; None leaves one open."""
        self.stderr = ""
        self.tail = b""
        """What came without its newline."""
        self.session_id = ""
        self._asked: dict[object, Asked] = {}
        self._last_id = 0
        self._heard = trio.lowlevel.ParkingLot()

    # --- out

    async def send(self, *messages: Json) -> None:
        await self.write("".join(json.dumps({"jsonrpc": "2.0", **m}) + "\n" for m in messages))

    async def write(self, text: str | bytes) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(text if isinstance(text, bytes) else text.encode())

    def expect(self, method: str, id: object = ...) -> Asked:
        """Be ready for the answer of a request that is sent by hand."""
        if id is ...:
            self._last_id += 1
            id = self._last_id
        asked = self._asked[id] = Asked(id, method)
        return asked

    async def start(self, method: str, params: Json, id: object = ...) -> Asked:
        asked = self.expect(method, id)
        await self.send({"id": asked.id, "method": method, "params": params})
        return asked

    async def call(self, method: str, **params: Any) -> Json:
        return await (await self.start(method, params)).result()

    async def initialize(self, capabilities: Json | None = None) -> Json:
        given = {} if capabilities is None else {"clientCapabilities": capabilities}
        return await self.call("initialize", protocolVersion=1, **given)

    async def open(self, **params: Any) -> Json:
        """A new session, from now on the one that is prompted."""
        params = {"cwd": str(self.cwd), "mcpServers": [], **params}
        opened = await self.call("session/new", **params)
        self.session_id = opened["sessionId"]
        return opened

    async def prompting(self, text: str, **more: Any) -> Asked:
        return await self.start("session/prompt", {**self.prompt_params(text), **more})

    def prompt_params(self, text: str) -> Json:
        return {"sessionId": self.session_id, "prompt": [{"type": "text", "text": text}]}

    async def prompt(self, text: str) -> str:
        """Prompt and wait; returns the stop reason and leaves this turn's updates in `updates`."""
        self.updates.clear()
        self.requests.clear()
        result = await (await self.prompting(text)).result()
        reason: str = result["stopReason"]
        return reason

    async def cancel(self) -> None:
        await self.send({"method": "session/cancel", "params": {"sessionId": self.session_id}})

    # --- in

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(
            update["content"].get("text", "")
            for update in self.updates
            if update["sessionUpdate"] == "agent_message_chunk"
        )

    def of(self, *kinds: str) -> list[Json]:
        return [update for update in self.updates if update["sessionUpdate"] in kinds]

    def calls(self) -> list[Json]:
        """The tool calls, each with its updates folded in."""
        folded: dict[str, Json] = {}
        for update in self.of("tool_call", "tool_call_update"):
            folded.setdefault(update["toolCallId"], {}).update(update)
        return list(folded.values())

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for something that the agent says to make the condition true."""
        with trio.fail_after(60):
            while not condition():
                await self._heard.park()

    async def read(self) -> None:
        assert self.process.stdout is not None
        buffer = b""
        async for data in self.process.stdout:
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                await self._take(json.loads(line))
            self._heard.unpark_all()
        self.tail = buffer
        self._heard.unpark_all()

    async def _take(self, message: Json) -> None:
        if "method" in message:
            schema.check(message)
            if "id" in message:
                self.requests.append(message)
                await self._serve(message)
            elif message["method"] == "session/update":
                self.updates.append(message["params"]["update"])
            else:
                self.notifications.append(message)
        elif message["id"] in self._asked:
            asked = self._asked.pop(message["id"])
            schema.check(message, asked.method)
            asked.message = message
            asked.answered.set()
        else:
            schema.check(message)
            self.errors.append(message["error"])

    async def _serve(self, message: Json) -> None:
        answer = self.answers.get(message["method"])
        result = answer(message["params"]) if answer else None
        if result is not None:
            await self.send({"id": message["id"], **result})

    async def listen(self) -> None:
        assert self.process.stderr is not None
        async for data in self.process.stderr:
            self.stderr += data.decode()


def choose(option: str) -> Callable[[Json], Json]:
    """Answers every permission request with the option of that kind."""

    def answer(params: Json) -> Json:
        chosen = [o["optionId"] for o in params["options"] if o["kind"] == option]
        return {"result": {"outcome": {"outcome": "selected", "optionId": chosen[0]}}}

    return answer


def always(answer: Json) -> Callable[[Json], Json]:
    return lambda params: answer


def give(result: Json) -> Callable[[Json], Json]:
    return always({"result": result})


@asynccontextmanager
async def run_demo(
    cwd: Path, state: Path, *, model: str = "instant", status: int | None = 0
) -> AsyncIterator[Peer]:
    """Run the demo agent for the block; it must then end by itself, with `status`."""
    command: Sequence[str] = [sys.executable, "-m", "agentrt.demo", "--model", model]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env["XDG_STATE_HOME"] = str(state)
    process = await trio.lowlevel.open_process(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=env,
        preexec_fn=becoming(command, env),
    )
    peer = Peer(process, cwd)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.read)
            nursery.start_soon(peer.listen)
            yield peer
            await process.stdin.aclose()
            with trio.fail_after(60):
                await process.wait()
        assert status is None or process.returncode == status, peer.stderr
        assert status != 0 or not peer.stderr
    finally:
        if process.returncode is None:
            process.kill()
        with trio.move_on_after(5, shield=True):
            await process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                await pipe.aclose()
