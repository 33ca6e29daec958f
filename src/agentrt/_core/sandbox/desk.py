"""The open questions of a sandbox about access, and the permissions that were given.

A question is sent to the session, which shows it like every other permission request. Several
programs that need the same access wait for one answer.
"""

from __future__ import annotations

import contextlib
from typing import Final

import trio

from .access import Access, AccessRefused, Granted, PathAccess, Scope

MAX_OPEN: Final = 16
"""Number of questions that are open at the same time; further requests are refused."""

ANSWER_TIMEOUT_S: Final = 120.0
"""Seconds for which a program waits for an answer; clients give up after a similar time."""

MAX_REMEMBERED: Final = 1000


class AccessRequest:
    """An open question about access."""

    def __init__(self, access: Access, reason: str = "") -> None:
        """`reason`: the model's own, if it gave one."""
        self.access = access
        self.reason = reason
        self.scope: Scope | None = None
        self.answered = trio.Event()
        self.applied = trio.Event()
        """Set when the answer has taken effect."""
        self.problem = ""
        """The reason why an answer that allows it could not take effect."""
        self.waiting = 0
        """The number of programs that wait for the answer."""
        self._passes = 0

    def answer(self, scope: Scope) -> None:
        """Answer the question. Later answers have no effect."""
        if self.scope is None:
            self.scope = scope
            self._passes = 1 if scope == "once" else 0
            self.answered.set()
            if scope == "no" or not isinstance(self.access, PathAccess):
                self.applied.set()

    def passes(self) -> bool:
        """Return True if one more use is allowed by the answer."""
        if self.scope == "session" or isinstance(self.access, PathAccess):
            return self.scope != "no"
        self._passes -= 1
        return self._passes >= 0


class AccessDesk:
    """The questions of one sandbox, and the permissions that were given."""

    def __init__(self) -> None:
        self._open: dict[Access, AccessRequest] = {}
        self.questions: trio.MemoryReceiveChannel[AccessRequest]
        self._questions_in, self.questions = trio.open_memory_channel[AccessRequest](MAX_OPEN)
        self.revoked: trio.MemoryReceiveChannel[str]
        """The targets of permissions that were taken back."""
        self._revoked_in, self.revoked = trio.open_memory_channel[str](MAX_REMEMBERED)
        self.granted: list[Granted] = []
        """The permissions that were given for the session."""

    def grant(self, access: Access) -> None:
        """Remember a permission that was given for the session."""
        given = Granted(access.tool, access.target)
        if given not in self.granted and len(self.granted) < MAX_REMEMBERED:
            self.granted.append(given)

    def revoke(self, given: Granted) -> None:
        """Forget a permission."""
        self.granted.remove(given)
        with contextlib.suppress(trio.WouldBlock, trio.BrokenResourceError):
            self._revoked_in.send_nowait(given.target)

    def is_granted(self, access: Access) -> bool:
        """Return True if this access was given for the session."""
        return Granted(access.tool, access.target) in self.granted

    async def ask(self, access: Access, reason: str = "") -> None:
        """Wait until access is given once, or for the session.

        Raises `AccessRefused` if it is rejected, if there is no answer within `ANSWER_TIMEOUT_S`
        seconds, or if the question cannot be shown.
        """
        await trio.lowlevel.checkpoint()
        request = self._open.get(access)
        if request is None:
            request = AccessRequest(access, reason)
            if len(self._open) >= MAX_OPEN or not self._send(request):
                raise AccessRefused(
                    f"{access.target} is not allowed in this session by its sandbox, and it cannot"
                    " be asked about now; do not retry"
                )
            self._open[access] = request
        request.waiting += 1
        try:
            with trio.move_on_after(ANSWER_TIMEOUT_S):
                await request.answered.wait()
            if request.scope not in (None, "no"):
                await request.applied.wait()
        finally:
            request.waiting -= 1
            if not request.waiting or request.scope is not None:
                if self._open.get(access) is request:
                    del self._open[access]
                request.answer("no")  # no program waits any longer, or it has an answer
        if request.problem:
            raise AccessRefused(request.problem)
        if request.scope == "no" or not request.passes():
            raise AccessRefused(
                f"{access.target} is not allowed in this session by its sandbox; do not retry, and"
                " tell the user if you need it"
            )

    def _send(self, request: AccessRequest) -> bool:
        """Send a question to the session.

        Returns False if too many wait, or if it is not listening.
        """
        try:
            self._questions_in.send_nowait(request)
        except (trio.WouldBlock, trio.BrokenResourceError):
            return False
        return True
