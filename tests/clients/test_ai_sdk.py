"""The AI SDK's own chat, over its own WebSocket transport, against a site.

First the eight scenarios that a chat is known to break in; then what else a chat can do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kit import TOKEN, Node, node, served

from agentrt import allow_all
from agentrt._runtime.runtime import Runtime
from agentrt._web.site import Site

pytestmark = pytest.mark.usefixtures("npm_packages")


class Chat:
    """One tab's chat."""

    def __init__(self, led: Node, name: str) -> None:
        self.name = name
        self.led = led

    def now(self) -> dict[str, Any]:
        states = [message for message in self.led.told if message.get("chat") == self.name]
        return states[-1] if states else {"status": "ready", "messages": [], "error": None}

    async def until(self, status: str) -> dict[str, Any]:
        await self.led.until(lambda: self.now()["status"] == status)
        return self.now()

    async def do(self, op: str, **fields: Any) -> Any:
        return await self.led.do(op, chat=self.name, **fields)

    async def start(self, op: str, **fields: Any) -> int:
        return await self.led.start(op, chat=self.name, **fields)

    async def say(self, text: str, **options: Any) -> list[dict[str, Any]]:
        """Send a message, and return the parts of the answer once the stream has ended."""
        await self.do("send", text=text, **options)
        return self.parts()

    def parts(self) -> list[dict[str, Any]]:
        message = self.now()["messages"][-1]
        assert message["role"] == "assistant", message
        return [part for part in message["parts"] if part["type"] != "step-start"]

    def text(self) -> str:
        return "".join(part["text"] for part in self.parts() if part["type"] == "text")

    def tools(self) -> list[tuple[str, str]]:
        return [(p["toolName"], p["state"]) for p in self.parts() if "toolCallId" in p]

    async def until_tool(self, state: str) -> dict[str, Any]:
        """Until the answer shows a tool in that state; the tool's part."""

        def found() -> dict[str, Any] | None:
            messages = self.now()["messages"]
            parts = messages[-1]["parts"] if messages else []
            return next((p for p in parts if p.get("state") == state and "toolCallId" in p), None)

        part: dict[str, Any] = await self.led.until(found)
        return part

    async def is_valid(self) -> None:
        """By the SDK's own validation of a whole conversation."""
        assert await self.do("validate") is True


class Tabs:
    """Tabs in one program, all of one site."""

    def __init__(self, led: Node, site: Site) -> None:
        self.led = led
        self.site = site

    async def open(self, name: str, id: str = "chat", token: str = TOKEN, **options: Any) -> Chat:
        url = f"ws://127.0.0.1:{self.site.port}/ai"
        headers = {"Authorization": f"Bearer {token}"}
        options = {"url": url, "headers": headers, **options}
        await self.led.do("open", chat=name, id=id, **options)
        return Chat(self.led, name)


@asynccontextmanager
async def tabs(**agents: Any) -> AsyncIterator[tuple[Tabs, Runtime]]:
    async with served(**agents) as (site, runtime), node("ai_client.mjs") as led:
        yield Tabs(led, site), runtime


async def test_a_turn_shows_thoughts_tools_and_text_and_ends_ready() -> None:
    async with tabs(permissions=allow_all) as (site, _):
        chat = await site.open("one")
        parts = await chat.say("/tools")
        assert chat.now()["status"] == "ready"
        assert {state for _, state in chat.tools()} == {"output-available", "output-error"}
        assert all(p["providerExecuted"] for p in parts if "toolCallId" in p)
        assert "Those were all kinds of tool calls" in chat.text()
        assert not chat.led.heard("called"), "the application was asked to run the agent's tools"
        thoughts = [p for p in await chat.say("/think") if p["type"] == "reasoning"]
        assert thoughts
        assert all(p["state"] == "done" for p in thoughts)
        await chat.is_valid()


async def test_a_chat_that_is_cut_off_resumes_and_shows_the_message_once() -> None:
    async with tabs() as (site, _):
        chat = await site.open("one")
        sending = await chat.start("send", text="/slow 2")
        await chat.until_tool("input-available")
        await chat.do("cut")
        await chat.until("error")
        assert chat.led.heard("finished")[-1]["isDisconnect"]
        await chat.led.result(sending)
        await chat.do("resume")
        assert chat.now()["status"] == "ready"
        assert [m["role"] for m in chat.now()["messages"]] == ["user", "assistant"]
        assert chat.tools() == [("execute", "output-available")]
        assert "says nothing while it runs" in chat.text()
        await chat.is_valid()


async def test_an_empty_second_tab_resumes_the_running_turn_and_both_show_the_same() -> None:
    async with tabs() as (site, _):
        one, two = await site.open("one"), await site.open("two")
        sending = await one.start("send", text="/slow 2")
        await one.until_tool("input-available")
        resuming = await two.start("resume")
        await two.until_tool("input-available")
        await one.led.result(sending)
        await two.led.result(resuming)
        assert one.now()["messages"][-1] == two.now()["messages"][-1]
        assert two.now()["status"] == "ready"


async def test_a_message_into_a_running_turn_is_refused_and_the_turn_unharmed() -> None:
    async with tabs() as (site, _):
        one, two = await site.open("one"), await site.open("two")
        sending = await one.start("send", text="/slow 2")
        await one.until_tool("input-available")
        await two.do("send", text="me too")
        assert two.now()["status"] == "error"
        assert "(busy)" in two.now()["error"]
        await one.led.result(sending)
        assert one.now()["status"] == "ready"
        assert "says nothing while it runs" in one.text()


async def test_a_stop_in_another_tab_cancels_the_turn_and_its_tool_for_both() -> None:
    async with tabs() as (site, _):
        one, two = await site.open("one"), await site.open("two")
        sending = await one.start("send", text="/slow 600")
        await one.until_tool("input-available")
        resuming = await two.start("resume")
        await two.until_tool("input-available")
        await two.do("stop")
        await one.led.result(sending)
        await two.led.result(resuming)
        assert one.tools() == [("execute", "output-error")]
        assert one.led.heard("finished")[-1]["finishReason"] == "interrupted"
        assert one.now()["status"] == two.now()["status"] == "ready"
        assert two.tools() == [("execute", "input-available")]  # the SDK listens no more
        await two.do("resume")
        assert two.tools() == [("execute", "output-error")]
        await one.say("hello")
        assert one.now()["status"] == "ready"


async def test_after_a_stop_of_its_own_a_tab_is_ready_and_a_resume_closes_its_tool() -> None:
    async with tabs() as (site, runtime):
        chat = await site.open("one")
        sending = await chat.start("send", text="/slow 600")
        await chat.until_tool("input-available")
        await chat.do("stop")
        await chat.led.result(sending)
        assert chat.now()["status"] == "ready"
        await chat.do("resume")
        assert chat.tools() == [("execute", "output-error")]
        assert runtime.list()[0].phase == "idle"
        await chat.say("hello")
        assert chat.now()["status"] == "ready"
        await chat.is_valid()


async def test_a_question_ends_the_stream_and_the_answer_alone_sends_nothing() -> None:
    async with tabs() as (site, runtime):
        chat = await site.open("one")
        await chat.say("/ask")
        part = await chat.until_tool("approval-requested")
        assert chat.now()["status"] == "ready"
        await chat.do("answer", id=part["approval"]["id"], approved=True)
        assert part["approval"]["requestReason"]
        kinds = {option["kind"] for option in part["approval"]["descriptor"]["options"]}
        assert {"allow_once", "reject_once"} <= kinds
        assert runtime.list()[0].phase == "waiting"
        await chat.do("send")  # without a message: what was answered
        assert "Allowed, so I did nothing" in chat.text()
        await chat.is_valid()


@pytest.mark.parametrize(
    ("approved", "state", "words"),
    [
        (True, "output-available", "Allowed, so I did nothing"),
        (False, "output-denied", ""),
    ],
)
async def test_an_answer_goes_on_with_the_same_message_in_a_new_step(
    approved: bool, state: str, words: str
) -> None:
    async with tabs() as (site, _):
        chat = await site.open("one", answers=True)
        await chat.say("/ask")
        part = await chat.until_tool("approval-requested")
        await chat.do("answer", id=part["approval"]["id"], approved=approved)
        await chat.until_tool(state)
        await chat.led.until(lambda: len(chat.led.heard("finished")) == 2)
        await chat.until("ready")
        assert words in chat.text()
        assert [m["role"] for m in chat.now()["messages"]] == ["user", "assistant"]
        await chat.is_valid()
