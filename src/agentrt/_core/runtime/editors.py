"""Requests of an ACP agent for files and terminals that are served by others.

These are the program that has opened the session, or a client of the session, such as an editor
with unsaved buffers and visible terminals.

agentrt still enforces its rules: the folders that the agent may reach, and the variables that it
may set. The program's services apply to all requests of their kind. If no client provides a
service, or the client disconnects, agentrt's own handlers serve the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import trio

from ..acp.host import parse, reported
from ..acp.messages import NOT_FOUND_CODE
from ..acp.roots import Roots
from ..acp.services import CreateTerminalRequest, ReadTextFileRequest
from ..acp.terminals import command_words, merge_environment
from ..errors import RequestError
from ..model.content import JsonObject
from ..model.driver import ServiceRequested
from ..session.host import SessionHost
from ..session.interfaces import ClientGone, ClientServices

Otherwise: TypeAlias = Callable[[ServiceRequested], Awaitable[JsonObject]]

OVERLAP_CHARS = 256
"""Length of the overlap, in characters, used to find new terminal output in a truncated one."""


class Editors:
    """Files and terminals of the clients of one session."""

    def __init__(
        self,
        host: SessionHost,
        roots: Roots,
        *,
        cwd: str,
        env: Mapping[str, str],
        variables: Sequence[str] = (),
        own: ClientServices | None = None,
    ) -> None:
        """`cwd`, `env`, `variables`: as for agentrt's own terminals. `own`: the program's
        services.
        """
        self._host = host
        self._own: tuple[ClientServices, ...] = () if own is None else (own,)
        self._roots = roots
        self._cwd = cwd
        self._env = env
        self._variables = tuple(variables)
        self._shown: dict[str, str] = {}  # the last known output of each terminal
        host.exit_callbacks.append(self._agent_gone)

    async def serve(self, otherwise: Otherwise | None, asked: ServiceRequested) -> JsonObject:
        """Answer a request by the program, a client, or else by `otherwise`.

        `otherwise` is None if the program serves everything. Raises `RequestError`.
        """
        method, params = asked.method, asked.params
        for client in (*self._own, *reversed(self._host.clients)):
            if client.serves(method, params):
                params = await self._checked(method, params)
                try:
                    answer = await client.call(method, params)
                except ClientGone:
                    if method.startswith("terminal/") and method != "terminal/create":
                        raise RequestError(
                            NOT_FOUND_CODE, "the terminal went with its editor"
                        ) from None
                    break
                self._show_output(method, params, answer)
                return answer
        assert otherwise is not None
        return await otherwise(asked)

    async def _checked(self, method: str, params: JsonObject) -> JsonObject:
        """Return the request as sent to the client. Raises `RequestError` if the agent may not send
        it.
        """
        params = {**params, "sessionId": self._host.log.session}
        if method.startswith("fs/"):
            path = parse(params, ReadTextFileRequest).path
            await self._check(path, writing=method == "fs/write_text_file")
        elif method == "terminal/create":
            request = parse(params, CreateTerminalRequest)
            params["cwd"] = request.cwd or self._cwd
            await self._check(params["cwd"], writing=False)
            words = command_words(request)
            added, _ = merge_environment(self._env, request.env, self._variables)
            params |= {
                "command": words[0],
                "args": words[1:],
                "env": [
                    {"name": name, "value": value}
                    for name, value in added.items()
                    if self._env.get(name) != value
                ],
            }
        return params

    async def _check(self, path: str, *, writing: bool) -> None:
        with reported(path):
            await trio.to_thread.run_sync(partial(self._roots.check, path, writing=writing))

    def _agent_gone(self) -> None:
        self._shown.clear()
        for client in (*self._own, *self._host.clients):
            client.release(self._host.log.session)

    def _show_output(self, method: str, params: JsonObject, answer: JsonObject) -> None:
        """Show the output of a client's terminal to all viewers, as far as the agent has requested
        it.
        """
        terminal = params.get("terminalId")
        if not isinstance(terminal, str):
            return
        if method == "terminal/release":
            self._shown.pop(terminal, None)
        elif method == "terminal/output" and isinstance(text := answer.get("output"), str):
            before = self._shown.get(terminal, "")
            self._shown[terminal] = text
            if new := _new_output(before, text):
                self._host.terminal_output(terminal, new)


def _new_output(before: str, text: str) -> str:
    """Return the new part of an output whose start may have been truncated since."""
    if text.startswith(before):
        return text[len(before) :]
    tail = before[-OVERLAP_CHARS:]
    at = text.rfind(tail)
    return text if at < 0 else text[at + len(tail) :]
