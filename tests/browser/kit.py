"""A server and a browser, as a person has them: `agentrt serve` as a process, Chromium as it is."""

from __future__ import annotations

import os
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PATIENCE = 30.0
"""Seconds for anything that is waited for: the machine may be slow."""

MARK = "AGENTRT_TEST_RUN"
"""In the environment of every process that a test starts (see the conftest above)."""

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

AGENT = Path(__file__).with_name("scripted_agent.py")

GUARD = 600
"""Milliseconds after which a question takes an answer."""


def scripted(*arguments: str) -> tuple[str, ...]:
    """The agent of these tests, which does what the prompt says."""
    return ("--command", shlex.join([sys.executable, str(AGENT), *arguments]))


class Server:
    """`agentrt serve` in a folder, with a home of its own; it can be killed and started again."""

    program: tuple[str, ...] = ("-m", "agentrt", "serve")

    def __init__(self, root: Path, *arguments: str, env: Mapping[str, str] = os.environ) -> None:
        self.folder = root / "work"
        self.folder.mkdir(exist_ok=True)
        (self.folder / "notes.txt").write_text("first line\nsecond line\n")
        self.arguments = arguments
        self._env = {
            name: value
            for name, value in env.items()
            if not name.startswith(("XDG_", "AGENTRT_")) or name == MARK
        } | {
            "HOME": str(root),
            "AGENTRT_LIMITS_END_SILENCE_S": "0.3",
            "AGENTRT_LIMITS_STDIN_CLOSE_GRACE_S": "0.5",
            "AGENTRT_LIMITS_TERMINATE_GRACE_S": "0.5",
        }
        self.process: subprocess.Popen[bytes] | None = None
        self._read = b""

    def start(self) -> None:
        assert self.process is None
        self._read = b""
        self.process = subprocess.Popen(
            [sys.executable, *self.program, *self.arguments],
            cwd=self.folder,
            env=self._env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def link(self) -> str:
        """The next link that it prints."""
        assert self.process is not None
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE
        while b"\n" not in self._read:
            ready, _, _ = select.select([self.process.stdout], [], [], deadline - time.monotonic())
            assert ready, "no link was printed"
            data = os.read(self.process.stdout.fileno(), 4096)
            assert data, "the server ended"
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        found = re.search(r"http\S+", line.decode())
        assert found, line
        return found[0]

    def tell(self, words: str) -> None:
        """Write a line to its standard input."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(f"{words}\n".encode())
        self.process.stdin.flush()

    def end(self, number: int = signal.SIGTERM) -> None:
        """End it, or with SIGKILL break it off."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE)
            for pipe in (self.process.stdin, self.process.stdout):
                assert pipe is not None
                pipe.close()
            self.process = None


class Host(Server):
    """The program `host.py` instead."""

    program = (str(Path(__file__).with_name("host.py")),)


@contextmanager
def serving(
    root: Path, *arguments: str, env: Mapping[str, str] = os.environ, kind: type[Server] = Server
) -> Iterator[Server]:
    server = kind(root, *arguments, env=env)
    server.start()
    try:
        yield server
    finally:
        server.end()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def until(check: Callable[[], object], what: str | Callable[[], object] = "it") -> None:
    """Wait until something outside the browser is so. `what`: it, or what is reported instead."""
    deadline = time.monotonic() + PATIENCE
    while not check():
        late = time.monotonic() > deadline
        assert not late, f"{what} does not happen" if isinstance(what, str) else what()
        time.sleep(0.02)


# --- what a person sees and does on the page


def phase(page: Page, words: str) -> None:
    """Wait until the header says how the session stands: `ready`, `working`, …"""
    page.locator("header .phase", has_text=re.compile(rf"^\s*{words}")).wait_for()


def ask(page: Page, text: str) -> None:
    """Write a message and send it: on a phone, Enter begins a line."""
    box = page.get_by_label("Message the agent")
    box.fill(text)
    if page.evaluate("matchMedia('(pointer: coarse) and (hover: none)').matches"):
        page.locator(".composer button.send").click()
    else:
        box.press("Enter")


LAST = "found => found.at(-1)?.dataset.item ?? null"
"""The id of the last one. Their number tells nothing: those that are far up are not drawn."""


def turn(page: Page, text: str) -> None:
    """Ask, and wait for the end of the turn."""
    logged = page.locator("article.user:not(.sent *)")
    before = logged.evaluate_all(LAST)
    ask(page, text)
    # The header may still tell of the turn before.
    until(lambda: logged.evaluate_all(LAST) != before)
    phase(page, "Idle")


CLICK = "found => found[0]?.click()"
"""Clicks what is there now and waits for nothing."""


def try_now(page: Page) -> None:
    """Have the page look for its server at once; it may be back by itself already."""
    page.get_by_role("button", name="Try now").evaluate_all(CLICK)


def answer(page: Page, name: str) -> None:
    """Choose an option of the question that is shown, once it takes answers and has been read."""
    sheet = page.get_by_role("alertdialog")
    enabled = page.locator("[role=alertdialog] .options button:not([aria-disabled=true])")
    button = enabled.and_(sheet.get_by_role("button", name=name, exact=True))
    to_the_end = sheet.get_by_role("button", name="Jump to end")

    def ready() -> bool:
        to_the_end.evaluate_all(CLICK)  # it may be gone by now, or come again with more to read
        return bool(button.count())

    until(ready, f"the answer {name}")
    button.click()


def card(page: Page, title: str) -> Locator:
    """A tool's card."""
    return page.locator("details.tool", has=page.locator(".title", has_text=title))
