"""The agents of a run: what they have written down, and which of them are alive."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .history import Process


class Record:
    """The file that all of them write. What was read once is not read again: there are ten looks a
    second, for long."""

    def __init__(self, file: Path) -> None:
        self.lines: list[dict[str, Any]] = []
        self._file = file
        self._read = 0

    def new(self) -> Sequence[dict[str, Any]]:
        """What has come since."""
        if not self._file.exists():
            return []
        with open(self._file, "rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(end)
        lines = [json.loads(line) for line in whole.splitlines()]
        self.lines += lines
        return lines


class Agents:
    """Those that are alive, of all that have written down their start."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.fsencode(folder)
        self._known: dict[int, Process] = {}

    def alive(
        self, lines: Sequence[dict[str, Any]], servers: Mapping[str, int]
    ) -> Sequence[Process]:
        """`lines`: what was written down since; `servers`: the processes, by their labels."""
        for line in lines:
            if "started" in line:  # the number may have been another one's before
                pid = line["pid"]
                self._known[pid] = Process(pid, servers[line["label"]], line["at"])
        self._known = {pid: each for pid, each in self._known.items() if self._is_alive(pid)}
        return list(self._known.values())

    def _is_alive(self, pid: int) -> bool:
        """Whether a process runs, or is stopped, and is an agent of this run."""
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
        return state not in "ZX" and self._folder in command
