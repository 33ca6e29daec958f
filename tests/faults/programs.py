"""Two agents in memory that do the same work, one for each protocol: what a whole life of a session
needs of an agent.

A prompt is an order: `work` uses everything that an agent may ask of its host, `stream` goes on
until it is cancelled, `die` ends the process in the middle of the turn; any other is answered with
its own text.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import msgspec
import trio

from agentrt.testing import FakeAcpAgent, MemoryAgent

Json = dict[str, Any]

ANSWER = "the answer"
"""What a turn that works says, beside what the tool told it."""


# --- ACP


async def acp(process: MemoryAgent) -> None:
    capabilities = {"loadSession": True}
    async with FakeAcpAgent.serving(process, capabilities=capabilities) as agent:
        async for prompt in agent.prompts:
            match prompt.text:
                case "work":
                    agent.think("hm")
                    agent.say(ANSWER[:4])
                    agent.update("tool_call", toolCallId="c1", title="Run ls", status="pending")
                    chosen = await agent.ask("c1")
                    agent.update("tool_call_update", toolCallId="c1", status="completed")
                    told = await call_tool(agent) if chosen == "yes" else "denied"
                    agent.say(f"{ANSWER[4:]} {told}")
                    prompt.end("end_turn" if chosen is not None else "cancelled")
                case "stream":
                    agent.say("on ")
                    agent.say("and on")
                    if "cancel" in process.ignores:
                        await trio.sleep_forever()
                    await prompt.cancelled.wait()
                    prompt.end("cancelled")
                case "die":
                    agent.say("so long")
                    process.exit(3)
                case text:
                    agent.say(text)
                    prompt.end()


async def call_tool(agent: FakeAcpAgent) -> str:
    """Call the host's tool, as an agent does: through the program that `session/new` names. What
    that program does is done here, so that nothing but a Unix socket lies between the two."""
    opening = next(m for m in agent.received if m.get("method") in ("session/new", "session/load"))
    [server] = opening["params"]["mcpServers"]
    given = {each["name"]: each["value"] for each in server["env"]}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x"}}
    try:
        stream = await trio.open_unix_socket(given["AGENTRT_MCP_SOCKET"])
    except OSError:
        return "no tools"  # the session is being closed
    async with stream:
        lines = Lines(stream)
        try:
            await stream.send_all(given["AGENTRT_MCP_SECRET"].encode() + b"\n")
            await lines.call(0, "initialize", hello)
            answer = await lines.call(1, "tools/call", {"name": "record", "arguments": {"n": 1}})
        except (trio.BrokenResourceError, EOFError):
            return "cut off"
    if "error" in answer:
        return str(answer["error"]["message"])
    return str(answer["result"]["content"][0]["text"])


class Lines:
    """JSON-RPC over a stream, one request at a time."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._read = b""

    async def call(self, id: int, method: str, params: Json) -> Json:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        await self._stream.send_all(msgspec.json.encode(message) + b"\n")
        while b"\n" not in self._read:
            data = await self._stream.receive_some()
            if not data:
                raise EOFError
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        answer: Json = msgspec.json.decode(line)
        return answer


# --- Claude Code


async def claude(process: MemoryAgent) -> None:
    async with FakeClaude.serving(process) as cli:
        async for prompt in cli.prompts:
            uuid = prompt["uuid"]
            cli.interrupted = trio.Event()
            cli.begin(uuid)
            match prompt["message"]["content"]:
                case "work":
                    cli.stream("hm", thought=True)
                    cli.use("c1", command="ls")
                    tool = {"tool_name": "Bash", "tool_use_id": "c1"}
                    hook = {"hook_event_name": "PreToolUse", **tool, "tool_input": {}}
                    asked = {"callback_id": "hook1", "input": hook, "tool_use_id": "c1"}
                    await cli.ask("hook_callback", **asked)
                    cli.state("requires_action")
                    reply = await cli.ask("can_use_tool", **tool, input={"command": "ls"})
                    cli.state("running")
                    allowed = (reply or {}).get("behavior") == "allow"
                    cli.used("c1", "ok" if allowed else "denied")
                    if allowed and not cli.interrupted.is_set():
                        cli.stream(f"{ANSWER} {await cli.call_tool()}")
                    cli.end(uuid)
                case "stream":
                    cli.stream("on and on", open=True)
                    if "cancel" in process.ignores:
                        await trio.sleep_forever()
                    await cli.interrupted.wait()
                    cli.end(uuid)
                case "die":
                    cli.stream("so long", open=True)
                    process.exit(3)
                case text:
                    cli.stream(text)
                    cli.end(uuid)


class FakeClaude:
    """The CLI's side of stream-json over a `MemoryAgent`; made by `serving`."""

    def __init__(self, process: MemoryAgent) -> None:
        self.process = process
        self.prompts: trio.MemoryReceiveChannel[Json]
        self._arrived, self.prompts = trio.open_memory_channel[Json](math.inf)
        self.interrupted = trio.Event()
        self._ids = count(1)
        self._answers: dict[str, tuple[trio.Event, list[Json]]] = {}

    @classmethod
    @asynccontextmanager
    async def serving(cls, process: MemoryAgent) -> AsyncIterator[FakeClaude]:
        cli = cls(process)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cli._read)
            yield cli
            nursery.cancel_scope.cancel()

    async def _read(self) -> None:
        with self._arrived:
            while (line := await self.process.receive_line()) is not None:
                message = msgspec.json.decode(line)
                match message["type"]:
                    case "user":
                        self._arrived.send_nowait(message)
                    case "control_request":
                        self._asked(message["request_id"], message["request"]["subtype"])
                    case "control_response":
                        waiting = self._answers.pop(message["response"]["request_id"], None)
                        if waiting is not None:
                            waiting[1].append(message["response"])
                            waiting[0].set()

    def _asked(self, id: str, subtype: str) -> None:
        body = {"subtype": "success", "request_id": id, "response": {}}
        self.write({"type": "control_response", "response": body})
        if subtype == "interrupt":
            self.interrupted.set()
        elif subtype == "end_session":
            self.process.exit(0)

    # --- asking

    async def ask(self, subtype: str, **fields: Any) -> Any:
        """Ask the host; its answer, None if that is an error."""
        id, event, box = f"cli-{next(self._ids)}", trio.Event(), list[Json]()
        self._answers[id] = (event, box)
        body = {"subtype": subtype, **fields}
        self.write({"type": "control_request", "request_id": id, "request": body})
        await event.wait()
        return box[0].get("response")

    async def call_tool(self) -> str:
        await self._mcp(0, "initialize", {"protocolVersion": "2025-11-25"})
        answer = await self._mcp(1, "tools/call", {"name": "record", "arguments": {"n": 1}})
        if "error" in answer:
            return str(answer["error"]["message"])
        return str(answer["result"]["content"][0]["text"])

    async def _mcp(self, id: int, method: str, params: Json) -> Json:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        reply = await self.ask("mcp_message", server_name="agentrt", message=message)
        answer: Json = reply["mcp_response"]
        return answer

    # --- telling

    def write(self, message: Json) -> None:
        self.process.send(msgspec.json.encode(message) + b"\n")

    def system(self, subtype: str, **fields: Any) -> None:
        self.write({"type": "system", "subtype": subtype, "session_id": "s1", **fields})

    def state(self, state: str) -> None:
        self.system("session_state_changed", state=state)

    def fate(self, uuid: str, state: str) -> None:
        self.write({"type": "command_lifecycle", "command_uuid": uuid, "state": state})

    def begin(self, uuid: str) -> None:
        self.state("running")
        self.fate(uuid, "queued")
        self.fate(uuid, "started")
        self.system("init", model="fake", permissionMode="default")

    def event(self, kind: str, **fields: Any) -> None:
        event = {"type": kind, **fields}
        self.write({"type": "stream_event", "event": event, "parent_tool_use_id": None})

    def stream(self, text: str, *, thought: bool = False, open: bool = False) -> None:
        """A message of one block, in two pieces; `open`: its end is never told."""
        kind, field = ("thinking", "thinking") if thought else ("text", "text")
        id = f"m{next(self._ids)}"
        self.event("message_start", message={"id": id, "content": [], "role": "assistant"})
        self.event("content_block_start", index=0, content_block={"type": kind, field: ""})
        for piece in (text[:3], text[3:]):
            self.event(
                "content_block_delta", index=0, delta={"type": f"{kind}_delta", field: piece}
            )
        if not open:
            self.assistant({"type": kind, field: text}, id=id)
            self.event("content_block_stop", index=0)
            self.event("message_stop")

    def assistant(self, *blocks: Json, id: str) -> None:
        message = {"id": id, "role": "assistant", "content": list(blocks)}
        self.write({"type": "assistant", "message": message, "parent_tool_use_id": None})

    def use(self, call: str, **arguments: Any) -> None:
        block = {"type": "tool_use", "id": call, "name": "Bash", "input": arguments}
        self.assistant(block, id=f"m{next(self._ids)}")

    def used(self, call: str, text: str) -> None:
        block = {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": False}
        self.write({"type": "user", "message": {"role": "user", "content": [block]}})

    def end(self, uuid: str) -> None:
        good = {"subtype": "success", "is_error": False, "terminal_reason": "completed"}
        if self.interrupted.is_set():
            good |= {
                "subtype": "error_during_execution",
                "is_error": True,
                "terminal_reason": "aborted_streaming",
            }
        self.write(
            {
                **good,
                "user_message_uuid": uuid,
                "user_message_uuids": [uuid],
                "num_turns": 1,
                "result": "done",
                "type": "result",
            }
        )
        self.fate(uuid, "completed")
        self.state("idle")


PROGRAMS: dict[str, Callable[[MemoryAgent], Any]] = {"acp": acp, "claude": claude}
