"""The program that an ACP agent starts to reach agentrt's in-process tools.

It copies its standard input to a private Unix socket, and the socket to its standard output,
without interpreting the messages. It ends when either side does. It uses only the standard library
and nothing of agentrt: it runs as `python -I -S mcp_stdio.py`, in a fraction of the import time.
"""

import os
import socket
import sys
import threading

SOCKET = "AGENTRT_MCP_SOCKET"
SECRET = "AGENTRT_MCP_SECRET"

READ_BYTES = 65536


def upwards(host: socket.socket) -> None:
    """Copy standard input to the host. At its end the host notices it and closes the socket."""
    try:
        while data := os.read(0, READ_BYTES):
            host.sendall(data)
        host.shutdown(socket.SHUT_WR)
    except OSError:
        os._exit(1)  # the host is gone


def downwards(host: socket.socket) -> None:
    """Copy the output of the host to standard output."""
    while data := host.recv(READ_BYTES):
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]


def main() -> int:
    """Connect to the host and copy in both directions. Returns the exit status."""
    try:
        path, secret = os.environ[SOCKET], os.environ[SECRET]
    except KeyError as missing:
        sys.stderr.write(f"{missing} is not set; agentrt starts this program\n")
        return 2
    with socket.socket(socket.AF_UNIX) as host:
        try:
            host.connect(path)
            host.sendall(secret.encode() + b"\n")
            # Each direction may wait for its reader, but never for the other direction.
            threading.Thread(target=upwards, args=[host], daemon=True).start()
            downwards(host)
        except OSError as error:
            sys.stderr.write(f"agentrt: {error}\n")
            return 1
    return 0


if __name__ == "__main__":
    # A daemon thread may still be reading standard input: exit without waiting for it.
    os._exit(main())
