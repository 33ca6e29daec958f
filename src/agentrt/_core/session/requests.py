"""Requests in both directions, other than questions: agentrt's calls, and the agent's services.

A call of agentrt gets an id here; its answer, an error of the driver or the end of the process is
passed on to its caller, exactly once. A request of the agent is refused if too many are open, if
the service is not offered, if the turn was stopped and the request would have an effect, or if a
rule forbids it; otherwise the host starts a handler for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..errors import SessionClosed
from ..limits import Limits
from ..model.content import JsonObject
from ..model.driver import CallReturned, ServiceRequested
from ..model.events import ErrorInfo, Notice
from ..model.repeats import NoticeLimiter
from ..permissions.policies import Deny, PermissionRequest
from ..permissions.standing import Standing
from ..wire.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND
from .interfaces import CANCELLED_CODE, CoreHost, Steps, lifetime_of

_STOPPED = "the turn was cancelled"
FORBIDDEN_CODE: Final = -32000
"""JSON-RPC's first code for server-defined errors: a rule denies the request."""

_EFFECTS = frozenset({"fs/write_text_file", "terminal/create", "extension"})
"""Requests that a stopped turn may not start. It may still inspect and end its running programs."""
_RULED: Final = frozenset({"fs/read_text_file", "fs/write_text_file", "terminal/create"})
"""Requests that rules can forbid; see `service_request`."""


class OpenRequests:
    """The requests of one session that wait for an answer."""

    def __init__(
        self,
        core: Steps,
        host: CoreHost,
        *,
        limits: Limits,
        new_id: Callable[[str], str],
        standing: Standing,
        cwd: str,
    ) -> None:
        """Begin without requests.

        `standing` has the rules that services for the agent must respect.
        """
        self._core = core
        self._host = host
        self._limits = limits
        self._standing = standing
        self._cwd = cwd
        self._new_id = new_id
        self._calls: dict[str, Callable[[CallReturned], None]] = {}
        self._waiting: list[ServiceRequested] = []  # requests of the agent to pass on
        self._repeats = NoticeLimiter()

    # --- agentrt's requests

    def call(
        self, method: str, params: JsonObject, returned: Callable[[CallReturned], None]
    ) -> Callable[[], None]:
        """Send the agent a request outside its turns; `returned` is called with the answer.

        Returns a function that abandons the call. Raises `SessionClosed` if the agent does not run.
        """
        if self._core.driver is None or not self._core.ready:
            raise SessionClosed("the agent does not run; the next prompt starts it again")
        id = self._new_id("c")
        effects = self._core.driver.call(id, method, params)
        self._calls[id] = returned
        self._core.receive(effects)

        def forget() -> None:
            """Abandon the call. A later answer is ignored."""
            if self._calls.pop(id, None) is not None and self._core.driver is not None:
                self._core.receive(self._core.driver.cancel_call(id))

        return forget

    def returned(self, effect: CallReturned) -> None:
        """Pass an answer to the caller, if the call was not abandoned."""
        answered = self._calls.pop(effect.call, None)
        if answered is not None:
            answered(effect)

    def process_ended(self) -> None:
        """Answer all open calls with an error: the process has ended."""
        for call in list(self._calls):
            gone = ErrorInfo("agent_died", "the agent's process has ended")
            self.returned(CallReturned(call, error=gone))

    # --- the agent's requests

    def requested(self, effect: ServiceRequested) -> None:
        """Handle a request of the agent for a service, or refuse it if it is not offered."""
        self._waiting.append(effect)
        if len(self._waiting) == 1:  # else the loop below serves it: a refusal may bring the next
            try:
                while self._waiting:
                    self._serve(self._waiting[0])
                    del self._waiting[0]
            finally:
                self._waiting.clear()

    def _serve(self, effect: ServiceRequested) -> None:
        """Start a handler for a request, or refuse it."""
        limit = self._limits.open_requests
        if self._host.handlers_open >= limit:
            message = f"{limit} requests are open: wait for their answers"
            if effect.notification:
                self._dropped(effect.params["method"])
            self.refuse(effect.key, INTERNAL_ERROR, message)
        elif not self._host.offers(effect.method):
            message = f"{effect.method} is not offered here"
            self.refuse(effect.key, METHOD_NOT_FOUND, message)
        elif effect.method in _EFFECTS and self._core.stopped and not effect.notification:
            self.refuse(effect.key, CANCELLED_CODE, _STOPPED)
        elif effect.method in _RULED and (reason := self._forbidden(effect)) is not None:
            self.refuse(effect.key, FORBIDDEN_CODE, reason)
        else:
            until = lifetime_of(
                self._core.turn, background=effect.background, unawaited=effect.unawaited
            )
            self._host.serve(effect, until)

    def _forbidden(self, effect: ServiceRequested) -> str | None:
        """Return the reason why access to a file or a program is denied, or None.

        It applies whether or not the agent asked before.
        """
        request = service_request(effect.method, effect.params, self._cwd)
        if request is None:
            return None
        try:
            refusal = self._standing.refusal(request)
        except Exception as error:
            self._core.handler_failed("the permission policy", error)
            return "the permission policy failed"
        if refusal is None or not refusal.certain or not isinstance(refusal.decision, Deny):
            return None
        message = f"{effect.method} was refused: {refusal.decision.message}"
        data = {"rule": refusal.rule, "title": request.title}
        self._core.add_notice(
            Notice("warning", "service_denied", f"{message} ({request.title})", data)
        )
        return message

    def _dropped(self, method: str) -> None:
        """Report a notification that was dropped: it has no answer that could say so."""
        message = f"the agent's notification {method} was dropped: too many wait to be handled"
        notice = Notice("warning", "notification_dropped", message)
        for each in self._repeats.worth_reporting(notice):
            self._core.add_notice(each)

    def reply(self, key: str, result: Any) -> None:
        """Answer a request of the agent.

        Raises `TypeError` or `ValueError` if the result is not JSON; the request can still be
        refused.
        """
        if self._core.driver is not None:
            self._core.receive(self._core.driver.reply(key, result))

    def refuse(self, key: str, code: int, message: str, data: Any = None) -> None:
        """Answer a request of the agent with an error."""
        if self._core.driver is not None:
            self._core.receive(self._core.driver.refuse(key, code, message, data))


def service_request(method: str, params: JsonObject, cwd: str) -> PermissionRequest | None:
    """Return a request for a file or a program in the form that rules use; None for others."""
    match method, params:
        case "fs/read_text_file", {"path": str(path)}:
            given: JsonObject = {"path": path}
            return PermissionRequest(
                title=f"Read {path}", tool="Read", kind="read", input=given, cwd=cwd
            )
        case "fs/write_text_file", {"path": str(path)}:
            given = {"path": path}
            return PermissionRequest(
                title=f"Write {path}",
                tool="Write",
                kind="edit",
                input=given,
                cwd=cwd,
                changes=(path,),
            )
        case "terminal/create", {"command": str(command)}:
            arguments = params.get("args") or []
            given = {"command": command, "args": arguments}
            words = " ".join([command, *map(str, arguments)])
            folder = params.get("cwd")
            if isinstance(folder, str):
                given["cwd"] = folder
            return PermissionRequest(title=words, kind="execute", input=given, cwd=cwd)
    return None
