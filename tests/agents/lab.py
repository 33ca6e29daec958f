"""A place to run one real agent: a scripted model, a HOME and a work folder of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import psutil

from agentrt.sandbox import Sandbox

from .recipes import RECIPES, Place, Recipe
from .versions import HERE


class Asked(msgspec.Struct):
    """One row of the model server's log."""

    what: str  # "ask", "end", "other", "unreadable" or "broken"
    at: float
    number: int = 0  # the same in the "ask" and the "end" of one request
    path: str = ""
    marker: str | None = None
    turn: int = 0
    history: list[str] = []  # the markers of the conversation that was sent
    tools: list[str] = []
    how: str = ""  # of "end": "complete", "client gone", "cut", "status 429" ...
    error: str = ""


@dataclass(frozen=True)
class Model:
    """A running model server."""

    url: str
    log: Path

    def rows(self) -> list[Asked]:
        """What was asked so far."""
        if not self.log.exists():
            return []
        return msgspec.json.Decoder(Asked).decode_lines(self.log.read_bytes())

    def asks(self) -> list[Asked]:
        """The requests of conversations: those that offered tools and followed a script."""
        return [row for row in self.rows() if row.what == "ask" and row.tools and row.marker]


@contextmanager
def model_server(folder: Path, *, bodies: bool = False) -> Iterator[Model]:
    """A model server of its own process; its log lies in *folder*.

    It ends when its standard input does, so it cannot outlive this process either.
    """
    log = folder / "model.ndjson"
    argv = [sys.executable, "-m", "modelserver", "--log", str(log)]
    if bodies:
        argv += ["--bodies", str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=HERE, stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield Model(server.stdout.readline().strip(), log)
        finally:
            server.stdin.close()


def _home(process: psutil.Process) -> str | None:
    try:
        return process.environ().get("HOME")
    except psutil.Error:  # gone meanwhile, a zombie, or somebody else's
        return None


@dataclass(frozen=True)
class Lab:
    """One agent, ready to be started: `argv` with `env`, in `work`."""

    agent: str
    recipe: Recipe
    model: Model
    home: Path
    work: Path
    env: dict[str, str]
    sandbox: Sandbox | None = None
    acp_version: Literal[1, 2] = 1
    stories: list[Any] = field(default_factory=list)
    """The stories of its sessions so far."""

    @property
    def argv(self) -> tuple[str, ...]:
        return self.recipe.argv

    def processes(self) -> list[psutil.Process]:
        """Every living process that has this lab's HOME: the agent and whatever it left behind,
        in whichever process group or session."""
        mine = str(self.home)
        return [process for process in psutil.process_iter() if _home(process) == mine]


def prepare(agent: str, model: Model, root: Path, folder: Path) -> Lab:
    """Write an agent's HOME below *folder*; this machine's environment stays outside."""
    place = Place(root, model.url)
    recipe = RECIPES[agent](place)
    home, work = folder / "home", folder / "work"
    home.mkdir()
    work.mkdir()
    for name, text in recipe.files.items():
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    env = {
        "PATH": f"{root / 'node' / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "NO_PROXY": "127.0.0.1,localhost",
        **recipe.env,
    }
    return Lab(agent, recipe, model, home, work, env)
