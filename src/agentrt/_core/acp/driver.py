"""The driver of one ACP agent: bytes and commands in, effects out. No I/O, no clock.

Three identities decide where a message belongs: a response belongs to the request with its id, an
update to the session that it names, and a turn to the one `session/prompt` in flight. A message
that matches none of them is dropped, counted and reported. The agent's report about its turn is
passed on unchanged; the caller of the driver knows that the turn was cancelled.

The driver speaks both versions of the protocol. `wire` and `wire2` have the shapes that differ,
`turn` the table of turns, and `stream` and `stream2` convert the updates. The modules of version 2
are loaded when a session asks for it.

**Input** takes one of two ways. Most bytes of a session are `session/update` notifications with
pieces of text. The lines of a read are decoded together into exact types, and adjacent pieces of
one message become one effect (`_receive_updates`). Everything else, and every line that the exact
types refuse, is decoded on its own and leniently: valid fields count, invalid ones are reported
(`_receive_message`, `_loose_update`). Both ways lead to the same effects.

**The end of a turn** differs between the versions. In version 1 it is the response to
`session/prompt`. In version 2 that response only means that the prompt is part of the conversation
(`_inserted`); the turn ends with a `state_update` to `idle` (`_stated`), and the agent may also
begin work by itself, which such an update reports. `AcpTurns` decides the meaning of a state.

**Commands** write through the `Channel`, which collects the effects of a call; each public method
ends with `take`. Cancels and prompts are not urgent: they keep their order among all lines that are
written, because a cancel that overtakes its prompt would reach an idle agent.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, to_builtins

from ..errors import LocalProtocolError, RemoteProtocolError
from ..limits import Limits
from ..model.content import Audio, Block, Image, JsonObject, Resource, Text
from ..model.driver import (
    CallReturned,
    DecisionAnswer,
    Effect,
    NewKey,
    Opening,
    Retracted,
    SecretsSent,
    TurnBegan,
    TurnFinished,
    UnsupportedSetting,
)
from ..model.events import ErrorInfo, Usage
from ..model.repeats import REPORTED_NOTICES
from ..wire.channel import Channel
from ..wire.json import DECODE_ERRORS
from ..wire.jsonrpc import (
    INTERNAL_ERROR,
    JsonRpcError,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    parse,
    result_line,
)
from ..wire.lines import Lines, LongLine, without_nested
from .messages import (
    NOT_FOUND_CODE,
    ONLY_INTO_A_TURN,
    STEER,
    AgentMessageChunk,
    AgentSessionCapabilities,
    AgentThoughtChunk,
    CancelRequestNotification,
    ClientCapabilities,
    ElicitationRequest,
    Implementation,
    KnownUpdate,
    PermissionAsked,
    PromptAnswer,
    PromptCapabilities,
    PromptRequest,
    PromptResponse,
    SessionRequest,
    SteerRequest,
    read_update,
    sub_agent_of,
)
from .opening import AcpHandshake
from .requests import AcpRequests
from .settings import AcpSettings, resolve
from .stream import AcpStream, WorkCancel
from .translate import OUTCOMES, error_of, quota, turn_usage
from .turn import AcpPrompt, AcpTurnInput, AcpTurns, AcpTurnState, AcpTurnStep
from .wire import WIRE_1, AcpWire

if TYPE_CHECKING:
    from .messages2 import StateUpdate

_UPDATE = b'"session/update"'
_answers: msgspec.json.Decoder[PromptAnswer] = msgspec.json.Decoder(PromptAnswer)
_ANSWER = b'"stopReason"'


class AcpStatistics(Struct, frozen=True):
    """Counts so far: `messages`, and `notices` by code, also unreported ones."""

    messages: int
    notices: dict[str, int]


class AcpDriver:
    """Implements `_core.model.driver.Driver` for agents with ACP, version 1 or 2."""

    def __init__(
        self,
        new_key: NewKey,
        *,
        capabilities: JsonObject,
        client: Implementation,
        auth_method: str | None = None,
        late_history: bool = False,
        extensions: Collection[str] = (),
        fork_at: bool = False,
        meta: JsonObject | None = None,
        refused_modes: Mapping[str, str] | None = None,
        line_limit: int = Limits().message_bytes,
        version: int = 1,
    ) -> None:
        """Create a driver; call `start` to open its session.

        `capabilities`: ACP's `clientCapabilities` with the methods that the host serves, such as
        `client_capabilities` returns.

        `auth_method`: the method to authenticate with if the agent requires that. Without it, the
        start then fails.

        `late_history`: the agent repeats a loaded conversation also after its response.

        `extensions`: methods of the agent's own that the host serves.

        `fork_at`: the agent accepts the point at which a fork ends, also if it does not report so.

        `meta`: the `_meta` of the requests that open the session. Values from the session's opening
        win.

        `refused_modes`: modes that must not be chosen, with the reason for each.

        `version`: the highest version of the protocol to ask for, 1 or 2. The agent's answer
        decides.
        """
        self._version = version
        self._capabilities = msgspec.convert(capabilities, ClientCapabilities)
        self._client = client
        self._auth_method = auth_method
        self._late_history = late_history
        self._fork_at = fork_at
        self._meta = meta or {}
        self._lines = Lines(line_limit, long_apart=True, any_nesting=True)
        self._channel = Channel()
        self._settings = AcpSettings(refused_modes)
        self._requests = AcpRequests(
            self._channel, new_key, self._capabilities, held=line_limit, extensions=extensions
        )
        self._turns = AcpTurns()
        self._stream: AcpStream = AcpStream(self._channel, self._settings)
        self._handshake: AcpHandshake | None = None
        self._ready = False
        self._calls: dict[str, int] = {}
        """Request ids of pending runtime calls, by call."""
        self._messages = 0
        self._singly = 0
        """Number of batches still to be decoded line by line."""
        self._penalty = 1
        """The value that `_singly` gets from the next batch that cannot be decoded as one."""

    # --- commands

    def start(self, opening: Opening) -> list[Effect]:
        """Begin with `initialize`; `AcpHandshake` does everything else.

        Raises for a second start.
        """
        if self._handshake is not None:
            raise LocalProtocolError("already started")
        me: AcpDriver = weakref.proxy(self)  # the handshake must not keep it
        self._handshake = AcpHandshake(
            self._channel,
            opening,
            self._settings,
            self._stream,
            offered=self._capabilities,
            client=self._client,
            auth_method=self._auth_method,
            late_history=self._late_history,
            fork_at=self._fork_at,
            meta=self._meta,
            version=self._version,
            negotiated=lambda wire: me._negotiated(wire),
            started=lambda: me._started(),
        )
        self._handshake.begin()
        return self._channel.take()

    def prompt(
        self, turn: str, content: Sequence[Block], meta: JsonObject | None = None
    ) -> list[Effect]:
        """Send `session/prompt`.

        Raises `LocalProtocolError` for content that the agent's `promptCapabilities` exclude: every
        agent takes text and resource links, and nothing else is certain.
        """
        session = self._session()
        if self._turns.prompt is not None:
            raise LocalProtocolError("another prompt has not been answered yet")
        self._check_content(content)
        request = PromptRequest(session, list(content), meta=meta)
        id = self._channel.request("session/prompt", request, self._prompt_answered, urgent=False)
        self._turns.sent(turn, id)
        self._stream.begin_turn()
        return self._channel.take()

    def steer(self, turn: str, content: Sequence[Block]) -> list[Effect]:
        """Send a prompt into the running turn.

        The method is `_session/steering`, an extension that the agent advertises as
        `steering.supported` in the `_meta` of its `initialize` response. The request's `_meta` asks
        the agent not to begin a turn with the prompt if the running one is over.
        """
        session, prompt = self._session(), self._turns.prompt
        assert self._handshake is not None
        if not self._handshake.steers:
            raise LocalProtocolError("this agent does not accept a prompt during a turn")
        if prompt is None or prompt.cancels:
            raise LocalProtocolError("no turn is running that could take the prompt")
        self._check_content(content)

        def answered(response: JsonRpcResponse) -> None:
            self._steer_answered(turn, prompt, response)

        request = SteerRequest(session, list(content), meta=ONLY_INTO_A_TURN)
        self._channel.request(STEER, request, answered, urgent=False)
        return self._channel.take()

    def discard_prompt(self, turn: str) -> None:
        """Forget the prompt, and report the agent's own work if that runs instead (version 2)."""
        prompt = self._turns.prompt
        if prompt is not None and prompt.turn == turn:
            self._channel.withdraw(prompt.id)
            self._turns.apply(AcpTurnInput.DISCARD)
            self._forget_prompt()
            self._report_own()

    def cancel(self) -> list[Effect]:
        """Send `session/cancel`, also for work that the agent does by itself.

        A repeated cancel also sends `$/cancel_request` with the id of the prompt, as long as that
        is unanswered: an agent that ignores the one may understand the other.
        """
        # Not urgent: if it overtook its own prompt, the agent would get it while idle.
        prompt = self._turns.prompt
        if prompt is not None or self._turns.busy or self._stream.works_by_itself:
            self._channel.notify("session/cancel", SessionRequest(self._session()), urgent=False)
        if prompt is not None:
            prompt.cancels += 1
            if (
                prompt.cancels > 1 and self._turns.unanswered
            ):  # perhaps the agent understands this one
                self._channel.notify(
                    "$/cancel_request", CancelRequestNotification(prompt.id), urgent=False
                )
        return self._channel.take()

    def answer(self, key: str, answer: DecisionAnswer) -> list[Effect]:
        self._requests.answer(key, answer)
        return self._channel.take()

    def reply(self, key: str, result: Any) -> list[Effect]:
        self._requests.reply(key, result)
        return self._channel.take()

    def refuse(self, key: str, code: int, message: str, data: Any = None) -> list[Effect]:
        self._requests.refuse(key, JsonRpcError(code, message, data))
        return self._channel.take()

    def call(self, call: str, method: str, params: JsonObject) -> list[Effect]:
        """Send a request for settings, sessions or tasks, or one of the agent's own methods.

        `delete_session` succeeds if the agent does not know the session. Settings are changed here
        only when the agent has confirmed them.
        """
        session = self._session()
        assert self._handshake is not None
        if method == "stop_task":
            return self._stop_task(call, params.get("task"))
        try:
            change = resolve(method, params, session, self._settings, self._handshake.agent)
        except UnsupportedSetting as error:
            self._channel.out.append(CallReturned(call, error=ErrorInfo("unsupported", str(error))))
            return self._channel.take()

        def answered(response: JsonRpcResponse) -> None:
            """Pass the response on, and show the settings that it confirms."""
            del self._calls[call]
            error = response.error
            if error is not None and not (
                method == "delete_session" and error.code == NOT_FOUND_CODE  # already deleted
            ):
                self._channel.out.append(CallReturned(call, error=change.refusal(error)))
                return
            if change.apply is not None:
                change.apply(response.result)
                self._stream.show_settings()
            self._channel.out.append(CallReturned(call, response.result))

        if change.secrets:
            self._channel.out.append(SecretsSent(change.secrets))
        self._calls[call] = self._channel.request(change.method, change.params, answered)
        return self._channel.take()

    def cancel_call(self, call: str) -> list[Effect]:
        """Forget a request, and send `$/cancel_request` for it."""
        id = self._calls.pop(call, None)
        if id is not None:
            self._channel.forget(id)
            self._channel.notify("$/cancel_request", CancelRequestNotification(id))
        return self._channel.take()

    def shutdown_message(self) -> list[Effect]:
        """Send `session/close` if the agent has advertised it; others only get the end of stdin."""
        if self._ready and self._handshake is not None:
            agent = self._handshake.agent
            sessions = agent.session_capabilities or AgentSessionCapabilities()
            if sessions.close is not None and self._session():
                request = SessionRequest(self._session())
                self._channel.request("session/close", request, lambda response: None)
        return self._channel.take()

    @property
    def idle(self) -> bool:
        """True if no prompt is in flight."""
        return self._turns.prompt is None

    def statistics(self) -> AcpStatistics:
        """Return counts of messages since the process started."""
        return AcpStatistics(self._messages, dict(self._channel.counts))

    # --- output of the agent

    def receive(self, data: bytes) -> list[Effect]:
        """Process output of the agent, whose last line may be incomplete.

        The last line of a read is handled apart if it is not an update, because a response or a
        request after many updates would otherwise make the strict decoding of all of them fail.
        """
        lines = self._lines.feed(data)
        if self._lines.oversized:  # longer than a read: it ended before the lines of this read
            self._channel.oversized(self._lines)
        if self._lines.long:
            self._receive_long()
        if lines:
            # The end of a turn, and any request that waits for an answer, comes last in a read. The
            # updates before it can be decoded in one go.
            cut = lines.rfind(b"\n", 0, -1) + 1
            if lines.find(_UPDATE, cut, cut + 65536) >= 0 or len(lines) - cut > 65536:
                self._receive_lines(lines)
            else:
                if cut:
                    self._receive_lines(lines[:cut])
                last = bytes(without_nested(lines[cut:])).rstrip(b"\n")
                if last and not last.isspace():
                    self._receive_message(last)
        return self._channel.take()

    def receive_eof(self) -> list[Effect]:
        self._receive_lines(self._lines.end())
        self._receive_long()
        self._channel.oversized(self._lines)
        self._channel.close()
        return self._channel.take()

    def _receive_long(self) -> None:
        """Process the lines that are too long to be joined and decoded with others."""
        for line in self._lines.long:
            self._receive_message(line)
        self._lines.long.clear()

    def _receive_lines(self, lines: bytes | bytearray) -> None:
        """Decode the lines of a read in one go, if all are valid updates.

        One line with unknown or invalid content costs the whole batch. So an agent that often sends
        such lines is read line by line: after each lost batch, for twice as many batches.
        """
        taken = 0
        if self._singly:
            self._singly -= 1
        else:
            try:
                frames = self._settings.wire.updates.decode_lines(lines)
            except DECODE_ERRORS:
                pass
            else:
                self._penalty = 1
                taken = self._receive_updates(frames, lines)
                if taken == len(frames):
                    return
        odd, noise, sample = False, 0, b""
        whole = bytes(without_nested(lines)).split(b"\n")
        for line in [line for line in whole if line and not line.isspace()][taken:]:
            if b"{" not in line and self._channel.counts.get("malformed", 0) >= REPORTED_NOTICES:
                noise, sample = noise + 1, line  # no object, no message: not worth an exception
                continue
            try:
                frame = self._settings.wire.updates.decode(line)
            except DECODE_ERRORS:
                odd = not self._receive_message(line) or odd
            else:
                self._receive_updates([frame])
        if noise:
            odd = True
            self._messages += noise
            self._channel.malformed("not a message", sample, noise)
        if odd and not self._singly:
            self._singly = self._penalty
            self._penalty = min(2 * self._penalty, 64)

    def _receive_updates(self, frames: list[Any], lines: bytes | bytearray = b"") -> int:
        """Take decoded updates and merge adjacent pieces of one message into one effect.

        This is the hot path: a piece costs a few comparisons and an append. `lines`: what they were
        decoded from, if it may be too nested. Nothing but the text of a piece is kept, so that only
        another update makes a search worth its time. Returns the number of the taken frames, which
        are those before the first one that is not a piece if any line is too nested.
        """
        taken = len(frames)
        stream = self._stream
        pieces: list[str] = []
        kind: type[KnownUpdate] | None = None
        message: str | None = None
        for n, frame in enumerate(frames):
            params = frame.params
            update = params.update
            if (
                (type(update) is AgentMessageChunk or type(update) is AgentThoughtChunk)
                and params.session_id == stream.live
                and type(content := update.content) is Text
                and content.text  # an empty one may carry something else
                and (update.meta is None or sub_agent_of(update.meta) is None)
            ):
                if type(update) is not kind or update.message_id != message:
                    if pieces:
                        stream.text("".join(pieces), kind is AgentThoughtChunk, message)
                        pieces = []
                    kind, message = type(update), update.message_id
                pieces.append(content.text)
                continue
            if pieces:
                stream.text("".join(pieces), kind is AgentThoughtChunk, message)
                pieces = []
            if without_nested(lines) is not lines:
                taken = n
                break
            lines = b""
            stream.update(params.session_id, update)
        if pieces:
            stream.text("".join(pieces), kind is AgentThoughtChunk, message)
        self._messages += taken
        return taken

    def _ends_turn(self, line: bytes) -> bool:
        """Take the response to the prompt if the line is a valid one. Returns False otherwise.

        Most turns end this way, so the line is decoded directly into its type.
        """
        prompt = self._turns.prompt
        if prompt is None or self._settings.wire is not WIRE_1:
            return False
        try:
            answer = _answers.decode(line)
        except DECODE_ERRORS:
            return False
        if answer.id != prompt.id or answer.result.stop_reason not in OUTCOMES:
            return False
        self._messages += 1
        self._channel.withdraw(prompt.id)
        self._turns.answered()
        self._forget_prompt()
        self._end_turn(prompt, answer.result)
        return True

    def _receive_message(self, line: bytes | LongLine) -> bool:
        """Take any message except an update, and any invalid line.

        Returns False for an invalid line and for an update that strict decoding refused: decoding
        the batch in one go failed because of it.
        """
        if isinstance(line, bytes) and _ANSWER in line and self._ends_turn(line):
            return True
        self._messages += 1
        try:
            return self._dispatch(parse(self._channel.decoded(line)))
        except (RemoteProtocolError, *DECODE_ERRORS) as error:
            self._channel.malformed(str(error), line if isinstance(line, bytes) else line.head)
            return False

    def _dispatch(self, message: JsonRpcRequest | JsonRpcNotification | JsonRpcResponse) -> bool:
        """Handle a message by its kind. Returns False for an update: it was not decoded strictly.

        An update that came as a request, with an id, is taken and answered with an empty result.
        """
        match message:
            case JsonRpcResponse():
                self._channel.resolve(message)
            case JsonRpcNotification(method="session/update"):
                self._loose_update(message.params)
                return False
            case JsonRpcNotification():
                self._notified(message)
            case JsonRpcRequest(method="session/update"):
                self._loose_update(message.params)
                self._channel.write(result_line(message.id, {}))
            case JsonRpcRequest():
                self._requested(message)
        return True

    def _notified(self, notification: JsonRpcNotification) -> None:
        """Handle a notification that is not an update.

        `$/cancel_request` withdraws a request of the agent. Other methods that begin with `$/` or
        `_` are ignored without a notice, because vendors send them for their own clients.
        """
        method, params = notification.method, notification.params
        if method == "$/cancel_request":
            if isinstance(params, dict) and "requestId" in params:
                self._requests.withdraw(params["requestId"])
        elif method in self._requests.extensions:
            self._requests.notified(method, params)
        elif not method.startswith(
            ("$/", "_")
        ):  # a vendor's own notifications concern only its own clients
            known = method == "elicitation/complete"
            self._channel.notice(
                "info",
                "elicitation_complete" if known else "unknown_notification",
                f"the agent sent {method}",
                params,
                about=method,
            )

    def _loose_update(self, params: Any) -> None:
        """Take an update that strict decoding refused, and keep its valid fields."""
        params = params if isinstance(params, dict) else {}
        raw, session = params.get("update"), params.get("sessionId")
        dropped: list[str] = []
        update = read_update(raw, dropped, self._settings.wire.variants)
        if dropped:
            self._channel.notice_dropped(dropped, raw, f"a {raw['sessionUpdate']}")
        self._stream.update(session if isinstance(session, str) else "", update)

    def _requested(self, request: JsonRpcRequest) -> None:
        """Turn a request of the agent into a question or a service, or answer it directly.

        While the turn is being cancelled, permission requests are answered as cancelled without
        asking a person; ACP requires that answer. The tool call of a permission request is shown
        all the same.
        """
        if request.method in self._requests.extensions:
            self._requests.extend(request)
            return
        params = self._requests.accept(request)
        prompt = self._turns.prompt
        cancelled = prompt is not None and prompt.cancels > 0
        match params:
            case None:
                pass
            case PermissionAsked():
                self._asked_by(params.session_id)
                asked = self._stream.about_permission(params)  # updates of the call may come later
                if cancelled:
                    self._requests.say_cancelled(request.id, request.method)
                else:
                    self._requests.ask_permission(request, params, asked)
            case ElicitationRequest() if cancelled:
                self._asked_by(params.session_id)
                self._requests.say_cancelled(request.id, request.method)
            case ElicitationRequest():
                self._asked_by(params.session_id)
                self._requests.elicit(request, params)
            case _:
                self._requests.serve(request, params)

    def _asked_by(self, session: str | None) -> None:
        """Note a question in version 2, where it shows that the agent is busy."""
        if self._settings.wire is not WIRE_1 and session == self._stream.session:
            self._turns.output(None)

    # --- the turn

    def _prompt_answered(self, response: JsonRpcResponse) -> None:
        """Take the response to `session/prompt` that `_ends_turn` did not take.

        An error ends the turn as failed, or as cancelled if its code means that the request was
        cancelled. A missing login is reported with the ways to log in.
        """
        prompt = self._turns.prompt
        assert prompt is not None
        if response.error is None and self._settings.wire is not WIRE_1:
            self._inserted(response)
            return
        self._turns.answered()
        self._forget_prompt()
        if response.error is not None:
            error = error_of(response.error)
            if self._handshake is not None:
                self._handshake.add_methods(error, said=True)
            cancelled = error.code == "request_cancelled"
            self._channel.out.append(
                TurnFinished(
                    turn=prompt.turn,
                    outcome="cancelled" if cancelled else "failed",
                    error=error,
                    folded=tuple(prompt.steered),
                )
            )
            self._report_own()
            return
        raw = response.result if isinstance(response.result, dict) else {}
        result = self._channel.read(raw, PromptResponse, "the answer to a prompt")
        reason = result.stop_reason
        if reason not in OUTCOMES:
            self._report_reason(reason, response.result)
        self._end_turn(prompt, result)

    # --- the turn in version 2

    def _inserted(self, response: JsonRpcResponse) -> None:
        """Take the report that the prompt is part of the conversation."""
        raw = response.result if isinstance(response.result, dict) else {}
        message = raw.get("messageId")
        if not isinstance(message, str):
            self._channel.notice(
                "warning",
                "wrong_fields",
                "the answer to a prompt names no message",
                {"message": response.result},
            )
            message = ""
        end = self._turns.inserted(message)
        if end is not None:
            self._finish_prompt(end)

    def _stated(self, update: StateUpdate) -> None:
        """Take the state of the session."""
        idle = update.state == "idle"
        match self._turns.stated(idle=idle):
            case AcpTurnStep.PROMPT_ENDS:
                self._finish_prompt(update)
            case AcpTurnStep.OWN_BEGINS:
                self._report_own()
            case AcpTurnStep.OWN_ENDS:
                self._finish_own(update)
            case AcpTurnStep.REMEMBER:
                self._turns.remember(update)
                self._finish_own(update)

    def _report_own(self) -> None:
        """Report the beginning of the agent's own work, if it works and that was not reported."""
        if self._turns.state is AcpTurnState.OWN and not self._turns.own_reported:
            self._turns.own_reported = True
            self._stream.begin_turn()
            self._channel.out.append(TurnBegan())

    def _finish_own(self, idle: StateUpdate) -> None:
        """Report the end of the agent's own work, if its beginning was reported."""
        if self._turns.own_reported:
            self._turns.own_reported = False
            if self._turns.prompt is None:
                self._stream.end_turn()
                self._turns.ended()
            self._channel.out.append(self._finished(None, idle))

    def _finish_prompt(self, idle: StateUpdate) -> None:
        """End the turn of a prompt in version 2, by the state that the agent has reported.

        If the end was remembered from before the prompt's own response, text of other messages
        belongs to work that the agent did by itself; it is retracted from the answer.
        """
        prompt = self._turns.prompt
        assert prompt is not None
        self._forget_prompt()
        if prompt.end is not None and prompt.end is not idle and prompt.foreign:
            # The agent had worked by itself: that text is not part of the answer.
            self._channel.out.append(Retracted(frozenset(prompt.foreign)))
        self._channel.out.append(self._finished(prompt, idle))

    def _finished(self, prompt: AcpPrompt | None, idle: StateUpdate) -> TurnFinished:
        """Return the end of a turn, as the agent reports it in a state."""
        reason, error = idle.stop_reason, None
        if reason == "error":
            error = self._error_of(idle)
        elif reason not in OUTCOMES:
            self._report_reason(reason, to_builtins(idle))
        outcome = "failed" if error is not None else OUTCOMES.get(reason or "", "completed")
        usage = turn_usage(idle.usage) if idle.usage is not None else quota(idle.meta)
        return TurnFinished(
            turn=prompt.turn if prompt is not None else None,
            outcome=outcome,
            stop_reason=reason if error is None else None,
            usage=usage,
            error=error,
            folded=tuple(prompt.steered) if prompt is not None else (),
        )

    def _error_of(self, idle: StateUpdate) -> ErrorInfo:
        """Return the error of a turn that ended with one, even if the report is incomplete."""
        raw = idle.error or {}
        code, message = raw.get("code"), raw.get("message")
        if not isinstance(message, str) or type(code) is not int:
            code, message = INTERNAL_ERROR, "the agent ended its turn with an error"
        error = error_of(JsonRpcError(code, message, raw.get("data")))
        if self._handshake is not None:
            self._handshake.add_methods(error, said=True)
        return error

    def _report_reason(self, reason: str | None, raw: Any) -> None:
        """Report a stop reason that ACP does not define. The turn counts as completed."""
        self._channel.notice(
            "info",
            "stop_reason",
            f"the agent ended its turn with the unknown reason {reason!r}"
            if reason is not None
            else "the agent ended its turn without a reason",
            raw,
        )

    # --- the turn in both versions

    def _end_turn(self, prompt: AcpPrompt, result: PromptResponse) -> None:
        """Report the end of a turn in version 1, with the prompts that it has taken in."""
        reason = result.stop_reason
        self._channel.out.append(
            TurnFinished(
                turn=prompt.turn,
                outcome=OUTCOMES.get(reason or "", "completed"),
                stop_reason=reason,
                usage=self._usage_of(result),
                folded=tuple(prompt.steered),
            )
        )

    def _steer_answered(self, steered: str, prompt: AcpPrompt, response: JsonRpcResponse) -> None:
        """Take the response to a steering request. The turn may be over already."""
        raw = response.result if isinstance(response.result, dict) else {}
        if response.error is None and raw.get("outcome") == "injected":
            if self._turns.prompt is prompt:
                prompt.steered.append(steered)
            return
        why = "no turn was running"
        if response.error is not None:
            why = error_of(response.error).message
        self._channel.notice("warning", "not_steered", f"the agent did not accept it: {why}")
        self._channel.out.append(TurnFinished(turn=steered, outcome="cancelled"))

    def _forget_prompt(self) -> None:
        """Note that no prompt is in flight."""
        self._turns.ended()
        self._stream.end_turn()

    def _usage_of(self, result: PromptResponse) -> Usage | None:
        """Return the usage of a turn: from the draft of ACP, else as Gemini or Qwen report it."""
        if result.usage is not None:
            return turn_usage(result.usage)
        return quota(result.meta) or self._stream.spent

    # --- helpers

    def _negotiated(self, wire: AcpWire) -> AcpStream:
        """Take the version of the protocol, and return the stream of updates for it."""
        self._settings.negotiated(wire)
        self._requests.serve_methods(wire.client_methods)
        if wire is not WIRE_1:
            from .stream2 import AcpStream2  # few sessions speak version 2

            self._stream = AcpStream2(self._channel, self._settings, self._turns, self._stated)
        return self._stream

    def _started(self) -> None:
        """Note that the session is open, and show the updates that came too early."""
        self._ready = True
        self._stream.open()

    def _session(self) -> str:
        """Return the agent's session id. Raises `LocalProtocolError` before the session is open."""
        if not self._ready or self._stream.session is None:
            raise LocalProtocolError("there is no session yet")
        return self._stream.session

    def _check_content(self, content: Sequence[Block]) -> None:
        """Raise `LocalProtocolError` for blocks that the agent has not advertised to accept."""
        assert self._handshake is not None
        can = self._handshake.agent.prompt_capabilities or PromptCapabilities()
        for block in content:
            if type(block) is not Text and (
                (isinstance(block, Image) and not can.image)
                or (isinstance(block, Audio) and not can.audio)
                or (isinstance(block, Resource) and not can.embedded_context)
            ):
                kind = type(block).__name__.lower()
                raise LocalProtocolError(
                    f"the agent does not accept {kind} in a prompt;"
                    " every agent accepts text and a ResourceLink"
                )

    def _stop_task(self, call: str, task: Any) -> list[Effect]:
        """Stop a task: a child session by `session/cancel`, other work by the method it offers."""
        stream = self._stream
        if stream.can_stop(task):
            self._channel.notify("session/cancel", SessionRequest(task))
            self._channel.out.append(CallReturned(call))
        elif (cancel := stream.cancel_work(task)) is not None:
            self._cancel_work(call, cancel)
        else:
            error = ErrorInfo("unsupported", f"the agent has no task {task!r} that can be stopped")
            self._channel.out.append(CallReturned(call, error=error))
        return self._channel.take()

    def _cancel_work(self, call: str, cancel: WorkCancel) -> None:
        """Cancel a terminal or a tool call. Until the agent has refused it, not a second time."""

        def answered(response: JsonRpcResponse) -> None:
            """Pass the result on. A refused cancel may be tried again."""
            del self._calls[call]
            error = error_of(response.error) if response.error is not None else None
            if error is not None:
                cancel.refused()
            self._channel.out.append(CallReturned(call, error=error))

        self._calls[call] = self._channel.request(cancel.method, cancel.request, answered)
