"""Dialects of a program, next to those of the server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
import trio
from hub_kit import Stage, refusal, stage_with, viewer_of
from trio.testing import MockClock
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

import agentrt
from agentrt.asgi import Application
from agentrt.events import Text, TextDelta, TurnEnded
from agentrt.lowlevel import (
    CommandRefused,
    Dialect,
    DialectHost,
    DialectViewer,
    Steps,
    ViewedSession,
)
from agentrt.testing import open_fake_runtime
from agentrt.web import Role, Security, serve
from runtime.fakes import Incarnations, echo


class Words(DialectViewer):
    """A client sends `[method, argument…]`, and gets the text of the session and the outcomes."""

    def __init__(self, host: DialectHost) -> None:
        self.host = host
        self.seen = 0
        self.lists = 0
        self.left: list[str] = []

    def receive(self, text: str) -> None:
        method, *arguments = json.loads(text)
        getattr(self, method)(*arguments)

    def fail(self) -> None:
        raise RuntimeError("a mistake in the dialect")

    def fail_later(self) -> None:
        def steps() -> Steps[None]:
            raise RuntimeError("a mistake in a request")
            yield

        self.host.start(steps())

    def fail_refused(self) -> None:
        self.host.start(self.carry_out("cancel", {"session": "unknown"}, handles=False))

    def bye(self, code: int, reason: str) -> None:
        self.host.send(b"bye")
        self.host.end(code, reason)

    def command(self, type: str, fields: dict[str, Any]) -> None:
        self.host.start(self.carry_out(type, fields))

    def carry_out(self, type: str, fields: dict[str, Any], *, handles: bool = True) -> Steps[None]:
        try:
            answer = yield from self.host.command(type, **fields)
        except CommandRefused as error:
            if not handles:
                raise
            self.host.send(f"! {error.code}".encode())
        else:
            self.host.send(json.dumps(sorted(answer)).encode())

    def watch(self, id: str) -> None:
        self.host.start(self.find(id))

    def find(self, id: str) -> Steps[None]:
        try:
            self.host.follow((yield from self.host.find(id)))
        except CommandRefused as error:
            self.host.send(f"! {error.code}".encode())

    def leave(self, id: str) -> None:
        def steps() -> Steps[None]:
            self.host.unfollow((yield from self.host.find(id)))

        self.host.start(steps())

    def prompt(self, id: str, text: str) -> None:
        self.command("prompt", {"session": id, "content": [Text(text)]})

    def messages(self, session: ViewedSession) -> Iterator[bytes]:
        events = session.log.since(self.seen)
        self.seen = session.log.seq
        for event in events:
            match event:
                case TextDelta(text="break"):
                    raise RuntimeError("a mistake in a message")
                case TextDelta(text=text):
                    yield text.encode()
                case TurnEnded(outcome=outcome):
                    yield f"[{outcome}]".encode()

    def sessions_changed(self) -> None:
        self.lists += 1

    def unfollowed(self, session: ViewedSession) -> None:
        self.left.append(session.log.session)


TOKEN = "a token of a program"
WORDS = Dialect("/words", "example.words", Words)


class Person:
    """A client on the stage."""

    def __init__(self, stage: Stage, role: Role = "controller") -> None:
        self.viewer = viewer_of(stage.hub, WORDS, role=role)
        self.words: Words = self.viewer.dialect_viewer  # type: ignore[attr-defined]

    def say(self, *message: object) -> None:
        self.viewer.receive(json.dumps(message))

    async def hear(self) -> str:
        with trio.fail_after(300):
            return (await self.viewer.next_frame()).decode()


async def test_a_client_prompts_and_reads_the_answer(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        person, id = Person(stage), await stage.session()
        person.say("watch", id)
        person.say("prompt", id, "hello")
        heard = [await person.hear() for _ in range(3)]
        assert heard == ['["seq", "turn"]', "hello", "[completed]"]


async def test_two_clients_of_a_dialect_see_the_same_session(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        id = await stage.session()
        people = [Person(stage), Person(stage, "viewer")]
        for person in people:
            person.say("watch", id)
        people[0].say("prompt", id, "hello")
        assert await people[0].hear() == '["seq", "turn"]'
        for person in people:
            assert [await person.hear(), await person.hear()] == ["hello", "[completed]"]


async def test_a_viewer_reads_and_controls_nothing(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        person, id = Person(stage, "viewer"), await stage.session()
        assert person.words.host.role == "viewer"
        person.say("watch", id)
        person.say("prompt", id, "hello")
        assert await person.hear() == "! forbidden"
        assert stage.runtime.get(id).state.turn is None


@pytest.mark.parametrize(
    ("type", "fields", "code"),
    [
        ("dance", {}, "unknown_command"),
        ("hello", {}, "unknown_command"),
        ("attach", {"session": "x"}, "unknown_command"),
        ("session", {"op": "list"}, "unknown_command"),
        ("prompt", {"session": "x"}, "bad_request"),
        ("cancel", {"session": "x"}, "unknown_session"),
        ("cancel", {"session": "x", "more": 1}, "bad_request"),
    ],
)
async def test_a_command_that_cannot_be_carried_out_is_refused_with_a_code(
    type: str, fields: dict[str, Any], code: str, autojump_clock: MockClock
) -> None:
    async with stage_with(echo) as stage:
        person = Person(stage)
        person.say("command", type, fields)
        assert await person.hear() == f"! {code}"


async def test_an_unknown_session_is_not_found(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        person = Person(stage)
        person.say("watch", "unknown")
        assert await person.hear() == "! unknown_session"


async def test_commands_begin_in_the_order_in_which_they_arrive(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        person, id = Person(stage), await stage.session()
        texts = [f"prompt {number}" for number in range(20)]
        for text in texts:
            person.say("prompt", id, text)
        await stage.runtime.get(id).wait_idle()
        items = stage.runtime.get(id).log.state.items.values()
        sent = [block.text for item in items if item.type == "user" for block in item.content]
        assert sent == texts


async def test_the_dialect_is_told_of_changes_and_of_the_end(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        person, id = Person(stage), await stage.session()
        await trio.sleep(1)
        assert person.words.lists > 0
        assert [each.session for each in person.words.host.sessions()] == [id]
        person.say("watch", id)
        person.say("leave", id)
        person.say("leave", id)  # it is not followed any more
        assert person.words.left == [id]
        person.say("watch", id)
        await stage.runtime.close(id)
        person.say("prompt", id, "hello")
        assert await person.hear() == "! unknown_session"
        with trio.move_on_after(1):
            await person.viewer.next_frame()
        assert person.words.left == [id, id]
        person.viewer.close()
        assert stage.hub.viewers == {}


@pytest.mark.parametrize(
    ("message", "code", "reason"),
    [
        (["bye", 4999, "that is all"], 4999, "that is all"),
        (["fail_later"], 4450, "the server failed to carry this out"),
        (["fail_refused"], 4400, "no session 'unknown' is open"),
    ],
)
async def test_a_dialect_ends_its_connection_with_a_reason(
    message: list[object], code: int, reason: str, autojump_clock: MockClock
) -> None:
    async with stage_with(echo) as stage:
        person, other = Person(stage), Person(stage)
        person.say(*message)
        if message[0] == "bye":
            assert await person.hear() == "bye"
        found, said = await refusal(person.viewer)
        assert found == code
        assert reason in said
        other.say("watch", "unknown")
        assert await other.hear() == "! unknown_session"


async def test_a_close_code_that_a_frame_cannot_have_is_an_error(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(echo) as stage:
        host = Person(stage).words.host
        for code in (0, 999, 1005, 1006, 2999, 5000):
            with pytest.raises(ValueError, match="use one from 4000 to 4999"):
                host.end(code)


# --- on a server


@asynccontextmanager
async def connected(*dialects: Dialect) -> AsyncIterator[tuple[int, str]]:
    """A server with these dialects: its port, and the id of a session."""
    async with (
        open_fake_runtime({"fake": Incarnations(echo).start}) as runtime,
        trio.open_nursery() as nursery,
    ):
        session = await runtime.create("fake")
        about = partial(serve, runtime, security=Security(token=TOKEN), dialects=dialects)
        site = await nursery.start(about)
        yield site.port, session.id
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def socket_to(
    port: int, path: str, *protocols: str, token: str = TOKEN
) -> AsyncIterator[WebSocketConnection]:
    headers = [(b"Authorization", f"Bearer {token}".encode())]
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream, trio.open_nursery() as own:
        yield await wrap_client_stream(
            own, stream, f"127.0.0.1:{port}", path, subprotocols=protocols, extra_headers=headers
        )
        own.cancel_scope.cancel()


async def closed_with(socket: WebSocketConnection) -> int:
    """Read to the end and return the close code."""
    with trio.fail_after(60), suppress(ConnectionClosed):
        while True:
            await socket.get_message()
    assert socket.closed is not None
    return int(socket.closed.code)


async def test_a_mistake_in_a_dialect_closes_only_its_connection() -> None:
    async with (
        connected(WORDS) as (port, id),
        socket_to(port, "/words", "example.words") as well,
    ):
        assert well.subprotocol == "example.words"
        await well.send_message(json.dumps(["watch", id]))
        for mistake in (["fail"], ["fail_later"]):
            async with socket_to(port, "/words") as socket:
                await socket.send_message(json.dumps(mistake))
                assert await closed_with(socket) == 4450
        async with socket_to(port, "/words") as socket:
            await socket.send_message(json.dumps(["prompt", id, "hello"]))
            assert await socket.get_message() == '["seq", "turn"]'
        assert await well.get_message() == "hello"
        assert await well.get_message() == "[completed]"
        await well.send_message(json.dumps(["prompt", id, "break"]))
        assert await closed_with(well) == 4450


async def test_a_dialect_is_protected_by_the_token_as_the_page_is() -> None:
    async with connected(WORDS) as (port, _), socket_to(port, "/words", token="no") as socket:
        assert await closed_with(socket) == 4401


async def test_a_dialect_may_ask_for_a_header_with_a_connection_id() -> None:
    named = Dialect("/named", "example.named", Words, connection_header="Example-Connection")
    async with connected(named) as (port, _), socket_to(port, "/named") as socket:
        headers = {name.lower() for name, _ in socket.handshake_headers}
        assert b"example-connection" in headers


@pytest.mark.parametrize(
    ("dialects", "error"),
    [
        (WORDS, "must be a list"),
        ([Words], "must be agentrt.lowlevel.Dialect"),
        (["/words"], "must be agentrt.lowlevel.Dialect"),
        ([WORDS, WORDS], "two dialects have the path /words"),
        ([Dialect("/ws", "a", Words)], "two dialects have the path /ws"),
        ([Dialect("/acp", "a", Words)], "two dialects have the path /acp"),
        ([Dialect("/", "a", Words)], "not a path"),
        ([Dialect("words", "a", Words)], "not a path"),
        ([Dialect("/words/", "a", Words)], "not a path"),
        ([Dialect("/words?", "a", Words)], "not a path"),
        ([Dialect("/a b", "a", Words)], "not a path"),
        ([Dialect("/../ws", "a", Words)], "not a path"),
        ([Dialect("/page/words", "a", Words)], "used by the page"),
        ([Dialect("/healthz", "a", Words)], "used by the page"),
        ([Dialect("/words", "", Words)], "not the name of a subprotocol"),
        ([Dialect("/words", "a, b", Words)], "not the name of a subprotocol"),
        ([Dialect("/words", "a", Words, connection_header="a: b")], "not the name"),
    ],
)
def test_a_dialect_that_cannot_be_served_is_an_error_at_once(dialects: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        Application(agentrt.open_runtime, security=Security(token=TOKEN), dialects=dialects)


async def test_a_server_does_not_start_with_such_a_dialect() -> None:
    async with open_fake_runtime({"fake": Incarnations(echo).start}) as runtime:
        with pytest.raises(ValueError, match="two dialects have the path /words"):
            await serve(runtime, dialects=[WORDS, WORDS])
