"""A dialect for chat bots: whole messages, and questions with buttons, each one JSON object."""

import json
from collections.abc import Iterator
from typing import Any

from agentrt.events import Text
from agentrt.lowlevel import (
    CommandRefused,
    Dialect,
    DialectHost,
    DialectViewer,
    Steps,
    ViewedSession,
)


class Bot(DialectViewer):
    def __init__(self, host: DialectHost) -> None:
        self._host = host
        self._id = ""
        self._sent: set[str] = set()

    def receive(self, text: str) -> None:
        try:
            message = json.loads(text)
        except ValueError as error:
            self._send(error=f"send a JSON object: {error}")
        else:
            self._host.start(self._act(message))

    def _act(self, message: Any) -> Steps[None]:
        command = self._host.command
        try:
            match message:
                case {"do": "say", "text": str(text)}:
                    if not self._id:
                        opened = yield from command("session", op="new", agent="demo", cwd=".")
                        self._id = opened["session"]
                        session = yield from self._host.find(self._id)
                        self._host.follow(session)
                    yield from command("prompt", session=self._id, content=[Text(text)])
                case {"do": "press", "question": str(question), "button": str(button)}:
                    yield from command(
                        "permission", session=self._id, request=question, option=button
                    )
                case {"do": "stop"}:
                    yield from command("cancel", session=self._id)
                case _:
                    self._send(error='"do" must be "say", "press" or "stop"')
        except CommandRefused as error:
            self._send(error=error.message)

    def messages(self, session: ViewedSession) -> Iterator[bytes]:
        state = session.log.state
        for item in list(state.items.values()):
            if item.type == "text" and item.status != "running" and self._is_new(item.id):
                yield _json(text=state.text(item.id))
        for request in list(state.permissions.values()):
            if self._is_new(request.request):
                buttons = {option.id: option.name for option in request.options}
                yield _json(question=request.request, text=request.title, buttons=buttons)
        for id, turn in list(state.turns.items()):
            if turn.outcome is not None and self._is_new(id):
                yield _json(ended=turn.outcome)

    def _is_new(self, id: str) -> bool:
        new = id not in self._sent
        self._sent.add(id)
        return new

    def _send(self, **message: object) -> None:
        self._host.send(_json(**message))


def _json(**message: object) -> bytes:
    return json.dumps(message).encode()


BOT = Dialect("/bot", "example.bot", Bot)
