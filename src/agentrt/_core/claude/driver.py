"""The driver of Claude Code: messages in, effects out, and commands in the other direction.

This module combines the parts: the meaning of a line (`messages.py`), Claude's output and tool
calls (`speech.py`), the end of a turn (`turns.py`) and its outcome (`outcome.py`), background work
(`tasks.py`), and control requests in both directions (`control.py`).

The protocol is `stream-json`: one JSON object per line, with a `type`. Conversation (`assistant`,
`user`, `stream_event`, `result`, `system`) and control (`control_request`, `control_response`,
`control_cancel_request`) share the two pipes. It has no version; the CLI adds types and fields with
each release, and old releases lack some. So each fact is taken from the message that has it best,
and has a second source where older releases need one.

Every method that takes a message appends its effects to `out`. The order of the effects is the
order of the lines, with one exception: adjacent pieces of one block become one effect (`_read`).

The end of a turn is the hardest part, because a `result` may belong to the prompt, to work that
Claude began by itself, or to several prompts together. `ClaudeTurns` decides it, from `result`,
`session_state_changed`, `command_lifecycle`, and output; this module only passes these on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias
from uuid import uuid4

from ..errors import LocalProtocolError
from ..limits import Limits
from ..model.content import Block, JsonObject
from ..model.driver import (
    CallReturned,
    DecisionAnswer,
    Effect,
    NewKey,
    Opening,
    TextEnded,
    TextReceived,
    UsageSet,
    Write,
)
from ..model.events import ErrorInfo, LimitWindow, Notice, Usage
from ..model.repeats import NoticeLimiter
from ..wire.json import encode_line
from ..wire.lines import Lines, LongLine, without_nested
from . import messages as wire
from . import notices
from .blocks import to_claude
from .command import initialize_request
from .control import ClaudeRequests, ControlCalls, SentControl, error_of
from .handshake import ClaudeHandshake
from .messages import objects, texts
from .options import ClaudeOptions, effective
from .outcome import judge, session_usage, total_cost, turn_usage
from .settings import ClaudeSettings, McpServerStates
from .speech import ClaudeTranslator
from .tasks import ClaudeTasks
from .turns import ClaudeTurns

INTERRUPT: Final = {"subtype": "interrupt", "cancel_queued": True}
GOODBYE: Final = {"subtype": "end_session"}
TASKS = frozenset(
    {
        "task_started",
        "task_progress",
        "task_updated",
        "task_notification",
        "background_tasks_changed",
    }
)
GOES_ON: Final = frozenset({None, "tool_use", "pause_turn"})
"""Stop reasons of a message after which the turn continues."""
PROMPTS: Final = {"cancel_async_message": "message_uuid", "rewind_files": "user_message_id"}
"""Requests about a prompt, and their parameter for its uuid. Callers pass `turn` instead."""
Out: TypeAlias = list[Effect]


class ClaudeDriver:
    """The state machine of one Claude Code process. Implements `Driver`, `EndsBySilence`, `Steers`.

    `new_uuid` makes the uuids of prompts. A uuid that was used before is never sent again.
    """

    def __init__(
        self,
        options: ClaudeOptions | None = None,
        *,
        new_key: NewKey,
        new_uuid: Callable[[], str] | None = None,
        extensions: Collection[str] = (),
        line_limit: int = Limits().message_bytes,
        files: bool = True,
    ) -> None:
        """Create a driver; call `start` to open its session.

        `files`: True if Claude's stored files can be read from this process. `extensions`: subtypes
        of control requests that the host serves.
        """
        self.options: ClaudeOptions = options if options is not None else ClaudeOptions()
        self.dropped: Counter[str] = Counter()
        """Counts of messages without effect, by reason: `late`, `stale`, `unknown`, `bad`."""
        self._new_uuid: Callable[[], str] = new_uuid or (lambda: str(uuid4()))
        self._lines = Lines(line_limit, long_apart=True, any_nesting=True)
        self._reader = wire.ClaudeReader()
        self._repeats = NoticeLimiter()
        self._turns = ClaudeTurns()
        self._tasks = ClaudeTasks()
        self._speech = ClaudeTranslator()
        self._settings = ClaudeSettings()
        self._servers = McpServerStates()
        self._calls = ControlCalls()
        self._requests = ClaudeRequests(
            new_key, self._tasks, self._speech.background, self._speech.denied, extensions
        )
        self._opening = Opening(cwd="")
        self._handshake = ClaudeHandshake(files=files)
        self._limits: dict[str, LimitWindow] = {}
        self._cost: float | None = 0.0
        """The session's cost at its last result. None: the session was resumed and has not reported
        it yet.
        """
        self._blocked: str | None = None

    @property
    def _started(self) -> bool:
        """True if Claude has accepted `initialize`, so that prompts may be sent."""
        return self._handshake.started is not None

    # --- commands

    def start(self, opening: Opening) -> list[Effect]:
        """Send `initialize`, with the settings that are not on the command line.

        There is no message that resumes a session; `--resume` on the command line does.
        """
        self._opening = opening
        self._cost = None if opening.resume is not None else 0.0
        self.options = effective(self.options, opening)
        return [self._calls.send(initialize_request(opening, self.options))]

    def prompt(
        self, turn: str, content: Sequence[Block], meta: JsonObject | None = None
    ) -> list[Effect]:
        """Send a `user` message with a new uuid, by which its result will name it.

        A turn that Claude has begun by itself may still run; its tool calls are then not forgotten.
        """
        if self._turns.user is not None:
            raise LocalProtocolError("a prompt is already in flight")
        write, uuid = self._user_message(content)
        if self._turns.agent is None:
            self._forget_turn()
        self._turns.prompted(turn, uuid)
        return [write]

    def steer(self, turn: str, content: Sequence[Block]) -> list[Effect]:
        """Send a `user` message during a turn; Claude takes it into this turn or begins the next
        with it.
        """
        if not self._turns.running:
            raise LocalProtocolError("no turn is running that could take the prompt")
        write, uuid = self._user_message(content)
        self._turns.steer(turn, uuid)
        return [write]

    def _user_message(self, content: Sequence[Block]) -> tuple[Write, str]:
        """Return the write of a `user` message, and its uuid.

        Not urgent: control messages go before it.
        """
        if not self._started:
            raise LocalProtocolError("the handshake is not finished")
        uuid = self._new_uuid()
        if uuid in self._turns.used:  # Claude would ignore it and never answer
            raise LocalProtocolError(f"the id {uuid} was used for an earlier prompt")
        message = {"role": "user", "content": to_claude(content)}
        line = {
            "type": "user",
            "message": message,
            "parent_tool_use_id": None,
            "session_id": "",
            "uuid": uuid,
        }
        return Write(encode_line(line), urgent=False), uuid

    def discard_prompt(self, turn: str) -> None:
        """Forget a prompt that was never written."""
        self._turns.discard_prompt(turn)

    def cancel(self) -> list[Effect]:
        """Send the control request `interrupt`, which also removes prompts from Claude's own queue.

        Nothing is sent without a running turn.
        """
        if not self._turns.running:
            return []  # Claude would answer, and no result would ever come
        self._speech.interrupted = True
        interrupt = self._calls.send(INTERRUPT)
        # If the interrupt arrived before its own prompt, it would interrupt nothing or something
        # else. Directly after the prompt it works.
        interrupt.urgent = False
        return [interrupt]

    def answer(self, key: str, answer: DecisionAnswer) -> list[Effect]:
        return self._requests.answer(key, answer)

    def reply(self, key: str, result: Any) -> list[Effect]:
        return self._requests.reply(key, result)

    def refuse(self, key: str, code: int, message: str, data: Any = None) -> list[Effect]:
        return self._requests.refuse(key, code, message, data)

    def call(self, call: str, method: str, params: JsonObject) -> list[Effect]:
        """Send a control request; a parameter `turn` becomes the uuid of that turn's prompt."""
        if not self._started:
            return [
                CallReturned(call, error=ErrorInfo("unsupported", "the handshake is not finished"))
            ]
        if "turn" in params and (name := PROMPTS.get(method)) is not None:
            turn = str(params["turn"])
            uuid = self._turns.uuid_of(turn)
            if uuid is None:
                return [
                    CallReturned(
                        call, error=ErrorInfo("unknown_turn", f"no prompt started {turn!r}")
                    )
                ]
            params = {**{k: v for k, v in params.items() if k != "turn"}, name: uuid}
        return self._calls.call(call, method, params)

    def cancel_call(self, call: str) -> list[Effect]:
        return self._calls.uncall(call)

    def shutdown_message(self) -> list[Effect]:
        """Send the control request `end_session`, once the handshake is over."""
        return [self._calls.send(GOODBYE)] if self._started else []

    @property
    def idle(self) -> bool:
        """True if no turn runs, none is owed, and no background work runs."""
        return self._started and self._turns.at_rest and not self._tasks.live

    @property
    def awaits_silence(self) -> bool:
        # An incomplete line does not count as silence: the rest of it may contradict the guess.
        return self._turns.awaits_silence and not (self._turns.guesses and self._lines.begun)

    def end_by_silence(self) -> list[Effect]:
        out: Out = []
        self._turns.end_by_silence(out)
        return out

    # --- bytes

    def receive(self, data: bytes) -> list[Effect]:
        """Process output of Claude Code, whose last line may be incomplete."""
        out: Out = []
        lines = self._lines.feed(data)
        if self._lines.oversized:  # longer than a read: it ended before the lines of this read
            self._oversized(out)
        if self._lines.long:
            self._read_long(out)
        if lines:
            self._read(lines, out)
        return out

    def receive_eof(self) -> list[Effect]:
        """Process the end of the output: end turns that have their result, and fail pending
        calls.
        """
        out: Out = []
        lines = self._lines.end()
        if lines:
            self._read(lines, out)
        self._read_long(out)
        if self._lines.oversized:
            self._oversized(out)
        self._turns.closed(out)
        out += self._calls.closed()
        return out

    def _read_long(self, out: Out) -> None:
        """Process the lines that are too long to be joined and decoded with others."""
        for line in self._lines.long:
            self._read(line, out)
        self._lines.long.clear()

    def _oversized(self, out: Out) -> None:
        """Report the lines that exceeded the limit and were skipped."""
        for size in self._lines.oversized:
            out += self._repeats.worth_reporting(notices.too_long(size, self._lines.limit))
        self._lines.oversized.clear()

    def _read(self, lines: bytes | bytearray | LongLine, out: Out) -> None:
        """Take some lines and merge adjacent pieces of one block into one effect.

        This is the hot path for agents that stream fast: each piece costs two look-ups and an
        append. Nothing but the text of a piece is kept, so that only another message makes a search
        for lines that are too nested worth its time.
        """
        self._take(self._reader.read(lines), b"" if isinstance(lines, LongLine) else lines, out)

    def _take(self, messages: list[wire.Message], lines: bytes | bytearray, out: Out) -> None:
        """Take messages. `lines`: what they were decoded from, if it may be too nested."""
        pieces: list[str] = []
        parent: str | None = None
        index, thought = -1, False
        for n, m in enumerate(messages):
            if type(m) is wire.StreamEvent:
                event = m.event
                delta = event.delta
                if delta is not None:
                    text = delta.text
                    thinks = text is None
                    if thinks:
                        text = delta.thinking
                    if text is not None:
                        if (
                            event.index != index
                            or thinks is not thought
                            or m.parent_tool_use_id != parent
                        ):
                            if pieces:
                                self._spoken(parent, index, thought, pieces, out)
                            parent, index, thought = m.parent_tool_use_id, event.index, thinks
                        pieces.append(text)
                        continue
            if pieces:
                self._spoken(parent, index, thought, pieces, out)
            if (checked := without_nested(lines)) is not lines:
                self._take(self._reader.read_singly(checked)[n:], b"", out)
                return
            lines = b""
            take = self._HANDLERS.get(type(m))
            if take is not None:
                take(self, m, out)
        if pieces:
            self._spoken(parent, index, thought, pieces, out)

    def _spoken(
        self, parent: str | None, index: int, thought: bool, pieces: list[str], out: Out
    ) -> None:
        """Report collected pieces of one block. Text of the main agent shows that a turn runs."""
        text = "".join(pieces)
        pieces.clear()
        if text:
            if parent is None:
                self._turns.began(out)
            self._speech.pieces(parent, index, thought, text, out)

    # --- messages

    def _stream_event(self, m: wire.StreamEvent, out: Out) -> None:
        """Take a streaming event that is not a piece of text."""
        event, parent = m.event, m.parent_tool_use_id
        last = parent is None and event.type == "message_stop"
        if parent is None and not last:
            self._turns.began(out)
        self._speech.stream_event(event, parent, out)
        if last and self._speech.stop_reason not in GOES_ON:
            self._turns.answered(held=self._tasks.hold)

    def _assistant(self, m: wire.Assistant, out: Out) -> None:
        """Take a whole message of the model, after its pieces or without any.

        Without partial messages, only this message can show that the answer is complete.
        """
        main = m.parent_tool_use_id is None
        if main:
            self._turns.began(out)
        self._speech.assistant(m, out)
        if main and not self.options.partial_messages and wire.ends_with_text(m.message):
            self._turns.answered(held=self._tasks.hold)

    def _user(self, m: wire.User, out: Out) -> None:
        """Take tool results and echoes of prompts.

        A result also shows where the work of its call runs: if it has not ended yet, it runs in the
        background.
        """
        self._speech.user(m, m.uuid in self._turns.used, out)
        if self._tasks.unplaced and isinstance(m.message.content, list):
            for block in m.message.content:
                if block.type == "tool_result" and block.tool_use_id is not None:
                    failed = bool(block.is_error)
                    self._tasks.returned(block.tool_use_id, failed, self._speech.background, out)

    def _requested(self, m: wire.ControlRequest, out: Out) -> None:
        """Take a control request, and first show the call of a sub-agent that asks about it."""
        match m.request:
            case {"subtype": "can_use_tool", "agent_id": str(agent), "tool_use_id": str(call)}:
                # Up to 2.1.270 the question may come before the call, and does not name a parent.
                parent = self._tasks.call_of(agent)
                if parent is not None:
                    self._speech.announced(call, str(m.request.get("tool_name")), parent, out)
        self._requests.received(m, out)

    def _result(self, m: wire.Result, out: Out) -> None:
        """Take the end of a turn, with its outcome and usage.

        Before the handshake is over, an unsuccessful result is the reason why Claude does not
        start. A result that ends no turn is counted and reported; its usage still counts.
        """
        if not self._started and m.refuses():
            self._handshake.refused(m, out)
            return
        cost, uuids, unsolicited = total_cost(m), m.uuids(), m.unsolicited()
        usage = turn_usage(m, cost, self._cost)
        self._cost = cost
        session = session_usage(m, cost, self._speech.context, self._settings.model)
        verdict = judge(
            m,
            interrupted=self._speech.interrupted,
            structured=self.options.json_schema is not None and not unsolicited,
            api_error=self._speech.api_error,
            blocked=self._blocked,
        )
        out.append(UsageSet(session))
        resting = self._tasks.hold
        if self._turns.resulted(uuids, unsolicited, verdict, usage, resting, out):
            self._forget_turn()
        else:
            self.dropped["stale"] += 1
            data = {"prompts": uuids, "outcome": verdict.outcome, "origin": m.origin}
            notice = Notice("info", "stale", "the agent sent a result that ends no turn", data)
            out += self._repeats.worth_reporting(notice)

    def _forget_turn(self) -> None:
        """Drop the state of the turn that has ended."""
        self._speech.turn_ended()
        self._blocked = None

    def _lifecycle(self, m: wire.CommandLifecycle, out: Out) -> None:
        """Pass on the lifecycle of a prompt: queued, started, completed or cancelled."""
        self._turns.lifecycle(m.command_uuid, m.state, out)

    def _reset(self, m: wire.ConversationReset, out: Out) -> None:
        """Note that the conversation was cleared, and the session's cost with it."""
        self._cost = 0.0
        self._mention(m, out)

    def _mention(self, m: wire.Message, out: Out) -> None:
        """Report a message that is only a notice."""
        notice = notices.of_message(m)
        if notice is not None:
            out.append(notice)

    def _limited(self, m: wire.RateLimit, out: Out) -> None:
        """Report a rate limit, and show all limits known so far if one has changed."""
        self._mention(m, out)
        limit = notices.limit_of(m)
        if limit is not None and self._limits.get(limit.name) != limit:
            self._limits[limit.name] = limit
            out.append(UsageSet(Usage(limits=list(self._limits.values()))))

    def _bad(self, m: wire.BadClaudeLine, out: Out) -> None:
        """Count and report a line that is not a message."""
        self.dropped["bad"] += 1
        out += self._repeats.worth_reporting(notices.bad_line(m))

    def _unknown(self, m: wire.UnknownClaudeLine, out: Out) -> None:
        """Count and report a message of an unknown type."""
        self.dropped["unknown"] += 1
        notice = notices.unknown(f"message {m.type}", m.fields)
        out += self._repeats.worth_reporting(notice, about=m.type)

    def _system(self, m: wire.System, out: Out) -> None:
        """Take a `system` message, whose subtype is its real type.

        `init` comes at the beginning of each turn, with the settings that the turn runs with.
        """
        fields = m.fields
        match m.subtype:
            case "session_state_changed":
                self._turns.state_changed(str(fields.get("state")), out)
            case "init":
                self._turns.initialized(out)
                self._handshake.session_is(fields, self.options, out)
                self._settings.turn_init(fields, out)
                given = {str(server.get("name")) for server in self._opening.mcp_servers}
                self._servers.turn_init(fields, given, out)
            case "commands_changed":
                self._settings.commands(fields.get("commands"), out)
            case "local_command_output":
                self._command_output(fields.get("content"), out)
            case subtype if subtype in TASKS:
                turn = self._turns.current
                if self._tasks.received(fields, turn, self._speech.background, out):
                    self._turns.work_ended()
            case _:
                self._system_with_notice(m, out)

    def _command_output(self, text: object, out: Out) -> None:
        """Show the output of a slash command as text of the turn."""
        if isinstance(text, str) and text:
            self._turns.began(out)
            out += [TextReceived(text), TextEnded()]

    def _system_with_notice(self, m: wire.System, out: Out) -> None:
        """Take a `system` message that has an effect in addition to its notice."""
        fields = m.fields
        match m.subtype:
            case "status":
                self._settings.mode(fields.get("permissionMode"), out)
            case "permission_denied":
                self._speech.denied.add(str(fields.get("tool_use_id")))
            case "informational" if fields.get("prevent_continuation"):
                self._blocked = str(fields.get("content"))
            case "model_refusal_fallback":
                self._speech.retracted(texts(fields.get("retracted_message_uuids")), out)
        notice = notices.of_system(fields)
        if notice is not None and notice.code == "unknown_update":
            out += self._repeats.worth_reporting(notice, about=m.subtype)
        elif notice is not None:
            out.append(notice)

    # --- the handshake, and responses to requests of the driver

    def _response(self, m: wire.ControlResponse, out: Out) -> None:
        """Take the response to a control request of this driver, by its id."""
        sent = self._calls.answered(m.response)
        if sent is None:
            self.dropped["late"] += 1
        elif sent.request["subtype"] == "initialize":
            self._initialized(m.response, out)
        else:
            self._called(sent, m.response, out)

    def _called(self, sent: SentControl, result: wire.ControlResult, out: Out) -> None:
        """Apply a change of settings that Claude has confirmed, and pass the response to its
        caller.
        """
        if result.subtype == "success":
            self._settings.answered(sent.request, out)
        if sent.call is None:
            return
        if result.subtype == "success":
            out.append(CallReturned(sent.call, result.response))
        else:
            out.append(CallReturned(sent.call, error=error_of(result)))

    def _initialized(self, result: wire.ControlResult, out: Out) -> None:
        """Take the response to `initialize`.

        It may list permission requests that are still open; they are asked again.
        """
        if self._handshake.over:
            return
        reply = result.response if isinstance(result.response, dict) else {}
        if result.subtype != "success":
            self._handshake.fail("rejected", error_of(result).message, out)
            return
        self._handshake.accepted(reply, self._opening, self.options, out)
        self._settings.initialized(reply, self.options, out)
        for request in objects(result.pending_permission_requests):
            match request:
                case {"request_id": str(id), "request": dict(body)}:
                    self._requests.received(wire.ControlRequest(id, body), out)

    _HANDLERS: Final[Mapping[type, Callable[..., None]]] = {
        wire.StreamEvent: _stream_event,
        wire.Assistant: _assistant,
        wire.User: _user,
        wire.Result: _result,
        wire.System: _system,
        wire.CommandLifecycle: _lifecycle,
        wire.ControlRequest: _requested,
        wire.ControlResponse: _response,
        wire.ControlCancel: lambda self, m, out: self._requests.cancelled(m.request_id, out),
        wire.ConversationReset: _reset,
        wire.RateLimit: _limited,
        wire.AuthStatus: _mention,
        wire.PromptSuggestion: _mention,
        wire.BadClaudeLine: _bad,
        wire.UnknownClaudeLine: _unknown,
    }
    """The method for each type of message."""
