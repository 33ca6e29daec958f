"""A fake Claude Code for tests.

It answers the handshake itself and leaves the turns to the test.

It sends the messages around a turn that Claude Code sends: the states of the session, the fate of
each prompt in its queue, `init` at the beginning and `result` at the end. Drivers rely on them, so
a script need not send them itself.

Two levels of tool calls exist. `use`, `used` and `ask` are single steps, in any combination, also
one that Claude Code would not send. `attempt` and `call_tool` go through all steps of a call as
Claude Code does: hooks first, then the rules and the mode, then a permission request if one is
still needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import trio

from ..events import JsonObject
from .calls import ToolAnswer
from .memory import AgentSide, MemoryAgent

_SERVER: Final = "agentrt"
"""Claude's name for the server of the program's own tools."""
_ENDS: Final[dict[str, JsonObject]] = {
    "refusal": {"stop_reason": "refusal"},
    "max_turn_requests": {
        "subtype": "error_max_turns",
        "is_error": True,
        "terminal_reason": "max_turns",
    },
    "cancelled": {
        "subtype": "error_during_execution",
        "is_error": True,
        "terminal_reason": "aborted_streaming",
        "stop_reason": None,
    },
}
"""Fields of Claude's `result` for unsuccessful turns, by ACP's stop reasons."""


class FakeClaudePrompt:
    """A prompt that the agent has received.

    `content` is a text or a list of blocks, as Claude Code gets it. A script must end each prompt
    once, by `end` or `fail`; until then the host's turn runs.
    """

    def __init__(self, agent: FakeClaudeAgent, id: str, content: Any) -> None:
        self.id = id
        self.content = content
        self.cancelled: trio.Event = trio.Event()
        """Set when the host interrupts."""
        self._agent = agent

    @property
    def text(self) -> str:
        """The text blocks of the prompt, joined."""
        if isinstance(self.content, str):
            return self.content
        return "".join(block.get("text", "") for block in self.content)

    def end(self, stop_reason: str = "end_turn", **more: Any) -> None:
        """End the turn.

        `stop_reason` is one of ACP's, so that one script works for all protocols; `more` are fields
        of Claude's `result`.
        """
        fields = _ENDS.get(stop_reason, {"stop_reason": stop_reason})
        self._agent.result(self.id, **{**fields, **more})

    def fail(self, message: str = "API Error") -> None:
        """End the turn with an API error."""
        self.end(is_error=True, terminal_reason="api_error", result=message)


class FakeClaudeAgent(AgentSide[FakeClaudePrompt]):
    """Claude Code's side of its stream-json protocol over a `MemoryAgent`.

    Use it like `FakeAcpAgent`. It has the same methods: a script that uses `prompts`, `say`,
    `think`, `use`, `used`, `ask` and `prompt.end` runs with either.

    `version` is the version that Claude Code reports; the host chooses features by it.
    """

    def __init__(self, process: MemoryAgent, *, version: str = "2.1.300") -> None:
        super().__init__(process)
        self.hooks: JsonObject = {}
        """The hooks that the host registered: matchers by event."""
        self.mode: str = "default"
        """The permission mode."""
        self.allowed: set[str] = set()
        """The tools allowed by answers that added rules. A call of one of them is not asked
        about."""
        self._version = version
        self._next = 0
        self._results = 0
        self._greeted: set[str] = set()
        """The program's MCP servers that have been initialized."""
        self._open: dict[str, str] = {}
        """The ids of open tool calls that were begun with `use`, by the tool's name."""

    def _take(self, message: JsonObject) -> None:
        """Take one message: control requests are answered, and a prompt goes to the script.

        Around a prompt it sends what Claude Code sends: the state, the fate of the message and
        `init`.
        """
        match message["type"]:
            case "control_request":
                self._requested(message["request_id"], message["request"])
            case "control_response":
                response = message["response"]
                self._answered(response["request_id"], response)
            case "user":
                uuid = message["uuid"]
                self.state("running")
                for fate in ("queued", "started"):
                    self._fate(uuid, fate)
                self.system("init", model="fake", permissionMode="default", slash_commands=[])
                self._prompted(FakeClaudePrompt(self, uuid, message["message"]["content"]))

    def _requested(self, id: str, request: JsonObject) -> None:
        """Answer a control request as Claude Code does, and remember what it sets.

        `end_session` ends the process, unless it is one that ignores the end of its input.
        """
        answer: JsonObject = {}
        match request["subtype"]:
            case "initialize":
                self.hooks = request.get("hooks") or {}
                answer = {"commands": [], "models": [], "claude_code_version": self._version}
            case "interrupt":
                answer = {"still_queued": []}
                if self.prompt is not None:
                    self.prompt.cancelled.set()
            case "set_permission_mode":
                self.mode = request["mode"]
                answer = {"mode": self.mode}
        body = {"subtype": "success", "request_id": id, "response": answer}
        self.send({"type": "control_response", "response": body})
        if request["subtype"] == "end_session" and "eof" not in self.process.ignores:
            self.process.exit(0)

    # --- writing

    def system(self, subtype: str, **fields: Any) -> None:
        """Send a `system` message of this subtype."""
        self.send({"type": "system", "subtype": subtype, **fields})

    def state(self, state: str) -> None:
        """Report the session's state: `running`, `idle` or `requires_action`."""
        self.system("session_state_changed", state=state)

    def _fate(self, uuid: str, state: str) -> None:
        """Report the state of a prompt in Claude's queue, by its uuid."""
        self.send({"type": "command_lifecycle", "command_uuid": uuid, "state": state})

    def assistant(self, *blocks: JsonObject, parent: str | None = None) -> None:
        """Send a message of the model; `parent` is the call of the sub-agent that sends it."""
        self._next += 1
        message = {"id": f"m{self._next}", "role": "assistant", "content": list(blocks)}
        self.send({"type": "assistant", "message": message, "parent_tool_use_id": parent})

    def say(self, text: str) -> None:
        """Send a message with this text."""
        self.assistant({"type": "text", "text": text})

    def think(self, text: str) -> None:
        """Send a message with this thinking block."""
        self.assistant({"type": "thinking", "thinking": text})

    def use(
        self,
        call: str,
        title: str,
        *,
        name: str = "Bash",
        parent: str | None = None,
        **arguments: Any,
    ) -> None:
        """Begin a tool call.

        Without `arguments` the input is the command `title`. `parent` is the call of the
        sub-agent that makes it.
        """
        given = arguments or {"command": title}
        self._open[name] = call
        block = {"type": "tool_use", "id": call, "name": name, "input": given}
        self.assistant(block, parent=parent)

    def used(
        self, call: str, text: str = "", *, failed: bool = False, parent: str | None = None
    ) -> None:
        """End a tool call, with `text` as its result."""
        self._open = {name: id for name, id in self._open.items() if id != call}
        block = {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": failed}
        message = {"role": "user", "content": [block]}
        self.send({"type": "user", "message": message, "parent_tool_use_id": parent})

    def result(self, *prompts: str, **fields: Any) -> None:
        """End the turn of the prompts with these uuids. The session is idle after it."""
        listed = {"user_message_uuid": prompts[0], "user_message_uuids": prompts} if prompts else {}
        good = {"subtype": "success", "is_error": False, "terminal_reason": "completed"}
        more = {"stop_reason": "end_turn", "num_turns": 1, "result_index": self._results}
        self._results += 1
        self.send({**good, **more, **listed, **fields, "type": "result"})
        for uuid in prompts:
            self._fate(uuid, "cancelled" if fields.get("is_error") else "completed")
        self.state("idle")

    # --- asking

    async def request(self, subtype: str, **fields: Any) -> JsonObject:
        """Send a request to the host and wait for its answer.

        Returns the answer: `subtype`, and `response` or `error`.
        """
        self._next += 1
        id, body = f"cli-{self._next}", {"subtype": subtype, **fields}
        return await self._ask(id, {"type": "control_request", "request_id": id, "request": body})

    async def ask(
        self, tool_call: str = "call_1", title: str = "ls", *, name: str = "Bash", **arguments: Any
    ) -> str | None:
        """Request a permission. Returns `"allow"` or `"deny"`, or None if it was cancelled."""
        return await self._ask_tool(tool_call, name, arguments or {"command": title})

    async def _ask_tool(self, tool_call: str, name: str, given: JsonObject) -> str | None:
        """Request a permission, with the session's states around it."""
        self.state("requires_action")
        answer = await self.request(
            "can_use_tool", tool_name=name, input=given, tool_use_id=tool_call
        )
        self.state("running")
        behavior: str | None = (answer.get("response") or {}).get("behavior")
        return behavior

    async def call_tool(self, name: str, /, **arguments: Any) -> ToolAnswer:
        """Ask for permission and call one of the program's own tools, as Claude does.

        A tool of an MCP server that the program runs is called by Claude's name for it,
        `mcp__SERVER__TOOL`. If a call was begun with `use` under that name, the permission request
        has that call's id.

        Returns the answer that the model reads; a denied call is an error. Raises `ValueError` for
        an unknown tool or server.
        """
        server, tool = _SERVER, name
        if name.startswith("mcp__"):
            server, _, tool = name.removeprefix("mcp__").partition("__")
        if server not in self._greeted:
            self._greeted.add(server)
            client = {"name": "fake", "version": "0"}
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
            await self._mcp(server, "initialize", hello)
        listed = await self._mcp(server, "tools/list", {})
        if tool in [each["name"] for each in listed.get("result", {}).get("tools", ())]:
            asked = f"mcp__{server}__{tool}"
            begun = self._open.get(asked) or f"{asked}-{self._next}"
            behavior = await self._ask_tool(begun, asked, arguments)
            if behavior != "allow":
                text = "The call was denied." if behavior == "deny" else "The call was cancelled."
                return ToolAnswer(text, is_error=True)
        answer = await self._mcp(server, "tools/call", {"name": tool, "arguments": arguments})
        if "error" in answer:
            raise ValueError(f"{name}: {answer['error']['message']}")
        result: JsonObject = answer["result"]
        return ToolAnswer(
            text="\n".join(part["text"] for part in result["content"] if part["type"] == "text"),
            is_error=bool(result.get("isError")),
            structured=result.get("structuredContent"),
        )

    async def _mcp(self, server: str, method: str, params: JsonObject) -> JsonObject:
        """Send a request to a server of the program's own tools, and return its answer.

        Raises `ValueError` if the program has no such server.
        """
        self._next += 1
        message = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}
        answer = await self.request("mcp_message", server_name=server, message=message)
        if "response" not in answer:
            raise ValueError(f"the program has no tools: {answer.get('error')}")
        response: JsonObject = answer["response"]["mcp_response"]
        return response

    async def attempt(
        self,
        call: str,
        title: str,
        *,
        name: str = "Bash",
        suggestions: Sequence[JsonObject] = (),
        **arguments: Any,
    ) -> bool:
        """Make a tool call as Claude Code does. Returns True if it ran.

        The hooks are asked first, in every mode. Then the mode and the rules in `allowed` decide if
        a permission request is sent, with `suggestions`. Rules and modes in the answer are applied.
        """
        given = arguments or {"command": title}
        self.use(call, title, name=name, **arguments)
        verdict = await self._checked(call, name, given)
        if verdict == "deny":
            self.used(call, "a hook has denied it", failed=True)
            return False
        if verdict == "ask" or not self._lets(name, given):
            answer = await self.request(
                "can_use_tool",
                tool_name=name,
                input=given,
                tool_use_id=call,
                permission_suggestions=list(suggestions),
            )
            response: JsonObject = answer.get("response") or {}
            if response.get("behavior") != "allow":
                self.used(call, "it was not allowed", failed=True)
                return False
            for update in response.get("updatedPermissions", ()):
                self._update(update)
        self.used(call, "done")
        return True

    async def _checked(self, call: str, name: str, given: JsonObject) -> str | None:
        """Return the strictest decision of the `PreToolUse` hooks about a call."""
        found: list[Any] = []
        for matcher in self.hooks.get("PreToolUse", ()):
            for callback in matcher["hookCallbackIds"]:
                about = {
                    "hook_event_name": "PreToolUse",
                    "tool_name": name,
                    "tool_input": given,
                    "permission_mode": self.mode,
                }
                answer = await self.request(
                    "hook_callback", callback_id=callback, tool_use_id=call, input=about
                )
                output = (answer.get("response") or {}).get("hookSpecificOutput") or {}
                found.append(output.get("permissionDecision"))
        return next((verdict for verdict in ("deny", "ask", "allow") if verdict in found), None)

    def _lets(self, name: str, given: JsonObject) -> bool:
        """True if a call needs no permission, by the mode and the rules."""
        edits = self.mode == "acceptEdits" and (
            name in ("Write", "Edit") or str(given.get("command")).split()[0] in ("rm", "mkdir")
        )
        return self.mode in ("bypassPermissions", "auto") or edits or name in self.allowed

    def _update(self, update: JsonObject) -> None:
        """Apply a change of rules or the mode that came with an answer to a permission request."""
        match update:
            case {"type": "setMode", "mode": str(mode)}:
                self.mode = mode
            case {"type": "addRules", "behavior": "allow", "rules": rules}:
                self.allowed |= {rule["toolName"] for rule in rules}

    async def call_hook(self, event: str, **input: Any) -> JsonObject:
        """Call the program's first hook for this event, as Claude does, and return its answer.

        Raises `ValueError` if the program has no such hook.
        """
        if not self.hooks.get(event):
            known = ", ".join(self.hooks) or "none"
            raise ValueError(f"the program has no hook for {event!r}; it has: {known}")
        [callback, *_] = self.hooks[event][0]["hookCallbackIds"]
        given = {"hook_event_name": event, **input}
        answer = await self.request("hook_callback", callback_id=callback, input=given)
        found: JsonObject = answer.get("response") or {}
        return found
