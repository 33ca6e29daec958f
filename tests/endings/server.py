"""`agentrt serve` in processes that end in every way in which a server can end."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import trio

from postgres.server import free_port
from web.sockets import TOKEN, get, status

LIMITS: Final = {
    "position_interval_s": 1.0,
    "cancel_grace_s": 2.0,
    "drain_timeout_s": 1.5,
    "store_lease_s": 6.0,
    "open_sessions": 500,
}


class Server:
    """One server, of which there is one process after the other, on the same port."""

    def __init__(self, name: str, folder: Path, store: str) -> None:
        self.name = name
        self.port = free_port()
        self.process: trio.Process | None = None
        self._folder = folder
        self._store = store
        self._config = folder / f"{name}.toml"
        agent = [sys.executable, "-S", "-E", str(Path(__file__).with_name("agent.py"))]
        self._config.write_text(
            f"[agents.recording]\ncommand = '''{shlex.join([*agent, str(self.record)])}'''\n"
            "[limits]\n" + "".join(f"{name} = {value}\n" for name, value in LIMITS.items())
        )
        self._env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AGENTRT_", "XDG_")) or name == "AGENTRT_TEST_RUN"
        } | {
            "HOME": str(folder),
            "AGENTRT_CONFIG": str(self._config),
            "AGENTRT_SERVE_TOKEN": TOKEN,
        }

    @property
    def is_shared(self) -> bool:
        """True if it shares a PostgreSQL store with other servers."""
        return self._store.startswith("postgresql:")

    @property
    def record(self) -> Path:
        """The file in which agents write down what they get."""
        return self._folder / "record"

    async def start(self) -> None:
        """Start a process, and wait until it is ready."""
        command = [sys.executable, "-m", "agentrt", "serve", "--permissions", "ask"]
        command += ["--port", str(self.port), "--store", self._store]
        if self.is_shared:
            command += ["--node", self.name, "--home", "here"]
        with open(self._folder / f"{self.name}.log", "ab") as log:  # noqa: ASYNC230
            self.process = await trio.lowlevel.open_process(
                command,
                cwd=self._folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        with trio.fail_after(60):
            while not await self._is_ready():
                assert self.process.returncode is None, "the server has ended"
                await trio.sleep(0.05)

    async def _is_ready(self) -> bool:
        try:
            return status(await get(self.port, "/readyz")) == 200
        except (OSError, EOFError, trio.BrokenResourceError):
            return False

    async def end(self, how: str) -> None:
        """End the process, and wait until it is gone."""
        assert self.process is not None
        if how == "drain":
            command = [sys.executable, "-m", "agentrt", "nodes", "drain", self.name]
            await trio.run_process(
                [*command, "--store", self._store],
                env=self._env,
                capture_stdout=True,
                capture_stderr=True,
            )
        else:
            self.process.send_signal(getattr(signal, how))
        with trio.fail_after(60):
            await self.process.wait()
        self.process = None

    async def kill(self) -> None:
        """Clean up."""
        if self.process is not None:
            self.process.kill()
            await self.process.wait()
