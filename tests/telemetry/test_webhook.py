"""Webhooks: one POST for a question that waits, and one for the end of a turn."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import h11
import pytest
import trio

from in_process import free_port, main, main_beside, until_listening
from web.sockets import TOKEN
from web.tenants_kit import Line, line

PATIENCE = 30


class Receiver:
    """An HTTP server that keeps what it was sent, and answers with the given statuses by turns."""

    def __init__(self, statuses: list[int]) -> None:
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


Story: TypeAlias = Callable[[Line, Receiver], Awaitable[None]]
"""What a client of the server does, and what is then received."""


class Told:
    """Serves with webhooks while a story is told: `agentrt serve`, in the process of the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, story: Story, *statuses: int, allow: str | None = None) -> None:
        """`statuses`: the answers to the webhooks; `allow`: a rule for the agents."""
        port, hook = free_port(), free_port()

        async def tell() -> None:
            receiver = Receiver(list(statuses))
            serve = partial(trio.serve_tcp, receiver.handle, hook, host="127.0.0.1")
            with trio.fail_after(PATIENCE):
                async with trio.open_nursery() as nursery:
                    await nursery.start(serve)
                    await until_listening(port)
                    async with line(port, TOKEN) as client:
                        await story(client, receiver)
                    nursery.cancel_scope.cancel()

        url = f"http://127.0.0.1:{hook}/hook?key=1"
        given = ["--cwd", str(self._folder), "--store", "off", "--log-level", "warning"]
        given += [] if allow is None else ["--allow", allow]
        main_beside(["serve", "--port", str(port), "--webhook", url, *given], tell)


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    monkeypatch.setenv("AGENTRT_SERVE_TOKEN", TOKEN)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    return Told(tmp_path)


async def work(client: Line, *, allows: bool = False) -> str:
    """Have the demo agent run a command, which the client allows if no rule does."""
    answer = await client.ok("session", op="new", agent="demo")
    session = str(answer["session"])
    await client.attach(session)
    await client.prompt(session, "run date")
    while not client.ended(session):
        message = await client.hear()
        event = message.get("event", {})
        if allows and event.get("kind") == "permission.opened":
            chosen = event["options"][0]["id"]
            request = event["request"]
            await client.ok("permission", session=session, request=request, option=chosen)
    return session


@pytest.mark.slow
def test_a_question_and_the_end_of_its_turn_are_sent(told: Told) -> None:
    async def story(client: Line, receiver: Receiver) -> None:
        session = await work(client, allows=True)
        question, ended = await receiver.received(2)
        assert question["event"] == "question"
        assert "date" in question["question"]
        assert question["text"] == f"{question['title']}: needs your answer: {question['question']}"
        assert question["url"].endswith(f"/#/s/{session}")
        assert question["url"].startswith("http://127.0.0.1:")
        assert ended["event"] == "turn_ended"
        assert ended["outcome"] == "completed"
        assert ended["session"] == session

    told(story)


@pytest.mark.slow
def test_a_request_that_a_rule_answers_is_no_question(told: Told) -> None:
    async def story(client: Line, receiver: Receiver) -> None:
        await work(client)
        messages = await receiver.received(1)
        assert [each["event"] for each in messages] == ["turn_ended"]

    told(story, allow="Bash(date)")


@pytest.mark.slow
def test_a_message_that_was_not_accepted_is_sent_again(told: Told) -> None:
    async def story(client: Line, receiver: Receiver) -> None:
        await work(client)
        messages = await receiver.received(3)
        assert [each["event"] for each in messages] == ["turn_ended"] * 3

    told(story, 500, 503, allow="Bash(date)")


@pytest.mark.slow
def test_a_message_that_is_refused_is_logged_without_the_key_of_the_address(
    told: Told, capfd: pytest.CaptureFixture[str]
) -> None:
    async def story(client: Line, receiver: Receiver) -> None:
        await work(client)
        await receiver.received(1)
        await trio.sleep(0.2)

    told(story, 403, allow="Bash(date)")
    logged = capfd.readouterr().err
    assert "was not delivered: status 403" in logged
    assert "key=1" not in logged


@pytest.mark.parametrize("url", ["example.com/hook", "ftp://example.com", "https://"])
def test_an_address_that_is_none_is_refused(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--webhook", url, "--store", "off"]) == 2
    assert "webhook must be a URL" in capfd.readouterr().err
