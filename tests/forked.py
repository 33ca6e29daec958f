"""The program in a process of its own that was forked, and not started anew: without the half of a
second that an interpreter takes for its imports, three times over (the program, its guard, the demo
agent). It has its own session, terminal, environment and streams, as if it had been started.

`AGENTRT_FULL=1` starts an interpreter each time, as do tests that change how one starts.
"""

from __future__ import annotations

import faulthandler
import fcntl
import logging
import os
import signal
import subprocess
import sys
import termios
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trio._core._run import GLOBAL_RUN_CONTEXT
from trio._core._thread_cache import THREAD_CACHE

import agentrt._cli.arguments
import agentrt._cli.commands.agents
import agentrt._cli.commands.one_shot
import agentrt._cli.commands.sessions
import agentrt._cli.screen.repl

# What a program needs is imported here, so that it is there when the program is forked.
import agentrt._core.config
import agentrt._core.runtime.acp_setup
import agentrt._core.runtime.claude_setup  # noqa: F401 - loaded once, for all programs
from agentrt.demo.__main__ import main as demo

FULL = bool(os.environ.get("AGENTRT_FULL"))

_NO_MATTER = {
    *("PYTHONWARNINGS", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"),
}
"""Variables that mean nothing to a forked interpreter, or the same as here."""

_MODULES = ("agentrt", "agentrt.demo")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)


class Popen(subprocess.Popen[bytes]):
    """A process that is started as from a shell; forked if it is to run a module of ours.
    `terminal`: a descriptor of the terminal that is to be its own. `fresh`: never forked."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        terminal: int | None = None,
        fresh: bool = False,
        **options: Any,
    ) -> None:
        prepare = _as_in_a_shell(terminal)
        if not fresh and _can_fork(command, options.get("env")):
            prepare = _becoming(command, options["env"], prepare)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads: see `_forget`
            super().__init__(command, preexec_fn=prepare, **options)


class AgentPopen(subprocess.Popen[bytes]):
    """A `subprocess.Popen` that forks the demo agent, and starts all other programs."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        env = options.get("env")
        if env is not None and (become := becoming(command, env)) is not None:
            options["preexec_fn"] = _both(options.get("preexec_fn"), become)
        super().__init__(command, **options)


def _both(first: Callable[[], None] | None, second: Callable[[], None]) -> Callable[[], None]:
    def prepare() -> None:
        if first is not None:
            first()
        second()

    return prepare


def _module_of(command: Sequence[str]) -> tuple[str | None, list[str]]:
    """The module of ours that a command runs, or None, and its arguments."""
    program, *words = command
    if words[:1] == ["-P"]:  # the path of a forked process is that of this one anyway
        words = words[1:]
    if program == sys.executable and words[:1] == ["-m"] and words[1] in _MODULES:
        return words[1], words[2:]
    return None, []


def becoming(command: Sequence[str], env: Mapping[str, str]) -> Callable[[], None] | None:
    """What a child does before `exec`, for `preexec_fn`: be the process of that command's module.
    None if it can only be started anew."""
    return _becoming(command, env, _as_in_a_shell()) if _can_fork(command, env) else None


def _can_fork(command: Sequence[str], env: Mapping[str, str] | None) -> bool:
    return (
        not FULL
        and _module_of(command)[0] is not None
        and env is not None
        and not any(name.startswith(("PYTHON", "LC_")) for name in env if name not in _NO_MATTER)
        and env.get("LANG") == os.environ.get("LANG")
    )


def _as_in_a_shell(terminal: int | None = None) -> Callable[[], None]:
    """For the child: signals do what they do (a test run in the background ignores some), and the
    terminal is its own."""

    def prepare() -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        if terminal is not None:
            os.setsid()
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

    return prepare


def _becoming(
    command: Sequence[str], env: Mapping[str, str], prepare: Callable[[], None]
) -> Callable[[], None]:
    """For the child: be that module's process, instead of running a program."""
    module, arguments = _module_of(command)
    assert module is not None

    def become() -> None:
        status = 1
        try:
            prepare()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
            faulthandler.disable()  # pytest's
            logging.getLogger().handlers.clear()  # pytest's, whose files are closed now
            os.closerange(3, 4096)  # also the pipe that waits for the program to be run
            os.environ.clear()
            os.environ.update(env)
            _forget(module)
            warnings.resetwarnings()
            warnings.simplefilter("error")
            _open_streams()
            sys.argv = [module, *arguments]
            status = _run(module)
            sys.stdout.flush()
        except BaseException:  # noqa: ASYNC103 - of another process, which ends here
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(status)

    return become


def _forget(module: str) -> None:
    """What belongs to the process that was forked: its event loop and its threads."""
    GLOBAL_RUN_CONTEXT.__dict__.clear()
    THREAD_CACHE._idle_workers.clear()
    if module == "agentrt":
        subprocess.Popen = AgentPopen  # type: ignore[misc]


def _open_streams() -> None:
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        errors = "backslashreplace" if name == "stderr" else "strict"
        try:
            lines = 1 if name == "stderr" or os.isatty(number) else -1
            stream = open(number, mode, lines, "utf-8", errors, closefd=False)  # noqa: SIM115
        except OSError:
            stream = None  # type: ignore[assignment]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _run(module: str) -> int:
    try:
        if module != "agentrt":
            return demo()
        from agentrt import __main__ as command

        command.exit_at_next_signal()  # again, if the test's process has imported it
        return command.run()
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else int(done.code is not None)
