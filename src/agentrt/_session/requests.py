"""Requests both ways: ours to the agent outside its turns, and the agent's for a service."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from .._errors import SessionClosed
from .._limits import Limits
from .._model.content import JsonObject
from .._model.driver import Requested, Returned
from .._model.events import Error, Notice
from .._model.repeats import Repeats
from .._permissions.policies import Deny, PermissionRequest
from .._permissions.standing import Standing
from .._wire.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND
from .interfaces import CANCELLED, Host, Steps, lifetime_of

_STOPPED = "the turn was cancelled"
FORBIDDEN: Final = -32000
"""JSON-RPC's first code for errors of the server's own: a rule denies the request."""

_EFFECTS = frozenset({"fs/write_text_file", "terminal/create", "extension"})
"""What a stopped turn must not begin any more; what it has begun it may look at and end."""


class Requests:
    """The requests of one session that wait for their answer."""

    def __init__(
        self,
        core: Steps,
        host: Host,
        *,
        limits: Limits,
        new_id: Callable[[str], str],
        standing: Standing,
        cwd: str,
    ) -> None:
        self._core = core
        self._host = host
        self._limits = limits
        self._standing = standing
        self._cwd = cwd
        self._new_id = new_id
        self._calls: dict[str, Callable[[Returned], None]] = {}
        self._waiting: deque[Requested] = deque()  # of the agent, that are to be passed on
        self._repeats = Repeats()

    # --- ours

    def call(
        self, method: str, params: JsonObject, returned: Callable[[Returned], None]
    ) -> Callable[[], None]:
        """Ask the agent something outside its turns; `returned` is called with its answer. Returns
        what to call when nobody waits for it any more. Raises `SessionClosed`."""
        if self._core.driver is None or not self._core.ready:
            raise SessionClosed("the agent does not run; the next prompt starts it again")
        id = self._new_id("c")
        effects = self._core.driver.call(id, method, params)
        self._calls[id] = returned
        self._core.receive(effects)

        def forget() -> None:
            if self._calls.pop(id, None) is not None and self._core.driver is not None:
                self._core.receive(self._core.driver.uncall(id))

        return forget

    def returned(self, effect: Returned) -> None:
        answered = self._calls.pop(effect.call, None)
        if answered is not None:
            answered(effect)

    def process_ended(self) -> None:
        """No answer will come any more."""
        for call in list(self._calls):
            gone = Error("agent_died", "the agent's process has ended")
            self.returned(Returned(call, error=gone))

    # --- the agent's

    def requested(self, effect: Requested) -> None:
        """The agent asks for a service; what is not offered is refused at once."""
        self._waiting.append(effect)
        if len(self._waiting) == 1:  # else below: a refusal lets the driver pass on the next one
            try:
                while self._waiting:
                    self._serve(self._waiting[0])
                    self._waiting.popleft()
            finally:
                self._waiting.clear()

    def _serve(self, effect: Requested) -> None:
        limit = self._limits.requests
        if self._host.handlers_open >= limit:
            message = f"{limit} requests are open: wait for their answers"
            if effect.notification:
                self._dropped(effect.params["method"])
            self.refuse(effect.key, INTERNAL_ERROR, message)
        elif not self._host.offers(effect.method):
            message = f"{effect.method} is not offered here"
            self.refuse(effect.key, METHOD_NOT_FOUND, message)
        elif effect.method in _EFFECTS and self._core.stopped and not effect.notification:
            self.refuse(effect.key, CANCELLED, _STOPPED)
        elif (reason := self._forbidden(effect)) is not None:
            self.refuse(effect.key, FORBIDDEN, reason)
        else:
            until = lifetime_of(
                self._core.turn, background=effect.background, unawaited=effect.unawaited
            )
            self._host.serve(effect, until)

    def _forbidden(self, effect: Requested) -> str | None:
        """The reason why a file or a program is denied, whatever the agent has asked before."""
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
        self._core.say(Notice("warning", "service_denied", f"{message} ({request.title})", data))
        return message

    def _dropped(self, method: str) -> None:
        message = f"the agent's notification {method} was dropped: too many wait to be handled"
        notice = Notice("warning", "notification_dropped", message)
        for each in self._repeats.rarer(notice):
            self._core.say(each)

    def reply(self, key: str, result: Any) -> None:
        """Answer a request of the agent. Raises `TypeError` or `ValueError` for what is no JSON;
        then it can still be refused."""
        if self._core.driver is not None:
            self._core.receive(self._core.driver.reply(key, result))

    def refuse(self, key: str, code: int, message: str, data: Any = None) -> None:
        """Answer a request of the agent with an error."""
        if self._core.driver is not None:
            self._core.receive(self._core.driver.refuse(key, code, message, data))


def service_request(method: str, params: JsonObject, cwd: str) -> PermissionRequest | None:
    """A request for a file or a program as rules see it; None for all other requests."""
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
