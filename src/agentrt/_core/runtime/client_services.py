"""Files and terminals provided by the program, for the agents of its sessions.

They may be in a sandbox, on another machine, in memory, or in the program if it is an editor.

The services of the program apply to all requests of their kind. Otherwise a client of the session
may provide them, such as an editor with unsaved buffers and visible terminals. If no client does,
or the client disconnects, agentrt's own handlers serve the request. In every case agentrt enforces
its rules: the folders that the agent may reach, and the variables that it may set.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeAlias

import trio
from msgspec import Struct, to_builtins

from ..acp.files import Roots, cut, parse, reported
from ..acp.messages import (
    NOT_FOUND_CODE,
    CreateTerminalRequest,
    ExitStatus,
    ReadTextFileRequest,
    TerminalOutputResponse,
    TerminalRequest,
    WriteTextFileRequest,
)
from ..acp.terminals import command_words, merge_environment
from ..errors import RequestError
from ..limits import Limits
from ..model.content import JsonObject
from ..model.driver import ServiceRequested
from ..session.host import SessionHost
from ..session.interfaces import ClientGone, ClientServices
from ..wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND


class Files(Protocol):
    """Files provided by the program, as `files` of `open_session`.

    Paths are absolute and inside the session's folders; other paths are refused before. An
    `OSError` (such as `FileNotFoundError` or `PermissionError`) is reported to the agent with its
    meaning.
    """

    async def read_text_file(self, path: str) -> str:
        """Return the whole file. agentrt selects the lines that the agent asked for."""
        ...

    async def write_text_file(self, path: str, content: str) -> None:
        """Create or replace the file."""
        ...


class TerminalExit(Struct, frozen=True):
    """End of a program: by itself (`exit_code`), or by a signal (`"SIGTERM"`)."""

    exit_code: int | None = None
    signal: str | None = None
    """The name of the signal; None if the program exited by itself."""


class TerminalOutput(Struct, frozen=True):
    """Output of a terminal so far."""

    text: str
    """The output, or its end."""
    truncated: bool = False
    """True if the start of the output is missing."""
    exit: TerminalExit | None = None
    """None while the program is running."""


class Terminal(Protocol):
    """A program that an agent has started in a terminal provided by the program."""

    async def output(self) -> TerminalOutput:
        """Return the output so far, for the agent and for all viewers."""
        ...

    async def wait(self) -> TerminalExit:
        """Wait until the program has ended.

        Cancelled with the turn that asks; the program then continues.
        """
        ...

    async def kill(self) -> None:
        """End the program; its output stays available."""
        ...

    async def release(self) -> None:
        """End the program if it is running, and free its resources.

        Called once for each terminal: on request of the agent, when the agent has ended, or at the
        end of the session, which waits no longer than `limits.terminate_grace_s` and
        `limits.kill_wait_s` together.
        """
        ...


class Terminals(Protocol):
    """Terminals provided by the program, as `terminals` of `open_session`."""

    async def create(
        self,
        command: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        output_limit: int,
    ) -> Terminal:
        """Start a program.

        - `command`: the words of the command.
        - `cwd`: a folder inside the session's folders.
        - `env`: only the additional variables that the agent requests and may set.
        - `output_limit`: number of bytes to keep from the end of the output.
        """
        ...


class OwnServices:
    """The program's files and terminals for one session. Implements `ClientServices`."""

    def __init__(
        self,
        host: SessionHost,
        files: Files | None,
        terminals: Terminals | None,
        *,
        limits: Limits,
    ) -> None:
        """`files`, `terminals`: None if the program does not provide them."""
        self._host = host
        self._files = files
        self._terminals = terminals
        self._limits = limits
        self._open: dict[str, Terminal] = {}
        self._starting = 0

    def serves(self, method: str, params: JsonObject) -> bool:
        """As `ClientServices.serves`."""
        return (self._files if method.startswith("fs/") else self._terminals) is not None

    async def call(self, method: str, params: JsonObject) -> JsonObject:
        """As `ClientServices.call`."""
        if method.startswith("fs/"):
            assert self._files is not None
            return await self._file(self._files, method, params)
        if method == "terminal/create":
            assert self._terminals is not None
            return await self._create(self._terminals, parse(params, CreateTerminalRequest))
        return await self._terminal(method, parse(params, TerminalRequest).terminal_id)

    async def _file(self, files: Files, method: str, params: JsonObject) -> JsonObject:
        """Carry out a request about a file. Raises `RequestError`.

        The lines that the agent asks for are selected here, so that the program only needs to
        return the whole file.
        """
        match method:
            case "fs/read_text_file":
                read = parse(params, ReadTextFileRequest)
                with reported(read.path):
                    data = _text(await files.read_text_file(read.path)).encode()
                self._check_size(data)
                await self._host.wait_read()
                return {"content": cut(data, read.line, read.limit).decode()}
            case "fs/write_text_file":
                write = parse(params, WriteTextFileRequest)
                self._check_size(write.content.encode())
                with reported(write.path):
                    await files.write_text_file(write.path, write.content)
                return {}
            case _:
                raise RequestError(METHOD_NOT_FOUND, f"{method} is not supported")

    def _check_size(self, content: bytes) -> None:
        """Raise `RequestError` if a file is larger than `limits.file_bytes`."""
        if len(content) > self._limits.file_bytes:
            message = f"the file is larger than {self._limits.file_bytes} bytes"
            raise RequestError(INVALID_PARAMS, message)

    async def _create(self, terminals: Terminals, request: CreateTerminalRequest) -> JsonObject:
        """Start a program in a terminal. Raises `RequestError` if too many terminals are open.

        Terminals that are being started count as well, because `create` of the program may take
        long. The id that the agent gets cannot be guessed, and begins with `own-`.
        """
        most = self._limits.open_terminals
        if len(self._open) + self._starting >= most:
            raise RequestError(INTERNAL_ERROR, f"{most} terminals are open: release one")
        wanted = request.output_byte_limit
        limit = self._limits.terminal_output_bytes
        self._starting += 1
        try:
            with reported(request.command):
                terminal = await terminals.create(
                    [request.command, *(request.args or ())],
                    cwd=request.cwd or "",
                    env={each.name: each.value for each in request.env or ()},
                    output_limit=limit if wanted is None else max(0, min(wanted, limit)),
                )
        finally:
            self._starting -= 1
        id = f"own-{secrets.token_hex(8)}"
        self._open[id] = terminal
        return {"terminalId": id}

    async def _terminal(self, method: str, id: str) -> JsonObject:
        """Carry out a request about a terminal that the program serves itself.

        Raises `RequestError` for an unknown terminal or method.
        """
        terminal = self._open.get(id)
        if terminal is None:
            raise RequestError(NOT_FOUND_CODE, f"there is no terminal {id:.100}")
        match method:
            case "terminal/output":
                await self._host.wait_read()
                output = await terminal.output()
                answer = TerminalOutputResponse(
                    output=output.text, truncated=output.truncated, exit_status=_status(output.exit)
                )
                shown: JsonObject = to_builtins(answer)
                return {"truncated": False, **shown}
            case "terminal/wait_for_exit":
                ended: JsonObject = to_builtins(_status(await terminal.wait()))
                return ended
            case "terminal/kill":
                await terminal.kill()
                return {}
            case "terminal/release":
                del self._open[id]
                await terminal.release()
                return {}
            case _:
                raise RequestError(METHOD_NOT_FOUND, f"{method} is not supported")

    def release(self, session: str) -> None:
        """As `ClientServices.release`."""
        if self._open:
            self._host.nursery.start_soon(self._release, self._take())

    async def close(self) -> None:
        """Release the terminals that the agent has not released."""
        await self._release(self._take())

    def _take(self) -> list[Terminal]:
        """Return the open terminals, and forget them: each is released by one caller only."""
        terminals = list(self._open.values())
        self._open.clear()
        return terminals

    async def _release(self, terminals: Iterable[Terminal]) -> None:
        """Release terminals at the same time, within the limits for ending a program.

        The program's errors are reported and do not keep the others from being released.
        """

        async def release(terminal: Terminal) -> None:
            """Release one terminal, and report its error."""
            try:
                await terminal.release()
            except Exception as error:
                self._host.handler_failed("the release of a terminal", error)

        seconds = self._limits.terminate_grace_s + self._limits.kill_wait_s
        with trio.move_on_after(seconds, shield=True):
            async with trio.open_nursery() as nursery:
                for each in terminals:
                    nursery.start_soon(release, each)


def _text(value: object) -> str:
    """Return the text that the program has returned. Raises `TypeError` for another type."""
    if not isinstance(value, str):
        raise TypeError(f"read_text_file returned {type(value).__name__}, not str")
    return value


def _status(exit: TerminalExit | None) -> ExitStatus | None:
    """Return the end of a program as in ACP; None while it is running."""
    return None if exit is None else ExitStatus(exit_code=exit.exit_code, signal=exit.signal)


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
        """Raise `RequestError` if a path is outside the session's folders.

        In a sandbox, access to the path may be asked for first.
        """
        with reported(path):
            await self._roots.admit(path, writing=writing)
            await trio.to_thread.run_sync(partial(self._roots.check, path, writing=writing))

    def agent_gone(self) -> None:
        """Release what the agent used of the program, after its process has ended.

        A later process does not know the ids of these terminals.
        """
        self._shown.clear()
        for own in self._own:
            own.release(self._host.log.session)

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
