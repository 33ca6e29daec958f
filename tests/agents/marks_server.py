"""An MCP server of a user's own settings: its one tool leaves a file behind."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TOOL = {
    "name": "leave_mark",
    "description": "Leave a mark.",
    "inputSchema": {"type": "object", "properties": {}},
}


def answer(method: str, folder: Path) -> dict[str, Any]:
    match method:
        case "initialize":
            server = {"name": "marks", "version": "1"}
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": server,
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            (folder / "mark").touch()
            return {"content": [{"type": "text", "text": "done"}]}
        case _:
            return {}


def main() -> None:
    folder = Path(sys.argv[1])
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = answer(message["method"], folder)
            said = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            sys.stdout.write(json.dumps(said) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
