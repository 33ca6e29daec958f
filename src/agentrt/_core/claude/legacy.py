"""The older dialect of stream-json: as it was once reverse-engineered, and as some programs
implement it in Claude Code's place.

It has no control requests. Standard input takes four messages: `user`, `approve`, `deny` and
`tool_result`. Every tool call waits for one of the last three. `assistant` lines are snapshots of
the whole message so far. A turn is aborted by SIGINT, and the process keeps running. It is not
specified if a `result` follows, so silence after the signal ends the turn, too.

Claude Code itself ignores `approve`, `deny` and `tool_result`, and exits on SIGINT. If the program
is recognised as Claude Code by its `init`, the turn fails before any request is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.json import decode

from ..errors import LocalProtocolError
from ..limits import Limits
from ..model.content import Block, JsonObject, Text
from ..model.driver import (
    CallReturned,
    DecisionAnswer,
    Effect,
    NewKey,
    Opening,
    RequestWithdrawn,
    Signal,
    Started,
    TurnFinished,
    Write,
)
from ..model.events import ErrorInfo, Notice, Usage
from ..model.repeats import NoticeLimiter
from ..wire.json import encode_line
from ..wire.lines import Lines
from . import messages as wire
from . import notices
from .options import ClaudeOptions, effective
from .outcome import ResultVerdict, judge, total_cost, turn_usage
from .questions import ask_permission, permission_response
from .settings import ClaudeSettings
from .speech import CALLS, ClaudeTranslator

NOT_FOR_IT = (
    "this is Claude Code {}, which does not speak the older dialect and would ignore every answer:"
    " leave out `legacy`"
)


class LegacyDriver:
    """The state machine of one process with the older dialect.

    Implements `Driver`, `EndsBySilence`.
    """

    def __init__(
        self,
        options: ClaudeOptions | None = None,
        *,
        new_key: NewKey,
        line_limit: int = Limits().message_bytes,
    ) -> None:
        """Create a driver. The older dialect sends whole lines only, so long ones are
        joined first.
        """
        self.options = options if options is not None else ClaudeOptions(legacy=True)
        self.dropped: Counter[str] = Counter()
        self._new_key = new_key
        self._lines = Lines(line_limit)
        self._reader = wire.ClaudeReader()
        self._repeats = NoticeLimiter()
        self._speech = ClaudeTranslator()
        self._snapshots = _Snapshots(self._speech)
        self._settings = ClaudeSettings()
        self._turn: str | None = None
        self._said = False
        """True if a message came since the prompt."""
        self._owed = False
        """True if an aborted turn was ended by silence; its result may still come."""
        self._refused: str | None = None
        """The reason why this program cannot be used, or None."""
        self._cost: float | None = 0.0
        self._asked: dict[str, tuple[str, JsonObject]] = {}  # key: the call's id, the request

    # --- commands

    def start(self, opening: Opening) -> list[Effect]:
        """Report the start immediately, without a handshake."""
        self.options = effective(self.options, opening)
        return [Started(session="")]

    def prompt(
        self, turn: str, content: Sequence[Block], meta: JsonObject | None = None
    ) -> list[Effect]:
        """Send a `user` message with the text of a prompt.

        Raises `LocalProtocolError` for other content, and if the program was found to be a newer
        one.
        """
        if self._turn is not None:
            raise LocalProtocolError("a prompt is already in flight")
        if self._refused is not None:
            raise LocalProtocolError(self._refused)
        texts = [block.text for block in content if isinstance(block, Text)]
        if len(texts) != len(content):
            raise LocalProtocolError("this protocol accepts only text")
        self._turn, self._said = turn, False
        message = {"role": "user", "content": "\n".join(texts)}
        return [Write(encode_line({"type": "user", "message": message}), urgent=False)]

    def discard_prompt(self, turn: str) -> None:
        """Forget a prompt that was never written."""
        if self._turn == turn:
            self._turn = None

    def cancel(self) -> list[Effect]:
        """Send SIGINT: this dialect has no message for it."""
        if self._turn is None or self._speech.interrupted:
            return []  # a second signal would end a program that has obeyed the first
        self._speech.interrupted = True
        self._asked.clear()  # the signal ends pending calls; a later `deny` would hit the next turn
        return [Signal("interrupt")]

    def answer(self, key: str, answer: DecisionAnswer) -> list[Effect]:
        """Answer a permission request by `approve` or `deny`, or a question by its result.

        An approval that changes the input becomes a denial, because the dialect cannot carry it.
        """
        call, request = self._asked.pop(key, (None, {}))
        if call is None:
            return []
        response = permission_response(request, answer)
        line: JsonObject = {"type": "approve", "tool_use_id": call}
        out: list[Effect] = []
        allowed = response["behavior"] == "allow"
        asks = request["tool_name"] == "AskUserQuestion"
        if (
            allowed
            and not asks
            and response.get("updatedInput", request["input"]) != request["input"]
        ):
            allowed = False
            words = "the older dialect cannot change the input of a tool, so the call was denied"
            out.append(Notice("warning", "unsupported", words))
        if not allowed:
            self._speech.denied.add(call)
            line["type"] = "deny"
        elif request["tool_name"] == "AskUserQuestion":
            answers = response["updatedInput"]["answers"]
            line = {"type": "tool_result", "tool_use_id": call, "content": _in_words(answers)}
        return [*out, Write(encode_line(line))]

    def reply(self, key: str, result: Any) -> list[Effect]:
        """Do nothing: the older dialect has no requests that the host could serve."""
        return []

    def refuse(self, key: str, code: int, message: str, data: Any = None) -> list[Effect]:
        """Do nothing, as `reply`."""
        return []

    def call(self, call: str, method: str, params: JsonObject) -> list[Effect]:
        """Report that the request is not supported; the dialect has none."""
        return [
            CallReturned(call, error=ErrorInfo("unsupported", f"this protocol has no {method}"))
        ]

    def cancel_call(self, call: str) -> list[Effect]:
        """Do nothing: there are no calls."""
        return []

    def shutdown_message(self) -> list[Effect]:
        """Send nothing: the program ends with its stdin."""
        return []

    @property
    def idle(self) -> bool:
        """True if no prompt is in flight."""
        return self._turn is None

    @property
    def awaits_silence(self) -> bool:
        """True if the turn was interrupted: an aborted turn may end without a result."""
        return self._turn is not None and self._speech.interrupted

    def end_by_silence(self) -> list[Effect]:
        """End the interrupted turn as cancelled; a late result of it is dropped."""
        out: list[Effect] = []
        if self.awaits_silence:
            self._snapshots.drop(out)
            self._owed = True
            self._end(ResultVerdict("cancelled"), None, out)
        return out

    # --- bytes

    def receive(self, data: bytes) -> list[Effect]:
        """Process output of the program."""
        return self._read(self._lines.feed(data))

    def receive_eof(self) -> list[Effect]:
        """Process the end of the output."""
        return self._read(self._lines.end())

    def _read(self, lines: bytes | bytearray) -> list[Effect]:
        """Take lines. Each message is whole; streaming is simulated from snapshots
        (`_Snapshots`).
        """
        out: list[Effect] = []
        for m in self._reader.read(lines):
            match m:
                case wire.Assistant():
                    self._assistant(m, out)
                case wire.User():
                    self._snapshots.end(out)
                    self._settled(m, out)
                    self._speech.user(m, True, out)
                case wire.Result():
                    self._result(m, out)
                case wire.System(subtype="init", fields=fields):
                    self._init(fields, out)
                case wire.System(subtype="result", fields=fields):
                    self._result(_double_encoded(fields), out)
                case wire.System(fields=fields):
                    out += filter(None, [notices.of_system(fields)])
                case wire.BadClaudeLine():
                    out += self._repeats.worth_reporting(notices.bad_line(m))
                case _:
                    out += filter(None, [notices.of_message(m)])
        for size in self._lines.oversized:
            out += self._repeats.worth_reporting(notices.too_long(size, self._lines.limit))
        self._lines.oversized.clear()
        return out

    def _init(self, fields: JsonObject, out: list[Effect]) -> None:
        """Take the `init` of a turn, with the session's id.

        The older dialect has no version in it. A version means that a newer program runs, which
        would ignore every answer; the turn is failed and the program is interrupted.
        """
        self._settings.turn_init(fields, out)
        session, version = fields.get("session_id"), fields.get("claude_code_version")
        if isinstance(session, str):
            out.append(Started(session=session))
        if version is not None:
            self._refused = NOT_FOR_IT.format(version)
            error = ErrorInfo("wrong_dialect", self._refused)
            out += [Signal("interrupt"), Notice("error", error.code, error.message)]
            if self._turn is not None:
                self._end(ResultVerdict("failed", error=error), None, out)

    def _assistant(self, m: wire.Assistant, out: list[Effect]) -> None:
        """Take a snapshot of a message, and ask about its new tool calls."""
        self._said = True
        if self._snapshots.begins(m):
            self._withdraw(out)  # every call of the previous message is over
        for block in self._snapshots.new(m, out):
            if block.type in CALLS and block.id:
                self._ask(block, block.id, out)

    def _ask(self, block: wire.ClaudeBlock, call: str, out: list[Effect]) -> None:
        """Ask about a tool call, unless none needs approval or its turn is over."""
        if self.options.permission_mode == "bypassPermissions":
            return
        if self._turn is None or self._speech.interrupted:
            return
        request = {"tool_name": block.name or "", "input": block.input, "tool_use_id": call}
        key = self._new_key()
        self._asked[key] = (call, request)
        out.append(ask_permission(key, request, background=False))

    def _settled(self, m: wire.User, out: list[Effect]) -> None:
        """Withdraw pending requests if their call has a result: they needed no approval."""
        blocks = m.message.content if isinstance(m.message.content, list) else []
        done = {block.tool_use_id for block in blocks}
        for key, (call, _) in list(self._asked.items()):
            if call in done:
                del self._asked[key]
                out.append(RequestWithdrawn(key))

    def _result(self, m: wire.Result, out: list[Effect]) -> None:
        """Take the end of a turn; an error after an aborted turn may be that turn's late result."""
        late, self._owed = self._owed and not self._said and bool(m.is_error), False
        if late or self._turn is None:
            self.dropped["stale"] += 1
            notice = Notice("info", "stale", "the agent sent a result that ends no turn")
            out += self._repeats.worth_reporting(notice)
            return
        self._snapshots.end(out)
        cost = total_cost(m)
        usage = turn_usage(m, cost, self._cost)
        self._cost = cost
        self._end(judge(m, interrupted=self._speech.interrupted), usage, out)

    def _withdraw(self, out: list[Effect]) -> None:
        """Withdraw all open requests."""
        out += [RequestWithdrawn(key) for key in self._asked]
        self._asked.clear()

    def _end(self, verdict: ResultVerdict, usage: Usage | None, out: list[Effect]) -> None:
        """Report the end of the turn."""
        turn, self._turn = self._turn, None
        assert turn is not None
        self._speech.turn_ended()
        self._withdraw(out)
        out.append(
            TurnFinished(
                turn=turn,
                outcome=verdict.outcome,
                stop_reason=verdict.stop_reason,
                usage=usage,
                error=verdict.error,
            )
        )


class _SeenBlock(Struct):
    """A block of the previous snapshot."""

    type: str
    text: str
    id: str | None


class _Snapshots:
    """Converts the new parts of each snapshot to pieces, as if they had been streamed."""

    def __init__(self, speech: ClaudeTranslator) -> None:
        """Begin without a message. `speech` gets the pieces."""
        self._speech = speech
        self._seen: list[_SeenBlock] = []
        self._message: str | None = None
        self._parent: str | None = None
        self._index = -1  # of the block that is being written
        self._dropped: str | None = None

    def begins(self, m: wire.Assistant) -> bool:
        """Return True if this is a new message, not another snapshot of the previous one."""
        return bool(self._seen) and not self._continues(m, _seen_of(_blocks(m)))

    def drop(self, out: list[Effect]) -> None:
        """Drop the message being written, which was aborted. Later parts of it are not shown."""
        self._dropped = self._message
        self.end(out)

    def new(self, m: wire.Assistant, out: list[Effect]) -> list[wire.ClaudeBlock]:
        """Report the new parts of a snapshot and return its new blocks."""
        if m.message.id is not None and m.message.id == self._dropped:
            return []
        blocks = _blocks(m)
        now = _seen_of(blocks)
        if not self._continues(m, now):
            self.end(out)
            self._message, self._parent = m.message.id, m.parent_tool_use_id
            start = wire.Event("message_start", message=wire.ApiMessage(id=self._message))
            self._speech.stream_event(start, self._parent, out)
        seen, self._seen = self._seen, now
        for index, (block, shown) in enumerate(zip(blocks, now, strict=True)):
            said = seen[index].text if index < len(seen) else ""
            if block.type in ("text", "thinking"):
                self._show_text(index, block.type != "text", shown.text[len(said) :], out)
            elif index >= len(seen):
                self._stop(out)
                alone = wire.ApiMessage([block], m.message.id, m.message.model)
                self._speech.assistant(wire.Assistant(alone, m.parent_tool_use_id), out)
        return blocks[len(seen) :]

    def _continues(self, m: wire.Assistant, now: list[_SeenBlock]) -> bool:
        """Return True if this is a further snapshot of the previous message."""
        before = self._seen
        return (
            m.parent_tool_use_id == self._parent
            and m.message.id == self._message
            and 0 < len(before) <= len(now)
            and all(
                old.type == new.type and old.id == new.id and new.text.startswith(old.text)
                for old, new in zip(before, now, strict=False)
            )
        )

    def _show_text(self, index: int, thought: bool, text: str, out: list[Effect]) -> None:
        """Report a piece of a block, and end the block that was written before it."""
        if text:
            if index != self._index:
                self._stop(out)
                self._index = index
            self._speech.pieces(self._parent, index, thought, text, out)

    def _stop(self, out: list[Effect]) -> None:
        """End the block that is being written."""
        if self._index >= 0:
            stop = wire.Event("content_block_stop", self._index)
            self._speech.stream_event(stop, self._parent, out)
            self._index = -1

    def end(self, out: list[Effect]) -> None:
        """Note that the message is complete."""
        self._stop(out)
        self._seen = []


def _blocks(m: wire.Assistant) -> list[wire.ClaudeBlock]:
    """Return the blocks of a message, whose content may be a plain text."""
    content = m.message.content
    return [wire.ClaudeBlock(type="text", text=content)] if isinstance(content, str) else content


def _seen_of(blocks: list[wire.ClaudeBlock]) -> list[_SeenBlock]:
    """Return the facts about blocks by which a further snapshot is recognised."""
    return [_SeenBlock(b.type, b.thinking or b.text or "", b.id) for b in blocks]


def _double_encoded(fields: JsonObject) -> wire.Result:
    """Read the end of a turn as older versions wrote it: its text is JSON within JSON."""
    text = fields.get("result")
    try:
        text = decode(text) if isinstance(text, str) else text
    except ValueError:
        pass
    return wire.Result(is_error=bool(fields.get("is_error")), result=text)


def _in_words(answers: dict[str, str]) -> str:
    """Return a person's answers as the text of a tool result."""
    if len(answers) == 1:
        return next(iter(answers.values()))
    return "\n".join(f"{question} {answer}" for question, answer in answers.items())
