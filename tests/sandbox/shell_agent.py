"""An ACP agent that runs each prompt as a shell line, by itself or in a terminal of its client.

`shell LINE` runs a line as its own child, `terminal LINE` asks the client to. `read PATH` and
`write PATH` ask the client for a file, and `tool NAME JSON` calls a tool of the client: by a
program and its socket, or with the variable MCP_HTTP by HTTP. The answer is the output. Other
words: `pid`, `sleep N`, `wait` (until SIGINT), `die SIGNAL`, `exit N`.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from typing import Any

servers: list[dict[str, Any]] = []
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


def call_tool(name: str, arguments: dict[str, Any]) -> str:
    """Call a tool of the client's MCP server, as an agent does."""
    server = servers[-1]
    call = {"name": name, "arguments": arguments}
    first = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a"}}
    first["clientInfo"]["version"] = "1"  # type: ignore[index]
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": first},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    if "url" in server:
        headers = {each["name"]: each["value"] for each in server.get("headers", ())}
        headers |= {"Content-Type": "application/json"}
        headers |= {"Accept": "application/json, text/event-stream"}
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        body = b""
        for message in messages:
            data = json.dumps(message).encode()
            request = urllib.request.Request(server["url"], data, headers)
            with opener.open(request) as response:
                body = response.read()
                if identity := response.headers.get("Mcp-Session-Id"):
                    headers["Mcp-Session-Id"] = identity
        lines = body.decode().splitlines()
        data_lines = [line[5:] for line in lines if line.startswith("data:")]
        answered = json.loads(data_lines[-1] if data_lines else body)
    else:
        environment = {each["name"]: each["value"] for each in server["env"]}
        program = subprocess.Popen(
            [server["command"], *server["args"]],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert program.stdin is not None
        assert program.stdout is not None
        for message in messages:
            program.stdin.write(json.dumps(message) + "\n")
        program.stdin.flush()
        answered = {}
        while answered.get("id") != 2:
            answered = json.loads(program.stdout.readline())
        program.kill()
        program.wait()
    return str(answered["result"]["content"][0]["text"])


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
        case "tool":
            name, _, given = rest.partition(" ")
            return call_tool(name, json.loads(given or "{}"))
        case "wait":
            signal.pause()
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
                http = {"http": bool(os.environ.get("MCP_HTTP"))}
                capabilities = {
                    "loadSession": True,
                    "mcpCapabilities": http,
                    "sessionCapabilities": {"fork": {}},
                }
                result = {"protocolVersion": 1, "agentCapabilities": capabilities}
            case "session/new":
                servers[:] = params["mcpServers"]
                result = {"sessionId": "s1"}
            case "session/fork":
                servers[:] = params["mcpServers"]
                result = {"sessionId": "s2"}
            case "session/load":
                servers[:] = params["mcpServers"]
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
