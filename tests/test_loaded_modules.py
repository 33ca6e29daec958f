"""The modules of agentrt that a plain session loads, and the objects that an open one keeps."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

AGENT = """
import json, sys

def send(**message):
    print(json.dumps(message), flush=True)

def acp(message):
    method, result = message["method"], {}
    if method == "initialize":
        result = {"protocolVersion": 1}
    elif method == "session/new":
        result = {"sessionId": "s"}
    elif method == "session/prompt":
        content = {"type": "text", "text": "hi"}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        send(jsonrpc="2.0", method="session/update", params={"sessionId": "s", "update": update})
        result = {"stopReason": "end_turn"}
    if "id" in message:
        send(jsonrpc="2.0", id=message["id"], result=result)

def claude(message):
    if message["type"] == "control_request":
        answer = {"subtype": "success", "request_id": message["request_id"], "response": {}}
        send(type="control_response", response=answer)
    elif message["type"] == "user":
        said = {"id": "m", "role": "assistant", "content": [{"type": "text", "text": "hi"}]}
        send(type="system", subtype="init", session_id="s", model="m", tools=[], cwd="/")
        send(type="assistant", session_id="s", message=said)
        send(type="result", subtype="success", is_error=False, session_id="s", result="hi")

def codex(message):
    turn = {"id": "u", "status": "inProgress", "items": []}
    results = {
        "initialize": {"userAgent": "agentrt/0.169.0 (fake)"},
        "account/read": {"account": None, "requiresOpenaiAuth": False},
        "model/list": {"data": []},
        "thread/start": {
            "thread": {"id": "t", "preview": "", "cwd": "/", "updatedAt": 0},
            "model": "m",
            "approvalPolicy": "untrusted",
            "sandbox": {"type": "readOnly"},
        },
        "turn/start": {"turn": turn},
    }
    if "id" in message:
        send(id=message["id"], result=results.get(message["method"], {}))
    if message["method"] == "turn/start":
        item = {"type": "agentMessage", "id": "i", "text": "hi"}
        send(method="turn/started", params={"threadId": "t", "turn": turn})
        send(method="item/completed", params={"threadId": "t", "turnId": "u", "item": item})
        turn = {**turn, "status": "completed"}
        send(method="turn/completed", params={"threadId": "t", "turn": turn})

for line in sys.stdin:
    {"acp": acp, "claude": claude, "codex": codex}[sys.argv[1]](json.loads(line))
"""

SESSION = """
import sys, trio, agentrt
protocol, *command = sys.argv[1:]
async def main():
    agent = agentrt.Agent(name="plain", protocol=protocol, command=(*command, protocol))
    async with agentrt.open_session(agent) as session:
        assert (await session.run("hello")).text == "hi"
trio.run(main)
print(*sorted(name for name in sys.modules if name.partition(".")[0] == "agentrt"))
"""

CEILINGS = {"acp": 90, "claude": 99, "codex": 93}
"""The modules that a session may load, by the protocol of its agent."""


MANY = """
import gc, sys, trio, agentrt
protocol, *command = sys.argv[1:]
async def main():
    agent = agentrt.Agent(name="plain", protocol=protocol, command=(*command, protocol))
    async with agentrt.open_runtime() as runtime:
        async def opened(count):
            for _ in range(count):
                session = await runtime.create(agent)
                assert (await session.run("hello")).text == "hi"
            gc.collect()
            return len(gc.get_objects())
        few = await opened(2)
        print((await opened(5) - few) // 5)
trio.run(main)
"""

WEIGHTS: Mapping[str, int] = {"acp": 440, "claude": 455, "codex": 440}
"""The objects for the garbage collector that an idle session may keep, by its agent's protocol.

Each full collection looks at all of them, and stops all sessions for that long. Measured with
Python 3.11.
"""


def output_of(program: str, protocol: str, folder: Path) -> str:
    """Run a program with sessions, and return its output."""
    command = [sys.executable, "-I", "-S", "-c", AGENT]
    env = {name: os.environ[name] for name in ("PATH", "AGENTRT_TEST_RUN")}  # none with a secret
    done = subprocess.run(
        [sys.executable, "-c", program, protocol, *command],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("protocol", CEILINGS)
def test_a_plain_session_loads_few_modules(protocol: str, tmp_path: Path) -> None:
    loaded = output_of(SESSION, protocol, tmp_path).split()
    assert f"agentrt._core.{protocol}.driver" in loaded
    assert len(loaded) <= CEILINGS[protocol], "\n".join(loaded)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", WEIGHTS)
def test_an_idle_session_keeps_few_objects(protocol: str, tmp_path: Path) -> None:
    assert int(output_of(MANY, protocol, tmp_path)) <= WEIGHTS[protocol]
