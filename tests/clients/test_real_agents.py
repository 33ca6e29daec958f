"""Real agents on a scripted model, seen by clients of other protocols: a question, its answer, a
stop, and the next prompt.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from agentrt import Runtime
from agentrt.web import Site
from agents import conftest
from agents.lab import Lab
from agents.story import agent_of, running
from clients.chat import Chat, Tabs
from clients.connections import Client, Clients
from clients.kit import node, served

pytestmark = [
    pytest.mark.real_agent,
    pytest.mark.usefixtures("npm_packages"),
    pytest.mark.parametrize("agent", ["gemini", "claude"]),
]

# The fixtures of the tests with agents.
model, one_at_a_time = conftest.model, conftest.one_at_a_time
installed, lab = conftest.installed, conftest.lab

SLEEP = "sleep 297"


@asynccontextmanager
async def site_of(lab: Lab) -> AsyncIterator[tuple[Site, Runtime]]:
    async with served(env=lab.env, real=agent_of(lab)) as (site, runtime):
        yield site, runtime


async def until_it_sleeps(lab: Lab) -> None:
    while not running(lab, SLEEP):  # noqa: ASYNC110 - nobody tells
        await trio.sleep(0.1)


async def allow_if_asked(chat: Chat) -> None:
    part = await chat.until_tool("approval-requested")
    await chat.until("ready")
    await chat.do("answer", id=part["approval"]["id"], approved=True)


async def choose_if_asked(client: Client) -> None:
    await client.led.until(lambda: len(client.led.heard("asked")) == 2)
    await client.choose(await client.question(), "allow_once")


async def test_a_chat_of_the_ai_sdk(lab: Lab) -> None:
    body = {"agent": "real", "cwd": str(lab.work)}
    async with site_of(lab) as (site, runtime), node("ai_client.mjs") as led:
        chat = await Tabs(led, site).open("one", answers=True, body=body)
        await chat.say("Please [[shell]]")
        part = await chat.until_tool("approval-requested")
        await chat.do("answer", id=part["approval"]["id"], approved=True)
        await chat.led.until(lambda: "The command is finished." in chat.text())
        await chat.until("ready")
        assert (lab.work / "ran.txt").read_text() == "marker-42\n"
        assert {state for _, state in chat.tools()} == {"output-available"}
        await chat.is_valid()
        await chat.start("send", text="Please [[sleep]]")
        async with trio.open_nursery() as nursery:  # not every agent asks for this one
            nursery.start_soon(allow_if_asked, chat)
            await until_it_sleeps(lab)
            await chat.led.until(lambda: chat.now()["status"] in ("submitted", "streaming"))
            nursery.cancel_scope.cancel()
        await chat.do("stop")
        await chat.until("ready")
        await chat.do("resume")
        assert {state for _, state in chat.tools()} <= {"output-error", "output-denied"}
        assert runtime.list()[0].phase == "idle"
        await chat.say("Please [[text]]")
        assert "Hello from the scripted model." in chat.text()


async def test_a_client_of_acp(lab: Lab) -> None:
    async with site_of(lab) as (site, runtime), node("acp_client.mjs") as led:
        one = await Clients(led, site).open("one")
        about = {"agentrt": {"agent": "real"}}
        session = await one.new(cwd=str(lab.work), _meta=about)
        prompting = await one.prompt(session, "Please [[shell]]")
        await one.choose(await one.question(), "allow_once")
        assert (await one.led.result(prompting))["stopReason"] == "end_turn"
        assert (lab.work / "ran.txt").read_text() == "marker-42\n"
        assert "The command is finished." in one.text()
        assert {call["status"] for call in one.tools().values()} == {"completed"}
        prompting = await one.prompt(session, "Please [[sleep]]")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(choose_if_asked, one)
            await until_it_sleeps(lab)
            nursery.cancel_scope.cancel()
        await one.notify("session/cancel", sessionId=session)
        assert (await one.led.result(prompting))["stopReason"] == "cancelled"
        assert await one.say(session, "Please [[text]]") == "end_turn"
        assert "Hello from the scripted model." in one.text()
        assert runtime.list()[0].phase == "idle"
