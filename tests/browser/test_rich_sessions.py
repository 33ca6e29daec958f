"""One session with a message of every kind, seen by a browser, a terminal and an ACP client.

The agent carries out one step after the other. A step is over when each of the three shows it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path

import pytest

from browser.kit import phase, serving, until
from browser.other_viewers import Editor, Terminal
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
