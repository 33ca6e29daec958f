"""Failures of MCP servers, as the `init` of each turn reports them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ..model.content import JsonObject
from ..model.driver import Effect
from ..model.events import Notice
from .coerce import objects

FAILURES: Final = {
    "failed": "did not start or could not be reached",
    "needs-auth": "needs a login, which its own configuration or `/mcp` in Claude Code gives",
}
"""The states in which a server offers no tools, with the reasons."""


class McpServerStates:
    """Reports each failed server once, until it is connected again."""

    def __init__(self) -> None:
        self._reported: set[tuple[str, str]] = set()

    def turn_init(self, init: JsonObject, given: Collection[str], out: list[Effect]) -> None:
        """Report the failed servers of an `init`.

        `given`: the names of the servers given by the program. A missing login is reported for
        these only: the user's own servers may be left without one on purpose.
        """
        for server in objects(init.get("mcp_servers")):
            name, status = str(server.get("name")), str(server.get("status"))
            if status == "connected":
                self._reported = {each for each in self._reported if each[0] != name}
            why = FAILURES.get(status)
            if why is None or (name, status) in self._reported:
                continue
            if status == "failed" or name in given:
                self._reported.add((name, status))
                message = f"the MCP server {name!r:.200} {why}: its tools are missing"
                data = {"server": name, "status": status}
                out.append(Notice("warning", "mcp_server_failed", message, data))
