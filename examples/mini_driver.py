"""The driver of `mini_agent.py`: bytes of the agent and commands go in, effects come out."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from agentrt.effects import (
    CallReturned,
    DecisionRequested,
    Started,
    TextReceived,
    TurnFinished,
    Write,
)
from agentrt.errors import LocalProtocolError
from agentrt.events import Block, ErrorInfo, JsonObject, Notice, PermissionOption, Text
from agentrt.lowlevel import DecisionAnswer, Driver, Effect, NewKey, Opening

MAX_LINE_BYTES = 1 << 20
OPTIONS = [
    PermissionOption("yes", "Allow", "allow_once"),
    PermissionOption("no", "Reject", "reject_once"),
]


class Ready(Struct, tag="ready"):
    session: str


class Piece(Struct, tag="text"):
    text: str


class Asked(Struct, tag="ask"):
    id: int
    command: str


class Done(Struct, tag="done"):
    stopped: bool = False


Message = Ready | Piece | Asked | Done


class MiniDriver(Driver):
    """One process of the agent. It never raises because of the agent's output."""

    def __init__(self, new_key: NewKey) -> None:
        self._new_key = new_key
        self._decoder = msgspec.json.Decoder(Message)
        self._rest = b""  # the beginning of a line whose end is missing
        self._turn: str | None = None
        self._asked: dict[str, int] = {}  # the agent's ids of open questions, by key

    # --- from the agent

    def receive(self, data: bytes) -> list[Effect]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        effects = [effect for line in lines if line for effect in self._read(line)]
        if len(self._rest) > MAX_LINE_BYTES:
            self._rest = b""
            effects.append(Notice("warning", "line_too_long", "a part of a long line was dropped"))
        return effects

    def receive_eof(self) -> list[Effect]:
        return self.receive(b"\n")

    def _read(self, line: bytes) -> list[Effect]:
        try:
            message = self._decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return [Notice("warning", "bad_message", f"{error}: {line[:100]!r}")]
        match message:
            case Ready(session=session):
                return [Started(session=session)]
            case Piece(text=text) if self._turn is not None:
                return [TextReceived(text)]
            case Asked(id=id, command=command) if self._turn is not None:
                key = self._new_key()
                self._asked[key] = id
                return [
                    DecisionRequested(
                        key=key,
                        kind="permission",
                        title=f"Run {command}",
                        name="Bash",  # a name that permission rules know
                        input={"command": command},
                        options=OPTIONS,
                    )
                ]
            case Done(stopped=stopped) if self._turn is not None:
                turn, self._turn = self._turn, None
                self._asked.clear()
                return [TurnFinished(turn=turn, outcome="cancelled" if stopped else "completed")]
        return [Notice("warning", "outside_turn", f"a message outside a turn: {line[:100]!r}")]

    # --- commands

    def start(self, opening: Opening) -> list[Effect]:
        return [message("hello", cwd=opening.cwd)]

    def prompt(
        self, turn: str, content: Sequence[Block], meta: JsonObject | None = None
    ) -> list[Effect]:
        if self._turn is not None:
            raise LocalProtocolError("the agent takes one prompt at a time")
        self._turn = turn
        text = "\n".join(block.text for block in content if isinstance(block, Text))
        return [message("prompt", urgent=False, text=text)]

    def discard_prompt(self, turn: str) -> None:
        self._turn = None

    def cancel(self) -> list[Effect]:
        return [message("stop")] if self._turn is not None else []

    def answer(self, key: str, answer: DecisionAnswer) -> list[Effect]:
        id = self._asked.pop(key, None)
        return [] if id is None else [message("answer", id=id, allowed=answer.option == "yes")]

    def call(self, call: str, method: str, params: JsonObject) -> list[Effect]:
        return [CallReturned(call, error=ErrorInfo("unsupported", f"no {method} in this protocol"))]

    def cancel_call(self, call: str) -> list[Effect]:
        return []

    def reply(self, key: str, result: Any) -> list[Effect]:
        return []  # this agent requests no services

    def refuse(self, key: str, code: int, message: str, data: Any = None) -> list[Effect]:
        return []

    def shutdown_message(self) -> list[Effect]:
        return []  # the end of its input is enough

    @property
    def idle(self) -> bool:
        return self._turn is None


def message(type: str, *, urgent: bool = True, **fields: object) -> Write:
    """One line for the agent. Urgent ones overtake a prompt that waits in the pipe."""
    return Write(msgspec.json.encode({"type": type, **fields}) + b"\n", urgent)
