"""A tiny MCP server on standard streams, for the demo agent to call; uses nothing but the library.

Every message it gets goes to the file named by its environment, so that a test can read them.
"""

from __future__ import annotations

import json
import os
import sys

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("add", "fail", "hang")]


def send(message: dict[str, object]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def result_of(method: str, params: dict[str, dict[str, int]]) -> dict[str, object] | None:
    if method == "initialize":
        version = params["protocolVersion"]
        about = {"name": "test", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        later = "cursor" in params
        return {"tools": TOOLS[1:]} if later else {"tools": TOOLS[:1], "nextCursor": "more"}
    if params.get("name") == "add":
        text = str(sum(params["arguments"].values()))
        return {"content": [{"type": "text", "text": text}, {"type": "new_kind"}]}
    if params.get("name") == "fail":
        return {"content": [{"type": "text", "text": "it failed"}], "isError": True}
    return None  # hangs


def main() -> None:
    send({"id": 1, "method": "ping"})
    send({"id": 2, "method": "roots/list"})
    send({"method": "notifications/message", "params": {}})
    with open(os.environ["HEARD"], "a") as heard:
        for line in sys.stdin:
            heard.write(line)
            heard.flush()
            message = json.loads(line)
            if "method" in message and "id" in message:
                result = result_of(message["method"], message.get("params", {}))
                if result is not None:
                    send({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
