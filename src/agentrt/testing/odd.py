"""A misbehaving agent, for tests of clients in any language.

It has one fault that real agents have and clients do not expect, and is otherwise correct. A client
starts it as its agent:

    python -m agentrt.testing.odd [--protocol acp|claude|codex] [--report FILE] SHAPE

The first prompt triggers the fault; each later prompt gets the answer `next`. The report has a JSON
line for each message of the client and for the end of its input.

Each fault is one method, and `SHAPES` lists them. Each protocol has a subclass with the messages
that the faults are made of.

A line of the report is an object with `t`, the seconds since the start, and either `heard`, the
client's message, or `input` with the value `ended`. A test of a client reads it afterwards, to see
for instance that the client has answered the request that crossed its cancel. The file is appended
to, so that one file can have several runs.

The exit status is 0 at the end of the input, and 3 for the shape `dies`. Options that the agent
does not know are ignored, since clients add their own. Only the standard library is used, so the
agent also runs with an interpreter that has no Trio, if this file is given by its path.

With a client that is correct, each shape has one result: `plain`, `unknown-update`,
`answered-twice`, `long-line` and `noise` are normal turns with one answer; `late-answer` and
`permission-in-cancel` are cancelled turns after which the next prompt works; after `dies` and
`closes-output` the turn fails at once, rather than at a timeout; and a turn of `silent` ends by the
client's own limit.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

LONG_LINE_CHARS: Final = 4 * 1024 * 1024
"""Characters of a long line."""
LATE_ANSWER_DELAY_S: Final = 1.0
"""Delay of a late answer, in seconds."""


class InputEnded(Exception):
    """The input has ended: the client has closed it, or is gone."""


class MisbehavingAgent(ABC):
    """One process. Subclasses add the messages of a protocol.

    - `shape`: the name of a fault in `SHAPES`. None after the first prompt.
    - `report`: the path of the report, or None for none.

    All reads and writes block, in one thread: an agent that waits for one message is one that
    handles no other.
    """

    def __init__(self, shape: str, report: str | None) -> None:
        self.shape: Callable[[], None] | None = SHAPES[shape].__get__(self)
        self._report = report
        self._begun = time.monotonic()

    def run(self) -> None:
        """Read and handle messages until the input ends."""
        try:
            while True:
                self.take(self.read())
        except InputEnded:
            pass

    def read(self) -> Any:
        """Read a message and report it. Raises `InputEnded` at the end of the input."""
        line = sys.stdin.buffer.readline()
        message = json.loads(line) if line else None
        self.note({"heard": message} if line else {"input": "ended"})
        if not line:
            raise InputEnded
        return message

    def note(self, what: dict[str, Any]) -> None:
        """Add a line to the report. It is on disk when this returns, also if the process dies."""
        if self._report is not None:
            with open(self._report, "a") as file:
                seconds = round(time.monotonic() - self._begun, 3)
                file.write(json.dumps({"t": seconds, **what}) + "\n")

    def send(self, message: Any) -> None:
        """Write a message as one line."""
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    def turn(self) -> None:
        """Answer a prompt: with the fault if it is the first one."""
        shape, self.shape = self.shape, None
        if shape is None:
            self.say("next")
            self.end()
        else:
            shape()

    # --- implemented for each protocol

    @abstractmethod
    def take(self, message: Any) -> None:
        """Handle a message outside of a turn; a prompt calls `turn`."""

    @abstractmethod
    def say(self, text: str) -> None:
        """Send a piece of the answer."""

    @abstractmethod
    def end(self, how: str = "end_turn") -> None:
        """End the turn.

        `how`: ACP's stop reason `end_turn` or `cancelled`, for all protocols. May be called twice
        for a turn, as one of the faults does.
        """

    @abstractmethod
    def ask(self) -> None:
        """Request a permission, without waiting for the answer.

        The request is to run `touch a.txt`, which the agent never does.
        """

    @abstractmethod
    def is_cancel(self, message: Any) -> bool:
        """True if the message cancels the turn, which is acknowledged if the protocol has that."""

    @abstractmethod
    def is_answer(self, message: Any) -> bool:
        """True if the message answers the permission request."""

    @abstractmethod
    def unknown(self) -> None:
        """Send messages of unknown types: an update, a notification."""

    def until(self, wanted: Callable[[Any], bool]) -> None:
        """Read messages until one is wanted; handle the others.

        Raises `InputEnded` if the input ends first.
        """
        while not wanted(message := self.read()):
            self.handle_in_turn(message)

    def handle_in_turn(self, message: Any) -> None:  # noqa: B027 - it may be of no interest
        """Handle a message that arrives while a turn runs."""

    # --- the shapes
    def plain(self) -> None:
        """A normal turn."""
        self.say("hello")
        self.end()

    def unknown_update(self) -> None:
        """An unknown update and an unknown message during a turn."""
        self.say("hel")
        self.unknown()
        self.say("lo")
        self.end()

    def answered_twice(self) -> None:
        """A second answer to the same prompt."""
        self.say("hello")
        self.end()
        self.end()

    def late_answer(self) -> None:
        """A cancelled turn continues for a second, sends text, and ends as if never cancelled."""
        self.say("hello")
        self.until(self.is_cancel)
        time.sleep(LATE_ANSWER_DELAY_S)
        self.say(" late")
        self.end()

    def permission_in_cancel(self) -> None:
        """A permission request crosses the cancel, and the agent waits for its answer."""
        self.say("hello")
        self.until(self.is_cancel)
        self.ask()
        self.until(self.is_answer)
        self.end("cancelled")

    def dies(self) -> None:
        """The process exits with status 3 during a turn, in the middle of a line."""
        self.say("hello")
        sys.stdout.write('{"jsonrpc": "2.0", "method": "session/upd')
        sys.stdout.flush()
        os._exit(3)

    def closes_output(self) -> None:
        """The output ends during a turn, and the process continues."""
        self.say("hello")
        sys.stdout.flush()
        os.close(1)
        self.until(lambda message: False)

    def long_line(self) -> None:
        """A line of 4 MiB."""
        self.say("x" * LONG_LINE_CHARS)
        self.end()

    def noise(self) -> None:
        """Lines that are not messages: text, a number, a list."""
        for line in ("Loaded cached credentials.", "42", "[]"):
            sys.stdout.write(f"{line}\n")
        self.say("hello")
        self.end()

    def silent(self) -> None:
        """No answer to a prompt, even after a cancel."""
        self.until(lambda message: False)


SHAPES: Final[dict[str, Callable[[MisbehavingAgent], None]]] = {
    shape.__name__.replace("_", "-"): shape
    for shape in (
        MisbehavingAgent.plain,
        MisbehavingAgent.unknown_update,
        MisbehavingAgent.answered_twice,
        MisbehavingAgent.late_answer,
        MisbehavingAgent.permission_in_cancel,
        MisbehavingAgent.dies,
        MisbehavingAgent.closes_output,
        MisbehavingAgent.long_line,
        MisbehavingAgent.noise,
        MisbehavingAgent.silent,
    )
}
"""The shapes, by name."""


class MisbehavingAcpAgent(MisbehavingAgent):
    """The ACP agent: version 1, one session, no capabilities.

    Requests that it does not know get the error for unknown methods.
    """

    prompt: Any = None

    def take(self, message: Any) -> None:
        """Take one message. The handshake is answered properly; misbehaviour starts in the turn."""
        match message.get("method"):
            case "initialize":
                self.result(message["id"], {"protocolVersion": 1, "agentCapabilities": {}})
            case "session/new":
                self.result(message["id"], {"sessionId": "s1"})
            case "session/prompt":
                self.prompt = message["id"]
                self.turn()
            case str() as method if "id" in message:
                error = {"code": -32601, "message": f"Method not found: {method}"}
                self.send({"jsonrpc": "2.0", "id": message["id"], "error": error})
            case _:
                pass

    def result(self, id: Any, result: Any) -> None:
        """Answer a request of the client."""
        self.send({"jsonrpc": "2.0", "id": id, "result": result})

    def update(self, kind: str, **fields: Any) -> None:
        """Send a notification about the session."""
        params = {"sessionId": "s1", "update": {"sessionUpdate": kind, **fields}}
        self.send({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def say(self, text: str) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def end(self, how: str = "end_turn") -> None:
        self.result(self.prompt, {"stopReason": how})

    def ask(self) -> None:
        params = {
            "sessionId": "s1",
            "toolCall": {"toolCallId": "c1", "title": "touch a.txt"},
            "options": [
                {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
                {"optionId": "no", "name": "Reject", "kind": "reject_once"},
            ],
        }
        method = "session/request_permission"
        self.send({"jsonrpc": "2.0", "id": "q1", "method": method, "params": params})

    def is_cancel(self, message: Any) -> bool:
        return bool(message.get("method") == "session/cancel")

    def is_answer(self, message: Any) -> bool:
        return message.get("id") == "q1" and "method" not in message

    def unknown(self) -> None:
        self.update("agentrt_unknown", anything=[1, 2])
        self.send({"jsonrpc": "2.0", "method": "_agentrt/unknown", "params": {}})


class MisbehavingClaudeAgent(MisbehavingAgent):
    """Claude Code: one session.

    Every control request is acknowledged without effect, as clients send different ones at the
    start.
    """

    def take(self, message: Any) -> None:
        if message.get("type") == "control_request":
            self.acknowledge(message)
        elif message.get("type") == "user":
            self.send({"type": "system", "subtype": "init", "session_id": "s1", "tools": []})
            self.turn()

    def handle_in_turn(self, message: Any) -> None:
        if message.get("type") == "control_request":
            self.acknowledge(message)

    def acknowledge(self, message: Any) -> None:
        """Confirm a control request, whatever it is."""
        body = {"subtype": "success", "request_id": message["request_id"], "response": {}}
        self.send({"type": "control_response", "response": body})

    def say(self, text: str) -> None:
        content = [{"type": "text", "text": text}]
        message = {"id": "m1", "role": "assistant", "model": "odd", "content": content}
        self.send(
            {
                "type": "assistant",
                "message": message,
                "session_id": "s1",
                "parent_tool_use_id": None,
            }
        )

    def end(self, how: str = "end_turn") -> None:
        self.send(
            {
                "type": "result",
                "subtype": "success" if how == "end_turn" else "error_during_execution",
                "is_error": how != "end_turn",
                "duration_ms": 1,
                "duration_api_ms": 1,
                "num_turns": 1,
                "session_id": "s1",
                "result": "",
            }
        )

    def ask(self) -> None:
        request = {
            "subtype": "can_use_tool",
            "tool_name": "Bash",
            "input": {"command": "touch a.txt"},
            "tool_use_id": "c1",
        }
        self.send({"type": "control_request", "request_id": "q1", "request": request})

    def is_cancel(self, message: Any) -> bool:
        if message.get("type") != "control_request":
            return False
        if message["request"].get("subtype") != "interrupt":
            return False
        self.acknowledge(message)
        return True

    def is_answer(self, message: Any) -> bool:
        response = message.get("response")
        return isinstance(response, dict) and response.get("request_id") == "q1"

    def unknown(self) -> None:
        self.send({"type": "agentrt_unknown", "session_id": "s1"})
        self.send({"type": "system", "subtype": "agentrt_unknown", "session_id": "s1"})


class MisbehavingCodexAgent(MisbehavingAgent):
    """`codex app-server` with one thread, and no account or models.

    Requests that it does not know get the error with which Codex refuses unknown methods.
    """

    turn_id: int = 0
    text: str | None = None
    """The text of the open agent message, or None."""

    def take(self, message: Any) -> None:
        """Take one message. The handshake is answered properly; misbehaviour starts in the turn."""
        match message.get("method"):
            case "initialize":
                self.result(message["id"], {"userAgent": "odd/0.169.0 (agentrt)"})
            case "account/read":
                self.result(message["id"], {"account": None, "requiresOpenaiAuth": False})
            case "model/list":
                self.result(message["id"], {"data": []})
            case "thread/start" | "thread/resume":
                self.result(message["id"], self.thread((message.get("params") or {}).get("cwd")))
            case "turn/start":
                self.turn_id += 1
                begun = {"id": f"u{self.turn_id}", "status": "inProgress", "items": []}
                self.result(message["id"], {"turn": begun})
                self.notify("turn/started", turn=begun)
                self.turn()
            case _:
                self.handle_in_turn(message)

    def handle_in_turn(self, message: Any) -> None:
        if "method" not in message or "id" not in message:
            return
        if message["method"] == "turn/interrupt":
            self.result(message["id"], {})
        else:
            error = {"code": -32600, "message": f"unknown variant `{message['method']}`"}
            self.send({"id": message["id"], "error": error})

    @staticmethod
    def thread(cwd: Any) -> Any:
        """Return the answer to the start of a thread, with the least that a client needs."""
        return {
            "thread": {"id": "s1", "preview": "", "cwd": cwd or "/", "updatedAt": 0},
            "model": "odd",
            "approvalPolicy": "untrusted",
            "sandbox": {"type": "readOnly"},
        }

    def result(self, id: Any, result: Any) -> None:
        self.send({"id": id, "result": result})

    def notify(self, method: str, **params: Any) -> None:
        self.send({"method": method, "params": {"threadId": "s1", **params}})

    def say(self, text: str) -> None:
        if self.text is None:
            self.text = ""
            self.message("started")
        self.text += text
        turn = f"u{self.turn_id}"
        self.notify("item/agentMessage/delta", turnId=turn, itemId=f"m{turn}", delta=text)

    def message(self, when: str) -> None:
        """Report that the open agent message is `started` or `completed`."""
        turn = f"u{self.turn_id}"
        item = {"type": "agentMessage", "id": f"m{turn}", "text": self.text}
        self.notify(f"item/{when}", turnId=turn, item=item)

    def end(self, how: str = "end_turn") -> None:
        if self.text is not None:
            self.message("completed")
            self.text = None
        status = "completed" if how == "end_turn" else "interrupted"
        over = {"id": f"u{self.turn_id}", "status": status, "items": []}
        self.notify("turn/completed", turn=over)

    def ask(self) -> None:
        params = {
            "threadId": "s1",
            "turnId": f"u{self.turn_id}",
            "itemId": "c1",
            "command": "touch a.txt",
            "cwd": "/",
            "availableDecisions": ["accept", "cancel"],
        }
        method = "item/commandExecution/requestApproval"
        self.send({"id": "q1", "method": method, "params": params})

    def is_cancel(self, message: Any) -> bool:
        if message.get("method") != "turn/interrupt":
            return False
        self.result(message["id"], {})
        return True

    def is_answer(self, message: Any) -> bool:
        return message.get("id") == "q1" and "method" not in message

    def unknown(self) -> None:
        turn = f"u{self.turn_id}"
        self.notify("item/started", turnId=turn, item={"type": "agentrtUnknown", "id": "x1"})
        self.notify("agentrt/unknown", turnId=turn, anything=[1, 2])


KINDS: Final[dict[str, type[MisbehavingAgent]]] = {
    "acp": MisbehavingAcpAgent,
    "claude": MisbehavingClaudeAgent,
    "codex": MisbehavingCodexAgent,
}


def main(arguments: list[str] | None = None) -> None:
    """Run the agent that the arguments select."""
    about = (__doc__ or "").partition("\n\n")[0]
    shapes = "\n".join(f"  {name:21} {shape.__doc__}" for name, shape in SHAPES.items())
    parser = argparse.ArgumentParser(
        prog="python -m agentrt.testing.odd",
        description=f"{about}\n\nshapes:\n{shapes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shape", metavar="SHAPE", choices=SHAPES)
    parser.add_argument("--protocol", choices=tuple(KINDS), default="acp")
    parser.add_argument("--report", metavar="FILE", help="the client's actions, one JSON line each")
    options, _ = parser.parse_known_args(arguments)  # clients add their own arguments
    KINDS[options.protocol](options.shape, options.report).run()


if __name__ == "__main__":
    main()
