"""A program that speaks the protocol of `codex app-server`: plausible, and at times broken."""

from __future__ import annotations

from random import Random
from typing import Any

from .agent import Act, Agent, Json
from .book import Ask, Prompt

WORDS = {
    "accept": "yes",
    "acceptForSession": "always",
    "decline": "no",
    "cancel": "deny",
}
SETTINGS = {"model": "m", "approvalPolicy": "untrusted", "sandbox": {"type": "readOnly"}}


class CodexAgent(Agent):
    """The far end of `CodexDriver`."""

    thread: str | None = None

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.turn: str | None = None
        """Its id of the turn that runs, also before it has said that it does."""
        self.begun = False
        self.known_to_run = False
        """The host has read that it runs."""
        self.turns = 0
        self.items = 0
        self.open_items: list[str] = []
        self.old: list[tuple[str, str]] = []
        """Calls of turns that are over, with these."""
        self.to_end: set[str] = set()
        """The commands of turns that somebody wanted to stop."""
        self.steered: list[Prompt] = []

    @property
    def can_be_cancelled(self) -> bool:
        return self.ready and self.known_to_run  # before, codex refuses it

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
                self.error(id, "not now")
            case "initialize":
                self.result(id, {"userAgent": "sim/0.169.0 (here)"})
            case "initialized":
                pass
            case "account/read":
                self.result(id, {"account": None, "requiresOpenaiAuth": False})
            case "model/list":
                self.result(id, {"data": []})
            case "thread/start":
                self.opened(id, f"s{self.process.number}")
            case "thread/resume" if self.temper.resumes == "well":
                self.opened(id, params["threadId"])
            case "thread/resume":
                self.error(id, "no rollout found for that thread")
            case "thread/turns/list":
                items = [
                    {"type": "userMessage", "id": "h1", "content": []},
                    {"type": "agentMessage", "id": "h2", "text": "what was said"},
                ]
                turn = {"id": "h", "status": "completed", "items": items}
                self.result(id, {"data": [turn], "nextCursor": None})
            case "turn/start":
                self.prompted(id, params)
            case "turn/steer":
                self.steer(id, params)
            case "turn/interrupt":
                self.interrupt(id, params, host_had_read)
            case "thread/backgroundTerminals/list":
                known = {*self.open_items, *(item for item, _ in self.old)}
                running = [{"itemId": item, "processId": item} for item in sorted(known)]
                self.result(id, {"data": running})
            case "thread/backgroundTerminals/terminate":
                if params["processId"] not in self.to_end:
                    self.world.fail("T5", f"a command of no cancelled turn was ended: {params}")
                self.result(id, {"terminated": True})
            case None:
                self.response(message)
            case _ if self.temper.answers_calls == "well":
                self.result(id, {})
            case _ if self.temper.answers_calls == "error":
                self.error(id, "no")

    def opened(self, id: Any, thread: str) -> None:
        self.thread = thread
        shown = {"id": thread, "preview": "", "cwd": "/", "updatedAt": 0, "name": None}
        self.result(id, {"thread": shown, **SETTINGS})
        self.ready = True

    def text_of(self, params: Json) -> str:
        return "".join(part.get("text", "") for part in params["input"])

    def prompted(self, id: Any, params: Json) -> None:
        self.take_prompt(self.text_of(params), id)
        self.turns += 1
        self.turn, self.begun = f"u{self.process.number}.{self.turns}", False
        self.known_to_run = False
        self.result(id, {"turn": self.shown("inProgress")})
        if self.process.rng.random() < 0.7:
            self.begin(self.process.rng)

    def begin(self, rng: Random) -> None:
        self.begun = True
        turn = self.turn

        def read() -> None:
            self.known_to_run = self.turn == turn

        self.tell("turn/started", read, turn=self.shown("inProgress"))

    def steer(self, id: Any, params: Json) -> None:
        prompt = self.take_prompt(self.text_of(params), id)
        if not self.begun or params["expectedTurnId"] != self.turn:
            self.error(id, "no active turn to steer")
            return
        self.steered.append(prompt)
        self.result(id, {"turnId": self.turn})

    def interrupt(self, id: Any, params: Json, host_had_read: int) -> None:
        if params["turnId"] != self.turn or not self.begun:
            if params["turnId"] == self.turn:
                self.world.fail("T5", "an interrupt came before its turn ran: codex refuses that")
            self.to_end |= {item for item, turn in self.old if turn == params["turnId"]}
            self.error(id, "no active turn to interrupt")
            return
        self.cancelled(host_had_read)
        self.to_end |= set(self.open_items)
        self.result(id, {})
        if self.temper.on_cancel == "at once" and self.process.can_write:
            self.end("interrupted")

    def response(self, message: Json) -> None:
        result = message.get("result")
        answer: Any = result
        if "error" in message:
            answer = f"error {message['error']['code']}"
        elif isinstance(result, dict):
            said = result.get("decision") or result.get("action")
            if isinstance(said, str):
                answer = WORDS[said]
            elif "success" in result:
                answer = result["success"]
        allows = answer in ("yes", "always")
        self.answered(message.get("id"), answer, allows)

    # --- writing

    def result(self, id: Any, result: Any) -> None:
        self.send({"id": id, "result": result})

    def error(self, id: Any, message: str) -> None:
        self.send({"id": id, "error": {"code": -32600, "message": message}})

    def tell(self, method: str, when_read: Any = None, **params: Any) -> None:
        given = {"threadId": self.thread, "turnId": self.turn, **params}
        self.send({"method": method, "params": given}, when_read)

    def shown(self, status: str) -> Json:
        return {"id": self.turn, "status": status, "items": []}

    # --- what it may do by itself

    def acts(self) -> list[tuple[float, Act]]:
        if not self.ready:
            return []
        acts: list[tuple[float, Act]] = [(0.3, self.noise), (0.3, self.mention), (0.1, self.stray)]
        if self.old:
            acts.append((0.2, self.late))
        if self.asks:
            acts.append((0.5, self.take_back))
        if self.turn is None:
            return acts
        if not self.begun:
            return [*acts, (5.0, self.begin)]
        chatty = self.temper.chatty
        acts += [(2 * chatty, self.say), (0.7 * chatty, self.command), (0.2, self.foreign)]
        if self.open_items:
            acts.append((1.0, self.command_goes_on))
        if len(self.asks) < 3:
            acts += [(0.8, self.approval), (0.15, self.elicit), (0.5, self.tool)]
        cancels = self.prompt.cancels if self.prompt is not None else 0
        if not self.blocked and not (cancels and self.temper.on_cancel == "never"):
            acts.append((6.0 if cancels else 2.5, self.finish))
        return acts

    def say(self, rng: Random) -> None:
        kind = rng.choice(("agentMessage/delta", "agentMessage/delta", "reasoning/textDelta"))
        self.tell(f"item/{kind}", itemId=f"m{rng.randint(1, 3)}", delta=self.mark(self.prompt))

    def mention(self, rng: Random) -> None:
        match rng.randrange(4):
            case 0:
                self.tell("warning", message="mind")
            case 1:
                numbers = ("totalTokens", "inputTokens", "cachedInputTokens", "outputTokens")
                spent = dict.fromkeys((*numbers, "reasoningOutputTokens"), rng.randint(1, 99))
                usage = {"total": spent, "last": spent, "modelContextWindow": 100}
                self.tell("thread/tokenUsage/updated", tokenUsage=usage)
            case 2:
                self.tell("thread/name/updated", threadName=f"title {rng.randint(1, 9)}")
            case 3:
                self.tell("item/started", item="wrong")

    def item(self, id: str, status: str, text: str) -> Json:
        return {
            "type": "commandExecution",
            "id": id,
            "command": text,
            "cwd": "/",
            "status": status,
        }

    def command(self, rng: Random) -> None:
        self.items += 1
        id = f"c{self.items}"
        self.open_items.append(id)
        self.tell("item/started", item=self.item(id, "inProgress", self.mark(self.prompt)))

    def command_goes_on(self, rng: Random) -> None:
        id = rng.choice(self.open_items)
        if rng.random() < 0.5:
            self.tell("item/commandExecution/outputDelta", itemId=id, delta="out\n")
            return
        self.open_items.remove(id)
        status = rng.choice(("completed", "completed", "failed"))
        self.tell("item/completed", item=self.item(id, status, "done"))

    def late(self, rng: Random) -> None:
        """What a command says whose turn is over."""
        id, turn = rng.choice(self.old)
        self.tell("item/completed", turnId=turn, item=self.item(id, "failed", "⟦late⟧"))

    def foreign(self, rng: Random) -> None:
        self.tell("item/agentMessage/delta", threadId="x", itemId="m", delta="⟦foreign⟧")

    def request(self, ask: Ask, method: str, **params: Any) -> None:
        given = {"threadId": self.thread, "turnId": self.turn, **params}
        self.send({"id": ask.id, "method": method, "params": given}, self.is_read(ask))

    def new_id(self) -> int:
        self.requests += 1
        return self.requests - 1

    def approval(self, rng: Random) -> None:
        ask = self.ask("permission", self.new_id())
        self.items += 1
        id = f"c{self.items}"
        self.open_items.append(id)
        item = self.item(id, "inProgress", f"⟦{ask.tag}⟧")
        self.tell("item/started", item=item)
        offered = ["accept", "acceptForSession", "cancel"] if rng.random() < 0.7 else None
        self.request(
            ask,
            "item/commandExecution/requestApproval",
            itemId=id,
            command=item["command"],
            cwd="/",
            availableDecisions=offered,
        )

    def elicit(self, rng: Random) -> None:
        ask = self.ask("elicitation", self.new_id())
        form = {"type": "object", "properties": {"x": {"type": "string"}}}
        more = {"serverName": "s", "mode": "form", "message": f"⟦{ask.tag}⟧"}
        self.request(ask, "mcpServer/elicitation/request", **more, requestedSchema=form)

    def tool(self, rng: Random) -> None:
        ask = self.ask("tool", self.new_id())
        given = {"tool": "simulated", "arguments": {"tag": ask.tag}, "callId": f"k{ask.id}"}
        self.request(ask, "item/tool/call", **given)

    def take_back(self, rng: Random) -> None:
        id = rng.choice(list(self.asks))
        ask = self.asks.pop(id)
        ask.withdrawn = ask.taken_back = True
        self.gone.add(id)
        self.tell("serverRequest/resolved", requestId=id)

    @property
    def gone(self) -> set[Any]:
        """The ids of what was taken back: an answer may have crossed that."""
        return self.__dict__.setdefault("_gone", set())

    def answered(self, id: Any, answer: Any, allows: bool) -> Ask | None:
        if id in self.gone:
            return None
        return super().answered(id, answer, allows)

    def stray(self, rng: Random) -> None:
        """Answers to nothing, a request that nobody offered, and ends of no turn."""
        match rng.randrange(3):
            case 0:
                self.result(rng.choice((9999, "9999", None)), {"turn": {"id": "x"}})
            case 1:
                self.request(self.ask("unknown", self.new_id()), "vendor/dance")
            case 2:
                self.tell("turn/completed", turn={"id": "x", "status": "completed", "items": []})

    def finish(self, rng: Random) -> None:
        prompt = self.prompt
        if prompt is not None and prompt.cancels:
            self.end("interrupted")
        else:
            self.end(rng.choices(("completed", "failed", "interrupted"), (12, 1, 1))[0])

    def end(self, status: str) -> None:
        assert self.prompt is not None
        outcomes = {
            "completed": ("completed",),
            "failed": ("failed",),
            "interrupted": ("cancelled", "completed"),
        }[status]
        when_read = self.end_prompt(*outcomes)
        steered, self.steered = self.steered, []
        for each in steered:
            each.ended = frozenset(outcomes)
        assert self.turn is not None
        self.old += [(item, self.turn) for item in self.open_items]
        if status == "interrupted":
            self.to_end |= set(self.open_items)
        self.open_items.clear()
        error = {"message": "the model is gone"} if status == "failed" else None
        self.tell("turn/completed", when_read, turn={**self.shown(status), "error": error})
        self.turn = None
        self.last_end = self.process.written
