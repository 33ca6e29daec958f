"""`agentrt acp` behind another editor's client: the hook by which the notebook editor marimo shows
agents, and the bridge that starts them for it, both as they are."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from browser.kit import free_port
from clients.connections import Editors
from clients.install import root
from clients.kit import PATIENCE, TOKEN, Node, node, served

pytestmark = [pytest.mark.usefixtures("npm_packages"), pytest.mark.slow]

DEMO = ("--agent", "demo", "--model", "instant")


class Notebook:
    """The editor's panel for an agent."""

    def __init__(self, led: Node, folder: Path) -> None:
        self.led = led
        self.folder = folder

    @property
    def shown(self) -> dict[str, Any]:
        told = self.led.heard("shows")
        return told[-1] if told else {"ready": False}

    async def until(self, found: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        await self.led.until(lambda: found(self.shown))
        return self.shown

    async def open(self, url: str, files: dict[str, str]) -> None:
        await self.led.do("open", url=url, files=files)
        await self.until(lambda shown: shown["ready"])
        fs = {"readTextFile": True, "writeTextFile": False}
        await self.ask("initialize", protocolVersion=1, clientCapabilities={"fs": fs})

    async def start(self, method: str, **params: Any) -> int:
        return await self.led.start("ask", method=method, params=params)

    async def ask(self, method: str, **params: Any) -> Any:
        return await self.led.result(await self.start(method, **params))

    async def new(self) -> str:
        made = await self.ask("newSession", cwd=str(self.folder), mcpServers=[])
        return str(made["sessionId"])

    async def load(self, session: str) -> None:
        about = {"sessionId": session, "cwd": str(self.folder), "mcpServers": []}
        await self.ask("loadSession", **about)

    async def prompt(self, session: str, text: str) -> int:
        content = [{"type": "text", "text": text}]
        return await self.start("prompt", sessionId=session, prompt=content)

    async def say(self, session: str, text: str) -> str:
        ended = await self.led.result(await self.prompt(session, text))
        return str(ended["stopReason"])

    def text(self, kind: str = "agent_message_chunk") -> str:
        chunks = [each for each in self.shown["updates"] if each["sessionUpdate"] == kind]
        return "".join(chunk["content"]["text"] for chunk in chunks)

    async def allow(self) -> None:
        asked = (await self.until(lambda shown: shown["permission"]))["permission"]
        [option] = [each["optionId"] for each in asked["options"] if each["kind"] == "allow_once"]
        await self.led.do("answer", option=option)


@asynccontextmanager
async def bridged(editors: Editors, *arguments: str) -> AsyncIterator[str]:
    """The URL behind which `agentrt acp` is started for each who comes."""
    port = free_port()
    agentrt = shlex.join([sys.executable, "-m", "agentrt", "acp", *arguments])
    bridge = root() / "node_modules" / ".bin" / "stdio-to-ws"
    command = [str(bridge), "--quiet", "--port", str(port), agentrt]
    async with trio.open_nursery() as nursery:
        run = partial(
            trio.run_process,
            command,
            env=editors.env,
            cwd=editors.folder,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        await nursery.start(run)
        while True:
            try:
                await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
                break
            except OSError:
                await trio.sleep(0.05)
        yield f"ws://127.0.0.1:{port}"
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def notebook(
    url: str, editors: Editors, files: dict[str, str] | None = None
) -> AsyncIterator[Notebook]:
    async with node("marimo_client.mjs") as led:
        made = Notebook(led, editors.folder)
        await made.open(url, files or {})
        yield made
        await led.do("close")


async def test_a_notebook_prompts_allows_cancels_and_loads_what_the_one_before_had(
    tmp_path: Path,
) -> None:
    with trio.fail_after(3 * PATIENCE):
        async with node("acp_client.mjs") as led:
            editors = Editors(led, tmp_path)
            notes = str(editors.folder / "notes.txt")
            async with bridged(editors, *DEMO) as url:
                async with notebook(url, editors, {notes: "as it is in the notebook"}) as one:
                    session = await one.new()
                    asking = await one.prompt(session, "/ask")
                    await one.allow()
                    assert (await one.led.result(asking))["stopReason"] == "end_turn"
                    assert "Allowed, so I did nothing" in one.text()
                    assert await one.say(session, "/read notes.txt") == "end_turn"
                    assert "as it is in the notebook" in one.text()
                    lasting = await one.prompt(session, "/slow 60")
                    await one.until(lambda shown: "tool_call" in str(shown["updates"][-1:]))
                    await one.ask("cancel", sessionId=session)
                    assert (await one.led.result(lasting))["stopReason"] == "cancelled"
                    asked, said = one.text("user_message_chunk"), one.text()
                async with notebook(url, editors) as two:
                    await two.load(session)
                    assert two.text("user_message_chunk") == asked
                    assert two.text() == said
                    assert await two.say(session, "/think") == "end_turn"


async def test_a_notebook_at_a_server_sees_the_same_and_its_turn_goes_on_without_it(
    tmp_path: Path,
) -> None:
    with trio.fail_after(3 * PATIENCE):
        async with served() as (site, runtime), node("acp_client.mjs") as led:
            editors = Editors(led, tmp_path)
            editors.env["AGENTRT_SERVE_TOKEN"] = TOKEN
            async with bridged(editors, "--attach", site.url) as url:
                async with notebook(url, editors) as one:
                    session = await one.new()
                    await one.prompt(session, "/slow 3")
                    await one.until(lambda shown: "tool_call" in str(shown["updates"][-1:]))
                there = runtime.get(session)
                assert there.state.turn is not None
                while there.state.turn is not None:  # noqa: ASYNC110 - it ends by itself
                    await trio.sleep(0.05)
                assert there.log.snapshot().turns[-1].outcome == "completed"
                async with notebook(url, editors) as two:
                    await two.load(session)
                    assert two.text("user_message_chunk") == "/slow 3"
