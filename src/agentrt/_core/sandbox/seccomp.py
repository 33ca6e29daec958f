"""The system calls that programs in a sandbox may not make, as a program for the kernel.

The namespaces already take away most of the power of these calls. The filter keeps programs from
reaching parts of the kernel that agents do not need and that have had faults.
"""

from __future__ import annotations

import struct
from typing import Final

X86_64: Final = 0xC000003E
AARCH64: Final = 0xC00000B7

_EPERM: Final = 0x00050001
_ENOSYS: Final = 0x00050026
_KILL: Final = 0x80000000
_ALLOW: Final = 0x7FFF0000

_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_AND: Final = 0x54

# Names: (x86_64, aarch64)
REFUSED: Final[dict[str, tuple[int, int]]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "bpf": (321, 280),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "open_by_handle_at": (304, 265),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
}
"""System calls that fail with EPERM, with their numbers on x86_64 and aarch64."""

_UNSHARE: Final = (272, 97)
_CLONE: Final = (56, 220)
_CLONE3: Final = (435, 435)
_IOCTL: Final = (16, 29)
_SOCKET: Final = (41, 198)
_NAMESPACES: Final = 0x7E020080
"""The flags of `clone` and `unshare` for new namespaces."""

_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_FAMILIES: Final = {"AF_PACKET": 17, "AF_ALG": 38, "AF_VSOCK": 40}
"""Socket families that are refused: raw packets, virtual machines, the kernel's cryptography."""

_PRLIMIT: Final = (302, 261)
_FLAGGED: Final = {(44, 206): 3, (46, 211): 2, (307, 269): 3}
"""`sendto`, `sendmsg` and `sendmmsg`, with the place of their flags among their arguments."""
_MSG_FASTOPEN: Final = 0x20000000
"""Connects while it sends, past the check of `connect`."""
_AF_UNIX: Final = 1
_AF_INET: Final = 2
_AF_INET6: Final = 10
_AF_NETLINK: Final = 16
_SOCK_STREAM: Final = 1
_IPPROTO_TCP: Final = 6

_NR: Final = 0
_ARCH: Final = 4
_ARGS: Final = 16

Instruction = tuple[int, int, int, int]


def architecture(machine: str) -> int | None:
    """Return the kernel's number for a machine, or None if there is no filter for it."""
    return {"x86_64": X86_64, "aarch64": AARCH64}.get(machine)


def filter_program(machine: str, *, nested: bool = False, only_tcp: bool = False) -> bytes:
    """Return the filter for `machine`, as the kernel reads it.

    `nested`: programs may make namespaces, and mount file systems in them. `only_tcp`: the network
    is this machine's, so of its sockets only those of TCP can be made, which Landlock restricts,
    and programs outside cannot be given resource limits.

    Raises `ValueError` for a machine without a filter.
    """
    arch = architecture(machine)
    if arch is None:
        raise ValueError(f"there is no system call filter for {machine}")
    column = 0 if arch == X86_64 else 1
    code: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NR),
    ]
    if arch == X86_64:  # the calls of the x32 interface
        code += [(_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _EPERM)]
    allowed = {"mount", "umount2", "pivot_root", "setns"} if nested else set()
    for name, numbers in REFUSED.items():
        if name not in allowed:
            code += _refuse(numbers[column])
    if not nested:
        code += _refuse(_UNSHARE[column])
        # The flags of clone3 are in memory, which a filter cannot read; programs fall back.
        code += [(_EQUAL, 0, 1, _CLONE3[column]), (_RETURN, 0, 0, _ENOSYS)]
        code += _refuse_flags(_CLONE[column], _ARGS, _NAMESPACES)
    code += _refuse_values(_IOCTL[column], _ARGS + 8, (_TIOCSTI, _TIOCLINUX))
    code += _refuse_values(_SOCKET[column], _ARGS, sorted(_FAMILIES.values()))
    if only_tcp:
        code += _only_tcp(_SOCKET[column])
        for names, argument in _FLAGGED.items():
            code += _refuse_flags(names[column], _ARGS + 8 * argument, _MSG_FASTOPEN)
        code += _refuse_others(_PRLIMIT[column])
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *each) for each in code)


def _refuse(number: int) -> list[Instruction]:
    """Refuse a call with the error EPERM. The number of the call must be loaded."""
    return [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]


def _refuse_flags(number: int, argument: int, flags: int) -> list[Instruction]:
    """Refuse a call if its argument has any of these flags."""
    return [
        (_EQUAL, 0, 5, number),
        (_LOAD, 0, 0, argument),
        (_AND, 0, 0, flags),
        (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _EPERM),
        (_LOAD, 0, 0, _NR),
    ]


def _refuse_values(
    number: int, argument: int, values: tuple[int, ...] | list[int]
) -> list[Instruction]:
    """Refuse a call if its argument is one of these values."""
    tests: list[Instruction] = []
    for value in values:
        tests += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _EPERM)]
    body: list[Instruction] = [(_LOAD, 0, 0, argument), *tests, (_LOAD, 0, 0, _NR)]
    return [(_EQUAL, 0, len(body), number), *body]


def _only_tcp(number: int) -> list[Instruction]:
    """Refuse each socket that is not of TCP, of Unix or of netlink: also of protocols such as
    MPTCP and SMC, which make connections of TCP that Landlock does not see."""
    return [
        (_EQUAL, 0, 13, number),
        (_LOAD, 0, 0, _ARGS),
        (_EQUAL, 10, 0, _AF_UNIX),
        (_EQUAL, 9, 0, _AF_NETLINK),
        (_EQUAL, 1, 0, _AF_INET),
        (_EQUAL, 0, 6, _AF_INET6),
        (_LOAD, 0, 0, _ARGS + 8),
        (_AND, 0, 0, 0xF),
        (_EQUAL, 0, 3, _SOCK_STREAM),
        (_LOAD, 0, 0, _ARGS + 16),
        (_EQUAL, 2, 0, 0),
        (_EQUAL, 1, 0, _IPPROTO_TCP),
        (_RETURN, 0, 0, _EPERM),
        (_LOAD, 0, 0, _NR),
    ]


def _refuse_others(number: int) -> list[Instruction]:
    """Refuse a call whose first argument names another process."""
    return [
        (_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _ARGS),
        (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _EPERM),
        (_LOAD, 0, 0, _NR),
    ]
