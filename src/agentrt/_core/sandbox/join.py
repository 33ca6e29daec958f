"""Run one more program in a sandbox whose agent is running, or change its view of the files.

Run as `python -I -S join.py run PID HANDLE FOLDER LIMITS FILTER COMMAND...` outside. It enters the
namespaces of the process PID, whose handle (pidfd) it inherits, gives up all capabilities, applies
the system call filter (the inherited descriptor FILTER, or `-`), and executes COMMAND in FOLDER. It
stays outside as the parent of that program, to end like it.

Run as `python -I -S join.py show PID HANDLE MODE PATH [MODE PATH]...` it makes PATH of this machine
visible inside at the same place: read-only (MODE `ro`) or writable (`rw`). The further pairs are
paths below the first one with a mode of their own. `hide PID HANDLE PATH...` takes such paths away.
Errors are written to the standard error output.

Run as `python -I -S join.py confine RULES FILTER FOLDER LIMITS COMMAND...` it restricts itself by
Landlock instead of entering namespaces, and executes COMMAND in FOLDER (empty: in this folder).
RULES is an inherited descriptor of JSON: the paths that can be read, those that can be written, and
the TCP ports to which programs can connect. `landlock.py` writes them.

To copy a mount, a process needs rights in its own namespace of files, and to put the copy into the
sandbox, rights in there. An ordinary user has both one after the other: a child process makes a
user namespace, copies the mounts in it and hands them over as descriptors.

The program cannot be manipulated by other programs inside before it has given up its rights: it is
not dumpable, and has capabilities that they lack.
"""

from __future__ import annotations

import array
import ctypes
import errno
import json
import os
import resource
import select
import signal
import socket
import stat
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
CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
OPEN_TREE = 428
MOVE_MOUNT = 429
OPENAT2 = 437
MOUNT_SETATTR = 442
AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
OPEN_TREE_CLONE = 1
OPEN_TREE_CLOEXEC = os.O_CLOEXEC
MOVE_MOUNT_FROM_FD = 0x04
MOVE_MOUNT_TO_FD = 0x40
MOUNT_ATTR_RDONLY = 1
MOUNT_ATTR_NOSUID_NODEV = 6
MS_PRIVATE = 1 << 18
RESOLVE_NO_SYMLINKS_BENEATH = 0x04 | 0x08
MNT_DETACH = 2
MAX_MOUNTS = 200
NS_GET_USERNS = 0xB701
LANDLOCK_CREATE_RULESET = 444
LANDLOCK_ADD_RULE = 445
LANDLOCK_RESTRICT_SELF = 446
LANDLOCK_FILES = (1 << 16) - 1
"""All rights on files of version 6 of Landlock."""
LANDLOCK_READ = 1 | 4 | 8
"""To execute and to read a file, and to list a folder."""
LANDLOCK_OF_FILE = 1 | 2 | 4 | 1 << 14 | 1 << 15
"""The rights that a file can have, and not only a folder."""
LANDLOCK_BIND_AND_CONNECT = 3
LANDLOCK_SOCKETS_AND_SIGNALS = 3
CAPABILITY_VERSION = 0x20080522

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Do the work that the first argument names."""
    mode, *arguments = sys.argv[1:]
    if mode in ("run", "confine"):
        run(*arguments) if mode == "run" else confine(*arguments)
        return
    call(libc.prctl, PR_SET_DUMPABLE, 0, 0, 0, 0)
    pid, handle, *places = arguments
    try:
        if mode == "show":
            show(int(pid), int(handle), list(zip(places[1::2], places[::2], strict=True)))
        else:
            hide(int(pid), int(handle), places)
    except OSError as error:
        raise SystemExit(f"{error.filename or ''}: {error.strerror}".lstrip(": ")) from None


def show(pid: int, handle: int, places: list[tuple[str, str]]) -> None:
    """Make paths visible inside. The first one contains the others.

    The tree is read-only until everything below it has its own mode, so that no program inside can
    write to a part that stays read-only. Raises OSError.
    """
    mounts = cloned([path for path, _ in places])
    enter(pid, handle, as_owner=True)
    (path, mode), *inner = places
    is_folder = stat.S_ISDIR(os.fstat(mounts[0]).st_mode)
    make_mount_point(path, is_folder=is_folder)
    syscall(MOVE_MOUNT, mounts[0], b"", AT_FDCWD, path.encode(), MOVE_MOUNT_FROM_FD)
    for (below, its_mode), mount in zip(inner, mounts[1:], strict=True):
        if its_mode == "rw":
            set_read_only(mount, on=False)
        place = open_beneath(mounts[0], os.path.relpath(below, path))
        syscall(MOVE_MOUNT, mount, b"", place, b"", MOVE_MOUNT_FROM_FD | MOVE_MOUNT_TO_FD)
        os.close(place)
    if mode == "rw":
        set_read_only(mounts[0], on=False)


def hide(pid: int, handle: int, places: list[str]) -> None:
    """Take paths away that were made visible. Raises OSError."""
    enter(pid, handle, as_owner=True)
    for path in places:
        call(libc.umount2, path.encode(), MNT_DETACH)


def cloned(paths: list[str]) -> list[int]:
    """Return descriptors of copies of the mounts at these paths, all read-only. Raises OSError."""
    if len(paths) > MAX_MOUNTS:
        raise OSError(errno.E2BIG, "it contains too many repositories", paths[0])
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if not child:
        try:
            here.close()
            call(libc.unshare, CLONE_NEWUSER | CLONE_NEWNS)
            found = array.array("i")
            for path in paths:
                found.append(
                    syscall(
                        OPEN_TREE,
                        AT_FDCWD,
                        path.encode(),
                        OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE,
                    )
                )
                set_read_only(found[-1], on=True)
            there.sendmsg([b"0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, found)])
        except OSError as error:
            there.send(str(error.errno).encode())
        finally:
            os._exit(0)
    there.close()
    data, ancillary, _, _ = here.recvmsg(16, socket.CMSG_SPACE(4 * MAX_MOUNTS))
    os.waitpid(child, 0)
    here.close()
    number = int(data or b"5")
    if number:
        raise OSError(number, os.strerror(number), paths[0])
    handles = array.array("i")
    handles.frombytes(ancillary[0][2])
    return list(handles)


def set_read_only(mount: int, *, on: bool) -> None:
    """Make a copied mount read-only, with everything below it, or only itself writable again."""
    if on:
        wanted = struct.pack("QQQQ", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID_NODEV, 0, MS_PRIVATE, 0)
        flags = AT_EMPTY_PATH | AT_RECURSIVE
    else:
        wanted, flags = struct.pack("QQQQ", 0, MOUNT_ATTR_RDONLY, 0, 0), AT_EMPTY_PATH
    syscall(MOUNT_SETATTR, mount, b"", flags, wanted, len(wanted))


def make_mount_point(path: str, *, is_folder: bool) -> None:
    """Create a missing mount point, in a folder that is private to the sandbox. Raises OSError."""
    if os.path.lexists(path):
        return
    os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
    if not is_folder:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))


def open_beneath(folder: int, path: str) -> int:
    """Open a path below a folder, without following links. Raises OSError."""
    flags = getattr(os, "O_PATH", 0) | os.O_CLOEXEC
    how = struct.pack("QQQ", flags, 0, RESOLVE_NO_SYMLINKS_BENEATH)
    return syscall(OPENAT2, folder, path.encode(), how, len(how))


def syscall(number: int, *arguments: object) -> int:
    """Make a system call. Raises OSError."""
    result = int(libc.syscall(number, *arguments))
    if result < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))
    return result


def run(*arguments: str) -> None:
    """Enter, start the program, and end as it ends."""
    target, handle, folder, limits, program, *command = arguments
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
    become(command, limits, code)


def become(command: list[str], limits: str, code: bytes) -> None:
    """Set resource limits, apply a filter of system calls, and execute a command."""
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


def confine(*arguments: str) -> None:
    """Restrict this process by Landlock, and execute the command."""
    given, program, folder, limits, *command = arguments
    rules = json.loads(os.pread(int(given), 1 << 24, 0))
    code = os.pread(int(program), 65536, 0)
    for each in (given, program):
        os.close(int(each))
    if folder:
        os.chdir(folder)
    give_up_rights()
    handled = struct.pack(
        "QQQ", LANDLOCK_FILES, LANDLOCK_BIND_AND_CONNECT, LANDLOCK_SOCKETS_AND_SIGNALS
    )
    ruleset = syscall(LANDLOCK_CREATE_RULESET, handled, len(handled), 0)
    for rights, paths in ((LANDLOCK_READ, rules["read"]), (LANDLOCK_FILES, rules["write"])):
        for path in paths:
            allow_path(ruleset, path, rights)
    for port in rules["ports"]:
        syscall(LANDLOCK_ADD_RULE, ruleset, 2, struct.pack("QQ", 2, port), 0)
    syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    become(command, limits, code)


def allow_path(ruleset: int, path: str, rights: int) -> None:
    """Add a path to a ruleset, unless it is gone or has become a link."""
    try:
        flags = getattr(os, "O_PATH", 0) | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(os.fsencode(path), flags)
    except OSError:
        return
    mode = os.fstat(handle).st_mode
    if not stat.S_ISLNK(mode):
        rights &= LANDLOCK_FILES if stat.S_ISDIR(mode) else LANDLOCK_OF_FILE
        rule = struct.pack("=Qi", rights, handle)
        syscall(LANDLOCK_ADD_RULE, ruleset, 1, rule, 0)
    os.close(handle)


def enter(pid: int, process: int, *, as_owner: bool = False) -> None:
    """Enter the namespaces of a process. `as_owner`: keep the rights over the sandbox's files.

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
    for handle in order if same or as_owner else [*order, handles["user"]]:
        call(libc.setns, handle, 0)
        os.close(handle)
    if same or as_owner:
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
