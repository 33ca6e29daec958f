"""`agentrt serve` is killed again and again under five sessions at work, and its clients go on."""

from __future__ import annotations

import os
import random
import shlex
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from killable import KilledServer, SeenView, Tab, killed_server, standing_for

from agentrt.store import open_store

pytestmark = pytest.mark.slow

ROUNDS = 100 if os.environ.get("AGENTRT_FULL") else 4
SESSIONS = 5
PATIENCE = 60.0
"""Seconds for anything that is waited for: the machine may be slow."""


@asynccontextmanager
async def server_in(root: Path) -> AsyncIterator[KilledServer]:
    (root / "home/.config/agentrt").mkdir(parents=True)
    agent = Path(__file__).with_name("recording_agent.py")
    command = shlex.join([sys.executable, str(agent), str(root / "record")])
    settings = f"[agents.recording]\ncommand = '''{command}'''\n"
    (root / "home/.config/agentrt/config.toml").write_text(settings)
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_", "AGENTRT_")) or name == "AGENTRT_TEST_RUN"
    } | {"HOME": str(root / "home")}
    async with killed_server(root, env) as server:
        yield server


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
                    await server.kill()
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
            events = dict(await store.events(session))
            stored = {seq: msgspec.json.decode(msgspec.json.encode(e)) for seq, e in events.items()}
            now = await store.snapshot(session)
            texts = Counter(
                item.content[0].text  # type: ignore[union-attr]
                for item in now.items
                if item.type == "user"
            )
            waits = {entry.content[0].text for entry in now.queue}  # type: ignore[union-attr]
            assert max(texts.values()) == 1
            for text, answered in each.items():
                there = texts[text] or text in waits
                assert there or not answered, f"{text} was answered and is not there"
                assert texts[text] or not got[text], f"{text} was sent and is not there"
            for view in (tab.view(session), watcher.view(session)):
                for seq, (since, event) in view.seen.items():
                    assert standing_for(stored, since, seq) == event
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
        await server.kill()
        with trio.fail_after(PATIENCE):
            await tab.until(lambda: answers.keys() <= tab.client.acks.keys())
            assert {id: tab.client.acks[id] for id in answers} == answers
            [listed] = tab.client.sessions
            assert (listed["session"], listed["title"]) == (session, "third")
            assert listed["phase"] == "stored"
        nursery.cancel_scope.cancel()
