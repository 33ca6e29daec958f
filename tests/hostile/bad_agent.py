"""An ACP agent without a fault of its own: what it is to do wrong it is told when it is started.

Run as `python -I -S bad_agent.py ORDER`. The order, in JSON, brings functions whose source stands
beside the tests (see `kit.py`); each replaces the method of its name. So every agent has one
defect, and does everything else right:

- the prompt `misbehave` calls `misbehave`, where most defects are;
- the prompt `report` is answered with the methods of all messages so far, in order;
- any other prompt is answered with its own text.

It does one thing at a time: what waits for a message reads on by itself. Only the standard library,
and little of it: an interpreter without `site` starts in a dozen milliseconds.
"""

from __future__ import annotations

import json
import os
import select
import sys
from types import MethodType

HELPERS = ("signal", "subprocess", "threading", "time")
"""What the functions that come from outside use, beside the rest; imported if a source names it."""

Message = dict
"""A JSON-RPC message."""


class Agent:
    """Reads a message, answers it, reads the next one."""

    def __init__(self, order: Message) -> None:
        self.arg = order["arg"]
        """Whatever the test wants its functions to know."""
        self.capabilities = order["capabilities"]
        self.session = "s1"
        self.heard: list[Message] = []
        self._buffer = b""
        self._requests = 0
        once = order["once"]
        if once is None or not os.path.exists(once):
            for name, source in order["methods"].items():
                setattr(self, name, MethodType(compiled(source), self))
        if once is not None:
            open(once, "a").close()

    def serve(self) -> None:
        self.start()
        while True:
            self.take(self.receive())

    def take(self, message: Message) -> None:
        match message.get("method"):
            case "initialize":
                self.initialize(message)
            case "session/new":
                self.new_session(message)
            case "session/load":
                self.load_session(message)
            case "session/prompt":
                self.insert(message)
                match text_of(message):
                    case "misbehave":
                        self.misbehave(message)
                    case "report":
                        self.say(" ".join(m.get("method", "answer") for m in self.heard))
                        self.end(message)
                    case text:
                        self.say(text)
                        self.end(message)
            case _:
                self.other(message)

    # --- what a test may replace

    def start(self) -> None:
        """Before anything is read."""

    def initialize(self, request: Message) -> None:
        self.greet(request)

    def new_session(self, request: Message) -> None:
        self.answer(request, {"sessionId": self.session})

    def load_session(self, request: Message) -> None:
        self.session = request["params"]["sessionId"]
        self.answer(request, {})

    def misbehave(self, prompt: Message) -> None:
        self.end(prompt)

    def other(self, message: Message) -> None:
        """Whatever else the host says."""

    def eof(self) -> None:
        """The input has ended."""
        sys.exit(0)

    def insert(self, prompt: Message) -> None:
        """Take a prompt into the conversation, which only version 2 reports."""

    # --- reading

    def receive(self) -> Message:
        """The next message; at the end of the input, `eof`."""
        while b"\n" not in self._buffer:
            data = os.read(0, 65536)
            if not data:
                self.eof()
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        self.heard.append(json.loads(line))
        return self.heard[-1]

    def pending(self, seconds: float = 0) -> bool:
        """Whether there is something to read, now or within that time."""
        return b"\n" in self._buffer or bool(select.select([0], [], [], seconds)[0])

    def wait_for(self, method: str) -> Message:
        """Read on until this comes; other messages are only heard."""
        while (message := self.receive()).get("method") != method:
            pass
        return message

    # --- writing

    def raw(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def send(self, *messages: Message) -> None:
        """All in one write, if the pipe takes it."""
        lines = (json.dumps({"jsonrpc": "2.0", **message}) for message in messages)
        self.raw("".join(f"{line}\n" for line in lines).encode())

    def answer(self, request: Message, result: object) -> None:
        self.send({"id": request["id"], "result": result})

    def greet(self, request: Message) -> None:
        """Answer `initialize`."""
        self.answer(request, {"protocolVersion": 1, "agentCapabilities": self.capabilities})

    def refuse(self, request: Message, code: int, message: str, data: object = None) -> None:
        error = {"code": code, "message": message, "data": data}
        self.send({"id": request["id"], "error": error})

    def end(self, prompt: Message, reason: str = "end_turn") -> None:
        self.answer(prompt, {"stopReason": reason})

    def update(self, kind: str, **fields: object) -> None:
        self.send(self.updating(kind, **fields))

    def updating(self, kind: str, **fields: object) -> Message:
        update = {"sessionUpdate": kind, **fields}
        return {
            "method": "session/update",
            "params": {"sessionId": self.session, "update": update},
        }

    def say(self, text: str) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def mark(self, word: str) -> None:
        """Tell the test, behind the protocol's back, how far this has come."""
        os.write(2, f"{word}\n".encode())

    def request(self, method: str, params: Message) -> Message:
        """Ask the host; the whole answer."""
        id = self.begin_request(method, params)
        while (message := self.receive()).get("id") != id or "method" in message:
            pass
        return message

    def begin_request(self, method: str, params: Message) -> int:
        self._requests += 1
        params = {"sessionId": self.session, **params}
        self.send({"id": self._requests, "method": method, "params": params})
        return self._requests

    def ask(self, call: str = "call_1", session: str | None = None) -> str | None:
        """Ask for a permission; the option chosen, or None."""
        params = {
            "toolCall": {"toolCallId": call, "title": "Run ls"},
            "options": [
                {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
                {"optionId": "no", "name": "Reject", "kind": "reject_once"},
            ],
        }
        if session is not None:
            params["sessionId"] = session
        return self.request("session/request_permission", params)["result"]["outcome"].get(
            "optionId"
        )

    # --- other processes

    def spawn(self, script: str, **options: object) -> object:
        """Start a shell script that inherits the streams."""
        import subprocess

        return subprocess.Popen(["/bin/sh", "-c", script], **options)


class Agent2(Agent):
    """The same agent in version 2 of ACP. A prompt is inserted before `misbehave`, and a state ends
    it; what a function sends in the form of version 1 is sent in the form of version 2."""

    def __init__(self, order: Message) -> None:
        super().__init__(order)
        self._prompts: set[int | str] = set()
        """The inserted prompts whose turns have not ended."""
        self._resumed: int | str | None = None
        self._turns = 0
        """Turns so far: a message belongs to one turn."""

    def take(self, message: Message) -> None:
        if message.get("method") == "session/resume":
            self._resumed = message["id"]
            self.load_session(message)
        else:
            super().take(message)

    def greet(self, request: Message) -> None:
        capabilities = {"session": {"mcp": {"stdio": {}}}, **self.capabilities}
        info = {"name": "bad", "version": "2"}
        greeting = {"protocolVersion": 2, "info": info, "capabilities": capabilities}
        self.answer(request, greeting)

    def insert(self, prompt: Message) -> None:
        user = f"u{prompt['id']}"
        self.answer(prompt, {"messageId": user})
        self._prompts.add(prompt["id"])
        self.state("running")
        self.update("user_message", messageId=user, content=prompt["params"]["prompt"])

    def state(self, state: str, **more: object) -> None:
        self.update("state_update", state=state, **more)

    def send(self, *messages: Message) -> None:
        super().send(*(each for message in messages for each in self._in_version_2(message)))

    def _in_version_2(self, message: Message) -> list[Message]:
        if "method" in message:
            return [message]
        if message["id"] not in self._prompts:
            snapshot = self.updating("state_update", state="idle")
            return [snapshot, message] if message["id"] == self._resumed else [message]
        self._prompts.discard(message["id"])
        self._turns += 1
        end = message.get("result") or {}
        if error := message.get("error"):
            cancelled = error["code"] == -32800
            end = {"stopReason": "cancelled" if cancelled else "error", "error": error}
        return [self.updating("state_update", state="idle", **end)]

    def updating(self, kind: str, **fields: object) -> Message:
        if kind.endswith("_chunk"):
            fields.setdefault("messageId", f"m{self._turns}")
        if kind == "tool_call":
            kind = "tool_call_update"
        if kind == "plan":
            kind, fields = "plan_update", {"plan": {"type": "items", "planId": "p", **fields}}
        return super().updating(kind, **fields)

    def begin_request(self, method: str, params: Message) -> int:
        if "toolCall" in params:
            call = params["toolCall"]
            rest = {name: value for name, value in params.items() if name != "toolCall"}
            title = call.get("title", "May I?") if isinstance(call, dict) else "May I?"
            params = {"title": title, "subject": {"type": "tool_call", "toolCall": call}, **rest}
        return super().begin_request(method, params)


AGENTS = {1: Agent, 2: Agent2}
"""By version of ACP."""


class Tools:
    """The session's in-process tools, as an agent reaches them: through the MCP server's program
    that `session/new` names."""

    def __init__(self, request: Message) -> None:
        import subprocess

        server = next(s for s in request["params"]["mcpServers"] if "command" in s)
        self.program = subprocess.Popen(
            [server["command"], *server["args"]],
            env={**os.environ, **{each["name"]: each["value"] for each in server["env"]}},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._send("initialize", {"protocolVersion": "2025-06-18"})
        self.program.stdout.readline()

    def call(self, tool: str, **arguments: object) -> str:
        """The text that the tool returned, or why it was not called."""
        self.begin(tool, **arguments)
        return self.answer()

    def begin(self, tool: str, **arguments: object) -> None:
        self._send("tools/call", {"name": tool, "arguments": arguments})

    def answer(self) -> str:
        answer = json.loads(self.program.stdout.readline())
        if "error" in answer:
            return answer["error"]["message"]
        return answer["result"]["content"][0]["text"]

    def _send(self, method: str, params: Message) -> None:
        message = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        self.program.stdin.write(json.dumps(message).encode() + b"\n")
        self.program.stdin.flush()


def text_of(prompt: Message) -> str:
    return "".join(block.get("text", "") for block in prompt["params"]["prompt"])


def compiled(source: str) -> object:
    """The one function that a source defines, with this file's names as its globals."""
    for helper in HELPERS:
        if f"{helper}." in source:
            globals()[helper] = __import__(helper)
    names: dict[str, object] = {}
    code = compile(f"from __future__ import annotations\n{source}", "<defect>", "exec")
    exec(code, globals(), names)
    [function] = (value for name, value in names.items() if name != "annotations")
    return function


if __name__ == "__main__":
    ordered = json.loads(sys.argv[1])
    AGENTS[ordered["version"]](ordered).serve()
