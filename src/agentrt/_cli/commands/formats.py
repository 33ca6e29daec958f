"""The output formats of one-shot mode: streamed text, one object at the end, or every event."""

from __future__ import annotations

from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from ..._public import TurnResult
from ...config import ConfigError
from ...errors import AgentNotFound, AgentrtError, AgentStartError, SessionNotFound
from ...events import ErrorInfo, Event, Item, ItemDelta, ItemOpened, Outcome, TurnEnded, plain_text
from ..exit_status import TimedOut, UsageError
from ..output import Output
from ..servers import ServerNotFound
from ..session_view import SessionView
from ..text import escaped

FormatName: TypeAlias = Literal["text", "json", "stream-json"]

_encode: Final = msgspec.json.Encoder().encode


class OutputFormat(Protocol):
    """An output format for the events of one prompt."""

    def take(self, event: Event, seq: int) -> None:
        """Handle the next event of the session."""
        ...

    def end(self, result: TurnResult) -> None:
        """Write the end; all events have arrived."""
        ...


class AnswerText:
    """The answer as one text: its items, separated by an empty line."""

    def __init__(self) -> None:
        self._items: set[str] = set()
        self._last = ""
        self._tail = ""

    def take(self, event: Event) -> str:
        """Return the text that the event adds."""
        if isinstance(event, ItemDelta):
            return self._piece(event.item, event.text) if event.item in self._items else ""
        if isinstance(event, ItemOpened):
            item = event.item
            if _is_answer(item):
                self._items.add(item.id)
                return self._piece(item.id, plain_text(item.content))
        return ""

    def _piece(self, item: str, text: str) -> str:
        """Return a piece of an item's text, after an empty line if another item precedes it.

        Only the last two characters of the text are remembered: they decide on the newlines to add.
        """
        if not text:
            return ""
        gap = ""
        if item != self._last and self._tail:
            gap = "\n" * (2 - (len(self._tail) - len(self._tail.rstrip("\n"))))
        self._last = item
        self._tail = (self._tail + gap + text)[-2:]
        return gap + text


class TextFormat:
    """The answer as it streams, with a newline at its end."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._answer = AnswerText()

    def take(self, event: Event, seq: int) -> None:
        self._out.say(self._answer.take(event))

    def end(self, result: TurnResult) -> None:
        """Finish the last line, so that the shell's prompt begins in a new one."""
        if not self._out.at_line_start:
            self._out.write("\n")


class JsonFormat:
    """One object at the end: the fields of `TurnResult`.

    Its `text` is the output of the text format. `id`: the session's id, if it is not the agent's
    own one.
    """

    def __init__(self, out: Output, session: SessionView, id: str | None = None) -> None:
        self._out = out
        self._session = session
        self._id = id
        self._answer = AnswerText()
        self._parts: list[str] = []

    def take(self, event: Event, seq: int) -> None:
        """Collect the answer's text."""
        self._parts.append(self._answer.take(event))

    def end(self, result: TurnResult) -> None:
        """Write the result, with the complete answer as its `text`."""
        agent = self._session.agent
        fields = {
            "agent": agent.name,
            "version": agent.version,
            "session": self._id or self._session.agent_session,
            **msgspec.structs.asdict(result),
            "text": "".join(self._parts),
        }
        self._out.data(shown(self._out, _encode(fields) + b"\n"))


class StreamFormat:
    """One event per line, each with its number."""

    def __init__(self, out: Output) -> None:
        self._out = out

    def take(self, event: Event, seq: int) -> None:
        """Write an event with its number as one line."""
        self._out.data(shown(self._out, b'{"seq":%d,%b\n' % (seq, _encode(event)[1:])))

    def end(self, result: TurnResult) -> None:
        """Do nothing: the end of the turn was an event."""


class ValueFormat:
    """The value that a JSON schema requested, and nothing else."""

    def __init__(self, out: Output) -> None:
        self._out = out

    def take(self, event: Event, seq: int) -> None:
        """Do nothing: the value is part of the result."""

    def end(self, result: TurnResult) -> None:
        """Write the value. Without one, the exit status and standard error explain why."""
        if result.structured_output is not None:
            self._out.data(shown(self._out, _encode(result.structured_output) + b"\n"))


def failure(
    format: FormatName,
    error: ErrorInfo,
    *,
    agent: str | None,
    outcome: Outcome = "failed",
    seq: int = 1,
) -> bytes:
    """Return the last line of a format if there was no turn.

    It has the content of a turn's end, without an id. Empty for `text`.
    """
    if format == "text":
        return b""
    if format == "stream-json":
        end = TurnEnded(turn="", outcome=outcome, error=error)
        return b'{"seq":%d,%b\n' % (seq, _encode(end)[1:])
    result = TurnResult(turn="", outcome=outcome, error=error)
    fields = msgspec.structs.asdict(result)
    return _encode({"agent": agent, "version": None, "session": None, **fields}) + b"\n"


def error_of(error: AgentrtError) -> ErrorInfo:
    """Return an error as an object: its class, its message, and the agent's standard error."""
    code = _CODES.get(type(error), "failed")
    message, _, _ = str(error).partition("\n---")
    stderr = getattr(error, "stderr", "")
    return ErrorInfo(code, message, {"stderr": stderr} if stderr else None)


_CODES: Final[dict[type[AgentrtError], str]] = {
    AgentNotFound: "agent_not_found",
    AgentStartError: "agent_not_started",
    SessionNotFound: "session_not_found",
    TimedOut: "timed_out",
    UsageError: "usage",
    ConfigError: "usage",
    ServerNotFound: "server_not_found",
}


class LastMessage:
    """The agent's last message, or the requested value; for a file."""

    def __init__(self) -> None:
        self._item = ""
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        """The text of the last message so far."""
        return "".join(self._parts)

    def take(self, event: Event, seq: int) -> None:
        """Begin again with each item of the answer, and add its pieces."""
        if isinstance(event, ItemDelta):
            if event.item == self._item:
                self._parts.append(event.text)
        elif isinstance(event, ItemOpened) and _is_answer(event.item):
            self._item = event.item.id
            self._parts = [plain_text(event.item.content)]

    def end(self, result: TurnResult) -> None:
        """Replace the text by the value, if a JSON schema requested one."""
        if result.structured_output is not None:
            self._parts = [_encode(result.structured_output).decode()]


class NoFormat:
    """Writes nothing, because the transcript shows the answer together with everything else."""

    def take(self, event: Event, seq: int) -> None:
        pass

    def end(self, result: TurnResult) -> None:
        pass


def _is_answer(item: Item) -> bool:
    """Return True for a text of the agent; sub-agents address the agent, and replayed texts are
    old.
    """
    return item.type == "text" and item.parent is None and not item.replay


def shown(out: Output, lines: bytes) -> bytes:
    """Return lines of JSON; on a terminal, characters that could control it are escaped."""
    return escaped(lines.decode()).encode() if out.is_terminal else lines
