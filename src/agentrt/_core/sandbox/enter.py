"""The first program inside a sandbox: it prepares the last steps and becomes the agent.

Run as `python -I -S enter.py HANDOVER PORTS LIMITS COMMAND...`. HANDOVER is an inherited socket to
the host. This program opens the sockets that listen on the sandbox's own loopback interface
(PORTS, separated by commas), hands them to the host, waits for its reply, sets resource limits
(LIMITS, such as `NPROC=512,DATA=1073741824`), and executes COMMAND in its own place.

The last descriptor that it hands over is a pipe: it ends without data if COMMAND was started, and
contains the error number if not.

It uses only the standard library: `agentrt` need not be importable inside.
"""

from __future__ import annotations

# The module `socket` takes longer to load than everything else here together.
import _socket
import array
import os
import sys


def main() -> None:
    """Hand over the sockets and become the command."""
    handover, ports, limits, *command = sys.argv[1:]
    host = _socket.socket(fileno=int(handover))
    os.set_inheritable(host.fileno(), False)
    listeners = [listen(int(port)) for port in ports.split(",") if port]
    read, write = os.pipe()
    fds = array.array("i", [*(each.fileno() for each in listeners), read])
    host.sendmsg([b"in"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
    if host.recv(1) != b"k":
        raise SystemExit(1)
    for each in (*listeners, host):
        each.close()
    os.close(read)
    for limit in filter(None, limits.split(",")):
        set_limit(*limit.split("="))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(write, str(error.errno).encode())
        raise SystemExit(127) from error


def listen(port: int) -> _socket.socket:
    """Open a listening socket on the loopback interface."""
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    return listener


def set_limit(name: str, value: str) -> None:
    """Set a resource limit, at most at the present one."""
    import resource

    number = getattr(resource, f"RLIMIT_{name}")
    hard = resource.getrlimit(number)[1]
    wanted = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
    resource.setrlimit(number, (wanted, wanted))


if __name__ == "__main__":
    main()
