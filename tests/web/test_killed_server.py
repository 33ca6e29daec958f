"""`agentrt serve` is killed again and again under five sessions at work, and its clients go on."""

from __future__ import annotations

import os
import random
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.lowlevel
from sockets import CLOSE, PING, PONG, TOKEN, frame, websocket
from wire_client import View, Wire, WireClient

from agentrt import open_store

ROUNDS = 100 if os.environ.get("AGENTRT_FULL") else 4
SESSIONS = 5
PATIENCE = 60.0
"""Seconds for anything that is waited for: the machine may be slow."""


class SeenView(View):
    """Remembers each event that it was given, by its number."""

    def __init__(self, session: str) -> None:
        super().__init__(session)
        self.seen: dict[int, Any] = {}

    def take_snapshot(self, frame: dict[str, Any]) -> None:
        assert self.epoch in (None, frame["epoch"]), "the epoch is another one"
        assert frame["seq"] >= self.seq, "events were seen that are not there any more"
        super().take_snapshot(frame)

    def take_event(self, frame: dict[str, Any]) -> None:
        super().take_event(frame)  # which sees to it that none is missing or comes twice
        self.seen[frame["seq"]] = frame["event"]


class Tab:
    """A client that connects again whenever its connection is gone."""

    def __init__(self, name: str, port: int) -> None:
        self.client = WireClient(name)
        self.port = port
        self._changed = trio.Event()
        self._out: trio.MemorySendChannel[str] | None = None

    def receive(self, text: str) -> None:
        """As `Wire` sends it: what finds no connection is sent by the next one."""
        if self._out is not None:
            self._out.send_nowait(text)

    async def run(self) -> None:
        while True:
            try:
                await self._connection()
            except* (OSError, EOFError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # killed
            self._out = None
            await trio.sleep(0.05)  # nobody says when the server listens again

    async def _connection(self) -> None:
        async with websocket(self.port) as socket:
            self._out, wanted = trio.open_memory_channel[str](1000)
            self.wire = Wire(self.client, self)
            self.wire.hello()
            self._notify()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, socket, wanted)
                try:
                    while True:
                        opcode, payload = await socket.frame()
                        if opcode == PING:
                            await socket.send(frame(payload, PONG))
                        elif opcode == CLOSE:
                            raise EOFError
                        else:
                            self.wire.take(payload)
                            self._notify()
                finally:
                    nursery.cancel_scope.cancel()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _write(self, socket: Any, wanted: trio.MemoryReceiveChannel[str]) -> None:
        async for text in wanted:
            try:
                await socket.send(frame(text))
            except trio.BrokenResourceError:
                return  # the reader sees it, too

    async def ask(self, type: str, **fields: Any) -> dict[str, Any]:
        await self.until(lambda: self._out is not None)
        id = self.wire.send(type, **fields)
        while id not in self.client.acks:
            await self._changed.wait()
        answer = self.client.acks[id]
        assert answer["ok"], answer
        return answer

    async def until(self, check: Any) -> None:
        while not check():
            await self._changed.wait()

    def watch(self, session: str) -> None:
        self.client.views[session] = SeenView(session)
        self.wire.send("attach", session=session)

    def view(self, session: str) -> SeenView:
        view = self.client.views[session]
        assert isinstance(view, SeenView)
        return view


class KilledServer:
    def __init__(self, root: Path, port: int) -> None:
        (root / "home/.config/agentrt").mkdir(parents=True)
        agent = Path(__file__).with_name("recording_agent.py")
        command = shlex.join([sys.executable, str(agent), str(root / "record")])
        settings = f"[agents.recording]\ncommand = '''{command}'''\n"
        (root / "home/.config/agentrt/config.toml").write_text(settings)
        self.root, self.port = root, port
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("XDG_", "AGENTRT_")) or name == "AGENTRT_TEST_RUN"
        } | {"HOME": str(root / "home")}
        self.process: trio.Process | None = None

    async def start(self) -> None:
        command = [sys.executable, "-m", "agentrt", "serve", "--port", str(self.port)]
        self.process = await trio.lowlevel.open_process(
            [*command, "--token", TOKEN], cwd=self.root, env=self.env, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        assert await self.process.stdout.receive_some(), "the server has ended"

    async def end(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            await self.process.wait()
            assert self.process.stdout is not None
            await self.process.stdout.aclose()
            self.process = None


@asynccontextmanager
async def server_in(root: Path) -> AsyncIterator[KilledServer]:
    with trio.socket.socket() as taken:
        await taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    server = KilledServer(root, port)
    await server.start()
    try:
        yield server
    finally:
        with trio.CancelScope(shield=True):
            await server.end(signal.SIGTERM)


async def at_work(tab: Tab, session: str, sent: Counter[str]) -> None:
    """Prompt, see it answered and the turn over, and prompt again."""
    view = tab.view(session)
    await tab.until(lambda: view.epoch is not None)
    while True:
        text = f"{session}-{len(sent)}-{sent.total()}"
        sent[text] = 0
        answer = await tab.ask("prompt", session=session, content=[{"type": "text", "text": text}])
        sent[text] = 1
        await tab.until(lambda answer=answer: view.seq >= answer["seq"] and rests(view))


def rests(view: SeenView) -> bool:
    """Whether nothing runs, nor is about to: behind a kill the queue is held back."""
    waits = view.shown["queue"] and not view.shown.get("paused")
    return not view.busy and not waits


@pytest.mark.slow
async def test_nothing_that_was_seen_is_lost_and_no_prompt_is_sent_twice(tmp_path: Path) -> None:
    chance = random.Random(os.environ.get("AGENTRT_SEED", "1"))
    async with server_in(tmp_path) as server, trio.open_nursery() as nursery:
        tabs = [Tab(f"tab-{number}", server.port) for number in range(SESSIONS)]
        watcher = Tab("watcher", server.port)
        for tab in (*tabs, watcher):
            nursery.start_soon(tab.run)
        sent: list[Counter[str]] = [Counter() for _ in tabs]
        sessions = []
        with trio.CancelScope() as working:
            async with trio.open_nursery() as workers:
                for tab, each in zip(tabs, sent, strict=True):
                    answer = await tab.ask("session", op="new", agent="recording")
                    sessions.append(session := answer["session"])
                    tab.watch(session)
                    watcher.watch(session)
                    workers.start_soon(at_work, tab, session, each)
                for _ in range(ROUNDS):
                    await trio.sleep(chance.uniform(0.2, 2.0))
                    await server.end(signal.SIGKILL)
                    await server.start()
                working.cancel()
        with trio.fail_after(PATIENCE):  # each takes another prompt, and is seen to end it
            for tab, session in zip(tabs, sessions, strict=True):
                view = tab.view(session)
                await tab.until(lambda view=view: view.epoch is not None and not view.busy)
                last = [{"type": "text", "text": f"{session}-last"}]
                await tab.ask("prompt", session=session, content=last)
                end = f"{session}-last:39 "
                await tab.until(lambda view=view, end=end: end in view.texts()[-1])
                view = watcher.view(session)
                await watcher.until(lambda view=view, end=end: end in view.texts()[-1])
        nursery.cancel_scope.cancel()
    got = Counter((tmp_path / "record").read_text().split())
    assert max(got.values()) == 1, "a prompt was sent twice"
    seen = 0
    async with open_store(tmp_path / "home/.local/state/agentrt/journal.db") as store:
        for tab, session, each in zip(tabs, sessions, sent, strict=True):
            stored = dict(await store.events(session))
            texts = Counter(
                item.content[0].text  # type: ignore[union-attr]
                for item in (await store.snapshot(session)).items
                if item.type == "user"
            )
            assert max(texts.values()) == 1
            for text, answered in each.items():
                assert texts[text] or not answered, f"{text} was answered and is not there"
                assert texts[text] or not got[text], f"{text} was sent and is not there"
            for view in (tab.view(session), watcher.view(session)):
                for seq, event in view.seen.items():
                    assert msgspec.to_builtins(stored[seq]) == event
                seen += len(view.seen)
    print(f"{ROUNDS} rounds: {got.total()} prompts, {seen} events seen")


async def test_commands_that_are_sent_again_behind_a_kill_are_answered_and_done_once(
    tmp_path: Path,
) -> None:
    async with server_in(tmp_path) as server, trio.open_nursery() as nursery:
        tab, other = Tab("tab", server.port), Tab("other", server.port)
        for each in (tab, other):
            nursery.start_soon(each.run)
        answers: dict[str, dict[str, Any]] = {}
        sent: dict[str, str] = {}

        async def ask(type: str, **fields: Any) -> dict[str, Any]:
            await tab.until(lambda: tab._out is not None)
            id = tab.wire.send(type, **fields)
            sent[id] = tab.client.unanswered[id]
            await tab.until(lambda: id in tab.client.acks)
            answers[id] = answer = tab.client.acks[id]
            assert answer["ok"], answer
            return answer

        text = [{"type": "text", "text": "hello"}]
        session = (await ask("session", op="new", agent="recording", title="first"))["session"]
        tab.watch(session)
        await ask("prompt", session=session, content=text)
        await ask("prompt", session=session, content=text)
        await ask("session", op="rename", session=session, title="second")
        await ask("cancel", session=session)
        await ask("queue", session=session, op="edit", entry="q1", content=text)
        await ask("queue", session=session, op="resume")
        await ask("stop_all")
        await other.ask("session", op="rename", session=session, title="third")
        with trio.fail_after(PATIENCE):
            await tab.until(lambda: not tab.view(session).busy)
        # The answers are lost on their way, and the server is killed.
        tab.client.unanswered |= sent
        tab.client.acks.clear()
        await server.end(signal.SIGKILL)
        await server.start()
        with trio.fail_after(PATIENCE):
            await tab.until(lambda: answers.keys() <= tab.client.acks.keys())
            assert {id: tab.client.acks[id] for id in answers} == answers
            [listed] = tab.client.sessions
            assert (listed["session"], listed["title"]) == (session, "third")
            assert listed["phase"] == "stored"
        nursery.cancel_scope.cancel()
