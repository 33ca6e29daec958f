"""Run one more program in a sandbox whose agent is running.

Run as `python -I -S join.py PID HANDLE FOLDER LIMITS FILTER COMMAND...` outside. It enters the
namespaces of the process PID, whose handle (pidfd) it inherits, gives up all capabilities, applies
the system call filter (the inherited descriptor FILTER, or `-`), and executes COMMAND in FOLDER. It
stays outside as the parent of that program, to end like it.

The program cannot be manipulated by other programs inside before it has given up its rights: it is
not dumpable, and has capabilities that they lack.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import select
import signal
import struct
import sys
from fcntl import ioctl

NAMESPACES = ("user", "ipc", "uts", "net", "pid", "mnt")
"""The namespaces to enter; the one of files is the last of its kind, because it hides the host."""

PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
LAST_CAPABILITY = 63
NS_GET_USERNS = 0xB701
CAPABILITY_VERSION = 0x20080522

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Enter, start the program, and end as it ends."""
    target, handle, folder, limits, program, *command = sys.argv[1:]
    code = b""
    if program != "-":
        code = os.pread(int(program), 65536, 0)
        os.close(int(program))
    call(libc.prctl, PR_SET_DUMPABLE, 0, 0, 0, 0)
    enter(int(target), int(handle))
    child = os.fork()
    if child:
        give_up_rights()
        end_like(child)
    os.chdir(folder)
    give_up_rights()
    for limit in filter(None, limits.split(",")):
        name, value = limit.split("=")
        number = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(number)[1]
        wanted = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
        resource.setrlimit(number, (wanted, wanted))
    if code:
        apply_filter(code)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(127)


def enter(pid: int, process: int) -> None:
    """Enter the namespaces of a process.

    The user namespace of a process may lie below the one that owns its other namespaces, so that it
    has no rights over them: the owner is entered first. Raises OSError if the process has ended.
    """
    handles = {kind: os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in NAMESPACES}
    ended = select.select([process], [], [], 0)[0]
    os.close(process)
    if ended:  # the id may be another process's now, whose namespaces these are
        raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
    owner = ioctl(handles["mnt"], NS_GET_USERNS)
    same = os.path.sameopenfile(owner, handles["user"])
    order = [owner, *(handles[kind] for kind in NAMESPACES if kind != "user")]
    for handle in order if same else [*order, handles["user"]]:
        call(libc.setns, handle, 0)
        os.close(handle)
    if same:
        os.close(handles["user"])


def give_up_rights() -> None:
    """Drop all capabilities for good, as the programs inside have none."""
    for capability in range(LAST_CAPABILITY + 1):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("Ii", CAPABILITY_VERSION, 0)
    call(libc.capset, header, bytes(24))
    call(libc.prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def apply_filter(code: bytes) -> None:
    """Apply a system call filter to this process and all that it starts."""
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    call(libc.prctl, PR_SET_SECCOMP, 2, ctypes.create_string_buffer(program), 0, 0)


def call(function: object, *arguments: object) -> None:
    """Call a function of the C library. Raises OSError."""
    if function(*arguments) < 0:  # type: ignore[operator]
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def end_like(child: int) -> None:
    """Wait for a child, and end with its status or its signal."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the child gets them, too
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -status in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
        os._exit(128 - status)
    os._exit(status)


if __name__ == "__main__":
    main()
