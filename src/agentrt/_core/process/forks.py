"""Pipes that a fork of this process must not keep open.

A pipe ends when its last copy is closed. A forked process (`os.fork`, `multiprocessing`) has copies
of all pipes, so as long as it lives, an agent would not read the end of its input.
"""

from __future__ import annotations

import os
from weakref import WeakSet

from trio.lowlevel import FdStream

_streams: WeakSet[FdStream] = WeakSet()


def forget_in_forks(stream: FdStream) -> None:
    """Replace the stream by the null device in processes that are forked from now on."""
    _streams.add(stream)


def _forget() -> None:
    # Not closed: the stream object is copied as well, and will close the descriptor.
    numbers = [each.fileno() for each in _streams if each.fileno() >= 0]
    if not numbers:
        return
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in numbers:
        os.dup2(null, number, inheritable=False)
    os.close(null)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
