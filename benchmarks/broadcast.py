"""The plainest server that shows an agent's words to many: each line of the agent's is sent to each
WebSocket by `websockets.broadcast`. What `lag.py` compares with."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from websockets.asyncio.server import ServerConnection, broadcast, serve


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


async def main(agent: str) -> None:
    viewers: set[ServerConnection] = set()
    pipe = asyncio.subprocess.PIPE
    program = await asyncio.create_subprocess_exec(agent, stdin=pipe, stdout=pipe)
    assert program.stdin is not None
    assert program.stdout is not None
    ids = iter(range(1, 1_000_000))

    async def call(method: str, **params: Any) -> dict[str, Any]:
        """Ask the agent; what it says before its answer is shown."""
        id = next(ids)
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        program.stdin.write(json.dumps(message).encode() + b"\n")
        while line := await program.stdout.readline():
            said = json.loads(line)
            if said.get("id") == id:
                return dict(said["result"])
            broadcast(viewers, line.decode())
        raise EOFError

    async def view(socket: ServerConnection) -> None:
        viewers.add(socket)
        try:
            await socket.wait_closed()
        finally:
            viewers.discard(socket)

    await call("initialize", protocolVersion=1, clientCapabilities={})
    session = (await call("session/new", cwd="/", mcpServers=[]))["sessionId"]
    loop = asyncio.get_running_loop()
    async with serve(view, "127.0.0.1", 0, compression=None, subprotocols=["agentrt.v1"]) as server:  # type: ignore[list-item]
        port = next(iter(server.sockets)).getsockname()[1]
        say(port=port, busy=session, idle=session)
        while prompt := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
            cpu = time.process_time()
            content = [{"type": "text", "text": prompt}]
            await call("session/prompt", sessionId=session, prompt=content)
            say(cpu=time.process_time() - cpu)
    program.kill()
    await program.wait()


asyncio.run(main(sys.argv[1]))
