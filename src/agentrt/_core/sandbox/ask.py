"""The program in the place of one for which the sandbox asks.

`view.py` sets the constants and puts the name of the Python interpreter before the text. This
program asks agentrt, through a Unix socket, and gets the other program as an open file, which it
executes in its own place: the same process, with the same files and the same environment.

It uses only the standard library: `agentrt` need not be importable inside.
"""

from __future__ import annotations

import array
import os
import signal
import socket
import sys

PATH = ""
"""The path of the other program."""
SOCKET = ""
"""The path of agentrt's socket."""
MAX_REQUEST_BYTES = 60_000


def main() -> None:
    """Ask, and become the other program."""
    here = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    request = "\0".join([PATH, *sys.argv[1:]]).encode("utf-8", "surrogateescape")
    if len(request) > MAX_REQUEST_BYTES:
        raise failed("its arguments are too long to be asked about")
    try:
        here.connect(SOCKET)
        here.send(request)
        answer, ancillary, _, _ = here.recvmsg(4096, socket.CMSG_SPACE(4))
    except OSError as error:
        raise failed(f"it cannot be asked about: {error.strerror}") from error
    if not ancillary:
        raise failed(answer.decode() or "it cannot be asked about now")
    here.close()
    fd = array.array("i", ancillary[0][2])[0]
    # A script is read again by its interpreter, from the open file.
    os.set_inheritable(fd, os.pread(fd, 2, 0) == b"#!")
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(fd, sys.argv, os.environ)
    except OSError as error:
        raise failed(str(error.strerror)) from error


def failed(reason: str) -> SystemExit:
    """Return the end of this program, after a message for the model."""
    sys.stderr.write(f"sandbox: {os.path.basename(sys.argv[0])}: {reason}\n")
    return SystemExit(126)


if __name__ == "__main__":
    main()
