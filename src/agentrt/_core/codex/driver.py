"""The driver of `codex app-server`: messages in, effects out, and commands in the other direction.

No I/O, no clock.

The parts are in other modules: opening a thread (`opening.py`), the running turn (`turn.py`),
codex's output and tool calls (`speech.py`), its sub-agents (`agents.py`), its requests
(`requests.py`), slash commands (`commands.py`), and settings (`settings.py`).

`messages.py` is generated from codex's own schema. A conversation is a thread, and a thread has
turns; nearly every notification names both. A notification of our thread belongs to the turn that
it names, even if no prompt began it: such a turn is the agent's own. One of another thread belongs
to a sub-agent, or is kept until a tool call names the thread (`CodexAgents.hold`).

A prompt is `turn/start`, whose response only names the turn; `turn/completed` ends it. The two can
arrive in either order. Slash commands become other requests, or are answered here (`_started_by`).

Notifications are decoded in three ways, from fast to tolerant: pieces of text in a batch
(`_receive_frames`), known notifications strictly by their type (`_receive_frame`), and anything
else leniently, field by field (`_notified`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, ValidationError

from ..errors import LocalProtocolError, RemoteProtocolError
from ..limits import Limits
from ..model.content import Audio, Block, JsonObject, Text
from ..model.driver import (
    CallReturned,
    DecisionAnswer,
    Effect,
    ModesSet,
    NewKey,
    Opening,
    PlanSet,
    TextEnded,
    TextReceived,
    TitleSet,
    TurnBegan,
    TurnFinished,
    UnsupportedSetting,
    UsageSet,
)
from ..model.events import ErrorInfo, PlanEntry, Usage
from ..wire.channel import Channel
from ..wire.json import DECODE_ERRORS, lenient
from ..wire.jsonrpc import (
    JsonRpcError,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    parse,
)
from ..wire.lines import Lines, LongLine
from . import messages as wire
from .agents import CodexAgents
from .commands import INIT, command_of, status_text
from .ignored import IGNORED
from .messages import CodexClientInfo
from .opening import CodexHandshake, NoParams
from .outcome import CodexNotices, CodexTurnUsage, error_of, finished, session_usage
from .requests import CodexRequests
from .settings import CodexSettings
from .speech import CodexTranslator, user_input
from .turn import CodexTurn, CodexTurnInput, CodexTurns

if TYPE_CHECKING:
    from ..wire.mcp import ToolInfo

PLAN: Final = {"inProgress": "in_progress"}
"""Codex's names for the state of a step, where they differ from the neutral ones."""

OWN: Final = {
    "initialize": "start",
    "thread/start": "start",
    "thread/resume": "start",
    "thread/fork": "start",
    "turn/start": "prompt",
    "turn/steer": "steer",
    "turn/interrupt": "cancel",
    "thread/settings/update": "set_mode, set_model or set_option",
}
"""Methods that change state which the driver tracks; each has its own command, named here."""


class CodexFrame(Struct):
    """A message before its contents are decoded."""

    method: str | UnsetType = UNSET
    id: Any = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_frames: msgspec.json.Decoder[CodexFrame] = msgspec.json.Decoder(CodexFrame)


class CodexDriver:
    """The state machine of one `codex app-server` with one thread. Implements `Driver`, `Steers`.

    `tools` are the program's tools, which codex calls over this same channel. A thread keeps the
    tools that it was started with.
    """

    def __init__(
        self,
        new_key: NewKey,
        *,
        client: CodexClientInfo,
        tools: Sequence[ToolInfo] = (),
        extensions: Collection[str] = (),
        config: JsonObject | None = None,
        line_limit: int = Limits().message_bytes,
    ) -> None:
        """Create a driver; call `start` to open its thread.

        `config`: settings of each thread, as in codex's configuration file. Values from the
        session's opening win.

        Raises `LocalProtocolError` if `extensions` contains a method that the driver itself serves.
        """
        self._client = client
        self._tools = tools
        self._config = config or {}
        self._lines = Lines(line_limit, long_apart=True)
        self._channel = Channel()
        self._turns = CodexTurns()
        self._settings = CodexSettings()
        self._speech = CodexTranslator(self._channel)
        self._notices = CodexNotices(self._channel)
        self._agents = CodexAgents(self._channel)
        me: CodexDriver = weakref.proxy(self)  # its parts must not keep it
        self._requests = CodexRequests(
            self._channel, new_key, lambda thread: me._speech_in(thread), extensions
        )
        self._spent = CodexTurnUsage()
        self._spent_so_far: Usage | None = None
        self._opening = Opening(cwd="")
        self._thread: str | None = None
        self._handshake: CodexHandshake | None = None
        self._calls: dict[str, int] = {}
        self._take = _table()
        for method in self._take.keys() & extensions:
            raise LocalProtocolError(f"{method} is served by agentrt itself")

    # --- commands

    def start(self, opening: Opening) -> list[Effect]:
        """Begin with `initialize`; `CodexHandshake` does everything else.

        Raises for a second start.
        """
        if self._handshake is not None:
            raise LocalProtocolError("already started")
        self._opening = opening
        me: CodexDriver = weakref.proxy(self)  # the handshake must not keep it
        self._handshake = CodexHandshake(
            self._channel,
            opening,
            self._settings,
            self._speech,
            client=self._client,
            tools=self._tools,
            config=self._config,
            started=lambda thread: me._started(thread),
        )
        self._handshake.begin()
        return self._channel.take()

    def prompt(
        self, turn: str, content: Sequence[Block], meta: JsonObject | None = None
    ) -> list[Effect]:
        """Send `turn/start`, or the request of a slash command; `/status` is answered here.

        Raises `LocalProtocolError` for content that codex does not take, such as audio. `meta` is
        not sent.
        """
        thread = self._ready()
        if self._turns.prompt is not None:
            raise LocalProtocolError("another prompt has not been answered yet")
        method, request = self._started_by(thread, content)
        if request is None:
            text = status_text(self._settings.view(), self._spent_so_far)
            return [TextReceived(text), TextEnded(), TurnFinished(turn=turn, outcome="completed")]
        sent = self._turns.sent(turn)
        self._spent.begin()
        if self._turns.own is None:
            self._speech.turn_ended()

        def answered(response: JsonRpcResponse) -> None:
            """Take the response, if the prompt is still the current one."""
            self._turn_taken(sent, method, response)

        self._channel.request(method, request, answered, urgent=False)
        return self._channel.take()

    def _started_by(self, thread: str, content: Sequence[Block]) -> tuple[str, Struct | None]:
        """Return the request that a prompt is sent with. None: agentrt itself answers it."""
        match command_of(content):
            case ("compact", _):
                return "thread/compact/start", wire.ThreadCompactStartParams(thread_id=thread)
            case ("review", about):
                target: wire.ReviewTarget = wire.UncommittedChangesReviewTarget()
                if about:
                    target = wire.CustomReviewTarget(instructions=about)
                params = wire.ReviewStartParams(thread_id=thread, target=target, delivery="inline")
                return "review/start", params
            case ("status", _):
                return "", None
            case ("init", about):
                content = [Text(f"{INIT}\n\n{about}".strip())]
        return "turn/start", wire.TurnStartParams(
            thread_id=thread,
            input=_input(content),
            output_schema=self._opening.options.get("json_schema"),
        )

    def steer(self, turn: str, content: Sequence[Block]) -> list[Effect]:
        """Send `turn/steer` for the turn that runs.

        Raises `LocalProtocolError` before it has an id.
        """
        self._ready()
        current = self._turns.current
        if current is None or current.id is None or not current.runs:
            raise LocalProtocolError("no turn is running that could take the prompt")
        self._steer(current, current.id, turn, _input(content))
        return self._channel.take()

    def discard_prompt(self, turn: str) -> None:
        """Forget a prompt that was never written."""
        prompt = self._turns.prompt
        if prompt is not None and prompt.prompt == turn:
            self._turns.forget(prompt)

    def cancel(self) -> list[Effect]:
        """Send `turn/interrupt`, or note the cancel until the turn has an id."""
        turn = self._turns.current
        if turn is not None and turn.apply(CodexTurnInput.CANCEL):
            self._interrupt(turn)
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
        """Send a request for settings, sessions or tasks, or one of codex's own methods.

        Methods that change state tracked here are refused (`OWN`), so that it stays correct.
        """
        thread = self._ready()
        if method in OWN:
            raise LocalProtocolError(f"{method} cannot be called directly: use {OWN[method]}")
        try:
            sent, request, made = self._resolve(thread, method, params)
        except UnsupportedSetting as error:
            self._channel.out.append(CallReturned(call, error=ErrorInfo("unsupported", str(error))))
            return self._channel.take()

        def answered(response: JsonRpcResponse) -> None:
            """Pass the response on, and show the settings that it confirms."""
            del self._calls[call]
            if response.error is not None:
                self._channel.out.append(CallReturned(call, error=error_of(response.error)))
                return
            if isinstance(request, wire.ThreadSettingsUpdateParams):
                self._settings.taken(request)
                self._channel.out.append(ModesSet(self._settings.view()))
            value = response.result if made is None else made(response.result)
            self._channel.out.append(CallReturned(call, value))

        self._calls[call] = self._channel.request(sent, request, answered)
        if isinstance(request, wire.TurnInterruptParams):
            self._end_commands(request.thread_id)
        return self._channel.take()

    def _resolve(
        self, thread: str, method: str, params: JsonObject
    ) -> tuple[str, Struct | JsonObject, Callable[[Any], Any] | None]:
        """Return the request for a command, and a function that converts its result, or None."""
        change = "thread/settings/update"
        roots = [self._opening.cwd, *self._opening.roots]
        match method:
            case "set_mode":
                mode = _text(params, "mode")
                return change, self._settings.change_mode(thread, mode, roots), None
            case "set_model":
                model = _text(params, "model")
                return change, self._settings.change_model(thread, model), None
            case "set_option":
                value = params.get("value")
                if not isinstance(value, str | bool):
                    raise LocalProtocolError(
                        f"an option's value must be text or a bool, not {value!r}"
                    )
                option = _text(params, "option")
                return change, self._settings.change_option(thread, option, value), None
            case "list_sessions":
                asked = wire.ThreadListParams(cursor=params.get("cursor"), cwd=params.get("cwd"))
                return "thread/list", asked, _listed
            case "delete_session":
                gone = wire.ThreadDeleteParams(thread_id=_text(params, "session"))
                return "thread/delete", gone, None
            case "logout":
                return "account/logout", NoParams(), None
            case "stop_task":
                agent = str(params.get("task"))
                running = self._agents.running_turn(agent)
                if running is None:
                    raise UnsupportedSetting(f"codex has no running task {agent!r} to stop")
                stop = wire.TurnInterruptParams(thread_id=agent, turn_id=running)
                return "turn/interrupt", stop, None
            case _:
                return method, params, None

    def cancel_call(self, call: str) -> list[Effect]:
        """Forget a request. Codex has no message that cancels one."""
        id = self._calls.pop(call, None)
        if id is not None:
            self._channel.forget(id)
        return self._channel.take()

    def shutdown_message(self) -> list[Effect]:
        """Send nothing: app-server ends with its stdin."""
        return []  # the end of its input is the shutdown message

    @property
    def idle(self) -> bool:
        """True if no turn runs, neither of a prompt nor of codex's own."""
        return self._turns.current is None

    # --- bytes

    def receive(self, data: bytes) -> list[Effect]:
        """Process output of codex, whose last line may be incomplete."""
        lines = self._lines.feed(data)
        if self._lines.oversized:  # longer than a read: it ended before the lines of this read
            self._channel.oversized(self._lines)
        if self._lines.long:
            self._receive_long()
        if lines:
            self._receive_lines(lines)
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
        """Decode the lines of a read in one go, or one by one if any of them is not a message."""
        try:
            frames = _frames.decode_lines(lines)
        except DECODE_ERRORS:
            for line in bytes(lines).split(b"\n"):
                if line and not line.isspace():
                    self._receive_message(line)
            return
        self._receive_frames(frames)

    def _receive_frames(self, frames: list[CodexFrame]) -> None:
        """Take frames and merge adjacent pieces of one message into one effect. This is the hot
        path.
        """
        item = ""
        thought = False
        speech: CodexTranslator | None = None
        pieces: list[str] = []
        for frame in frames:
            method = frame.method
            if (
                frame.id is UNSET
                and method in _PIECES
                and isinstance(frame.params, Raw)
                and isinstance(method, str)
            ):
                try:
                    piece = _piece.decode(frame.params)
                except DECODE_ERRORS:
                    pass  # decoded leniently below
                else:
                    speaker = self._speech_of(piece.thread_id, piece.turn_id)
                    if speaker is not None:
                        thinks = _PIECES[method]
                        if piece.item_id != item or thinks is not thought or speaker is not speech:
                            _speak(speech, item, thought, pieces)
                            speech, item, thought = speaker, piece.item_id, thinks
                        pieces.append(piece.delta)
                        continue
                    if piece.thread_id == self._thread:
                        continue  # of a turn that is over
            _speak(speech, item, thought, pieces)
            self._receive_frame(frame)
        _speak(speech, item, thought, pieces)

    def _receive_frame(self, frame: CodexFrame) -> None:
        """Take a message. A well-formed, known notification is decoded directly into its type."""
        method, params = frame.method, frame.params
        if frame.id is UNSET and isinstance(method, str) and isinstance(params, Raw):
            known = self._take.get(method)
            if known is not None:
                try:
                    message = known[1].decode(params)
                except DECODE_ERRORS:
                    pass  # decoded leniently below
                else:
                    self._take_notification(method, known[2], message)
                    return
        self._receive_message(msgspec.json.encode(frame))

    def _receive_message(self, line: bytes | LongLine) -> None:
        """Take any message except a well-formed notification."""
        try:
            self._dispatch(parse(self._channel.decoded(line)))
        except (RemoteProtocolError, *DECODE_ERRORS) as error:
            head = line if isinstance(line, bytes) else line.head
            self._channel.malformed(str(error), head)

    def _dispatch(self, message: JsonRpcRequest | JsonRpcNotification | JsonRpcResponse) -> None:
        """Handle a message by its kind.

        `stopping` makes questions that arrive during a cancel be answered without a person.
        """
        match message:
            case JsonRpcResponse():
                self._channel.resolve(message)
            case JsonRpcNotification():
                self._notified(message)
            case JsonRpcRequest():
                turn = self._turns.prompt
                stopping = turn is not None and turn.cancelled
                self._requests.received(message, self._thread, stopping=stopping)

    def _notified(self, message: JsonRpcNotification) -> None:
        """Handle a notification whose fields are not all as expected, or whose method is unknown.

        Fields that are invalid and not required are left out, with a notice. Unknown methods are
        reported, except for those that are known to be of no use here (`IGNORED`).
        """
        known = self._take.get(message.method)
        if known is None:
            if not self._requests.notified(message) and message.method not in IGNORED:
                text = f"the agent sent a {message.method}, which this version does not know"
                self._channel.notice(
                    "info", "unknown_update", text, message.params, about=message.method
                )
            return
        params = message.params if isinstance(message.params, dict) else {}
        if message.method in ("item/started", "item/completed") and self._unknown_item(
            params, over=message.method == "item/completed"
        ):
            return
        dropped: list[str] = []
        try:
            taken = lenient(params, known[0], dropped)
        except ValidationError as error:
            why = f"the agent sent a {message.method} without a usable {error}"
            self._channel.notice("warning", "unusable_update", why, message.params)
            return
        if dropped:
            self._channel.notice_dropped(dropped, params, f"a {message.method}")
        self._take_notification(message.method, known[2], taken)

    def _take_notification(self, method: str, take: Callable[..., None], message: Any) -> None:
        """Handle a notification, or hold it if a thread sent it that is not known yet."""
        if method in _OF_THREADS and self._thread not in (None, message.thread_id):
            if self._agents.hold(message.thread_id, partial(take, self, message)):
                return
        take(self, message)

    def _unknown_item(self, params: JsonObject, *, over: bool) -> bool:
        """Show an item of a kind that this version does not know; True if it was one.

        Items are a tagged union in the schema, so one with an unknown tag cannot be decoded at all.
        """
        match params:
            case {
                "threadId": str(thread),
                "turnId": str(turn),
                "item": {"id": str(id), "type": str(kind)},
            } if kind not in _ITEMS:
                speech = self._speech_of(thread, turn)
                if speech is not None:
                    speech.unknown(id, kind, over=over)
                return True
            case _:
                return False

    # --- turns

    def _started(self, thread: str) -> None:
        """Note the id of the thread that the handshake has opened."""
        self._thread = thread

    def _ready(self) -> str:
        """Return the id of the thread. Raises `LocalProtocolError` before it is open."""
        if self._thread is None:
            raise LocalProtocolError("there is no session yet")
        return self._thread

    def _turn_taken(self, sent: CodexTurn, method: str, response: JsonRpcResponse) -> None:
        """Take the response to `turn/start`, or to the `method` of a slash command."""
        if self._turns.prompt is not sent:
            return  # it is over already, or was never written
        if response.error is not None:
            self._turns.forget(sent)
            self._channel.out.append(
                TurnFinished(turn=sent.prompt, outcome="failed", error=error_of(response.error))
            )
            return
        match response.result:
            case {"turn": {"id": str(id)}}:
                if self._turns.named(id):
                    self._interrupt(sent)
                if self._turns.is_over(id):
                    self._turns.forget(sent)
                    self._channel.out.append(TurnFinished(turn=sent.prompt, outcome="completed"))
            case {} if method == "thread/compact/start":
                pass  # the turn is named when it begins
            case _:
                self._turns.forget(sent)
                why = ErrorInfo("protocol", "codex accepted the prompt without naming its turn")
                self._channel.out.append(
                    TurnFinished(turn=sent.prompt, outcome="failed", error=why)
                )

    def _turn_started(self, message: wire.TurnStartedNotification) -> None:
        """Note that a turn runs: ours, or one of a sub-agent."""
        turn = message.turn
        if message.thread_id != self._thread:
            self._agents.turn_started(message.thread_id, turn.id)
        elif turn.root_turn_id is not None and self._turns.live(turn.root_turn_id):
            self._begin(turn.root_turn_id)  # a review works in a turn below that of its prompt
        else:
            self._begin(turn.id)

    def _begin(self, id: str) -> bool:
        """Note that a turn runs. Returns False if the turn is already over."""
        began = self._turns.began(id)
        if began is None:
            return False
        turn, interrupt = began
        if turn.prompt is None and self._turns.prompt is None and not self._turns.reported_own:
            self._turns.reported_own = True
            self._speech.turn_ended()
            self._spent.begin()
            self._channel.out.append(TurnBegan())
        if interrupt:
            self._interrupt(turn)
        return True

    def _turn_completed(self, message: wire.TurnCompletedNotification) -> None:
        """Report the end of a turn, with its usage.

        An interrupted turn leaves its commands running, so they are ended again here: one may have
        begun after the interrupt was sent. The end of a turn that codex began by itself while the
        prompt's turn was shown is not reported.
        """
        interrupted = message.turn.status == "interrupted"
        if message.thread_id != self._thread:
            if interrupted:
                self._end_commands(message.thread_id)  # see below
            self._agents.turn_completed(message.thread_id, message.turn)
            return
        reported = self._turns.reported_own
        turn = self._turns.ended(message.turn.id)
        if turn is None:
            data = {"turn": message.turn.id}
            self._channel.notice("info", "stale", "the end of a turn that is not running", data)
            return
        if interrupted:
            self._end_commands(message.thread_id)  # one may have begun after the first interrupt
        if turn.prompt is None and not reported:
            return  # it was shown within a prompt's turn
        out = self._channel.out
        out.append(finished(turn, message.turn, self._spent.turn()))
        if self._turns.current is None:
            self._speech.turn_ended()

    def _interrupt(self, turn: CodexTurn) -> None:
        """Send `turn/interrupt`, and end the commands of the turn.

        Without codex's id of the turn, nothing is sent yet; see `turn.py`.
        """
        if turn.id is None:
            return
        request = wire.TurnInterruptParams(thread_id=self._ready(), turn_id=turn.id)
        self._channel.request("turn/interrupt", request, _ignore, urgent=False)
        self._end_commands(request.thread_id)

    def _end_commands(self, thread: str) -> None:
        """End the commands of a thread whose turn is interrupted, which codex leaves running.

        Only commands that codex lists and that belong to this turn are ended.
        """
        commands = frozenset(self._speech_in(thread).commands)
        if not commands:
            return

        def listed(response: JsonRpcResponse) -> None:
            """End those of the listed commands that belong to the turn."""
            found = response.result if isinstance(response.result, dict) else {}
            dropped: list[str] = []
            try:
                answer = lenient(found, wire.ThreadBackgroundTerminalsListResponse, dropped)
            except ValidationError:
                return
            for each in answer.data:
                if each.item_id in commands:
                    end = wire.ThreadBackgroundTerminalsTerminateParams(
                        thread_id=thread, process_id=each.process_id
                    )
                    self._channel.request("thread/backgroundTerminals/terminate", end, _ignore)

        ask = wire.ThreadBackgroundTerminalsListParams(thread_id=thread)
        self._channel.request("thread/backgroundTerminals/list", ask, listed, urgent=False)

    def _steer(self, turn: CodexTurn, expected: str, id: str, input: list[wire.UserInput]) -> None:
        """Send `turn/steer` with the id of the turn that must be the running one.

        Codex refuses the prompt if another turn runs, so that it cannot begin or reach a later
        turn.
        """
        request = wire.TurnSteerParams(
            thread_id=self._ready(),
            expected_turn_id=expected,
            client_user_message_id=id,
            input=input,
        )

        def answered(response: JsonRpcResponse) -> None:
            """Add the prompt to the turn that took it, or report it as dropped."""
            if response.error is None and self._turns.live(expected):
                turn.steered.append(id)
            else:  # the turn was over, or takes none
                self._channel.out.append(TurnFinished(turn=id, outcome="cancelled"))

        self._channel.request("turn/steer", request, answered, urgent=False)

    def _is_ours(self, thread: str, turn: str) -> bool:
        """Return True if a message belongs to a running turn of this thread.

        A turn that was not announced begins with its first message. Messages of a turn that is over
        are ignored.
        """
        if thread != self._thread:
            return False
        return self._turns.live(turn) or self._begin(turn)

    def _speech_of(self, thread: str, turn: str) -> CodexTranslator | None:
        """Return the translator for a message of a running turn or of a sub-agent, else None."""
        if thread != self._thread:
            return self._agents.speech(thread)
        return self._speech if self._is_ours(thread, turn) else None

    def _speech_in(self, thread: str) -> CodexTranslator:
        """Return the translator of a thread; that of the session for an unknown one."""
        return self._agents.speech(thread) or self._speech

    # --- one method for each notification

    def _item_started(self, message: wire.ItemStartedNotification) -> None:
        """Show the beginning of an item, such as a command or a message."""
        speech = self._speech_of(message.thread_id, message.turn_id)
        if speech is not None:
            speech.started(message.item)

    def _item_completed(self, message: wire.ItemCompletedNotification) -> None:
        """Show the final form of an item, which may name or end a sub-agent's thread."""
        speech = self._speech_of(message.thread_id, message.turn_id)
        if speech is None:
            return
        speech.completed(message.item)
        match message.item:
            case wire.CollabAgentToolCallThreadItem() as item:
                self._agents.called(item)
            case wire.SubAgentActivityThreadItem() as item:
                self._agents.active(item)

    def _part_added(self, message: wire.ReasoningSummaryPartAddedNotification) -> None:
        """Begin a new part of a reasoning summary."""
        speech = self._speech_of(message.thread_id, message.turn_id)
        if speech is not None:
            speech.part_added(message.item_id, message.summary_index)

    def _piece(self, message: wire.AgentMessageDeltaNotification, *, thought: bool) -> None:
        """Show a piece of text that the fast way did not take."""
        speech = self._speech_of(message.thread_id, message.turn_id)
        if speech is not None:
            speech.pieces(message.item_id, message.delta, thought=thought)

    def _output(
        self,
        message: wire.CommandExecutionOutputDeltaNotification
        | wire.FileChangeOutputDeltaNotification,
    ) -> None:
        """Append output of a command or of a file change to its item."""
        speech = self._speech_of(message.thread_id, message.turn_id)
        if speech is not None:
            speech.output(message.item_id, message.delta)

    def _typed(self, message: wire.TerminalInteractionNotification) -> None:
        """Show input that codex has typed into a running command, as a part of its output."""
        speech = self._speech_of(message.thread_id, message.turn_id)
        if speech is not None and message.stdin:
            speech.output(message.item_id, f"\n(input: {message.stdin.rstrip()})\n")

    def _patched(self, message: wire.FileChangePatchUpdatedNotification) -> None:
        """Show the changed patch of a file change."""
        speech = self._speech_of(message.thread_id, message.turn_id)
        if speech is not None:
            speech.patched(message.item_id, message.changes)

    def _progress(self, message: wire.McpToolCallProgressNotification) -> None:
        """Append a progress message of an MCP tool to its call."""
        speech = self._speech_of(message.thread_id, message.turn_id)
        if speech is not None:
            speech.output(message.item_id, f"{message.message}\n")

    def _planned(self, message: wire.TurnPlanUpdatedNotification) -> None:
        """Show the plan, and its explanation as a notice. Plans of sub-agents are not shown."""
        if self._is_ours(message.thread_id, message.turn_id):
            if message.explanation:
                self._channel.notice("info", "plan_changed", message.explanation)
            entries = [PlanEntry(s.step, PLAN.get(s.status, s.status)) for s in message.plan]
            self._channel.out.append(PlanSet(entries))

    def _usage(self, message: wire.ThreadTokenUsageUpdatedNotification) -> None:
        """Show the tokens of the thread so far; those of a sub-agent belong to its task."""
        if message.thread_id != self._thread:
            self._agents.used(message.thread_id, message.token_usage)
            return
        self._spent.reported(message.token_usage)
        self._spent_so_far = session_usage(message.token_usage)
        self._channel.out.append(UsageSet(self._spent_so_far))

    def _settings_updated(self, message: wire.ThreadSettingsUpdatedNotification) -> None:
        """Take over settings that codex has changed, or has confirmed."""
        if message.thread_id == self._thread:
            new = message.thread_settings
            self._settings.reported(new.approval_policy, new.sandbox_policy, new.model, new.effort)
            self._channel.out.append(ModesSet(self._settings.view()))

    def _named(self, message: wire.ThreadNameUpdatedNotification) -> None:
        """Show the title that codex gave the thread."""
        if message.thread_id == self._thread:
            self._channel.out.append(TitleSet(message.thread_name))

    def _resolved(self, message: wire.ServerRequestResolvedNotification) -> None:
        """Close a request that codex does not wait for any more."""
        self._requests.resolved(message.request_id)


class _DeltaParams(Struct, rename="camel", gc=False):
    """The common fields of all pieces of text."""

    thread_id: str
    turn_id: str
    item_id: str
    delta: str


_piece: msgspec.json.Decoder[_DeltaParams] = msgspec.json.Decoder(_DeltaParams)

_PIECES: Final = {
    "item/agentMessage/delta": False,
    "item/plan/delta": False,
    "item/reasoning/summaryTextDelta": True,
    "item/reasoning/textDelta": True,
}
"""Pieces of text by method; True for thoughts."""

_ITEMS: Final = frozenset(
    str(kind.__struct_config__.tag) for kind in msgspec.json.Decoder(wire.ThreadItem).type.__args__
)
_OF_THREADS: Final = frozenset(
    {
        *_PIECES,
        "turn/started",
        "turn/completed",
        "item/started",
        "item/completed",
        "item/reasoning/summaryPartAdded",
        "item/commandExecution/outputDelta",
        "item/commandExecution/terminalInteraction",
        "item/fileChange/outputDelta",
        "item/fileChange/patchUpdated",
        "item/mcpToolCall/progress",
        "thread/tokenUsage/updated",
    }
)
"""Kinds of messages of an unknown thread that are kept until a call names the thread."""

_Taken = tuple[type[Any], msgspec.json.Decoder[Any], Callable[..., None]]


_DECODERS: Final[dict[type[Any], msgspec.json.Decoder[Any]]] = {}
"""The decoders that all sessions share, by type."""


def _decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type, made once: that takes far longer than decoding."""
    if kind not in _DECODERS:
        _DECODERS[kind] = msgspec.json.Decoder(kind)
    return _DECODERS[kind]


@cache
def _table() -> dict[str, _Taken]:
    """Return the handler of each notification, which all drivers share."""

    def say(driver: CodexDriver, message: Any) -> None:
        """Take a piece of the answer."""
        driver._piece(message, thought=False)

    def think(driver: CodexDriver, message: Any) -> None:
        """Take a piece of reasoning."""
        driver._piece(message, thought=True)

    found: dict[str, tuple[type[Any], Callable[..., None]]] = {
        "turn/started": (wire.TurnStartedNotification, CodexDriver._turn_started),
        "turn/completed": (wire.TurnCompletedNotification, CodexDriver._turn_completed),
        "turn/plan/updated": (wire.TurnPlanUpdatedNotification, CodexDriver._planned),
        "item/started": (wire.ItemStartedNotification, CodexDriver._item_started),
        "item/completed": (wire.ItemCompletedNotification, CodexDriver._item_completed),
        "item/agentMessage/delta": (wire.AgentMessageDeltaNotification, say),
        "item/plan/delta": (wire.PlanDeltaNotification, say),
        "item/reasoning/summaryTextDelta": (wire.ReasoningSummaryTextDeltaNotification, think),
        "item/reasoning/textDelta": (wire.ReasoningTextDeltaNotification, think),
        "item/reasoning/summaryPartAdded": (
            wire.ReasoningSummaryPartAddedNotification,
            CodexDriver._part_added,
        ),
        "item/commandExecution/outputDelta": (
            wire.CommandExecutionOutputDeltaNotification,
            CodexDriver._output,
        ),
        "item/fileChange/outputDelta": (
            wire.FileChangeOutputDeltaNotification,
            CodexDriver._output,
        ),
        "item/commandExecution/terminalInteraction": (
            wire.TerminalInteractionNotification,
            CodexDriver._typed,
        ),
        "item/fileChange/patchUpdated": (
            wire.FileChangePatchUpdatedNotification,
            CodexDriver._patched,
        ),
        "item/mcpToolCall/progress": (wire.McpToolCallProgressNotification, CodexDriver._progress),
        "thread/tokenUsage/updated": (
            wire.ThreadTokenUsageUpdatedNotification,
            CodexDriver._usage,
        ),
        "thread/settings/updated": (
            wire.ThreadSettingsUpdatedNotification,
            CodexDriver._settings_updated,
        ),
        "thread/name/updated": (wire.ThreadNameUpdatedNotification, CodexDriver._named),
        "serverRequest/resolved": (wire.ServerRequestResolvedNotification, CodexDriver._resolved),
        **{
            method: (kind, partial(_notice_taken, take))
            for method, (kind, take) in CodexNotices.HANDLERS.items()
        },
    }
    return {method: (kind, _decoder(kind), take) for method, (kind, take) in found.items()}


def _notice_taken(
    take: Callable[[CodexNotices, Any], None], driver: CodexDriver, message: Any
) -> None:
    """Have the converter of notices handle a message."""
    take(driver._notices, message)


def _speak(speech: CodexTranslator | None, item: str, thought: bool, pieces: list[str]) -> None:
    """Pass on collected pieces of one item as one effect, and empty the list."""
    if speech is not None and (text := "".join(pieces)):
        speech.pieces(item, text, thought=thought)
    pieces.clear()


def _input(content: Sequence[Block]) -> list[wire.UserInput]:
    """Convert the blocks of a prompt. Raises `LocalProtocolError` for those that codex refuses."""
    if any(isinstance(block, Audio) for block in content):
        raise LocalProtocolError("codex does not accept audio in a prompt")
    try:
        return user_input(list(content))
    except ValueError as error:
        raise LocalProtocolError(str(error)) from None


def _ignore(response: JsonRpcResponse) -> None:
    """Ignore the response: the turn reports its own end, and a refusal means that it was over."""


def _text(params: JsonObject, name: str) -> str:
    """Return a text parameter of a command. Raises `LocalProtocolError`."""
    value: Any = params.get(name)
    if not isinstance(value, str):
        raise LocalProtocolError(f"{name} must be given as text, not {value!r}")
    return value


def _listed(result: Any) -> JsonObject:
    """Convert a list of threads to the list of sessions that every protocol returns."""
    page = lenient(result if isinstance(result, dict) else {}, wire.ThreadListResponse, [])
    sessions = [
        {
            "sessionId": thread.id,
            "title": thread.name or thread.preview,
            "cwd": thread.cwd,
            "updatedAt": datetime.fromtimestamp(thread.updated_at, UTC).isoformat(),
        }
        for thread in page.data
    ]
    return {"sessions": sessions, "nextCursor": page.next_cursor}
