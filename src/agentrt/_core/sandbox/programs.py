"""The answers to programs that ask before they start (`ask.py`).

Each connection is one start. The reply is the program itself, as an open file, or the reason why it
may not be run.
"""

from __future__ import annotations

import array
import errno
import os
import socket
from collections.abc import Callable, Mapping
from typing import Final

import trio

from ..._base.nesting import bare_errors
from ..logging import get_logger
from .access import AccessRefused, ProgramAccess
from .desk import AccessDesk

logger = get_logger("sandbox")

MAX_STARTS: Final = 64
"""Number of programs that wait for an answer at the same time; others wait to be read."""

REQUEST_TIMEOUT_S: Final = 5.0
RETRY_S: Final = 0.1
MAX_REQUEST_BYTES: Final = 65_536
MAX_ARGUMENTS: Final = 1000
"""Number of arguments of a start that a person can be asked about, the program's name included."""


async def serve_programs(
    folder: str, desk: AccessDesk, asked: Callable[[], Mapping[str, str]]
) -> None:
    """Answer on a socket in `folder` until cancelled.

    `asked` returns the names of the programs, by their path. Raises OSError.
    """
    places = trio.Semaphore(MAX_STARTS)

    async def answer(stream: trio.socket.SocketType) -> None:
        """Answer one program. An error ends only its connection."""
        try:
            with stream:
                await _answer(stream, desk, asked())
        except OSError:
            pass  # the program has ended
        except Exception:
            logger.exception("a question about a program failed")
        finally:
            places.release()

    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with trio.socket.from_stdlib_socket(listener) as accepting:
        listener.setblocking(False)
        listener.bind(os.path.join(folder, "ask"))
        listener.listen(MAX_STARTS)
        async with trio.open_nursery() as nursery:
            while True:
                await places.acquire()
                try:
                    stream, _ = await accepting.accept()
                except OSError as error:
                    if error.errno not in (errno.EMFILE, errno.ENFILE):
                        raise
                    places.release()
                    await trio.sleep(RETRY_S)  # no descriptor is free
                    continue
                nursery.start_soon(answer, stream)


async def _answer(
    stream: trio.socket.SocketType, desk: AccessDesk, asked: Mapping[str, str]
) -> None:
    r"""Answer one request of a program in the sandbox for another program.

    Only known paths can be requested. After the permission it gets an open file, not a path: the
    file that was allowed is the one that is run. A refusal is sent as text. The question has every
    argument, because the program gets them all; bytes that are not UTF-8 are written as `\xff`.
    """
    data = b""
    with trio.move_on_after(REQUEST_TIMEOUT_S):
        data = await stream.recv(MAX_REQUEST_BYTES)
    path, *arguments = data.split(b"\0")
    name = asked.get(os.fsdecode(path))
    if name is None:
        return
    argv = (name, *(each.decode(errors="backslashreplace") for each in arguments))
    access = ProgramAccess(name, argv)
    try:
        if not desk.is_granted(access):
            if len(argv) > MAX_ARGUMENTS:
                raise AccessRefused("its arguments are too many to be asked about")
            await _asked(stream, desk, access)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            given = array.array("i", [fd])
            await stream.sendmsg([b"k"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, given)])
        finally:
            os.close(fd)
    except AccessRefused as error:
        await stream.send(str(error).encode())


async def _asked(stream: trio.socket.SocketType, desk: AccessDesk, access: ProgramAccess) -> None:
    """Ask until there is an answer, or until the program has ended. Raises `AccessRefused`."""
    async with bare_errors(), trio.open_nursery() as nursery:

        async def watch() -> None:
            """Raise an error when the program has closed its connection, to end the question."""
            await stream.recv(1)
            raise ConnectionAbortedError

        nursery.start_soon(watch)
        await desk.ask(access)
        nursery.cancel_scope.cancel()
