"""One session with a message of every kind, seen by a browser, a terminal and an ACP client.

The agent carries out one step after the other. A step is over when each of the three shows it.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
import termios
import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pyte
import pytest

from browser.kit import phase, serving, until
from browser.pages import NewPage, Page
from everything.marks import (
    CLAUDE,
    CODEX,
    CODEX_COMMANDS,
    COMMAND,
    PICTURE,
    STRUCTURED,
    USED,
)
from everything.stepping import EVERYTHING, PIXEL

AGENTS = Path(__file__).parents[1] / "everything"

VIEWERS = ("page", "terminal", "ACP client")

OPEN_ALL = """() => {
  for (const each of document.querySelectorAll("main details:not([open]) > summary")) each.click();
}"""

SHOWN = """() => [...document.querySelectorAll("body")].map((each) => each.innerText).join("\\n")
  + [...document.querySelectorAll("img")].map((each) => each.alt + each.src).join("\\n")
  + [...document.querySelectorAll("a")].map((each) => each.href).join("\\n")"""


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


class Viewers:
    """The three viewers of a session, and the agent's steps."""

    def __init__(self, page: Page, terminal: Terminal, editor: Editor, session: str) -> None:
        self.page, self.terminal, self.editor = page, terminal, editor
        self.session = session

    def texts(self) -> dict[str, str]:
        self.page.evaluate(OPEN_ALL)
        texts = {
            "page": self.page.evaluate(SHOWN),
            "terminal": self.terminal.text,
            "ACP client": self.editor.text,
        }
        return {
            who: text.replace(PIXEL, PICTURE).replace("[image: image/png", PICTURE)
            for who, text in texts.items()
        }

    def look(self, marks: Collection[str]) -> None:
        """Open what a viewer shows only when it is asked to."""
        if COMMAND in marks:
            self.page.get_by_label("Message the agent").fill(f"/{COMMAND}")
            self.terminal.type(f"/{COMMAND}")
        if USED in marks:
            phase(self.page, "Idle")
            self.terminal.type("/cost\r")
        if STRUCTURED in marks:
            until(lambda: "linked-name" in self.terminal.text, "the call on the terminal")
            self.terminal.type("\x0f")  # Ctrl-O
            until(lambda: STRUCTURED in self.terminal.text, "the whole call on the terminal")

    def look_away(self, marks: Collection[str]) -> None:
        """Close what `look` has opened."""
        if COMMAND in marks:
            self.page.get_by_label("Message the agent").fill("")
            self.terminal.type("\x7f" * (len(COMMAND) + 1))

    def choose(self, who: str, command: str, description: str) -> None:
        """Choose a command from those that a viewer offers, and send it."""
        match who:
            case "page":
                box = self.page.get_by_label("Message the agent")
                box.press_sequentially(f"/{command[:3]}")
                self.page.get_by_role("option").filter(has_text=description).click()
                box.press("Enter")
            case "terminal":
                self.terminal.type(f"/{command[:3]}")
                until(lambda: self.terminal.lists(f"/{command}", description), description)
                self.terminal.type("\t")
                until(lambda: self.terminal.lists(f"/{command}"), "the completed command")
                self.terminal.type("\r")
            case _:
                [offered] = [each for each in self.editor.commands if each["name"] == command]
                assert description in offered["description"]
                prompt = [{"type": "text", "text": f"/{command}"}]
                self.editor.request("session/prompt", sessionId=self.session, prompt=prompt)

    def missing(self, marks: Collection[str]) -> list[tuple[str, str]]:
        """Return the viewers that do not show a text, with that text."""
        texts = self.texts()
        return [
            (who, mark)
            for who, text in texts.items()
            for mark in marks
            if not any(each in text for each in mark.split("|"))
        ]


@contextmanager
def viewers(root: Path, new_page: NewPage, agent: str, pipe: Path) -> Iterator[Viewers]:
    command = shlex.join([sys.executable, str(AGENTS / f"{agent}_agent.py"), str(pipe)])
    with serving(root, "--protocol", agent, "--command", command) as server, ExitStack() as stack:
        page = new_page(server.link())
        phase(page, "Idle")
        [note] = (root / ".local" / "state" / "agentrt" / "servers").iterdir()
        about = json.loads(note.read_text())
        env = {**os.environ, "HOME": str(root), "TERM": "xterm-256color"}
        env["AGENTRT_SERVE_TOKEN"] = about["token"]
        editor = Editor(about["url"], env, server.folder)
        stack.callback(editor.end)
        capabilities = {"session": {"notices": {}, "configOptions": {"boolean": {}}}}
        editor.request("initialize", protocolVersion=1, clientCapabilities=capabilities)
        [session] = editor.request("session/list")["sessions"]
        editor.request(
            "session/load", sessionId=session["sessionId"], cwd=str(server.folder), mcpServers=[]
        )
        terminal = Terminal(about["url"], env, server.folder)
        stack.callback(terminal.end)
        until(lambda: "ready" in terminal.text, "the attached terminal")
        yield Viewers(page, terminal, editor, session["sessionId"])


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "marks"), [("claude", CLAUDE), ("codex", CODEX)])
def test_all_viewers_show_each_message(
    agent: str, marks: list[tuple[str, ...]], tmp_path: Path, new_page: NewPage
) -> None:
    pipe = tmp_path / "steps"
    os.mkfifo(pipe)
    with viewers(tmp_path, new_page, agent, pipe) as shown:
        shown.editor.start(
            "session/prompt",
            sessionId=shown.session,
            prompt=[{"type": "text", "text": EVERYTHING}],
        )
        with pipe.open("wb", buffering=0) as steps:
            for each in marks:
                everywhere = len(each) * len(VIEWERS)
                assert len(shown.missing(each)) == everywhere, "shown before its step"
                steps.write(b".")
                shown.look(each)
                until(
                    lambda each=each: not shown.missing(each), lambda each=each: shown.missing(each)
                )
                shown.look_away(each)
        phase(shown.page, "Idle")


@pytest.mark.slow
def test_codexs_commands_are_chosen_and_shown_in_each_viewer(
    tmp_path: Path, new_page: NewPage
) -> None:
    pipe = tmp_path / "steps"  # never opened: each command has its own turn
    results = {command: result for command, (_, result) in CODEX_COMMANDS.items()}
    # A notice, which the page shows beside the conversation.
    compacted = results.pop("compact")
    any_result = re.compile("|".join(map(re.escape, results.values())))
    expected: list[str] = []
    with viewers(tmp_path, new_page, "codex", pipe) as shown:

        def differing() -> dict[str, list[str]]:
            """The results in the order of each viewer that shows others than expected."""
            found = {
                who: [each for each, _ in groupby(any_result.findall(text))]
                for who, text in shown.texts().items()
            }
            return {who: each for who, each in found.items() if each != expected}

        assert differing() == {}
        assert len(shown.missing([compacted])) == len(VIEWERS), "shown before its command"
        for who in VIEWERS:
            for command, (description, result) in CODEX_COMMANDS.items():
                shown.choose(who, command, description)
                if command in results:
                    expected.append(result)
                until(lambda result=result: not shown.missing([result]), (who, result).__repr__)
                until(lambda: not differing(), differing)
                phase(shown.page, "Idle")
