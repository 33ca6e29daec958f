"""The audit log: requests, decisions, and actions without a request, as lines of JSON in a file."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct, to_builtins

from ..errors import FilesError
from ..logging import get_logger
from ..model.content import JsonObject, Text
from ..model.events import (
    Event,
    Item,
    ItemClosed,
    ItemOpened,
    ItemUpdated,
    Notice,
    PermissionClosed,
    PermissionOpened,
    TurnEnded,
    TurnStarted,
)
from ..model.log import Log
from ..session.interfaces import ViewerAction
from .observation import Observation

if TYPE_CHECKING:
    from ..store.store import Store

AuditKind: TypeAlias = Literal["session", "prompt", "action", "decision", "call", "turn", "notice"]
"""The subject of a record."""

MAX_TEXT_CHARS: Final = 4096
"""Characters of a text in a record; the rest is left out."""

_INFO: Final = frozenset(
    {"sandboxed", "sandbox_widened", "sandbox_narrowed"}
    | {"files_changed", "files_restored", "budget_spent", "agent_restarted", "mode_does_not_ask"}
)
"""Notices at level `info` that are recorded; warnings and errors always are."""

_logger: Final = get_logger("audit")


class AuditRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of an audit log. Fields that do not apply to its `kind` are left out."""

    time: float
    """The time, in seconds since the Unix epoch."""
    session: str
    """The id of the session; empty for a change that concerns none."""
    agent: str
    """The name of the agent; empty for a change by a subcommand."""
    kind: AuditKind
    """`session` (opened or closed), `prompt` (sent to the agent), `action` (a change by a client,
    by the user at the terminal or by a subcommand), `decision` (about a request), `call` (a tool
    call that has ended), `turn` (ended) or `notice`.
    """
    turn: str | None = None
    """The turn that was running."""
    title: str = ""
    """The prompt, the request, the call or the message, in one text; the name of an action."""
    outcome: str = ""
    """`opened` or `closed`; `done`, `refused` or `interrupted`; `allowed`, `denied`, `withdrawn` or
    `expired`; the status of a call; the outcome of a turn; or the level of a notice.
    """
    asked: bool | None = None
    """Of a call: True if it was preceded by a request. False: it ran without one."""
    subject: str = ""
    """Of a decision: as in `PermissionOpened.subject`."""
    tool: str = ""
    """The tool of a request or a call."""
    input: Any = None
    """The arguments of an action, a request or a call."""
    request: str = ""
    """The id of the request."""
    requested: float | None = None
    """The time of the request."""
    option: str = ""
    """The chosen option: its kind and its label."""
    by: str = ""
    """The party that decided, as in `PermissionClosed.by`, or that cancelled the turn."""
    who: str = ""
    """Of an action, a decision or a cancelled turn, as in `PermissionClosed.who`: a tenant or the
    holder of a token."""
    via: str = ""
    """As in `PermissionClosed.via`: the interface of the action, the answer or the cancellation."""
    rule: str = ""
    """The rule or policy that decided."""
    reason: str = ""
    """The reason for a denial, or the error of an action."""
    code: str = ""
    """The code of a notice."""
    data: Any = None
    """The data of a notice, and the usage of a turn."""


class AuditLog:
    """Writes an audit log. Pass it as `telemetry` to `open_session` or `open_runtime`.

    Records are appended to a file, one line each, when their events happen; the file is never
    rewritten. Several sessions and processes may write to the same file. If it cannot be written,
    an error is logged, and the sessions continue.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, now: Callable[[], float] = time.time
    ) -> None:
        """Open the file. `now` returns the time of a record. Raises `FilesError`."""
        self.path: Path = Path(path)
        """The file."""
        self._now = now
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            os.close(os.open(self.path, flags, 0o600))
        except OSError as error:
            raise FilesError(f"{self.path}: {error.strerror}") from error

    def observe(self, agent: str, log: Log) -> Observation:
        """Return the observer of a new session."""
        return _SessionAudit(agent, log, self._write, self._now)

    def environment(self) -> Mapping[str, str]:
        """Return no variables."""
        return {}

    def keeps(self, store: Store) -> None:
        """Ignore the store."""

    def acted(self, agent: str, session: str, action: ViewerAction) -> None:
        """Write a record of a change to a session that is only stored."""
        record = AuditRecord(
            time=self._now(), session=session, agent=agent, kind="action", **_fields_of(action)
        )
        self._write([record])

    def _write(self, records: list[AuditRecord]) -> None:
        """Append records with one `write`, so that those of several processes do not mix.

        The file is opened each time, so a log rotation needs no signal. An error is only logged.
        """
        data = b"".join(msgspec.json.encode(each) + b"\n" for each in records)
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, data)
            finally:
                os.close(fd)
        except OSError as error:
            _logger.log(logging.ERROR, "the audit log %s cannot be written: %s", self.path, error)


def read_audit(path: str | os.PathLike[str], session: str | None = None) -> Iterator[AuditRecord]:
    """Yield the records of an audit log, oldest first, of all sessions or of one. Blocks.

    `session`: the id of a session, or its beginning. A line that is not a record is skipped: a
    process may have been killed while it wrote one. Raises `FilesError`.
    """
    try:
        with open(path, "rb") as file:
            for line in file:
                try:
                    record = _decoder.decode(line)
                except msgspec.DecodeError:
                    continue
                if session is None or record.session.startswith(session):
                    yield record
    except OSError as error:
        raise FilesError(f"{os.fspath(path)}: {error.strerror}") from error


_decoder: Final = msgspec.json.Decoder(AuditRecord)


class _OpenCall(Struct):
    """A tool call that has not ended."""

    item: Item
    asked: bool = False


class _SessionAudit(Observation):
    """Makes the records of one session."""

    def __init__(
        self,
        agent: str,
        log: Log,
        write: Callable[[list[AuditRecord]], None],
        now: Callable[[], float],
    ) -> None:
        """Begin with the record that the session was opened."""
        self._agent = agent
        self._log = log
        self._write = write
        self._now = now
        self._turn: str | None = None
        self._asked: dict[str, tuple[float, PermissionOpened]] = {}
        self._calls: dict[str, _OpenCall] = {}
        self._records: list[AuditRecord] = []
        self._takes: dict[type, Callable[[Any], None]] = {
            TurnStarted: self._turn_started,
            TurnEnded: self._turn_ended,
            ItemOpened: self._item_opened,
            ItemUpdated: self._item_updated,
            ItemClosed: self._item_closed,
            PermissionOpened: self._opened,
            PermissionClosed: self._closed,
            Notice: self._noticed,
        }
        self._add("session", outcome="opened")
        self._flush()

    def events(self, events: list[Event], size: int) -> None:
        """Write the records of a batch of events."""
        for event in events:
            take = self._takes.get(type(event))
            if take is not None:
                take(event)
        self._flush()

    def acted(self, action: ViewerAction) -> None:
        self._add("action", **_fields_of(action))
        self._flush()

    def close(self) -> None:
        """Write the record that the session was closed."""
        self._add("session", outcome="closed")
        self._flush()

    def _add(self, kind: AuditKind, **fields: Any) -> None:
        """Add a record, of the running turn unless `fields` names another."""
        self._records.append(
            AuditRecord(
                time=self._now(),
                session=self._log.session,
                agent=self._agent,
                kind=kind,
                **{"turn": self._turn, **fields},
            )
        )

    def _flush(self) -> None:
        """Write the collected records."""
        if self._records:
            records, self._records = self._records, []
            self._write(records)

    # --- events

    def _turn_started(self, event: TurnStarted) -> None:
        """Add the prompt of a turn."""
        self._turn = event.turn
        texts = [block.text for block in event.prompt or () if isinstance(block, Text)]
        self._add("prompt", title=_cut("\n".join(texts)), by=event.origin)

    def _turn_ended(self, event: TurnEnded) -> None:
        """Add the end of a turn, with its usage."""
        data: JsonObject = {} if event.usage is None else {"usage": to_builtins(event.usage)}
        error = "" if event.error is None else _cut(event.error.message)
        self._add(
            "turn",
            turn=event.turn,
            outcome=event.outcome,
            by=event.by or "",
            who=event.who,
            via=event.via,
            reason=error,
            data=data or None,
        )
        self._turn = None

    def _item_opened(self, event: ItemOpened) -> None:
        """Remember a tool call until it ends; calls in repeated history do not count."""
        item = event.item
        if item.tool is None or item.replay:
            return
        self._calls[item.id] = _OpenCall(msgspec.structs.replace(item))
        if item.status in ("completed", "failed", "denied", "cancelled", "orphaned"):
            self._item_closed(ItemClosed(item.id, item.status))

    def _item_updated(self, event: ItemUpdated) -> None:
        """Take over the changed facts about a call."""
        call = self._calls.get(event.item)
        patch = event.patch.get("tool")
        if call is None or call.item.tool is None or not isinstance(patch, dict):
            return
        known = {name: patch[name] for name in ("name", "title", "kind", "input") if name in patch}
        call.item.tool = msgspec.structs.replace(call.item.tool, **known)

    def _item_closed(self, event: ItemClosed) -> None:
        """Add a call that has ended, with the fact that it was asked about or not."""
        call = self._calls.pop(event.item, None)
        if call is None or call.item.tool is None:
            return
        tool = call.item.tool
        self._add(
            "call",
            turn=call.item.turn,
            title=_cut(tool.title),
            outcome=event.status,
            asked=call.asked,
            tool=tool.name or tool.kind,
            input=_shortened(tool.input),
        )

    def _opened(self, event: PermissionOpened) -> None:
        """Remember a question until it is closed."""
        self._asked[event.request] = (self._now(), event)
        if event.item is not None and (call := self._calls.get(event.item)) is not None:
            call.asked = True

    def _closed(self, event: PermissionClosed) -> None:
        """Add the decision about a question: its subject, the answer, and who or which rule gave
        it.
        """
        if (found := self._asked.pop(event.request, None)) is None:
            return
        requested, opened = found
        tool = opened.tool
        if opened.item is not None and (call := self._calls.get(opened.item)) is not None:
            tool = tool or call.item.tool
        self._add(
            "decision",
            turn=None if opened.background else self._turn,
            title=_cut(opened.title),
            outcome=_outcome(event, opened),
            subject=opened.subject,
            tool=opened.subject or ("" if tool is None else tool.name or tool.kind),
            input=_shortened(_asked_about(opened) if tool is None else tool.input),
            request=event.request,
            requested=requested,
            option=_option(event, opened),
            by=event.by,
            who=event.who,
            via=event.via,
            rule=event.rule,
            reason=_cut(event.reason),
        )

    def _noticed(self, event: Notice) -> None:
        """Add a warning, an error, or one of the notices about limits of the agent."""
        if event.level != "info" or event.code in _INFO:
            turn = event.data.get("turn") if isinstance(event.data, dict) else None
            self._add(
                "notice",
                turn=turn if isinstance(turn, str) else self._turn,
                title=_cut(event.message),
                outcome=event.level,
                code=event.code,
                data=_shortened(event.data),
            )


def _asked_about(opened: PermissionOpened) -> Any:
    """Return the arguments of a request without a tool call: a host, or the files of a project."""
    detail = opened.detail
    return detail["input"] if isinstance(detail, dict) and "input" in detail else detail


def _fields_of(action: ViewerAction) -> JsonObject:
    return {
        "title": action.name,
        "outcome": action.outcome,
        "input": _shortened(action.about) if action.about else None,
        "who": action.who,
        "via": action.via,
        "reason": _cut(action.reason),
    }


def _outcome(closed: PermissionClosed, opened: PermissionOpened) -> str:
    """Return the decision in a word; a question that the agent or its turn ended was withdrawn."""
    if closed.outcome == "expired":
        return "expired"
    if closed.outcome == "cancelled":
        return "withdrawn" if closed.by in ("agent", "turn") else "denied"
    kind = next((each.kind for each in opened.options if each.id == closed.option), "")
    return "denied" if kind.startswith("reject") or closed.option == "decline" else "allowed"


def _option(closed: PermissionClosed, opened: PermissionOpened) -> str:
    """Return the chosen option by its kind and its label, since ids differ between agents."""
    found = next((each for each in opened.options if each.id == closed.option), None)
    return (closed.option or "") if found is None else f"{found.kind}: {found.name}"


def _cut(text: str) -> str:
    """Return a text, cut at the maximum length."""
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}…"


def _shortened(value: Any) -> Any:
    """Return a value with its texts cut; large values as the beginning of their JSON text."""
    if value is None:
        return None
    data = msgspec.json.encode(value)
    return value if len(data) <= MAX_TEXT_CHARS else _cut(data.decode())
