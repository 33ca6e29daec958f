"""An agent that speaks version 2 of ACP: a state ends its turns, in every order that is allowed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from .acp_agent import OPTIONS, REASONS, AcpAgent
from .agent import OWN, Act, Json

REASONS_2 = {**REASONS, "error": "failed"}


class Acp2Agent(AcpAgent):
    """The far end of `AcpDriver` in version 2."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        rng = self.process.rng
        self.announces = rng.random() < 0.85
        """It reports `running`."""
        self.answers_late = rng.random() < 0.15
        """It answers a prompt after the turn's end."""
        self.quiet_refusal = rng.random() < 0.5
        """A prompt that is cancelled before its insertion has no states."""
        self.todo: list[str] = []
        """What is missing until the prompt is inserted."""
        self.busy = False
        self.own = False
        """It works by itself, and has said so."""
        self.messages = 0
        self.message = ""
        self.old_messages: list[tuple[str, str]] = []
        """Messages of turns that are over, with a piece of their text."""
        self.spoke = False

    # --- what the host says

    def heard(self, message: Json, host_had_read: int) -> None:
        id, params = message.get("id"), message.get("params") or {}
        match message.get("method"):
            case "initialize" if self.temper.greets == "well":
                info = {"name": "sim", "version": "1"}
                self.result(id, {"protocolVersion": 2, "info": info, "capabilities": {}})
            case "session/resume" if self.temper.resumes == "never":
                self.error(id, "Session not found", code=-32002)
            case "session/resume" if self.temper.resumes == "well":
                self.session = params["sessionId"]
                if "replayFrom" in params:
                    self.replay()
                self.state("idle", stopReason="end_turn")
                self.result(id, {})
                self.ready = True
            case _:
                super().heard(message, host_had_read)

    def prompted(self, id: Any, params: Json) -> None:
        text = "".join(block.get("text", "") for block in params["prompt"])
        cancelled, self.cancelled_text = self.cancelled_text, ""
        prompt = self.take_prompt(text, id)
        self.text = text
        self.own_since = self.own
        self.todo = ["user", "answer", "running"]
        self.process.rng.shuffle(self.todo)
        if self.answers_late:
            self.todo = [*(each for each in self.todo if each != "answer"), "answer"]
        if not self.announces:
            self.todo.remove("running")
        self.spoke = False
        if cancelled not in ("", text) and self.temper.after_cancel == "cancelled":
            if self.process.can_write:
                self.broken = prompt
                self.refuse()

    def cancel(self, host_had_read: int) -> None:
        self.cancelled(host_had_read)
        rng = self.process.rng
        if self.temper.on_cancel != "at once" or not self.process.can_write:
            return
        if self.own:
            self.own_end(rng, "cancelled")
        if self.prompt is None:
            return
        if not self.inserted:
            self.refuse()
        else:
            if rng.random() < 0.3:
                self.say(rng)
            self.end("cancelled")

    # --- writing

    def state(self, state: str, when_read: Callable[[], None] | None = None, **more: Any) -> None:
        update = {"sessionUpdate": "state_update", "state": state, **more}
        params = {"sessionId": self.session, "update": update}
        message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
        self.send(message, when_read)

    def update(self, kind: str, **fields: Any) -> None:
        if kind == "tool_call":
            kind = "tool_call_update"
        if kind == "plan":
            kind, fields = "plan_update", {"plan": {"type": "items", "planId": "p", **fields}}
        super().update(kind, **fields)

    def chunk(self, kind: str, text: str, **fields: Any) -> None:
        fields.setdefault("messageId", self.current(kind))
        super().chunk(kind, text, **fields)

    def current(self, kind: str) -> str:
        return f"{kind[:5]}{self.process.number}.{self.messages}"

    @property
    def inserted(self) -> bool:
        return "answer" not in self.todo

    def user_id(self) -> str:
        assert self.prompt is not None
        return f"u{self.process.number}.{self.prompt.id}"

    # --- what it may do by itself

    def acts(self) -> list[tuple[float, Act]]:
        if not self.ready:
            return []
        acts: list[tuple[float, Act]] = [(0.3, self.noise), (0.3, self.tell), (0.1, self.stray)]
        if self.asks:
            acts.append((0.5, self.take_back))
        if self.old_messages:
            acts.append((0.3, self.late_text))
        if self.old_tools:
            acts.append((0.2, self.late_update))
        if self.own:
            acts += [(1.0, self.say_own), (0.5, self.own_tool), (1.0, self.own_end)]
            return acts
        if not self.busy and not self.spoke and self.last is not None:
            acts.append((0.4, self.snapshot))
        if self.prompt is None:
            if self.temper.own_work and self.last is not None:
                acts.append((0.3, self.own_begin))
            return acts
        waits = ["answer"] if self.answers_late else []
        if self.todo != waits:
            if self.last is not None and not self.busy and self.todo and self.todo_is_whole:
                acts.append((0.3, self.own_begin))
            return [*acts, (5.0, self.insert)]
        chatty = self.temper.chatty
        acts += [
            (2 * chatty, self.say),
            (0.7 * chatty, self.tool),
            (0.3, self.burst),
            (0.1, self.foreign),
            (0.2, self.show),
            (0.2, self.child),
            (0.3, self.next_message),
        ]
        if self.tools:
            acts.append((1.0, self.tool_goes_on))
        if len(self.asks) < 3:
            acts += [(0.8, self.permission), (0.15, self.elicit)]
        if not self.blocked and not (self.prompt.cancels and self.temper.on_cancel == "never"):
            acts.append((2.5 if not self.prompt.cancels else 6.0, self.finish))
        return acts

    @property
    def todo_is_whole(self) -> bool:
        return len(self.todo) == 2 + self.announces

    def insert(self, rng: Random) -> None:
        """The next of the messages that make the prompt part of the conversation."""
        for _ in range(3 if rng.random() < 0.7 else 1):
            if self.todo in ([], ["answer"]) and (self.answers_late or not self.todo):
                return
            match self.todo.pop(0):
                case "user":
                    self.chunk("user_message_chunk", self.text, messageId=self.user_id())
                case "answer":
                    self.answer()
                case "running":
                    self.busy = True
                    self.state("running")

    def answer(self, when_read: Callable[[], None] | None = None) -> None:
        assert self.prompt is not None
        result = {"messageId": self.user_id()}
        self.send({"jsonrpc": "2.0", "id": self.prompt.id, "result": result}, when_read)

    def refuse(self) -> None:
        """End a prompt that is not inserted, in one of the two ways that agents have."""
        prompt = self.prompt
        assert prompt is not None
        if self.busy or not self.quiet_refusal:
            if not self.busy:
                self.state("running")
            self.state("idle", stopReason="cancelled")
        self.busy = False
        id = prompt.id
        when_read = self.over(prompt, "cancelled")
        error = {"code": -32800, "message": "Request cancelled"}
        self.send({"jsonrpc": "2.0", "id": id, "error": error}, when_read)
        self.last_end = self.process.written

    def over(self, prompt: Any, *outcomes: str) -> Any:
        when_read = self.ended(prompt, *outcomes)
        self.todo = []
        self.messages += 1
        return when_read

    def say(self, rng: Random) -> None:
        self.spoke = True
        kind = "agent_thought_chunk" if rng.random() < 0.2 else "agent_message_chunk"
        text = self.mark(self.prompt)
        self.chunk(kind, text)
        self.old_messages.append((self.current(kind), text))

    def next_message(self, rng: Random) -> None:
        self.messages += 1

    def show(self, rng: Random) -> None:
        image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
        content = rng.choice((image, {"type": "new"}))
        self.spoke = self.spoke or content is image  # the other one is not understood
        self.update("agent_message_chunk", content=content, messageId=f"show{self.messages}")

    def child(self, rng: Random) -> None:
        if rng.random() < 0.3:
            session, self.session = self.session, "child"
            self.state(rng.choice(("running", "idle")))
            self.session = session
        else:
            super().child(rng)

    def tool(self, rng: Random) -> None:
        self.spoke = True
        self.calls += 1
        call = f"c{10 + self.calls}"
        status = rng.choice(("pending", "in_progress", "paused", "completed"))
        self.update("tool_call", toolCallId=call, title=self.mark(self.prompt), status=status)
        if status != "completed":
            self.tools[call] = self.prompt.token if self.prompt is not None else None

    def elicit(self, rng: Random) -> None:
        self.spoke = True
        super().elicit(rng)

    def permission(self, rng: Random) -> None:
        self.spoke = True
        ask = self.ask("permission", self.new_id(rng))
        self.calls += 1
        call = f"c{10 + self.calls}"
        options = [o for o in OPTIONS if rng.random() < 0.85]
        subject: Any = {"type": "command", "command": "ls", "cwd": "/"}
        if rng.random() < 0.7:
            self.tools[call] = ask.token
            called = {"toolCallId": call, "title": f"⟦{ask.tag}⟧"}
            subject = {"type": "tool_call", "toolCall": called}
        params = {"title": f"⟦{ask.tag}⟧", "subject": subject, "options": options}
        self.request(ask, "session/request_permission", params)

    def late_text(self, rng: Random) -> None:
        """More of a message whose turn is over, or of one that goes on."""
        message, text = rng.choice(self.old_messages[-8:])
        if message != self.current(message) and not message.endswith(f".{self.messages}"):
            self.chunk("agent_message_chunk", text, messageId=message)

    def snapshot(self, rng: Random) -> None:
        """The state once more, with or without the reason of an earlier turn."""
        more = rng.choice(({}, {"stopReason": "end_turn"}, {"stopReason": "cancelled"}))
        self.state("idle", **more)

    def stray(self, rng: Random) -> None:
        if rng.random() < 0.3:
            self.result(rng.choice((9999, "9999", None)), {"messageId": "x"})
        else:
            super().stray(rng)

    # --- its own work

    def own_begin(self, rng: Random) -> None:
        self.own = self.busy = self.own_since = True
        self.messages += 1
        self.own_began = self.now()
        self.state("running")

    def say_own(self, rng: Random) -> None:
        self.own_since = True
        self.chunk(
            "agent_message_chunk", OWN, messageId=f"own{self.process.number}.{self.messages}"
        )

    def own_tool(self, rng: Random) -> None:
        self.calls += 1
        self.update("tool_call", toolCallId=f"o{self.calls}", title=OWN, status="completed")

    def own_end(self, rng: Random, reason: str = "end_turn") -> None:
        self.own = self.busy = False
        self.messages += 1
        self.state("idle", stopReason=reason)

    # --- the end of a turn

    def finish(self, rng: Random) -> None:
        prompt = self.prompt
        assert prompt is not None
        reasons = ("cancelled",) if prompt.cancels and rng.random() < 0.6 else tuple(REASONS_2)
        weights = (12, 1, 1, 1, 1, 1, 1)[: len(reasons)]
        self.end(rng.choices(reasons, weights)[0])

    def end(self, reason: str) -> None:
        prompt = self.prompt
        assert prompt is not None
        if not (self.busy or self.spoke):
            self.say(self.process.rng)  # without `running`, only output shows that it works
        outcomes = ("cancelled", "completed") if reason == "cancelled" else (REASONS_2[reason],)
        more: Json = {"stopReason": reason}
        if reason == "error":
            more["error"] = {"code": -32000, "message": "the model is gone"}
        late, id = "answer" in self.todo, self.user_id()
        when_read = self.over(prompt, *outcomes)
        self.busy = self.spoke = False
        self.state("idle", None if late else when_read, **more)
        if late:
            result = {"messageId": id}
            self.send({"jsonrpc": "2.0", "id": prompt.id, "result": result}, when_read)
        self.last_end = self.process.written
