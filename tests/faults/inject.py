"""Calls of the system that fail: the n-th of a life does, once, with an error that it may have.

What is replaced are names in agentrt's own modules and the few of Trio's by which it starts
processes and waits for pipes; the rest of the program, the tests included, does not notice.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import trio
import trio._subprocess
import trio._subprocess_platform

from agentrt._core.process import layer, linux, portable
from agentrt._core.tools import bridge as tool_bridge
from inside.process import descendants as _descendants
from inside.process import guard, pipes, process
from inside.process import tree as _tree

OS_ERRORS: dict[str, tuple[int, ...]] = {
    "read": (errno.EIO, errno.ENOMEM),
    "write": (errno.EPIPE, errno.EIO),
    "open": (errno.EMFILE, errno.EACCES),
    "listdir": (errno.EMFILE, errno.ENOMEM),
    "pipe": (errno.EMFILE, errno.ENFILE),
    "pidfd_open": (errno.EMFILE, errno.ENOSYS),
    "kill": (errno.EPERM, errno.ESRCH),
    "killpg": (errno.EPERM, errno.ESRCH),
    "waitid": (errno.ECHILD,),
}
"""By the function of `os`: what the manual pages say that it may come to."""


class Faults:
    """Counts the calls that may fail, and lets the n-th one."""

    def __init__(
        self, n: int, which: int = 0, *, only: str | None = None, times: float = 1
    ) -> None:
        """`which` of the errors that a call has; `only`: this function's calls alone count;
        `times`: how often, from the n-th on, that function fails."""
        self.failed = ""
        """What has failed, and how; empty: nothing yet."""
        self.calls: Counter[str] = Counter()
        self.armed = False
        self._n = n
        self._which = which
        self._name = only
        self._times = times

    def failing(self, name: str, real: Callable[..., Any], *errors: int | Exception) -> Any:
        """The same function, but for the one call."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.armed:
                self.calls[name] += 1
                if self._is_due(name):
                    error = errors[self._which % len(errors)]
                    if isinstance(error, int):
                        error = OSError(error, os.strerror(error))
                    self.failed = f"{name}: {error}"
                    raise error
            return real(*args, **kwargs)

        return call

    def _is_due(self, name: str) -> bool:
        if not self.failed:
            so_far = self.calls.total() if self._name is None else self.calls[self._name]
            if so_far < self._n or self._name not in (None, name):
                return False
            self._name = name
        if self._name != name or not self._times:
            return False
        self._times -= 1
        return True

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for module in (process, pipes, guard, layer, _tree, trio._subprocess_platform):
            patch.setattr(module, "os", self._os(*OS_ERRORS))
        patch.setattr(_descendants, "os", self._os("kill"))
        # One walk over `/proc` is thousands of reads, and those of strangers' processes.
        patch.setattr(linux, "os", self._os("listdir", "pidfd_open"))
        patch.setattr(
            portable.psutil,
            "pids",
            self.failing("listdir", portable.psutil.pids, *OS_ERRORS["listdir"]),
        )
        popen = self.failing("Popen", subprocess.Popen, errno.EAGAIN, errno.ENOMEM)
        patch.setattr(subprocess, "Popen", popen)
        patch.setattr(pipes, "ioctl", self.failing("ioctl", pipes.ioctl, errno.EIO))
        listen = self.failing("listen", tool_bridge._listen, errno.EMFILE, errno.ENOSPC)
        patch.setattr(tool_bridge, "_listen", listen)
        for name in ("wait_readable", "wait_writable"):
            wait = getattr(trio.lowlevel, name)
            patch.setattr(
                trio.lowlevel, name, self._waiting(name, wait, errno.ENOMEM, errno.ENOSPC)
            )
        no_thread = RuntimeError("can't start new thread")
        patch.setattr(
            trio.to_thread, "run_sync", self._waiting("thread", trio.to_thread.run_sync, no_thread)
        )

    def _waiting(self, name: str, real: Any, *errors: int | Exception) -> Any:
        """An async function fails when it is awaited."""
        call = self.failing(name, lambda: None, *errors)

        async def wait(*args: Any, **kwargs: Any) -> Any:
            call()
            return await real(*args, **kwargs)

        return wait

    def _os(self, *names: str) -> ModuleType:
        """A module like `os`, in which these functions may fail."""
        copy = ModuleType("os")
        copy.__dict__.update(os.__dict__)
        for name in names:
            setattr(copy, name, self.failing(name, getattr(os, name), *OS_ERRORS[name]))
        return copy
