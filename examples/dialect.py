"""A dialect: a protocol of plain text, in which clients of the server use sessions.

    python examples/dialect.py "list the files"

The server has the page and its own protocols as usual, and this one at `/text`. The program
connects to it as a client, sends the prompt and prints the server's messages.

A client sends `new FOLDER` or `join SESSION`, gets `= SESSION`, and sends prompts. `/allow` and
`/deny` answer a permission request, `/stop` cancels the turn. It gets the agent's text, `? …` for a
permission request, `[completed]` or another outcome at the end of a turn, and `! …` for an error.
"""

import os
import sys
from collections.abc import Iterator

import trio
import trio_websocket

import agentrt
from agentrt.errors import EventsExpired
from agentrt.events import Event, PermissionOpened, Text, TextDelta, TurnEnded
from agentrt.lowlevel import (
    CommandRefused,
    Dialect,
    DialectHost,
    DialectViewer,
    Steps,
    ViewedSession,
)
from agentrt.web import Security, Site, serve

AGENT = os.environ.get("EXAMPLE_AGENT", "demo")
ANSWERS = {"/allow": "allow_once", "/deny": "reject_once"}


class TextViewer(DialectViewer):
    """One client, with one session at a time."""

    def __init__(self, host: DialectHost) -> None:
        self._host = host
        self._session: ViewedSession | None = None
        self._seen = 0  # the number of the last event that the client knows

    # --- from the client

    def receive(self, text: str) -> None:
        self._host.start(self._carry_out(text))

    def _carry_out(self, text: str) -> Steps[None]:
        word, _, rest = text.partition(" ")
        try:
            if word == "new":
                opened = yield from self._host.command("session", op="new", agent=AGENT, cwd=rest)
                yield from self._join(opened["session"])
            elif word == "join":
                yield from self._join(rest)
            elif self._session is None:
                self._host.send(b"! send `new FOLDER` or `join SESSION` first")
            else:
                yield from self._use(self._session.log.session, text)
        except CommandRefused as error:
            self._host.send(f"! {error.message}".encode())

    def _join(self, id: str) -> Steps[None]:
        session = yield from self._host.find(id)
        if self._session is not None:
            self._host.unfollow(self._session)
        self._session, self._seen = session, 0
        self._host.send(f"= {id}".encode())
        self._host.follow(session)

    def _use(self, session: str, text: str) -> Steps[None]:
        assert self._session is not None
        if text == "/stop":
            yield from self._host.command("cancel", session=session)
        elif text in ANSWERS:
            request = next(iter(self._session.log.state.permissions), "none")
            option = ANSWERS[text]
            yield from self._host.command(
                "permission", session=session, request=request, option=option
            )
        else:
            yield from self._host.command("prompt", session=session, content=[Text(text)])

    # --- to the client

    def messages(self, session: ViewedSession) -> Iterator[bytes]:
        log = session.log
        try:
            events = log.since(self._seen)
        except EventsExpired:  # the client is too slow, or has joined a long session
            yield b"! earlier output is not shown"
            events = []
        self._seen = log.seq
        yield from shown(events)

    def unfollowed(self, session: ViewedSession) -> None:
        if session is self._session:
            self._session = None


def shown(events: list[Event]) -> Iterator[bytes]:
    """Yield the messages for events; neighbouring pieces of text become one message."""
    text = ""
    for event in events:
        if isinstance(event, TextDelta):
            text += event.text
        elif text:
            yield text.encode()
            text = ""
        match event:
            case PermissionOpened(title=title):
                yield f"? {title}".encode()
            case TurnEnded(outcome=outcome):
                yield f"[{outcome}]".encode()
    if text:
        yield text.encode()


TEXT = Dialect("/text", "example.text", TextViewer)


async def main() -> None:
    token = "a long random string"
    async with agentrt.open_runtime() as runtime, trio.open_nursery() as nursery:
        security = Security(token=token)
        site: Site = await nursery.start(
            lambda task_status: serve(
                runtime, security=security, dialects=[TEXT], task_status=task_status
            )
        )
        url = f"ws://127.0.0.1:{site.port}{TEXT.path}"
        headers = [(b"Authorization", b"Bearer " + token.encode())]
        async with trio_websocket.open_websocket_url(url, extra_headers=headers) as socket:
            await socket.send_message(f"new {os.getcwd()}")
            message = ""
            while not message.startswith(("[", "!")):
                message = str(await socket.get_message())
                print(message)
                if message.startswith("="):
                    await socket.send_message(sys.argv[1])
                elif message.startswith("?"):
                    await socket.send_message("/allow")
        nursery.cancel_scope.cancel()


trio.run(main)
