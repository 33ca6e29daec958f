"""Viewers of a server other than the page: an ACP client and a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import Any

import pyte

from browser.kit import until


class Editor:
    """An ACP client of `agentrt acp --attach`."""

    def __init__(self, server: str, env: dict[str, str], folder: Path) -> None:
        self.updates: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "agentrt", "acp", "--attach", server],
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.results: dict[int, dict[str, Any]] = {}
        self._requests = 0
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("method") == "session/update":
                self.updates.append(message["params"]["update"])
            elif "method" not in message:
                self.results[message["id"]] = message

    def start(self, method: str, **params: Any) -> int:
        """Send a request, and return its id."""
        assert self._process.stdin is not None
        self._requests += 1
        id = self._requests
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        return id

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request, and return the result."""
        id = self.start(method, **params)
        until(lambda: id in self.results, method)
        assert "result" in self.results[id], self.results[id]
        result: dict[str, Any] = self.results[id]["result"]
        return result

    def end(self) -> None:
        self._process.kill()
        with self._process:
            self._reader.join()

    @property
    def commands(self) -> list[dict[str, Any]]:
        """The agent's commands that it was last sent."""
        lists = [each.get("availableCommands") for each in self.updates]
        return next((each for each in reversed(lists) if each is not None), [])

    @property
    def text(self) -> str:
        shown = [*self.updates, *self.results.values()]
        return json.dumps(shown, ensure_ascii=False)


class Terminal:
    """`agentrt attach` on a terminal of 40 lines, with all that has scrolled out of it."""

    def __init__(self, server: str, env: dict[str, str], folder: Path) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, 120))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "agentrt", "attach", server],
            cwd=folder,
            env=env,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._screen = pyte.HistoryScreen(120, 40, history=100_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            with self._lock:
                self._stream.feed(data)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        os.close(self._master)

    def lists(self, *texts: str) -> bool:
        """True if a line of the screen has all the texts."""
        with self._lock:
            return any(all(text in line for text in texts) for line in self._screen.display)

    @property
    def text(self) -> str:
        with self._lock:
            past = [
                "".join(line[x].data for x in range(120)).rstrip()
                for line in self._screen.history.top
            ]
            return "\n".join([*past, *(line.rstrip() for line in self._screen.display)])
