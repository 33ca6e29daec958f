"""A program that speaks Claude Code's stream-json: plausible, and at times broken."""

from __future__ import annotations

from random import Random
from typing import Any

from .agent import OWN, Act, Json
from .book import Prompt
from .checker import SLACK
from .claude_wire import ClaudeWire

REASONS: tuple[tuple[Json, str, int], ...] = (
    ({}, "completed", 12),
    ({"stop_reason": "refusal"}, "refused", 1),
    ({"subtype": "error_max_turns", "is_error": True, "terminal_reason": "max_turns"}, "limit", 1),
    (
        {"subtype": "error_during_execution", "is_error": True, "terminal_reason": "model_error"},
        "failed",
        1,
    ),
)
ABORTED: Json = {
    "subtype": "error_during_execution",
    "is_error": True,
    "terminal_reason": "aborted_streaming",
    "stop_reason": None,
}


class ClaudeAgent(ClaudeWire):
    """The far end of `ClaudeDriver`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.own = False
        """A turn of its own runs."""
        self.expected = False
        """It had to: background work had ended."""
        self.waiting: list[Json] = []
        """Prompts that it has not begun."""
        self.block: str | None = None
        """The kind of block that streams now."""
        self.calls = 0
        self.results = 0
        self.folded: list[str] = []
        """Prompts that were taken into the turn that runs."""
        self.tools: list[str] = []
        self.tasks: dict[str, str] = {}
        """Background work, and the call that began it."""
        self.kinds: dict[str, str] = {}
        self.done_tasks = 0
        """Background work that has ended and that it has said nothing about."""
        self.hook_ids: list[str] = []
        """The hooks' callback ids."""
        self.greeted = False

    @property
    def at_work(self) -> bool:
        goes_on = self.own and self.expected and self.temper.states
        return bool(self.prompt or self.tasks or goes_on or self.owes_turn)

    @property
    def owes_turn(self) -> bool:
        """Background work has ended, and it will speak of that at any moment."""
        silence = self.now() - self.process.read_at
        return self.done_tasks > 0 and silence < self.world.limits.end_silence_s - SLACK

    # --- what the host says

    def heard(self, message: Json, host_had_read: int) -> None:
        match message["type"]:
            case "user":
                prompt = self.take_prompt(str(message["message"]["content"]), message["uuid"])
                if prompt.token in self.book.steered:
                    self.steered(prompt)
                    return
                self.waiting.append(message)
                self.fate(message["uuid"], "queued")
                if not self.own:
                    self.begin_prompt()
            case "control_request":
                self.requested(message["request_id"], message["request"], host_had_read)
            case "control_response":
                self.response(message["response"])
            case "control_cancel_request":
                pass
            case kind:
                self.world.fail("P1", f"an unknown message {kind}")

    def requested(self, id: str, request: Json, host_had_read: int) -> None:
        match request["subtype"]:
            case "initialize" if self.greets_badly():
                pass
            case "initialize" if self.temper.greets == "error":
                body = {"subtype": "error", "request_id": id, "error": "no"}
                self.send({"type": "control_response", "response": body})
            case "initialize":
                hooks = request.get("hooks") or {}
                self.hook_ids = [c for h in hooks.values() for m in h for c in m["hookCallbackIds"]]
                reply = {"commands": [], "models": [], "claude_code_version": "2.1.0"}
                self.success(id, reply)
                self.ready = True
            case "interrupt":
                self.success(id, {"still_queued": []})
                self.cancelled(host_had_read)
                if self.temper.on_cancel == "at once" and self.process.can_write:
                    self.abort(self.process.rng)
            case "end_session":
                self.said_goodbye()
                self.success(id, {})
                if "eof" not in self.process.ignores:
                    self.process.exit(0)
            case _ if self.temper.answers_calls == "well":
                self.success(id, {})
            case _ if self.temper.answers_calls == "error":
                body = {"subtype": "error", "request_id": id, "error": "no"}
                self.send({"type": "control_response", "response": body})

    def response(self, response: Json) -> None:
        body = response.get("response")
        if response["subtype"] == "error":
            self.answered(response["request_id"], "error", False)
            return
        allows, answer = False, body
        if isinstance(body, dict):
            if "behavior" in body:
                allows, answer = body["behavior"] == "allow", body["behavior"]
            elif "action" in body:
                allows, answer = body["action"] == "accept", body["action"]
        self.answered(response["request_id"], answer, allows)

    # --- turns

    def steered(self, prompt: Prompt) -> None:
        """A prompt that was sent into a turn: it is taken in, or has a turn of its own."""
        self.fate(prompt.id, "queued")
        if self.in_turn:
            self.folded.append(prompt.id)
            if self.process.rng.random() < 0.5:
                self.fate(prompt.id, "started")
        elif self.prompt is None:
            self.begin_own(self.process.rng)
            self.folded.append(prompt.id)
            self.fate(prompt.id, "started")

    def drop_folded(self, rng: Random) -> None:
        """An interrupt drops what was taken in, at times."""
        if rng.random() < 0.5:
            for uuid in self.folded:
                self.fate(uuid, "cancelled")
            self.folded.clear()

    def begin_prompt(self) -> None:
        if not self.waiting:
            return
        uuid = self.waiting.pop(0)["uuid"]
        self.done_tasks = 0  # their news are taken into this turn
        self.owes_idle = False
        self.go("running")
        self.fate(uuid, "started")
        self.init()

    def abort(self, rng: Random) -> None:
        """An interrupt that is obeyed."""
        self.end_block()
        self.drop_folded(rng)
        for ask in list(self.asks.values()):
            if not ask.background and not ask.withdrawn:
                self.withdraw(ask)
        self.end_tools("user-rejected")
        if self.prompt is not None and not self.waiting:
            self.result(rng, ABORTED, "cancelled")
        elif self.own:
            self.own_result(rng, ABORTED)
        elif self.waiting and self.prompt is not None:
            # It had not begun: it is dropped, and no result follows.
            prompt = self.prompt
            self.waiting.clear()
            if self.temper.fates:
                when_read = self.end_prompt("cancelled")
                fate = {"command_uuid": prompt.id, "state": "cancelled"}
                self.send({"type": "command_lifecycle", **fate}, when_read)
                self.last_end = self.process.written
            else:
                self.result(rng, ABORTED, "cancelled")

    def result(self, rng: Random, fields: Json, *outcomes: str) -> None:
        prompt = self.prompt
        assert prompt is not None
        self.end_block()
        read = self.end_prompt(*outcomes)
        uuids = [prompt.id, *self.folded]
        self.folded.clear()
        listed = {"user_message_uuid": prompt.id, "user_message_uuids": uuids}
        told = listed if self.temper.lists_uuids else {}
        # An old CLI, whose results say not what they are of, is not seen to do this.
        known = self.temper.states and self.temper.lists_uuids
        rests_first = rng.random() < 0.1 and known and not self.tasks
        if rests_first:
            self.go("idle", lambda: setattr(prompt, "rest_read", True))
        self.results += 1
        good: Json = {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "terminal_reason": "completed",
            "stop_reason": "end_turn",
            "num_turns": 1,
            "result": "done",
            "total_cost_usd": 0.01 * self.results,
        }
        self.send({**good, **told, **fields}, read)
        self.last_end = self.process.written
        fate = "cancelled" if fields.get("is_error") else "completed"
        for uuid in uuids:
            own = uuid == prompt.id
            self.fate(uuid, fate, (lambda: setattr(prompt, "fate_read", fate)) if own else None)
        self.owes_idle = self.state != "idle"
        if not self.tasks and rng.random() < 0.8:
            self.go("idle")

    def own_result(self, rng: Random, fields: Json) -> None:
        self.end_block()
        self.own = False
        origin: Json = {"origin": {"kind": "task-notification"}}
        if self.folded and self.temper.lists_uuids:
            origin = {"user_message_uuid": self.folded[0], "user_message_uuids": [*self.folded]}
        self.folded.clear()
        good = {"subtype": "success", "is_error": False, "result": "done", "num_turns": 1}
        self.send({"type": "result", **good, **origin, **fields})
        self.last_end = self.process.written
        self.own_since = False
        if self.waiting:
            self.begin_prompt()
        else:
            self.owes_idle = True
            if not self.tasks:
                self.go("idle")

    # --- what it may do by itself

    @property
    def in_turn(self) -> bool:
        """In a turn, its own or a prompt's."""
        return self.own or (self.prompt is not None and not self.waiting)

    def acts(self) -> list[tuple[float, Act]]:
        if not self.ready:
            return []
        temper, chatty = self.temper, self.temper.chatty
        acts: list[tuple[float, Act]] = [(0.3, self.noise), (0.2, self.tell), (0.1, self.stray)]
        if self.owes_idle and not self.tasks and not self.in_turn:
            acts.append((3.0, lambda rng: self.go("idle")))
        if any(not a.withdrawn for a in self.asks.values()):
            acts.append((0.5, self.take_back))
        if self.tasks:
            acts += [(0.6, self.task_ends), (0.2, self.task_asks)]
        if not self.in_turn:
            if self.done_tasks:
                acts.append((4.0, self.begin_own))
            elif temper.own_work and self.last is not None and self.prompt is None:
                acts.append((0.3, self.begin_own))
            return acts
        acts += [(2.5 * chatty, self.say), (0.7 * chatty, self.tool), (0.2, self.task_starts)]
        if self.tools:
            acts.append((1.0, self.tool_ends))
        if len(self.asks) < 3:
            acts += [(0.8, self.permission), (0.2, self.elicit), (0.4, self.mcp)]
            if self.hook_ids:
                acts.append((0.4, self.hook))
        cancelled = self.prompt is not None and self.prompt.cancels > 0
        if not self.blocked and not (cancelled and temper.on_cancel == "never"):
            acts.append((6.0 if cancelled else 2.5, self.finish))
        return acts

    def begin_own(self, rng: Random) -> None:
        """A turn that no prompt began."""
        self.expected = self.owes_turn
        self.own_began = self.now()
        self.done_tasks = 0
        self.own = self.own_since = True
        self.owes_idle = False
        self.go("running")
        self.init()

    def mark(self, prompt: Prompt | None) -> str:
        if self.own:
            self.own_since = True
            return OWN
        return super().mark(prompt)

    def say(self, rng: Random) -> None:
        """Begin a streamed block, go on with it, end it; or say something whole."""
        if self.block is not None:
            if rng.random() < 0.3:
                self.end_block()
                return
            text = self.mark(self.prompt)
            name = "text" if self.block == "text" else "thinking"
            self.said += text
            self.event("content_block_delta", index=0, delta={"type": f"{name}_delta", name: text})
            return
        self.messages += 1
        if rng.random() < 0.4:
            self.assistant({"type": "text", "text": self.mark(self.prompt)})
            return
        self.block = rng.choice(("text", "text", "thinking"))
        self.said = ""
        message = {"id": f"m{self.messages}", "role": "assistant", "content": []}
        self.event("message_start", message=message)
        empty = {"type": self.block, self.block: ""}
        self.event("content_block_start", index=0, content_block=empty)

    def end_block(self) -> None:
        if self.block is not None:
            self.assistant({"type": self.block, self.block: self.said})
            self.event("content_block_stop", index=0)
            self.block = None

    def tool(self, rng: Random) -> None:
        self.end_block()
        self.calls += 1
        self.messages += 1
        call = f"c{self.calls}"
        given = {"command": self.mark(self.prompt)}
        self.assistant({"type": "tool_use", "id": call, "name": "Bash", "input": given})
        self.tools.append(call)
        if rng.random() < 0.1:
            block = {"type": "image", "source": {"type": "base64", "data": "aGk="}}
            self.assistant(block)

    def tool_ends(self, rng: Random) -> None:
        call = rng.choice(self.tools)
        self.tools.remove(call)
        self.tool_result(call, error=rng.random() < 0.2)

    def end_tools(self, kind: str) -> None:
        for call in self.tools:
            self.tool_result(call, error=True, kind=kind)
        self.tools.clear()

    def tell(self, rng: Random) -> None:
        match rng.randrange(9):
            case 4:
                self.send({"type": "tool_progress", "tool_use_id": "c1"})
            case 5:
                self.send({"type": "prompt_suggestion", "suggestion": "go on"})
            case 6:
                self.system("permission_denied", tool_use_id="c1", tool_name="Bash")
            case 7:
                self.system("background_tasks_changed", tasks=[self.told(t) for t in self.tasks])
            case 8 if self.in_turn:
                self.child(rng)
            case 0:
                self.send({"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}})
            case 1:
                self.system("status", permissionMode="acceptEdits")
            case 2:
                self.send({"type": "keep_alive"})
            case 3:
                self.system("api_retry", attempt=1, max_retries=3)

    def child(self, rng: Random) -> None:
        """A step of a sub-agent, in the foreground or in the background."""
        parents = [*self.tools, *self.tasks.values()]
        if parents:
            text = f"{self.mark(self.prompt)}child "
            message = {"id": "mc", "content": [{"type": "text", "text": text}]}
            parent = rng.choice(parents)
            self.send({"type": "assistant", "message": message, "parent_tool_use_id": parent})

    def told(self, task: str) -> Json:
        return {"task_id": task, "task_type": self.kinds[task], "description": "dig"}

    def permission(self, rng: Random) -> None:
        if not self.tools:
            self.tool(rng)
        self.end_block()
        ask = self.ask("permission", self.new_id(), own=self.own)
        given = {"command": f"⟦{ask.tag}⟧"}
        call = rng.choice(self.tools)
        if self.temper.states:
            self.system("session_state_changed", state="requires_action")
            self.state = "requires_action"
        fields = {"tool_name": "Bash", "input": given, "tool_use_id": call, "title": f"⟦{ask.tag}⟧"}
        self.control(ask, "can_use_tool", **fields)

    def elicit(self, rng: Random) -> None:
        ask = self.ask("elicitation", self.new_id(), own=self.own)
        schema = {"type": "object", "properties": {}}
        self.control(
            ask, "elicitation", message=f"⟦{ask.tag}⟧", mcp_server_name="x", requested_schema=schema
        )

    def hook(self, rng: Random) -> None:
        ask = self.ask("hook", self.new_id(), own=self.own)
        given = {"hook_event_name": "PreToolUse", "tag": ask.tag}
        id = rng.choice(self.hook_ids)
        self.control(ask, "hook_callback", callback_id=id, input=given, tool_use_id="c1")

    def mcp(self, rng: Random) -> None:
        if not self.greeted:
            self.greeted = True
            client = {"name": "sim", "version": "0"}
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
            self.mcp_call("initialize", hello)
            return
        ask = f"ask-{len(self.book.asks) + 1}"
        self.mcp_call("tools/call", {"name": "simulated", "arguments": {"tag": ask}})

    def mcp_call(self, method: str, params: Json) -> None:
        ask = self.ask("tool", self.new_id(), own=self.own)
        message = {"jsonrpc": "2.0", "id": self.requests, "method": method, "params": params}
        self.control(ask, "mcp_message", server_name="agentrt", message=message)

    def take_back(self, rng: Random) -> None:
        self.withdraw(rng.choice([a for a in self.asks.values() if not a.withdrawn]))

    def stray(self, rng: Random) -> None:
        """Answers to nothing; a result that is nobody's; a request that nobody knows."""
        match rng.randrange(3):
            case 0:
                self.success(rng.choice(("agentrt-999", "x")), {})
            case 1 if self.last and not (self.prompt or self.own or self.done_tasks):
                uuids = {"user_message_uuid": "nobody", "user_message_uuids": ["nobody"]}
                line = {"type": "result", "subtype": "success", "is_error": False, **uuids}
                self.send(line)
            case _:
                self.control(self.ask("unknown", self.new_id()), "dance")

    # --- background work

    def task_starts(self, rng: Random) -> None:
        if len(self.tasks) >= 2:
            return
        self.end_block()
        self.calls += 1
        call, task = f"c{self.calls}", f"a{self.calls}"
        given = {"description": "dig", "run_in_background": True}
        self.assistant({"type": "tool_use", "id": call, "name": "Task", "input": given})
        kind = rng.choice(("local_agent", "local_agent", "local_bash"))
        self.kinds[task] = kind
        self.system("task_started", **self.told(task), tool_use_id=call, is_backgrounded=True)
        self.tool_result(call)
        self.tasks[task] = call

    def task_ends(self, rng: Random) -> None:
        task = rng.choice(list(self.tasks))
        del self.tasks[task]
        self.system("task_notification", task_id=task, status="completed", summary="found")
        if not self.in_turn:
            self.done_tasks += 1

    def task_asks(self, rng: Random) -> None:
        ask = self.ask("permission", self.new_id(), background=True)
        given = {"command": f"⟦{ask.tag}⟧"}
        task = rng.choice(list(self.tasks))
        fields = {"tool_name": "Bash", "input": given, "tool_use_id": f"b{self.requests}"}
        self.control(ask, "can_use_tool", **fields, title=f"⟦{ask.tag}⟧", agent_id=task)

    def finish(self, rng: Random) -> None:
        if rng.random() < 0.8:
            self.end_tools("interrupted" if self.prompt and self.prompt.cancels else "")
        if self.own:
            self.own_result(rng, {})
            return
        prompt = self.prompt
        assert prompt is not None
        if prompt.cancels:
            self.result(rng, ABORTED, "cancelled")
            return
        fields, outcome, _ = rng.choices(REASONS, [weight for *_, weight in REASONS])[0]
        self.result(rng, fields, outcome)
