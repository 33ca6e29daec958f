"""How far things go: the functions of agentrt that they pass through, and the files of these.

    python benchmarks/walks.py [--show prompt]

A prompt goes from the call to the pipe, an update from the pipe to its reader, a cancel from the
call to the pipe; a permission goes from the pipe to the turn's reader, and its decision from the
reader to the pipe. With a viewer, a permission goes from the pipe to the WebSocket, and the answer
from there to the pipe. The agent is in memory. A function counts once, also if it is entered before
and only goes on; a switch is a call into another file than the last one. `--show` prints a walk.
The last line counts the modules of agentrt that a new interpreter has loaded after it has opened,
prompted and closed one session with the demo agent.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias
from uuid import uuid4

import trio
import trio.testing
from trio_websocket import WebSocketConnection, open_websocket_url

import agentrt
from agentrt.testing import MemoryAgent, open_fake_session
from agentrt.web import Security, serve

PACKAGE = str(Path(agentrt.__file__).parent)
AGENT = str(Path(PACKAGE, "testing"))
STREAM = str(Path(PACKAGE, "_serve/stream.py"))
TOKEN = "a long random string"
SETTLED_S = 0.5
"""Seconds after which the server has sent the list of sessions, which is not part of a walk."""

ONE_SESSION = """
import sys, trio, agentrt
async def main():
    async with agentrt.open_session("demo") as session:
        await session.run("hello")
trio.run(main)
print(*(name for name in sys.modules if name.partition(".")[0] == "agentrt"))
"""

Wait: TypeAlias = Callable[[], Awaitable[None]]


def line(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


async def acp(agent: MemoryAgent, *, seen: Wait = trio.testing.wait_all_tasks_blocked) -> None:
    """Says two words and asks; then it waits for the cancel. `seen` waits until a word is shown."""

    def update(text: str) -> None:
        content = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        params = {"sessionId": "s", "update": update}
        agent.send(line(jsonrpc="2.0", method="session/update", params=params))

    prompt = 0
    while (received := await agent.receive_line()) is not None:
        message = json.loads(received)
        match message.get("method"):
            case "initialize":
                result: Any = {"protocolVersion": 1}
            case "session/new":
                result = {"sessionId": "s"}
            case "session/prompt":
                prompt = message["id"]
                for word in ("one ", "two "):
                    update(word)
                    await seen()
                option = {"optionId": "yes", "name": "Yes", "kind": "allow_once"}
                params = {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": [option]}
                method = "session/request_permission"
                agent.send(line(jsonrpc="2.0", id=7, method=method, params=params))
                continue
            case "session/cancel":
                message["id"], result = prompt, {"stopReason": "cancelled"}
            case _:
                continue
        agent.send(line(jsonrpc="2.0", id=message["id"], result=result))


async def claude(agent: MemoryAgent, *, seen: Wait = trio.testing.wait_all_tasks_blocked) -> None:
    """The same."""

    def event(**event: Any) -> None:
        agent.send(line(type="stream_event", event=event))

    while (received := await agent.receive_line()) is not None:
        message = json.loads(received)
        if message["type"] == "user":
            event(type="message_start", message={"id": "m", "content": []})
            for word in ("one ", "two "):
                delta = {"type": "text_delta", "text": word}
                event(type="content_block_delta", index=0, delta=delta)
                await seen()
            tool = {"tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "c"}
            request = {"subtype": "can_use_tool", **tool}
            asked = str(uuid4())  # one that came before is not answered again
            agent.send(line(type="control_request", request_id=asked, request=request))
        elif message["type"] == "control_request":
            answer = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            agent.send(line(type="control_response", response=answer))
            if message["request"]["subtype"] == "interrupt":
                reason = {"is_error": True, "terminal_reason": "aborted_streaming"}
                agent.send(line(type="result", subtype="error_during_execution", **reason))


AGENTS: dict[Any, Callable[..., Awaitable[None]]] = {"acp": acp, "claude": claude}


class Walks:
    """Notes the functions on the way, one walk at a time."""

    def __init__(self) -> None:
        self.taken: dict[str, list[tuple[str, str]]] = {}
        self._way: list[tuple[str, str]] | None = None
        self._next: list[tuple[str, str]] | None = None
        self._frames: set[FrameType] = set()

    def begin(self, name: str) -> None:
        """A walk begins here, and ends with the next write."""
        self._way = self.taken[name] = []
        self._frames.clear()

    def begin_with_read(self, name: str) -> None:
        """A walk begins with the next read from the agent or a viewer, and ends with `end` or with
        the next write to one of them."""
        self._next = self.taken[name] = []

    def end(self) -> None:
        self._way = None

    def _begin_next(self) -> None:
        if self._next is not None:
            self._way, self._next = self._next, None
            self._frames.clear()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "return" and code.co_name == "receive_some":
            if code.co_filename == STREAM and argument:
                self._begin_next()
        elif event == "c_call" and argument is os.writev:
            self.end()
        elif code.co_filename.startswith(AGENT):
            if event == "call" and code.co_name == "write_nowait":
                self.end()
            elif event == "return" and code.co_name == "read_nowait" and argument:
                self._begin_next()
        elif event == "call" and self._way is not None and code.co_filename.startswith(PACKAGE):
            if frame not in self._frames:
                self._frames.add(frame)
                self._way.append((code.co_filename.removeprefix(f"{PACKAGE}/"), code.co_qualname))


async def walk(protocol: Any) -> Walks:
    """One turn, the second of its session."""
    walks = Walks()
    start = partial(MemoryAgent, AGENTS[protocol])
    async with open_fake_session(start, protocol=protocol) as session:
        for _ in range(2):
            sys.setprofile(walks)
            try:
                await turn(session, walks)
            finally:
                sys.setprofile(None)
    return walks


async def turn(session: agentrt.Session, walks: Walks) -> None:
    words = 0
    walks.begin("prompt")
    async with session.prompt("go") as turn:
        async for event in turn:
            match event:
                case agentrt.TextDelta():
                    walks.end()
                    words += 1
                    walks.begin_with_read("update" if words == 1 else "permission asked")
                case agentrt.PermissionOpened(request=request):
                    walks.end()
                    walks.begin("permission decided")
                    turn.answer(request, "allow_once")
                    walks.begin("cancel")
                    turn.cancel()


async def walk_of_viewer(protocol: Any) -> Walks:
    """A turn that a viewer follows and whose permission it decides, the second of its session."""
    walks, seen = Walks(), trio.Semaphore(0)
    start = partial(MemoryAgent, partial(AGENTS[protocol], seen=seen.acquire))
    async with (
        open_fake_session(start, protocol=protocol, permissions=agentrt.ask) as session,
        agentrt.open_runtime() as runtime,
        trio.open_nursery() as nursery,
    ):
        runtime.adopt(session)
        site = await nursery.start(partial(serve, runtime, security=Security(token=TOKEN)))
        headers = [(b"Authorization", f"Bearer {TOKEN}".encode())]
        url = f"ws://127.0.0.1:{site.port}/ws"
        async with open_websocket_url(
            url, subprotocols=["agentrt.v1"], extra_headers=headers
        ) as socket:
            hello = {"type": "hello", "id": "h", "sessions": [{"session": session.id}]}
            await socket.send_message(json.dumps(hello))
            for _ in range(2):
                sys.setprofile(walks)
                try:
                    await viewed_turn(session, socket, seen, walks)
                finally:
                    sys.setprofile(None)
        nursery.cancel_scope.cancel()
    return walks


async def viewed_turn(
    session: agentrt.Session, socket: WebSocketConnection, seen: trio.Semaphore, walks: Walks
) -> None:
    session.submit("go")
    while True:
        frame = json.loads(await socket.get_message())
        for message in frame if isinstance(frame, list) else [frame]:
            match message.get("event", {}):
                case {"kind": "item.delta", "text": text}:
                    if text == "two ":
                        await trio.sleep(SETTLED_S)
                        walks.begin_with_read("permission to viewer")
                    seen.release()
                case {"kind": "permission.opened", "request": request, "options": options}:
                    command = {
                        "type": "permission",
                        "id": uuid4().hex,
                        "session": session.id,
                        "request": request,
                        "option": options[0]["id"],
                    }
                    await trio.sleep(SETTLED_S)
                    walks.begin_with_read("answer of a viewer")
                    await socket.send_message(json.dumps(command))
                case {"kind": "permission.closed"}:
                    session.cancel()
                case {"kind": "turn.ended"}:
                    return


def modules_of_a_session() -> list[str]:
    """Return the modules of agentrt that one session has loaded."""
    command = [sys.executable, "-c", ONE_SESSION]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return sorted(done.stdout.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--show", help="print the functions of this walk")
    arguments = parser.parse_args()
    print(f"{'':28}{'calls':>8}{'files':>8}{'switches':>10}")
    for protocol in AGENTS:
        taken = trio.run(walk, protocol).taken | trio.run(walk_of_viewer, protocol).taken
        for name, way in taken.items():
            files = [file for file, _ in way]
            switches = sum(one != other for one, other in pairwise(files))
            print(f"{protocol:8}{name:20}{len(way):8}{len(set(files)):8}{switches:10}")
            if name == arguments.show:
                print("\n".join(f"    {file:32}{function}" for file, function in way))
    print(f"modules of a session with the demo agent: {len(modules_of_a_session())}")


if __name__ == "__main__":
    main()
