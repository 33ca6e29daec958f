"""The modes, models and slash commands of a session: the choices and the current values; and
failures of MCP servers, as the `init` of each turn reports them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from msgspec.structs import replace

from ..model.content import JsonObject
from ..model.driver import CommandsSet, Effect, ModesSet
from ..model.events import Choice, Command, Modes, Notice, model_unknown
from .messages import objects, text
from .options import ClaudeOptions

FAILURES: Final = {
    "failed": "did not start or could not be reached",
    "needs-auth": "needs a login: configure it, or use `/mcp` in Claude Code",
}
"""The states in which a server offers no tools, with the reasons."""


class McpServerStates:
    """Reports each failed server once, until it is connected again."""

    _reported: frozenset[tuple[str, str]] = frozenset()

    def turn_init(self, init: JsonObject, given: Collection[str], out: list[Effect]) -> None:
        """Report the failed servers of an `init`.

        `given`: the names of the servers given by the program. A missing login is reported for
        these only: the user's own servers may be left without one on purpose.
        """
        for server in objects(init.get("mcp_servers")):
            name, status = str(server.get("name")), str(server.get("status"))
            if status == "connected":
                self._reported = frozenset(each for each in self._reported if each[0] != name)
            why = FAILURES.get(status)
            if why is None or (name, status) in self._reported:
                continue
            if status == "failed" or name in given:
                self._reported |= {(name, status)}
                message = f"the MCP server {name!r:.200} {why}: its tools are missing"
                data = {"server": name, "status": status}
                out.append(Notice("warning", "mcp_server_failed", message, data))


MODES = {
    "default": Choice("default", "Ask", "asks before dangerous operations"),
    "acceptEdits": Choice("acceptEdits", "Accept edits", "edits files without asking"),
    "plan": Choice("plan", "Plan", "plans and changes nothing"),
    "dontAsk": Choice("dontAsk", "Don't ask", "denies everything that is not already allowed"),
    "auto": Choice("auto", "Auto", "a model decides which calls are asked about"),
    "bypassPermissions": Choice("bypassPermissions", "Bypass permissions", "never asks"),
}


class ClaudeSettings:
    """Keeps the current values. Changes are appended to `out`."""

    def __init__(self) -> None:
        """Begin without settings; the reply to `initialize` has them."""
        self.modes = Modes()
        self.model: str | None = None
        """The model's own id, as in `modelUsage`."""
        self._resolved: dict[str, str] = {}
        """Model ids by choice."""
        self._commands: list[Command] = []

    def initialized(self, reply: JsonObject, options: ClaudeOptions, out: list[Effect]) -> None:
        """Take the reply to `initialize`."""
        rows = [m for m in objects(reply.get("models")) if isinstance(m.get("value"), str)]
        self._resolved = {
            m["value"]: m["resolvedModel"] for m in rows if isinstance(m.get("resolvedModel"), str)
        }
        auto = any(m.get("supportsAutoMode") for m in rows)
        bypass = options.allow_bypass or options.permission_mode == "bypassPermissions"
        hidden = {"auto": not auto, "bypassPermissions": not bypass}
        mode = reply.get("current_permission_mode")
        self.modes = Modes(
            mode=mode if isinstance(mode, str) else options.permission_mode,
            modes=[choice for id, choice in MODES.items() if not hidden.get(id)],
            model=options.model or (rows[0]["value"] if rows else None),
            models=[
                Choice(
                    m["value"], str(m.get("displayName") or m["value"]), text(m.get("description"))
                )
                for m in rows
            ],
        )
        out.append(ModesSet(self.modes))
        # Claude also lists the requested model. It has no display name for an unknown one, and does
        # not resolve it to another id.
        unnamed = {
            m["value"]
            for m in rows
            if m.get("displayName") == m["value"] == m.get("resolvedModel", m["value"])
        }
        if options.model in unnamed:
            offered = [m["value"] for m in rows if m["value"] not in unnamed]
            out += filter(None, [model_unknown("Claude Code", options.model, offered)])
        self.commands(reply.get("commands"), out)

    def commands(self, commands: Any, out: list[Effect]) -> None:
        """Take the slash commands, with their descriptions."""
        new = [
            Command(
                c["name"], text(c.get("description")) or "", text(c.get("argumentHint")) or None
            )
            for c in objects(commands)
            if isinstance(c.get("name"), str)
        ]
        if new and new != self._commands:
            self._commands = new
            out.append(CommandsSet(new))

    def turn_init(self, m: JsonObject, out: list[Effect]) -> None:
        """Take a turn's `init`: the settings that the turn runs with."""
        if isinstance(m.get("model"), str):
            self.model = m["model"]
            self._change(out, model=self._choice(m["model"]))
        self.mode(m.get("permissionMode"), out)
        names = m.get("slash_commands")
        if not self._commands and isinstance(names, list):
            self.commands([{"name": name} for name in names], out)

    def _choice(self, model: str) -> str:
        """Return the choice for a model id, preferring the current choice."""
        current = self.modes.model
        if current is not None and self._resolved.get(current, current) == model:
            return current
        return next((choice for choice, id in self._resolved.items() if id == model), model)

    def mode(self, mode: Any, out: list[Effect]) -> None:
        """Take the current mode. A value that is not a string is ignored."""
        if isinstance(mode, str):
            self._change(out, mode=mode)

    def answered(self, request: JsonObject, out: list[Effect]) -> None:
        """Apply a request that the CLI has carried out."""
        match request:
            case {"subtype": "set_permission_mode", "mode": mode}:
                self.mode(mode, out)
            case {"subtype": "set_model", "model": str(model)}:
                self._change(out, model=model)
            case _:
                pass

    def _change(self, out: list[Effect], **values: str) -> None:
        """Change values, and report all of them if one differs."""
        new = replace(self.modes, **values)
        if new != self.modes:
            self.modes = new
            out.append(ModesSet(new))
