"""Servers that share a store, as processes."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import trio

from postgres.server import PASSWORD
from web.sockets import TOKEN, get, status

LIMITS = {
    "position_interval_s": 1.0,
    "cancel_grace_s": 5.0,
    "store_events_lifetime_s": 1e6,
    "open_sessions": 500,
}


class Node:
    """`agentrt serve` under one name, of which there is one process after the other."""

    def __init__(self, name: str, folder: Path, *, url: str, lease: float, role: str) -> None:
        self.name = name
        self.role = role
        self.port = 0
        self.process: trio.Process | None = None
        self.starts = 0
        self.ready = False
        """Whether a balancer may send somebody there."""
        self.stopped = False
        self.labels: dict[str, int] = {}
        """Of each start: its process."""
        self._folder = folder
        self._url = url
        self._lease = lease

    @property
    def record(self) -> Path:
        return self._folder / "record"

    @property
    def log(self) -> Path:
        return self._folder / f"{self.name}.log"

    async def start(self, host: str) -> None:
        """`host`: under which clients reach it."""
        self.starts += 1
        label = f"{self.name}.{self.starts}"
        config = self._folder / f"{label}.toml"
        agent = [sys.executable, "-S", "-E", str(Path(__file__).with_name("agent.py"))]
        limits = LIMITS | {"store_lease_s": self._lease}
        config.write_text(
            f"[agents.recording]\ncommand = '''{shlex.join([*agent, str(self.record), label])}'''\n"
            "[limits]\n" + "".join(f"{name} = {value}\n" for name, value in limits.items())
        )
        command = [sys.executable, "-m", "agentrt", "serve"]
        command += ["--permissions", "ask", "--port", str(self.port), "--allow-host", host]
        command += ["--store", self._url, "--node", self.name, "--home", "here"]
        if self.role != "both":
            command += ["--role", self.role]
        env = {name: value for name, value in os.environ.items() if not name.startswith("AGENTRT_")}
        env |= {"AGENTRT_CONFIG": str(config), "AGENTRT_SERVE_TOKEN": TOKEN}
        env |= {"PGPASSWORD": PASSWORD}
        with open(self.log, "ab") as log:  # noqa: ASYNC230
            self.process = await trio.lowlevel.open_process(
                command, cwd=self._folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.labels[label] = self.process.pid

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)
            self.stopped = number == signal.SIGSTOP or (
                self.stopped and number != signal.SIGCONT and number != signal.SIGKILL
            )

    async def wait(self) -> int:
        assert self.process is not None
        return await self.process.wait()

    async def probe(self) -> None:
        """Look whether it is ready, again and again."""
        while True:
            self.ready = await self.is_ready()
            await trio.sleep(0.3)

    async def is_ready(self) -> bool:
        with trio.move_on_after(1):
            try:
                return status(await get(self.port, "/readyz")) == 200
            except (OSError, EOFError, trio.BrokenResourceError):
                pass
        return False

    async def until_ready(self) -> None:
        while not self.ready:  # noqa: ASYNC110
            await trio.sleep(0.05)
