"""The programs of `docs/project/walks.md` that readers of the documentation alone have written."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import trio
from trio_websocket import open_websocket_url

import agentrt
from agentrt.testing import check_store
from agentrt.web import Security, serve

from .bot_dialect import BOT
from .folder_store import Folder

HERE: Final = Path(__file__).parent
PROGRAMS: Final = ("folder_store.py", "bot_dialect.py", "two_reviewers.py")
TOKEN: Final = "t" * 32


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_short_and_imports_public_names_only(name: str) -> None:
    text = (HERE / name).read_text()
    assert len(text.splitlines()) < 150
    modules: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules += [f"{node.module}.{alias.name}" for alias in node.names]
    assert any(module.startswith("agentrt") for module in modules)
    assert not [module for module in modules if "._" in module]


def test_the_folder_is_a_store(tmp_path: Path) -> None:
    check_store(lambda: Folder(tmp_path / "store"))


@pytest.mark.slow
async def test_the_bot_asks_and_gets_the_answer(tmp_path: Path) -> None:
    security = Security(token=TOKEN)
    sent: list[dict[str, object]] = []
    async with agentrt.open_runtime() as runtime, trio.open_nursery() as nursery:
        start = partial(serve, runtime, cwd=tmp_path, security=security, dialects=[BOT])
        site = await nursery.start(start)
        url = site.link().partition("?")[0].replace("http", "ws", 1) + "bot"
        headers = [(b"Authorization", f"Bearer {TOKEN}".encode())]
        async with open_websocket_url(url, extra_headers=headers) as socket:
            await socket.send_message("nonsense")
            await socket.send_message(json.dumps({"do": "say", "text": "/ask"}))
            while "ended" not in (sent or [{}])[-1]:
                sent.append(json.loads(await socket.get_message()))
                if question := sent[-1].get("question"):
                    press = {"do": "press", "question": question, "button": "yes"}
                    await socket.send_message(json.dumps(press))
        nursery.cancel_scope.cancel()
    error, question, answer, end = sent
    assert "send a JSON object" in str(error["error"])
    assert question["text"] == "Do nothing, with permission"
    assert answer == {"text": "Allowed, so I did nothing, successfully."}
    assert end == {"ended": "completed"}


@pytest.mark.slow
def test_two_reviewers_keep_to_their_limits(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, HERE / "two_reviewers.py"],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    *turns, reopened, budget, findings = done.stdout.splitlines()
    assert sorted(line.rpartition("} ")[2].rpartition("milk ")[2] for line in turns) == [
        "cancelled []",
        "completed ['Run rm notes.txt']",
        "completed []",
        "completed []",
    ]
    assert reopened == "['completed', 'cancelled']"
    assert budget == "turns 10"
    assert findings == "['no docstring']"
