"""Webhooks: one POST for a question that waits, and one for the end of a turn."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import h11
import pytest
import trio
import trio.testing

import agentrt
from agentrt._cli.webhook import Webhook
from agentrt.permissions import Policy


class Receiver:
    """An HTTP server that keeps what it was sent, and answers with the given statuses by turns."""

    def __init__(self, statuses: list[int]) -> None:
        self.url = ""
        self.messages: list[dict[str, Any]] = []
        self._statuses = statuses
        self._arrived = trio.Event()

    async def handle(self, stream: trio.SocketStream) -> None:
        connection = h11.Connection(h11.SERVER)
        body = b""
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                connection.receive_data(bytes(await stream.receive_some()))
            elif isinstance(event, h11.Data):
                body += event.data
        self.messages.append(json.loads(body))
        self._arrived.set()
        self._arrived = trio.Event()
        status = self._statuses.pop(0) if self._statuses else 204
        response = h11.Response(status_code=status, headers=[("Content-Length", "0")])
        await stream.send_all(connection.send(response) or b"")
        await stream.aclose()

    async def received(self, count: int) -> list[dict[str, Any]]:
        with trio.fail_after(20):
            while len(self.messages) < count:
                await self._arrived.wait()
        return self.messages


@asynccontextmanager
async def receiving(*statuses: int) -> AsyncIterator[tuple[Receiver, Webhook]]:
    receiver = Receiver(list(statuses))
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, receiver.handle, 0, host="127.0.0.1")
        [listener] = await nursery.start(serve)
        receiver.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/hook?key=1"
        webhook = Webhook(receiver.url)
        nursery.start_soon(webhook.send_all, "http://localhost:4000/")
        yield receiver, webhook
        nursery.cancel_scope.cancel()


async def run(webhook: Webhook, tmp_path: Path, permissions: Policy) -> str:
    async with (
        agentrt.open_session(
            "demo", cwd=tmp_path, permissions=permissions, telemetry=webhook
        ) as session,
        session.prompt("run date") as turn,
    ):
        async for event in turn:
            if isinstance(event, agentrt.PermissionOpened):
                turn.answer(event, event.options[0].id)
        return session.id


@pytest.mark.slow
async def test_a_question_and_the_end_of_its_turn_are_sent(tmp_path: Path) -> None:
    async with receiving() as (receiver, webhook):
        session = await run(webhook, tmp_path, agentrt.ask)
        question, ended = await receiver.received(2)
    assert question["event"] == "question"
    assert "date" in question["question"]
    assert question["text"] == f"{question['title']}: needs your answer: {question['question']}"
    assert question["url"] == f"http://localhost:4000/#/s/{session}"
    assert ended["event"] == "turn_ended"
    assert ended["outcome"] == "completed"
    assert ended["session"] == session


@pytest.mark.slow
async def test_a_request_that_a_rule_answers_is_no_question(tmp_path: Path) -> None:
    async with receiving() as (receiver, webhook):
        await run(webhook, tmp_path, agentrt.rules(allow=["Bash(date)"]))
        messages = await receiver.received(1)
    assert [each["event"] for each in messages] == ["turn_ended"]


@pytest.mark.slow
async def test_a_message_that_was_not_accepted_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrt._cli.webhook.RETRY_S", 0.01)
    async with receiving(500, 503) as (receiver, webhook):
        await run(webhook, tmp_path, agentrt.rules(allow=["Bash(date)"]))
        messages = await receiver.received(3)
    assert [each["event"] for each in messages] == ["turn_ended"] * 3


@pytest.mark.slow
async def test_a_message_that_is_refused_is_logged_without_the_key_of_the_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "agentrt.server")
    async with receiving(403) as (receiver, webhook):
        await run(webhook, tmp_path, agentrt.rules(allow=["Bash(date)"]))
        await receiver.received(1)
        await trio.testing.wait_all_tasks_blocked(0.2)
    assert "was not delivered: status 403" in caplog.text
    assert "key=1" not in caplog.text


@pytest.mark.parametrize("url", ["example.com/hook", "ftp://example.com", "https://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="webhook must be a URL"):
        Webhook(url)
