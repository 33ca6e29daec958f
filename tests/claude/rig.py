"""A driver with its far end in the test's hands.

A program can choose the older dialect, `legacy`, only for a session: its driver is not public.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from agentrt.claude import ClaudeOptions
from agentrt.effects import Write
from agentrt.events import Text
from agentrt.lowlevel import ClaudeDriver, DecisionAnswer, Effect, Opening
from inside.drivers import LegacyDriver

T = TypeVar("T")
Json = dict[str, Any]

SPOKEN = {"user", "control_request", "control_response", "control_cancel_request"}
"""All that the CLI is ever sent. It ignores `approve`, `deny` and `tool_result`, of which the
reverse-engineered protocol is made, and exits at some of what it does not understand."""


class Rig:
    """Feeds messages to a driver and keeps what it tells and what it writes."""

    def __init__(
        self,
        options: ClaudeOptions | None = None,
        *,
        opening: Opening | None = None,
        uuids: Iterable[str] = (),
        driver: Any = None,
        legacy: bool = False,
    ) -> None:
        keys, spare = itertools.count(1), itertools.count(1)
        names = itertools.chain(uuids, (f"u{n}" for n in spare))
        new_key = lambda: f"k{next(keys)}"  # noqa: E731
        self.driver: Any = driver or (
            LegacyDriver(options, new_key=new_key)
            if legacy
            else ClaudeDriver(options, new_key=new_key, new_uuid=lambda: next(names))
        )
        self.opening = opening or Opening(cwd="/sandbox/project")
        self.effects: list[Effect] = []
        """All that was told, without the writes."""
        self.written: list[Json] = []
        """All that was written, line by line."""

    def do(self, effects: list[Effect]) -> list[Effect]:
        """Keep what a command or a message told; returns it without the writes."""
        told = []
        for effect in effects:
            if isinstance(effect, Write):
                assert effect.data.endswith(b"\n")
                lines = [json.loads(line) for line in effect.data.splitlines()]
                if isinstance(self.driver, ClaudeDriver):
                    assert {line["type"] for line in lines} <= SPOKEN
                self.written += lines
            else:
                told.append(effect)
        self.effects += told
        return told

    def feed(self, *messages: Json | bytes) -> list[Effect]:
        """The CLI writes these messages in one go."""
        lines = [m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in messages]
        return self.do(self.driver.receive(b"".join(lines)))

    def start(self, reply: Json | None = None) -> list[Effect]:
        """The handshake."""
        self.do(self.driver.start(self.opening))
        return self.feed(success(self.written[-1]["request_id"], reply or {}))

    def prompt(self, text: str = "hello", turn: str = "t1") -> list[Effect]:
        return self.do(self.driver.prompt(turn, [Text(text)]))

    def answer(self, key: str, option: str | None = None, **fields: Any) -> list[Effect]:
        return self.do(self.driver.answer(key, DecisionAnswer(option=option, **fields)))

    def of(self, kind: type[T]) -> list[T]:
        """The effects of one kind so far."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def last(self) -> Json:
        """The response in the line written last."""
        line: Json = self.written[-1]["response"]
        return line


def only(effects: list[Effect], kind: type[T]) -> T:
    """The one effect of that kind."""
    (found,) = [effect for effect in effects if isinstance(effect, kind)]
    return found


def success(request: str, response: Any, **more: Any) -> Json:
    body = {"subtype": "success", "request_id": request, "response": response, **more}
    return {"type": "control_response", "response": body}


TYPES: Final = (
    *("active_goal", "assistant", "auth_status", "autocompact_state", "command_lifecycle"),
    *("control_cancel_request", "control_request", "control_response", "conversation_reset"),
    *("keep_alive", "prompt_suggestion", "rate_limit_event", "result", "stream_event", "system"),
    *("tool_progress", "tool_use_summary", "transcript_mirror", "user"),
)
"""The types of the lines that the CLI writes."""


def state(state: str) -> Json:
    return {"type": "system", "subtype": "session_state_changed", "state": state}


def system(subtype: str, **fields: Any) -> Json:
    return {"type": "system", "subtype": subtype, **fields}


INIT = system("init", session_id="s1", model="m", permissionMode="default")


def result(*uuids: str, **fields: Any) -> Json:
    """A turn's good end, unless told otherwise. `type` comes last, as it does in real life."""
    good: Json = {
        "subtype": "success",
        "is_error": False,
        "terminal_reason": "completed",
        "stop_reason": "end_turn",
        "num_turns": 1,
        "result": "done",
    }
    if uuids:
        good |= {"user_message_uuid": uuids[0], "user_message_uuids": list(uuids)}
    return {**good, **fields, "type": "result"}


NOTIFIED = {"kind": "task-notification"}


def fate(uuid: str, fate: str) -> Json:
    return {"type": "command_lifecycle", "command_uuid": uuid, "state": fate}


def assistant(*blocks: Json, parent: str | None = None, id: str = "m1", **fields: Any) -> Json:
    message = {"id": id, "role": "assistant", "model": "m", "content": list(blocks)}
    return {"type": "assistant", "message": message, "parent_tool_use_id": parent, **fields}


def text(text: str) -> Json:
    return {"type": "text", "text": text}


def thinking(text: str) -> Json:
    return {"type": "thinking", "thinking": text, "signature": "c2ln"}


def tool_use(id: str, name: str, **arguments: Any) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def tool_result(
    id: str, content: Any = "ok", *, error: bool = False, kind: str | None = None, **fields: Any
) -> Json:
    block = {"type": "tool_result", "tool_use_id": id, "content": content, "is_error": error}
    meta = [{"id": id, "non_execution_kind": kind}] if kind else []
    message = {"role": "user", "content": [block]}
    return {
        "type": "user",
        "message": message,
        "parent_tool_use_id": None,
        "tool_result_meta": meta,
        **fields,
    }


def event(kind: str, parent: str | None = None, **fields: Any) -> Json:
    return {
        "type": "stream_event",
        "event": {"type": kind, **fields},
        "parent_tool_use_id": parent,
        "session_id": "s1",
    }


def delta(words: str, index: int = 0, *, thought: bool = False, parent: str | None = None) -> Json:
    kind = "thinking" if thought else "text"
    piece = {"type": f"{kind}_delta", kind: words}
    return event("content_block_delta", parent, index=index, delta=piece)


def streamed(*pieces: str, id: str = "m1", parent: str | None = None) -> list[Json]:
    """A text in pieces, as it comes with partial messages on: whole before the block ends."""
    return [
        event("message_start", parent, message={"id": id, "content": [], "role": "assistant"}),
        event("content_block_start", parent, index=0, content_block=text("")),
        *(delta(piece, parent=parent) for piece in pieces),
        assistant(text("".join(pieces)), id=id, parent=parent),
        event("content_block_stop", parent, index=0),
        event("message_delta", parent, delta={"stop_reason": "end_turn"}),
        event("message_stop", parent),
    ]


def ask(id: str = "r1", name: str = "Bash", call: str = "c1", **fields: Any) -> Json:
    body = {
        "subtype": "can_use_tool",
        "tool_name": name,
        "input": {"command": "ls"},
        "tool_use_id": call,
        **fields,
    }
    return {"type": "control_request", "request_id": id, "request": body}
