"""The real program as a child process: on pipes, or on a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from forked import Popen

PATIENCE = 20.0
"""Seconds for anything that is waited for: the machine may be slow."""

COMMAND = (sys.executable, "-m", "agentrt")

INERT = 0.6
"""Seconds after which a question may have been read."""


def odd(what: str) -> tuple[str, ...]:
    """The agent that does one odd thing."""
    agent = Path(__file__).with_name("odd_agent.py")
    return ("--command", shlex.join([sys.executable, str(agent), what]))


def fake_claude(scenario: str) -> tuple[str, ...]:
    """A Claude Code that plays a scenario."""
    fake = Path(__file__).parents[1] / "claude" / "fakecli.py"
    return ("--protocol", "claude", "--command", shlex.join([sys.executable, str(fake), scenario]))


def read_some(stream: IO[bytes] | None, deadline: float = 0.0, *, size: int = 65536) -> bytes:
    """What is in a pipe, once something is; never for ever."""
    assert stream is not None
    left = (deadline or time.monotonic() + PATIENCE) - time.monotonic()
    assert select.select([stream], [], [], max(0.0, left))[0], "nothing was written"
    return os.read(stream.fileno(), size)


class Program:
    """How to start it: with a home and a folder of its own."""

    fresh = False
    """Each process is one that was started, and not forked."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "work"
        self.folder.mkdir()
        (self.folder / "notes.txt").write_text("first line\nsecond line\n")
        self.home = root / "home"
        self.home.mkdir()
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("XDG_", "NO_COLOR", "PYTHON", "AGENTRT_"))
            or name == "AGENTRT_TEST_RUN"
        } | {
            "HOME": str(self.home),
            "TERM": "xterm",
            "PYTHONWARNINGS": "error",
            "AGENTRT_TERMINAL_PLAIN": "true",
            # No test is about how long exactly these silences and farewells take.
            "AGENTRT_LIMITS_END_SILENCE_S": "0.3",
            "AGENTRT_LIMITS_STDIN_CLOSE_GRACE_S": "0.5",
            "AGENTRT_LIMITS_TERMINATE_GRACE_S": "0.5",
        }

    def start(self, *arguments: str, **options: object) -> subprocess.Popen[bytes]:
        """On pipes; the caller waits for it."""
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | options
        # What its processes look like from outside is looked at in the tests of the server.
        fresh = self.fresh or arguments[:1] == ("serve",)
        command = [*COMMAND, *arguments]
        return Popen(command, cwd=self.folder, env=self.env, fresh=fresh, **streams)

    def run(
        self, *arguments: str, stdin: str = "", status: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end, without a terminal; it must end with this exit status."""
        command = [*COMMAND, *arguments]
        with self.start(*arguments, start_new_session=True) as process:
            try:
                out, err = process.communicate(stdin.encode(), timeout=PATIENCE)
            finally:
                process.kill()
        texts = out.decode(), err.decode()
        done = subprocess.CompletedProcess(command, process.returncode, *texts)
        assert "\nTraceback" not in "\n" + done.stderr, done.stderr
        assert status is None or done.returncode == status, (done.returncode, done.stderr)
        return done

    def demo(
        self, prompt: str, *arguments: str, stdin: str = "", status: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        """One prompt to the demo agent that does not dawdle."""
        return self.run(*FAST_DEMO, "-p", prompt, *arguments, stdin=stdin, status=status)

    @contextmanager
    def terminal(
        self, *arguments: str, command: Sequence[str] = COMMAND, **options: object
    ) -> Iterator[Terminal]:
        """Run it on a terminal of its own; killed if the block leaves it running."""
        with on_terminal([*command, *arguments], cwd=self.folder, env=self.env, **options) as it:
            yield it


FAST_DEMO = ("--agent", "demo", "--model", "instant")


class Terminal:
    """A terminal with the program on it, as a person sees and uses it."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.raw = b""
        """Everything that was shown, and echoed."""
        self.master = master
        self.settings: list[Any] = []
        """The terminal's, as they were before the program began."""
        self._seen = 0

    @property
    def shown(self) -> str:
        return self.raw.decode(errors="replace").replace("\r\n", "\n")

    def expect(self, pattern: str, *, regex: bool = False) -> re.Match[str]:
        """Wait until this is shown behind what was waited for before."""
        wanted = re.compile(pattern if regex else re.escape(pattern), re.DOTALL)
        deadline = time.monotonic() + PATIENCE
        while True:
            found = wanted.search(self.shown, self._seen)
            if found:
                self._seen = found.end()
                return found
            left = deadline - time.monotonic()
            assert left > 0, f"{pattern!r} was not shown:\n{self.shown[self._seen :]}"
            assert self._read(left), f"{pattern!r} was not shown before the end:\n{self.shown}"

    def _read(self, patience: float) -> bool:
        """Read more; False at the end."""
        readable, _, _ = select.select([self.master], [], [], patience)
        if not readable:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.raw += data
        return bool(data)

    def read_for(self, duration_s: float) -> None:
        """Read what is shown in this time."""
        deadline = time.monotonic() + duration_s
        while (left := deadline - time.monotonic()) > 0 and self._read(left):
            pass

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def line(self, text: str) -> None:
        self.type(text + "\n")

    def ctrl(self, letter: str) -> None:
        """Ctrl-C and the like, as keys."""
        self.type(chr(ord(letter) & 0x1F))

    def hang_up(self) -> None:
        """Close the terminal, as a window is closed."""
        os.close(self.master)
        self.master = -1

    def ended(self) -> int:
        """Read to the end; the exit status."""
        deadline = time.monotonic() + PATIENCE
        while self._read(0.2):
            assert time.monotonic() < deadline, f"it does not end:\n{self.shown[-2000:]}"
        return self.process.wait(PATIENCE)


SIZE = 30, 100
"""Rows and columns of a terminal."""

T = TypeVar("T", bound=Terminal)


@contextmanager
def on_terminal(
    command: Sequence[str],
    kind: Callable[[int, subprocess.Popen[bytes]], T] = Terminal,  # type: ignore[assignment]
    **options: object,
) -> Iterator[T]:
    """Run a command on a terminal of its own; killed if the block leaves it running."""
    master, slave = pty.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        settings = termios.tcgetattr(slave)
        streams = {"stdin": slave, "stdout": slave, "stderr": slave} | options
        process = Popen(command, terminal=slave, **streams)
        os.close(slave)
        slave = -1
        terminal = kind(master, process)
        terminal.settings = settings
        try:
            yield terminal
        finally:
            master = terminal.master
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
    finally:
        for fd in (master, slave):
            if fd >= 0:
                os.close(fd)
