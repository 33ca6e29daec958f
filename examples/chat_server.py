"""A chat room with an agent, on a page of your own.

    python examples/chat_server.py 8000

Everybody who opens the page is in the same session: they see the same messages, and any of them can
prompt the agent, answer its permission requests and stop it. The page is `chat_page.html`. It gets
events as JSON through a WebSocket, and sends `{"prompt": TEXT}`, `{"answer": REQUEST, "allow":
BOOL}` and `{"stop": true}`. The application runs on Trio, with Starlette and Hypercorn. It has no
login: only programs and browsers on the same machine can reach it.
"""

import os
import sys
from functools import partial
from pathlib import Path

import hypercorn.config
import hypercorn.trio
import msgspec
import trio
from starlette.applications import Starlette
from starlette.responses import FileResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

import agentrt

AGENT = os.environ.get("EXAMPLE_AGENT", "demo")
PAGE = Path(__file__).with_name("chat_page.html")


async def page(request: object) -> FileResponse:
    return FileResponse(PAGE)


async def send_events(session: agentrt.Session, socket: WebSocket) -> None:
    """Send the conversation so far, and then each new event."""
    async for event in session.subscribe_all():
        await socket.send_text(msgspec.json.encode(event).decode())


def carry_out(session: agentrt.Session, message: dict[str, str]) -> None:
    if "prompt" in message:
        session.submit(message["prompt"])
    elif message.get("answer") in session.pending_permissions:
        session.answer(message["answer"], "allow_once" if message["allow"] else "reject_once")
    elif "stop" in message:
        session.cancel()


async def chat(origin: str, session: agentrt.Session, socket: WebSocket) -> None:
    if socket.headers.get("origin") != origin:  # a page of another site in the same browser
        await socket.close()
        return
    await socket.accept()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_events, session, socket)
        async for message in socket.iter_json():
            carry_out(session, message)
        nursery.cancel_scope.cancel()


async def main() -> None:
    config = hypercorn.config.Config()
    address = f"127.0.0.1:{sys.argv[1]}"
    config.bind = [address]
    async with agentrt.open_session(AGENT, cwd=".", permissions=agentrt.ask) as session:
        endpoint = partial(chat, f"http://{address}", session)
        routes = [Route("/", page), WebSocketRoute("/chat", endpoint)]
        app = Starlette(routes=routes)
        await hypercorn.trio.serve(app, config)  # type: ignore[arg-type]


if __name__ == "__main__":
    trio.run(main)
