"""The files and terminals of an ACP client, for the agents of its sessions. An agent's requests are
forwarded to the client, and the client's answers to the agent.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import trio

from .. import jsonrpc as rpc
from ..errors import RequestError
from ..events import JsonObject
from ..hosting import ClientGone
from .acpmessages import Capabilities, FileSupport, OurCalls, call, unanswered


class _EditorCall:
    """A request that the client has not answered."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.over = trio.Event()
        self.answer: rpc.JsonRpcResponse | None = None
        """The answer; None if there will be none."""

    def take(self, said: rpc.JsonRpcResponse) -> None:
        """Take the answer."""
        self.answer = said
        self.over.set()


class Editor:
    """The files and terminals of one client.

    Its terminals have different names for the agent than for the client, because the agent may also
    have terminals of other clients and of agentrt.
    """

    def __init__(self, calls: OurCalls, send: Callable[[bytes], None]) -> None:
        self.terminals: dict[str, str] = {}
        """The client's name of each terminal, by the agent's name, including terminals that have
        ended.
        """
        self._sessions: dict[str, str] = {}  # by terminal
        self._live: set[str] = set()
        self._files = FileSupport()
        self._runs = False
        self._calls = calls
        self._send = send
        self._waiting: dict[int, _EditorCall] = {}

    def offer(self, offers: Capabilities) -> bool:
        """Note the client's abilities. Returns False if it has no files and no terminals."""
        self._files = offers.fs or FileSupport()
        self._runs = offers.terminal
        return self._runs or self._files.read_text_file or self._files.write_text_file

    def serves(self, method: str, params: JsonObject) -> bool:
        """True if the client serves this request."""
        match method:
            case "fs/read_text_file":
                return self._files.read_text_file
            case "fs/write_text_file":
                return self._files.write_text_file
            case "terminal/create":
                return self._runs
            case _:
                return params.get("terminalId") in self._live

    async def call(self, method: str, params: JsonObject) -> JsonObject:
        """Forward a request to the client, as `ClientServices.call`."""
        name = params.get("terminalId")
        if isinstance(name, str):
            params = {**params, "terminalId": self.terminals[name]}
        answer = await self._ask(str(params["sessionId"]), method, params)
        if method == "terminal/create":
            theirs = answer.get("terminalId")
            if not isinstance(theirs, str):
                raise RequestError(rpc.INTERNAL_ERROR, "the editor gave its terminal no id")
            name = f"editor-{secrets.token_hex(8)}"
            self.terminals[name], self._sessions[name] = theirs, str(params["sessionId"])
            self._live.add(name)
            return {**answer, "terminalId": name}
        if method == "terminal/release" and isinstance(name, str):
            self._live.discard(name)
        return answer

    async def _ask(self, session: str, method: str, params: JsonObject) -> JsonObject:
        """Send a request to the editor, and wait for its result.

        Cancellation withdraws the request; a late answer is then ignored. Raises `ClientGone` if
        the editor has disconnected, and `RequestError` for its errors.
        """
        waiting = _EditorCall(session)
        number = self._calls.open(waiting.take)
        self._waiting[number] = waiting
        self._send(call(number, method, params))
        try:
            await waiting.over.wait()
        except trio.Cancelled:
            self._calls.replace(number, unanswered)
            self._send(call(None, "$/cancel_request", {"requestId": number}))
            raise
        finally:
            del self._waiting[number]
        if waiting.answer is None:
            raise ClientGone
        if (error := waiting.answer.error) is not None:
            raise RequestError(error.code, error.message, error.data)
        result = waiting.answer.result
        return result if isinstance(result, dict) else {}

    def release(self, session: str) -> None:
        """Release the session's terminals."""
        for name in [name for name in self._live if self._sessions[name] == session]:
            about = {"sessionId": session, "terminalId": self.terminals[name]}
            self._send(call(self._calls.open(unanswered), "terminal/release", about))
            self._live.discard(name)

    def fail_all(self, why: str) -> None:
        """Fail all open requests, because an answer was lost and its request is unknown."""
        for waiting in self._waiting.values():
            waiting.take(rpc.JsonRpcResponse(None, error=rpc.JsonRpcError(rpc.INTERNAL_ERROR, why)))

    def leave(self, session: str) -> None:
        """Handle that the client no longer views this session."""
        self.release(session)
        for name in [name for name, owner in self._sessions.items() if owner == session]:
            del self.terminals[name], self._sessions[name]
        for waiting in self._waiting.values():
            if waiting.session == session:
                waiting.over.set()
