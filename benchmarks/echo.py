"""How long a key takes to be seen while an agent floods the conversation's screen.

`python benchmarks/echo.py [LINES]`: the real program on a terminal of its own, with the demo agent
writing LINES lines (20,000) as fast as it can; a key each 20 ms. Prints one line of JSON.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time

KEYS = "ÄÖÜäöüÆØÅæøå"
"""Letters that occur nowhere else on the screen."""
PATIENCE = 60.0


class Terminal:
    """A terminal that reads as fast as it can."""

    def __init__(self, command: list[str], folder: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        env = {**os.environ, "HOME": folder, "TERM": "xterm-256color"}

        def own_terminal() -> None:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=env,
            preexec_fn=own_terminal,
        )
        os.close(slave)
        self.seen = b""

    def until(self, wanted: bytes, since: int = 0) -> None:
        """Read until this has been shown behind that place."""
        end = time.monotonic() + PATIENCE
        while wanted not in self.seen[since:]:
            if not select.select([self.master], [], [], end - time.monotonic())[0]:
                raise TimeoutError(wanted)
            self.seen += os.read(self.master, 65536)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())


def main() -> None:
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "agentrt", "--agent", "demo", "--model", "instant"]
        terminal = Terminal(command, folder)
        terminal.until(b"ready")
        begun = time.monotonic()
        terminal.type(f"/flood {lines}\r")
        terminal.until(b"line 1\r")
        took = []
        for key in KEYS:
            at, place = time.monotonic(), len(terminal.seen)
            terminal.type(key)
            terminal.until(key.encode(), place)
            took.append((time.monotonic() - at) * 1000)
            time.sleep(0.02)
        in_flood = f"line {lines}\r".encode() not in terminal.seen
        terminal.until(f"line {lines}\r".encode())
        seconds = time.monotonic() - begun
        terminal.process.terminate()
        terminal.process.wait()
    took.sort()
    told = {"lines": lines, "seconds": round(seconds, 2), "all_keys_in_the_flood": in_flood}
    told |= {"median_ms": round(took[len(took) // 2], 1), "longest_ms": round(took[-1], 1)}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
