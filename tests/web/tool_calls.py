"""An agent's way to the host's tools: what a bridge does, without its socket.

The order of calls, answers and cancels is chosen by the test.
"""

from __future__ import annotations

from typing import Any

import msgspec

import agentrt
from agentrt._core.tools.server import ToolServer
from agentrt.tools import Tools


def tool_server(tools: Tools, **options: Any) -> ToolServer:
    """The tools of a session that is not there."""
    return ToolServer(tools, **options)


def server_of(session: agentrt.Session) -> ToolServer | None:
    """The session's tool server, if it was opened with tools."""
    set_tools = session._host.set_tools
    return None if set_tools is None else set_tools.__self__  # type: ignore[attr-defined,no-any-return]


class Calls:
    """One agent's calls, and their answers by number."""

    def __init__(self, session: agentrt.Session) -> None:
        server = server_of(session)
        assert server is not None
        self.answers: dict[int, dict[str, Any]] = {}
        self._host = session._host
        self._connection = server.connect(lambda message: None)
        self._last = 0
        self._send("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={})

    def call(self, name: str, *, call: str | None = None, **arguments: Any) -> int:
        meta = {} if call is None else {"_meta": {"claudecode/toolUseId": call}}
        return self._send("tools/call", name=name, arguments=arguments, **meta)

    def withdraw(self, id: int) -> None:
        self._handle({"method": "notifications/cancelled", "params": {"requestId": id}})

    def text(self, id: int) -> str:
        return str(self.answers[id]["result"]["content"][0]["text"])

    def _send(self, method: str, **params: Any) -> int:
        self._last += 1
        self._handle({"id": self._last, "method": method, "params": params})
        return self._last

    def _handle(self, message: dict[str, Any]) -> None:
        def answered(answer: Any) -> None:
            if answer is not None:
                self.answers[message["id"]] = msgspec.to_builtins(answer)

        self._connection.handle({"jsonrpc": "2.0", **message}, self._host.spawn_tool, answered)
