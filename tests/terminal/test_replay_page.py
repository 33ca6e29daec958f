"""`agentrt replay --page`: a recorded session, for browsers that look on."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
from program import FAST_DEMO, PATIENCE, Program, read_some
from test_serve import Served, get
from trio_websocket import open_websocket_url


def recorded(program: Program) -> Path:
    program.run("-p", "list the files", *FAST_DEMO, "--store", "off", "--trace", "t.trace")
    return program.folder / "t.trace"


async def look_on(link: str) -> tuple[str, dict[str, Any]]:
    """All frames until the turn has ended, and what a prompt of ours is told."""
    with get(link) as answer:
        cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
        key = (answer.getheader("Location") or "").rpartition("#key=")[2]
    origin = f"http://{urlsplit(link).netloc}"
    headers = [("Cookie", cookie.encode()), ("Origin", origin.encode())]
    frames: list[dict[str, Any]] = []
    with trio.fail_after(PATIENCE):
        async with open_websocket_url(
            f"{origin.replace('http', 'ws')}/ws",
            subprotocols=["agentrt.v1", f"agentrt.key.{key}"],
            extra_headers=headers,
        ) as socket:

            async def say(**fields: Any) -> None:
                await socket.send_message(json.dumps(fields))

            async def until(wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
                while not (found := [frame for frame in frames if wanted(frame)]):
                    came = json.loads(await socket.get_message())
                    frames.extend(came if isinstance(came, list) else [came])
                return found[0]

            await say(type="hello", id="1")
            ready = await until(lambda frame: frame["type"] == "ready")
            assert ready["role"] == "viewer"
            [shown] = ready["sessions"]
            await say(type="attach", id="2", session=shown["session"])
            await until(lambda frame: '"outcome": "completed"' in json.dumps(frame))
            told = json.dumps(frames)
            content = [{"type": "text", "text": "more"}]
            await say(type="prompt", id="3", session=shown["session"], content=content)
            return told, await until(lambda frame: frame.get("id") == "3")


@pytest.mark.slow
def test_a_browser_sees_the_turn_that_was_recorded_and_can_only_look_on(program: Program) -> None:
    file = recorded(program)
    said = ("replay", str(file), "--page", "--speed", "5")
    with program.start(*said, stdin=subprocess.DEVNULL) as process:
        served = Served(process)
        try:
            told, refused = trio.run(look_on, served.link())
            err = b""
            while b"replay finished" not in err:
                data = read_some(process.stderr)
                assert data, err
                err += data
        finally:
            status, _ = served.end(signal.SIGINT)
    assert "list the files" in told
    assert "In this folder" in told
    assert refused["ok"] is False
    assert status == 130


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["t.trace", "--page"], "t.trace is not a trace"),
        (["nowhere", "--page"], "nowhere: No such file"),
        (["t.trace", "--speed", "0"], "'0' is not a positive number"),
        (["t.trace", "--speed", "fast"], "'fast' is not a positive number"),
    ],
)
def test_what_cannot_be_shown_is_said(program: Program, arguments: list[str], message: str) -> None:
    (program.folder / "t.trace").write_text("no trace\n")
    assert message in program.run("replay", *arguments, status=2).stderr
