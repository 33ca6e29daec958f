"""The common output of all parts of a JSON-RPC driver.

It collects effects, sends requests and matches their answers, and reports defects of the input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from ..model.content import JsonObject
from ..model.driver import Effect, Write
from ..model.events import Notice
from ..model.repeats import NoticeLimiter
from .json import DECODE_ERRORS, lenient, repair
from .jsonrpc import JsonRpcResponse, OutstandingCalls, notification_line, request_line
from .lines import Lines, LongLine

T = TypeVar("T", bound=Struct)

_json: msgspec.json.Decoder[Any] = msgspec.json.Decoder()

Then: TypeAlias = Callable[[JsonRpcResponse], None]
"""Processes the answer to a request."""

_STRAYS = {
    "duplicate": "a request was answered a second time",
    "foreign": "an answer to a request that was never made",
}


class Channel:
    """Collects the effects of one command or read, and matches answers with requests."""

    def __init__(self) -> None:
        """Begin without effects and requests."""
        self.out: list[Effect] = []
        self.counts: dict[str, int] = {}
        """The number of occurrences of each notice, reported or not."""
        self._repeats = NoticeLimiter()
        self._calls: OutstandingCalls[Then] = OutstandingCalls()
        self._closed = False

    def take(self) -> list[Effect]:
        """Return the collected effects and forget them."""
        out, self.out = self.out, []
        return out

    def write(self, line: bytes, *, urgent: bool = True) -> None:
        """Add a line to write."""
        self.out.append(Write(line, urgent))

    def notify(self, method: str, params: Struct, *, urgent: bool = True) -> None:
        """Send a notification."""
        self.write(notification_line(method, params), urgent=urgent)

    def request(self, method: str, params: Any, then: Then, *, urgent: bool = True) -> int:
        """Send a request and return its id. `then` gets its answer."""
        id = self._calls.open(_late if self._closed else then)
        self.out.append(Write(request_line(id, method, params), urgent))
        return id

    def forget(self, id: int) -> None:
        """Stop waiting for an answer. If it still comes, it is dropped and reported."""
        self._calls.replace(id, _late)

    def close(self) -> None:
        """Stop waiting for answers, because the agent's output has ended."""
        self._closed = True
        self._calls = OutstandingCalls()

    def withdraw(self, id: int) -> None:
        """Forget a request that was never written."""
        self._calls.take(id)

    def resolve(self, response: JsonRpcResponse) -> None:
        """Pass an answer to its callback. An answer without a request is reported."""
        if response.id is None and response.error is not None:
            self.notice(
                "warning",
                "error_without_id",
                f"the agent reported an error without a request: {response.error.message}",
                response.error,
            )
            return
        then, defect = self._calls.take(response.id)
        if then is None:
            self.notice("info", f"{defect}_response", _STRAYS[defect], {"id": response.id})
            return
        if defect:
            self.notice("info", defect, "a number was echoed as another type", {"id": response.id})
        if then is _late:
            what = "an answer arrived after its request was given up"
            self.notice("info", "late_response", what, {"id": response.id})
        else:
            then(response)

    def decoded(self, line: bytes | LongLine) -> Any:
        """Decode a line. A repair, where necessary, is reported.

        Raises `RemoteProtocolError`, or one of `DECODE_ERRORS`.
        """
        if isinstance(line, LongLine):
            message, repaired = line.value(), line.repaired
        else:
            try:
                message, repaired = _json.decode(line), False
            except DECODE_ERRORS:
                message, repaired = _json.decode(repair(line)), True
        if repaired:
            what = "the agent sent broken text, which was repaired"
            self.notice("info", "repaired", what)
        return message

    def malformed(self, why: str, line: bytes = b"", times: int = 1) -> None:
        """Report input that is not a message."""
        data = {"line": line[:200].decode("utf-8", "replace")} if line else None
        self.notice("warning", "malformed", why, data, times=times)

    def oversized(self, lines: Lines) -> None:
        """Report the lines that were skipped, and forget them."""
        for size in lines.oversized:
            self.notice(
                "warning",
                "line_too_long",
                f"the agent sent a line of {size} bytes, which was skipped",
                {"size": size, "limit": lines.limit},
            )
        lines.oversized.clear()

    def read(self, raw: Any, type: type[T], what: str) -> T:
        """Convert a message leniently, and report the fields that were left out.

        Raises `ValidationError` with the path of the wrong field, if the message is
        unusable.
        """
        dropped: list[str] = []
        message = lenient(raw, type, dropped)
        if dropped:
            self.notice_dropped(dropped, raw, what)
        return message

    def unknown_value(self, what: str, value: str, data: JsonObject) -> None:
        """Report a value that the protocol does not have.

        `what`: the meaning of its field. `data`: what is not shown elsewhere.
        """
        self.notice(
            "info",
            "unknown_value",
            f"the agent sent the unknown {what} {value!r:.100}",
            data,
            about=f"{what} {value}",
        )

    def notice_dropped(self, dropped: list[str], raw: Any, what: str) -> None:
        """Report the fields that were left out of a message."""
        self.notice(
            "info",
            "wrong_fields",
            f"{what} had wrong fields, which were left out",
            {"fields": dropped, "message": raw},
            about=what,
        )

    def notice(
        self,
        level: Literal["info", "warning", "error"],
        code: str,
        message: str,
        data: Any = None,
        *,
        about: str = "",
        times: int = 1,
    ) -> None:
        """Count a notice and report it unless it was reported often before; see
        `NoticeLimiter.worth_reporting`.
        """
        self.counts[code] = self.counts.get(code, 0) + times
        notice = Notice(level, code, message, data)
        self.out += self._repeats.worth_reporting(notice, about=about, times=times)


def _late(response: JsonRpcResponse) -> None:
    """Stand for the callback of a request that was given up."""
