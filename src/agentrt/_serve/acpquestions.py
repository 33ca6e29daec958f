"""The questions of sessions, sent to an ACP client as requests, and the client's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial

from msgspec import Struct

from .. import jsonrpc as rpc
from ..events import JsonObject, PermissionOpened
from .acpmessages import SERVED_ACP_VERSION, Capabilities, OurCalls, call, unanswered
from .acpupdates import Updates
from .answers import as_refusal
from .feed import Feed
from .remote_sessions import AnySession, Sessions


class _SentQuestion(Struct, frozen=True):
    """A question that the client was asked. `form`: the client fills in a form or opens a page."""

    feed: Feed
    request: str
    form: bool


class AcpQuestions:
    """The questions to one client, in all its sessions."""

    def __init__(
        self,
        sessions: Sessions,
        calls: OurCalls,
        answering: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Set up the questions. `answering`: returns a context manager; answers given in
        its block are the client's.
        """
        self.offers = Capabilities()
        """The client's capabilities."""
        self.version: int = SERVED_ACP_VERSION
        """The version of ACP that the client speaks."""
        self._sessions = sessions
        self._calls = calls
        self._answering = answering
        self._open: dict[Feed, dict[str, int]] = {}  # open questions with the ids of their requests

    def refresh(self, feed: Feed, updates: Updates) -> Iterable[bytes]:
        """Withdraw the questions that were closed, and ask new ones."""
        asked = self._open.setdefault(feed, {})
        open = feed.log.state.permissions
        for request in asked.keys() - open.keys():
            number = asked.pop(request)
            self._calls.replace(number, unanswered)
            yield call(None, "$/cancel_request", {"requestId": number})
        for ask in open.values():
            if ask.request not in asked and (ask.options or self._fills(ask)):
                yield self._ask(feed, updates, ask)

    def forget(self, feed: Feed) -> None:
        """Forget the questions of a session."""
        self._open.pop(feed, None)

    def _answered(self, asked: _SentQuestion, said: rpc.JsonRpcResponse) -> None:
        """Take the client's answer. An answer that fits no option, or a missing one, never counts
        as yes.
        """
        if self._open.get(asked.feed, {}).pop(asked.request, None) is None:
            return  # another client has answered it, or this one has left the session
        result = said.result if isinstance(said.result, dict) else {}
        if not self._carry_out(asked, partial(_take_answer, result=result)):
            self._carry_out(asked, _dismiss)

    def _carry_out(
        self, asked: _SentQuestion, take: Callable[[AnySession, _SentQuestion], bool]
    ) -> bool:
        """Return the result of `take`, or False if it fails.

        It fails if another client has answered: that may not be in the log yet.
        """
        try:
            with self._answering():
                return take(self._sessions.get(asked.feed.log.session), asked)
        except Exception as error:
            as_refusal(error)  # logs an unexpected error
            return False

    def _ask(self, feed: Feed, updates: Updates, ask: PermissionOpened) -> bytes:
        """Return the request to the client: for a permission, a form, or a visit to a URL."""
        session, form = feed.log.session, self._fills(ask)
        answered = partial(self._answered, _SentQuestion(feed, ask.request, form))
        number = self._open[feed][ask.request] = self._calls.open(answered)
        if not form:
            options = [
                {"optionId": option.id, "name": option.name, "kind": option.kind}
                for option in ask.options
            ]
            asked = updates.asked(ask)
            subject = asked if self.version > SERVED_ACP_VERSION else {"toolCall": asked}
            about = {"sessionId": session, **subject, "options": options}
            return call(number, "session/request_permission", about)
        wanted: JsonObject = {"sessionId": session, "message": ask.title}
        if ask.form is not None:
            wanted |= {"mode": "form", "requestedSchema": ask.form}
        else:
            wanted |= {"mode": "url", "url": ask.url, "elicitationId": ask.request}
        return call(number, "elicitation/create", wanted)

    def _fills(self, ask: PermissionOpened) -> bool:
        """True if the question is a form or a page that this client can show."""
        offers = self.offers.elicitation
        if offers is None:
            return False
        return (ask.form is not None and offers.form is not None) or (
            ask.url is not None and offers.url is not None
        )


def _take_answer(session: AnySession, asked: _SentQuestion, result: JsonObject) -> bool:
    """Pass an answer to the session. Returns False if it is not an answer."""
    outcome, content = result.get("outcome"), result.get("content")
    if asked.form and result.get("action") == "accept":
        session.submit_form(asked.request, content if isinstance(content, dict) else {})
    elif asked.form and result.get("action") == "decline":
        session.answer(asked.request, "reject_once")
    elif isinstance(outcome, dict) and outcome.get("outcome") == "selected":
        session.answer(asked.request, str(outcome.get("optionId")))
    else:
        return False
    return True


def _dismiss(session: AnySession, asked: _SentQuestion) -> bool:
    session.dismiss(asked.request)
    return True
