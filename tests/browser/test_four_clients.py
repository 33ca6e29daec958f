"""One conversation, seen at once by an editor, a browser, a terminal and a chat of the AI SDK: each
over a line that is cut again and again, at any moment. What each makes of it is the same."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pytest
import trio

from agents.lab import model_server, prepare
from agents.recipes import package_of
from agents.versions import agents_root
from browser.kit import CLICK, MARK, ask, free_port, scripted, serving
from browser.pages import NewPage, Page
from browser.proxy import Network
from clients.chat import Chat
from clients.connections import Client, Editors
from clients.install import missing, root
from clients.kit import node
from faults.quick import FULL
from remote.cutting import Followed, Line

CLIENTS = ("editor", "page", "terminal", "chat")
CUTS = 30
PATIENCE = 60
TOGETHER = 600
SEEDS = range(1, 11) if FULL else [1]

SEEN = """async () => {
  const { model, ui } = await import(new URL("page/app.js", document.baseURI));
  const { items } = model().attached.get(ui().session).view;
  return JSON.stringify([...items.values()]);
}"""

Fold: TypeAlias = list[tuple[str, str, str]]
"""The items of a conversation: the type of each, what it says, and how it ended."""


def fold_of(items: list[dict[str, Any]]) -> Fold:
    out = []
    for item in items:
        said = item.get("text", "") + "".join(b.get("text", "") for b in item.get("content", []))
        out.append((item["type"], said, item.get("status", "running")))
    return out


class Words(NamedTuple):
    """Prompts: one that is answered slowly, one that asks ahead, one that does not end."""

    says: str
    asks: str
    lasts: str


class Terminal:
    """`agentrt attach` on a terminal of its own."""

    def __init__(self, *arguments: str, cwd: Path, env: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        command = [sys.executable, "-m", "agentrt", "attach", "--plain", *arguments]
        streams = {"stdin": slave, "stdout": slave, "stderr": slave}
        self._process = subprocess.Popen(
            command, cwd=cwd, env=env, start_new_session=True, **streams
        )
        os.close(slave)
        self.shown = ""

    async def read(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._master)
            try:
                self.shown += os.read(self._master, 65536).decode(errors="replace")
            except OSError:
                return

    def line(self, text: str) -> None:
        os.write(self._master, f"{text}\n".encode())

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)


class Room:
    """The four clients of a session; and `seen`, over a line that nobody cuts, is for the test."""

    def __init__(self, editors: Editors, chat: Chat, page: Page, seen: Followed) -> None:
        self.editors, self.chat, self.page, self.seen = editors, chat, page, seen
        self.lines: dict[str, Network] = {}
        self.editor: Client
        self.terminal: Terminal
        self._editors = 0

    async def open_editor(self) -> None:
        """Its agent is started, once more, and loads the session."""
        self._editors += 1
        url = f"http://127.0.0.1:{self.lines['editor'].port}"
        self.editor = await self.editors.start(f"editor{self._editors}", "--attach", url)
        about = {"cwd": str(self.editors.folder), "mcpServers": []}
        await self.editor.request("session/load", sessionId=self.seen.id, **about)

    async def prompt(self, who: str, text: str) -> None:
        print(f"{who}: {text}")  # shown when the test fails
        before = len(self.seen.snapshot().turns)
        match who:
            case "editor":
                await self.editor.prompt(self.seen.id, text)
                own = {"update": self.editor.name, "sessionUpdate": "user_message_chunk"}
                self.editors.led.told.append({**own, "content": {"text": text}})  # as it shows it
            case "page":
                ask(self.page, text)
            case "terminal":
                self.terminal.line(text)
            case _:
                await self.chat.start("send", text=text)
        await until(lambda: len(self.seen.snapshot().turns) > before)

    async def stop(self, who: str) -> None:
        print(f"{who} stops it")
        if who == "page":
            self.page.get_by_role("button", name="Stop", exact=True).click()
        elif who == "editor":
            await self.editor.notify("session/cancel", sessionId=self.seen.id)
        else:
            await self.chat.do("resume", options={"body": {"stop": True}})

    async def allow(self, who: str) -> None:
        print(f"{who} allows it")
        if who == "page":
            sheet = self.page.get_by_role("alertdialog")
            to_the_end = sheet.get_by_role("button", name="Jump to end")
            allowing = sheet.locator("button.allow_once:not([aria-disabled=true])")
            with trio.fail_after(PATIENCE):
                while self.seen.pending_permissions:  # it takes no answer before it could be read
                    to_the_end.evaluate_all(CLICK)
                    allowing.evaluate_all(CLICK)
                    await trio.sleep(0.1)
        elif who == "editor":
            await self.editor.choose(await self.editor.question(), "allow_once")
        else:
            shown = len(self.terminal.shown)
            with trio.fail_after(PATIENCE):  # a long question is shown page by page
                while "y/" not in self.terminal.shown[shown - 2000 :]:
                    if "Enter" in self.terminal.shown[-200:]:
                        self.terminal.line("")
                    await trio.sleep(0.3)
            await trio.sleep(0.7)
            self.terminal.line("y")

    async def cut(self, who: str) -> bool:
        """Whether there was something to cut: a chat has a line while it streams only. What comes
        back by itself is left to that; an editor starts its agent once more."""
        line = self.lines[who]
        if who == "chat" and self._chat_is_done():
            number = await self.chat.start("resume")
            over = partial(self.chat.led.is_done, number)  # nothing streams, or a question waits
            await until(lambda: over() or (line.busy and not self._chat_is_done()))
            if over():
                return False
        if not line.busy:
            return False
        print(f"{who} is cut")
        before = line.ended
        line.cut()
        await until(lambda: line.ended > before or not line.busy)
        line.mend()
        if who == "chat":  # a Stop into a line that is dead is lost, as its user is shown
            await until(self._chat_is_done)
        if who == "editor":
            await self.editor.exited()
            await self.open_editor()
        return line.ended > before

    def _chat_is_done(self) -> bool:
        return self.chat.now()["status"] in ("ready", "error")  # that is a cut

    def rests(self) -> bool:
        snapshot = self.seen.snapshot()
        return snapshot.state.turn is None and not snapshot.queue

    async def agree(self) -> None:
        """Wait until each of the four shows what there is."""
        await until(self.rests)
        await until(self._chat_is_done)
        await self.chat.do("resume")
        truth = fold_of(msgspec.json.decode(msgspec.json.encode(self.seen.snapshot().items)))
        await until(lambda: fold_of(json.loads(self.page.evaluate(SEEN))) == truth)
        await until(lambda: self._editors_fold() == self._by_type(truth))
        assert self._chats_fold() == self._answers()
        with trio.fail_after(PATIENCE):
            while await self._terminals_fold() != truth:
                pass  # it is on its way back

    def _by_type(self, truth: Fold) -> tuple[str, str, list[str]]:
        said = ["".join(text for kind, text, _ in truth if kind == k) for k in ("user", "text")]
        return said[0], said[1], [status for kind, _, status in truth if kind == "tool"]

    def _editors_fold(self) -> tuple[str, str, list[str]]:
        asked, said = self.editor.text("user_message_chunk"), self.editor.text()
        return asked, said, [call["status"] for call in self.editor.tools().values()]

    def _answers(self) -> dict[str, tuple[str, int]]:
        """What was answered in each turn that the chat has, and with how many tools."""
        out = dict[str, tuple[str, int]]()
        for item in self.seen.snapshot().items:
            if item.turn is not None and item.type in ("text", "tool"):
                text, tools = out.get(item.turn, ("", 0))
                said = item.text if item.type == "text" else ""
                out[item.turn] = text + said, tools + (item.type == "tool")
        return out

    def _chats_fold(self) -> dict[str, tuple[str, int]]:
        out = {}
        for message in self.chat.now()["messages"]:
            texts = [part["text"] for part in message["parts"] if part["type"] == "text"]
            tools = [part for part in message["parts"] if "toolCallId" in part]
            if message["role"] == "assistant" and (texts or tools):
                assert all(part["state"].startswith("output-") for part in tools)
                out[message["id"]] = "".join(texts), len(tools)
        return out

    async def _terminals_fold(self) -> Fold:
        file = self.editors.folder / "fold.json"
        file.unlink(missing_ok=True)
        self.terminal.line("/export fold.json")
        await until(lambda: file.exists() and file.read_text().endswith("}\n"))
        return fold_of(json.loads(file.read_text())["items"])


async def until(so: Callable[[], object]) -> None:
    with trio.fail_after(PATIENCE):
        while True:
            if so():
                return
            await trio.sleep(0.05)


@asynccontextmanager
async def room(
    home: Path, new_page: NewPage, *agent: str, env: Mapping[str, str] = os.environ
) -> AsyncIterator[Room]:
    target = free_port()
    ports = {who: free_port() for who in CLIENTS}
    hosts = [word for port in ports.values() for word in ("--allow-host", f"127.0.0.1:{port}")]
    with serving(home, *agent, "--port", str(target), *hosts, env=env) as server:
        link = server.link()
        [note] = (home / ".local" / "state" / "agentrt" / "servers").iterdir()
        token = json.loads(note.read_text())["token"]
        lines = {who: Network(port, target) for who, port in ports.items()}
        try:
            page = new_page(link.replace(str(target), str(ports["page"])))
            page.locator("header .phase", has_text="Idle").wait_for()
            async with (
                node("acp_client.mjs") as led,
                node("ai_client.mjs") as chats,
                trio.open_nursery() as nursery,
                AsyncExitStack() as stack,
            ):
                line = Line(target, token)
                await nursery.start(line.run)
                [session] = [info.session for info in line.sessions]
                seen = await stack.enter_async_context(line.followed(session))
                editors = Editors(led, home)
                editors.env["AGENTRT_SERVE_TOKEN"] = token
                made = Room(editors, Chat(chats, "chat"), page, seen)
                made.lines = lines
                url = f"ws://127.0.0.1:{ports['chat']}/ai"
                headers = {"Authorization": f"Bearer {token}"}
                await chats.do("open", chat="chat", id=session, url=url, headers=headers)
                await made.open_editor()
                env = {**os.environ, **editors.env, "HOME": str(home), "TERM": "xterm"}
                where = f"http://127.0.0.1:{ports['terminal']}"
                made.terminal = Terminal(where, "--session", session, cwd=editors.folder, env=env)
                try:
                    nursery.start_soon(made.terminal.read)
                    await until(lambda: "attached to" in made.terminal.shown)
                    yield made
                finally:
                    made.terminal.end()
                nursery.cancel_scope.cancel()
        finally:
            for each in lines.values():
                each.close()


async def talk(it: Room, words: Words, cuts: int, seed: int) -> None:
    """Each prompts in turn, one stops what another has begun, one answers what is asked; and as
    often a line is cut."""
    dice, were_cut = Random(seed), Counter[str]()
    for number in count():
        if were_cut.total() == cuts:
            break
        who, cut = CLIENTS[number % 4], dice.choice(CLIENTS)
        if number % 6 == 4:
            await it.prompt(who, words.asks)
            await until(lambda: it.seen.pending_permissions)
            were_cut[cut] += await it.cut(cut)
            await it.allow(dice.choice(("page", "editor", "terminal")))
        elif number % 6 == 5:
            await it.prompt(who, words.lasts)
            were_cut[cut] += await it.cut(cut)
            await it.stop(dice.choice(("page", "editor", "chat")))
        else:
            await it.prompt(who, words.says)
            await trio.sleep(dice.random() / 2)
            were_cut[cut] += await it.cut(cut)
        await it.agree()
    assert were_cut.keys() == set(CLIENTS)
    print(f"cuts: {dict(were_cut)}")
    assert {turn.outcome for turn in it.seen.snapshot().turns} == {"completed", "cancelled"}
    await it.prompt("editor", words.says)
    await it.editor.cut()  # it is killed
    assert (await it.editor.exited())["signal"] == "SIGKILL"
    assert not it.rests()
    await until(it.rests)
    assert it.seen.snapshot().turns[-1].outcome == "completed"
    await it.open_editor()
    await it.agree()


@pytest.fixture
def npm_packages() -> None:
    if (lacks := missing(root())) is not None:
        pytest.skip(lacks)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("npm_packages")
async def test_four_clients_see_the_same_however_often_their_lines_are_cut(
    seed: int, tmp_path: Path, new_page: NewPage
) -> None:
    words = Words("trickle 12", "ask for it", "trickle 2000")
    async with room(tmp_path, new_page, *scripted()) as it:
        with trio.fail_after(TOGETHER):
            await talk(it, words, CUTS, seed)


@pytest.mark.real_agent
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("npm_packages")
async def test_four_clients_see_the_same_of_claude_code(
    seed: int, tmp_path: Path, new_page: NewPage
) -> None:
    package = package_of("claude")
    if not package.installed(agents_root()):
        pytest.skip(f"Claude Code is not installed: {package.how_to_install}")
    with model_server(tmp_path) as model:
        lab = prepare("claude", model, agents_root(), tmp_path)
        settings = lab.home / ".config" / "agentrt" / "config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(f"[agents.claude]\ncommand = {json.dumps(lab.argv)}\n")
        env = {**lab.env, MARK: os.environ[MARK]}
        words = Words("Please [[why]]", "Please [[shell]]", "Please [[slow]]")
        async with room(lab.home, new_page, "--agent", "claude", env=env) as it:
            with trio.fail_after(TOGETHER):
                await talk(it, words, CUTS, seed)
