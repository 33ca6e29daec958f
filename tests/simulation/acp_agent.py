"""An agent that speaks ACP: plausible, and at times broken."""

from __future__ import annotations

from random import Random
from typing import Any

from .agent import Act, Agent, Json
from .book import Ask, Prompt

OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]
REASONS = {
    "end_turn": "completed",
    "max_tokens": "limit",
    "max_turn_requests": "limit",
    "refusal": "refused",
    "cancelled": "cancelled",
    "something_new": "completed",
}


class AcpAgent(Agent):
    """The far end of `AcpDriver`."""

    session: str | None = None
    calls: int = 0

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.tools: dict[str, str | None] = {}
        """Tool calls that are not over, and the prompt they are for."""
        self.old_tools: list[str] = []
        self.ended_ids: list[Any] = []
        self.text = ""
        """The text of the last prompt."""
        self.cancelled_text = ""
        """The same, if that one was cancelled."""

    @property
    def at_work(self) -> bool:
        return self.prompt is not None

    # --- what the host says

    def heard(self, message: Json, host_had_read: int) -> None:
        id, params = message.get("id"), message.get("params") or {}
        match message.get("method"):
            case "initialize" if self.greets_badly():
                pass
            case "initialize" if self.temper.greets == "error":
                self.error(id, "Authentication required", code=-32000)
            case "initialize":
                can = self.temper.resumes != "never"
                answer = {"protocolVersion": 1, "agentCapabilities": {"loadSession": can}}
                self.result(id, answer)
            case "session/new":
                self.session = f"s{self.process.number}"
                self.result(id, {"sessionId": self.session})
                self.ready = True
            case "session/load" | "session/resume":
                if self.temper.resumes == "unknown":
                    self.error(id, "Session not found", code=-32002)
                    return
                self.session = params["sessionId"]
                self.replay()
                self.result(id, {})
                self.ready = True
            case "session/prompt":
                self.prompted(id, params)
            case "session/cancel":
                self.cancel(host_had_read)
            case "$/cancel_request":
                pass
            case "session/close":
                self.result(id, {})
            case None:
                self.response(message)
            case method:
                if id is None:
                    self.world.fail("P1", f"an unknown notification {method}")
                elif self.temper.answers_calls == "well":
                    self.result(id, {})
                elif self.temper.answers_calls == "error":
                    self.error(id, "no")

    def prompted(self, id: Any, params: Json) -> None:
        text = "".join(block.get("text", "") for block in params["prompt"])
        self.take_prompt(text, id)
        self.tools.clear()
        cancelled, self.cancelled_text, self.text = self.cancelled_text, "", text
        if cancelled not in ("", text) and self.process.can_write and self.prompt is not None:
            self.broken = self.prompt
            if self.temper.after_cancel == "earlier":
                self.chunk("user_message_chunk", cancelled)
            self.end("cancelled" if self.temper.after_cancel == "cancelled" else "end_turn")

    def cancel(self, host_had_read: int) -> None:
        self.cancelled(host_had_read)
        at_once = self.temper.on_cancel == "at once" and self.process.can_write
        if self.prompt is not None and at_once:
            rng = self.process.rng
            if rng.random() < 0.3:
                self.say(rng)
            self.end("cancelled" if rng.random() < 0.7 else "end_turn")

    def response(self, message: Json) -> None:
        result = message.get("result")
        outcome = result.get("outcome") if isinstance(result, dict) else None
        allows = False
        if isinstance(outcome, dict):
            allows = outcome.get("optionId") in ("yes", "always")
            answer: Any = outcome.get("optionId") or outcome.get("outcome")
        elif isinstance(result, dict) and "action" in result:
            allows = result["action"] == "accept"
            answer = result["action"]
        elif "error" in message:
            answer = f"error {message['error']['code']}"
        else:
            answer = result
        self.answered(message.get("id"), answer, allows)

    # --- writing

    def result(self, id: Any, result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": id, "result": result})

    def error(self, id: Any, message: str, *, code: int = -32603) -> None:
        error = {"code": code, "message": message}
        self.send({"jsonrpc": "2.0", "id": id, "error": error})

    def update(self, kind: str, **fields: Any) -> None:
        update = {"sessionUpdate": kind, **fields}
        params = {"sessionId": self.session, "update": update}
        self.send({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def chunk(self, kind: str, text: str, **fields: Any) -> None:
        self.update(kind, content={"type": "text", "text": text}, **fields)

    def replay(self) -> None:
        self.chunk("user_message_chunk", "what was asked")
        self.chunk("agent_message_chunk", "what was said")
        self.update("tool_call", toolCallId="c0", title="Old", status="pending")

    # --- what it may do by itself

    def acts(self) -> list[tuple[float, Act]]:
        if not self.ready:
            return []
        temper = self.temper
        chatty = temper.chatty
        acts: list[tuple[float, Act]] = [(0.3, self.noise), (0.3, self.tell), (0.1, self.stray)]
        if self.asks:
            acts.append((0.5, self.take_back))
        if self.prompt is None:
            if temper.own_work and self.last is not None:
                acts += [(0.3, self.say), (0.15, self.tool), (0.1, self.permission)]
                if self.tools:
                    acts.append((0.3, self.tool_goes_on))
            if self.old_tools:
                acts.append((0.3, self.late_update))
            if self.ended_ids:
                acts.append((0.2, self.second_end))
            return acts
        acts += [
            (2 * chatty, self.say),
            (0.7 * chatty, self.tool),
            (0.3, self.burst),
            (0.1, self.echo),
            (0.1, self.foreign),
            (0.2, self.show),
            (0.2, self.child),
        ]
        if self.tools:
            acts.append((1.0, self.tool_goes_on))
        if len(self.asks) < 3:
            acts += [(0.8, self.permission), (0.5, self.file), (0.15, self.elicit)]
        if self.old_tools:
            acts.append((0.2, self.late_update))
        if self.ended_ids:
            acts.append((0.2, self.second_end))
        if not self.blocked and not (self.prompt.cancels and temper.on_cancel == "never"):
            acts.append((2.5 if not self.prompt.cancels else 6.0, self.finish))
        return acts

    def say(self, rng: Random) -> None:
        kind = "agent_thought_chunk" if rng.random() < 0.2 else "agent_message_chunk"
        more = {"messageId": f"m{rng.randint(1, 3)}"} if rng.random() < 0.2 else {}
        self.chunk(kind, self.mark(self.prompt), **more)

    def echo(self, rng: Random) -> None:
        self.chunk("user_message_chunk", "what was asked")

    def foreign(self, rng: Random) -> None:
        session, self.session = self.session, "another"
        self.chunk("agent_message_chunk", "⟦foreign⟧")
        self.session = session

    def tell(self, rng: Random) -> None:
        match rng.randrange(9):
            case 0:
                entries = [{"content": "a", "priority": "high", "status": "pending"}]
                self.update("plan", entries=entries)
            case 1:
                self.update("available_commands_update", availableCommands=[{"name": "x"}])
            case 2:
                self.update("usage_update", used=rng.randint(1, 99), size=100)
            case 3:
                self.update("session_info_update", title=f"title {rng.randint(1, 9)}")
            case 4:
                self.update("current_mode_update", currentModeId="m")
            case 5:
                self.update("plan", entries="wrong")
            case 6:
                status = rng.choice(("in_progress", "completed", "failed"))
                self.update("compaction_update", compactionId="k", status=status)
            case 7:
                self.update("notice", title="Mind", severity=rng.choice(("warning", "error", "x")))
            case 8:
                self.update("config_option_update", configOptions=[])

    def show(self, rng: Random) -> None:
        """A part of the answer that is no text."""
        image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
        link = {"type": "resource_link", "name": "x", "uri": "file:///x"}
        self.update("agent_message_chunk", content=rng.choice((image, link, {"type": "new"})))

    def child(self, rng: Random) -> None:
        """A session below this one: announced, at work, or at rest."""
        match rng.randrange(3):
            case 0:
                self.update("subagent_update", sessionId="child", title="helper")
            case 1:
                state = {"state": "idle", "stopReason": "end_turn"}
                self.update("subagent_update", sessionId="child", state=state)
            case 2:
                session, self.session = self.session, "child"
                self.chunk("agent_message_chunk", f"{self.mark(self.prompt)}child ")
                self.session = session

    def tool(self, rng: Random) -> None:
        # Some models count their calls from zero in each turn.
        self.calls += 1
        call = f"c{rng.randint(1, 3) if rng.random() < 0.3 else 10 + self.calls}"
        status = rng.choice(("pending", "in_progress", "in_progress", "completed"))
        self.update("tool_call", toolCallId=call, title=self.mark(self.prompt), status=status)
        if status != "completed":
            self.tools[call] = self.prompt.token if self.prompt is not None else None
        self.old_tools = [c for c in self.old_tools if c != call]

    def tool_goes_on(self, rng: Random) -> None:
        call = rng.choice(sorted(self.tools))
        status = rng.choice(("in_progress", "completed", "completed", "failed"))
        self.update("tool_call_update", toolCallId=call, status=status)
        if status in ("completed", "failed"):
            del self.tools[call]

    def late_update(self, rng: Random) -> None:
        self.own_since = self.own_since or self.prompt is None
        call = rng.choice(self.old_tools)
        self.update("tool_call_update", toolCallId=call, status="completed", title="⟦late⟧")

    def burst(self, rng: Random) -> None:
        """Several things in one write."""
        trickles, self.process.trickles = self.process.trickles, True
        for _ in range(rng.randint(2, 6)):
            rng.choice((self.say, self.tool, self.tell))(rng)
        self.process.trickles = trickles
        self.process.flush()

    def request(self, ask: Ask, method: str, params: Json) -> None:
        message = {"jsonrpc": "2.0", "id": ask.id, "method": method}
        given = {"sessionId": self.session, **params}
        self.send({**message, "params": given}, self.is_read(ask))

    def new_id(self, rng: Random) -> Any:
        self.requests += 1
        return self.requests if rng.random() < 0.7 else f"q{self.requests}"

    def permission(self, rng: Random) -> None:
        own = self.prompt is None
        if own:
            self.own_since = True
        ask = self.ask("permission", self.new_id(rng), own=own)
        if self.tools and rng.random() < 0.5:
            call = rng.choice(sorted(self.tools))
        else:
            self.calls += 1
            call = f"c{10 + self.calls}"
            self.tools[call] = ask.token
        options = [o for o in OPTIONS if rng.random() < 0.85]
        called = {"toolCallId": call, "title": f"⟦{ask.tag}⟧"}
        params = {"toolCall": called, "options": options}
        self.request(ask, "session/request_permission", params)

    def file(self, rng: Random) -> None:
        ask = self.ask("fs", self.new_id(rng))
        self.request(ask, "fs/read_text_file", {"path": f"/sim/{ask.tag}"})

    def elicit(self, rng: Random) -> None:
        ask = self.ask("elicitation", self.new_id(rng))
        form = {"type": "object", "properties": {"x": {"type": "string"}}}
        params = {"mode": "form", "message": f"⟦{ask.tag}⟧", "requestedSchema": form}
        self.request(ask, "elicitation/create", params)

    def take_back(self, rng: Random) -> None:
        id = rng.choice(list(self.asks))
        self.asks[id].taken_back = True
        note = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}}
        self.send(note)

    def stray(self, rng: Random) -> None:
        """Answers to nothing, and a request that nobody offered."""
        match rng.randrange(3):
            case 0:
                self.result(rng.choice((9999, "9999", None, 1.5)), {"stopReason": "end_turn"})
            case 1:
                self.error(rng.choice((8888, None)), "stray")
            case 2:
                # Answered with an error at once; nobody keeps a book about it.
                self.requests += 1
                ask = self.ask("unknown", self.requests)
                self.request(ask, "vendor/dance", {})

    def second_end(self, rng: Random) -> None:
        """The answer to an earlier prompt, once more."""
        self.result(rng.choice(self.ended_ids), {"stopReason": "end_turn"})

    def finish(self, rng: Random) -> None:
        prompt = self.prompt
        assert prompt is not None
        if rng.random() < 0.1:
            when_read = self.ended(prompt, "failed")
            error = {"code": -32000, "message": "the model is gone"}
            self.send({"jsonrpc": "2.0", "id": prompt.id, "error": error}, when_read)
            self.last_end = self.process.written
        else:
            reasons = ("cancelled",) if prompt.cancels and rng.random() < 0.6 else tuple(REASONS)
            self.end(rng.choices(reasons, (12, 1, 1, 1, 1, 1)[: len(reasons)])[0])

    def end(self, reason: str) -> None:
        prompt = self.prompt
        assert prompt is not None
        # Some call a turn cancelled in which something was denied.
        outcomes = ("cancelled", "completed") if reason == "cancelled" else (REASONS[reason],)
        when_read = self.ended(prompt, *outcomes)
        answer = {"jsonrpc": "2.0", "id": prompt.id, "result": {"stopReason": reason}}
        self.send(answer, when_read)
        self.last_end = self.process.written

    def ended(self, prompt: Prompt, *outcomes: str) -> Any:
        if prompt.cancels and self.temper.after_cancel != "well":
            self.cancelled_text = self.text
        when_read = self.end_prompt(*outcomes)
        self.ended_ids.append(prompt.id)
        self.old_tools += [c for c in self.tools if c not in self.old_tools]
        self.tools.clear()
        return when_read
