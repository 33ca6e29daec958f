"""A FastAPI application with an agent: `uvicorn fastapi_app:app`."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import msgspec
from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from fastapi.responses import StreamingResponse

import agentrt
from agentrt import aio


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with aio.open_runtime(permissions=agentrt.allow_all) as runtime:
        app.state.runtime = runtime
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/sessions")
async def create() -> dict[str, str]:
    session = await app.state.runtime.create("demo")
    return {"session": session.id}


@app.get("/sessions/{id}/ask")
async def ask(id: str, prompt: str) -> StreamingResponse:
    """Stream the events of one turn as server-sent events. A disconnect cancels the turn."""
    session: agentrt.Session = app.state.runtime.get(id)

    async def events() -> AsyncIterator[bytes]:
        async with session.prompt(prompt, check=False) as turn:
            async for event in turn:
                yield b"data: " + msgspec.json.encode(event) + b"\n\n"  # noqa: ASYNC119

    return StreamingResponse(events(), media_type="text/event-stream")


@app.websocket("/sessions/{id}/ws")
async def converse(socket: WebSocket, id: str) -> None:
    """Start a turn for each `{"prompt": TEXT}`, and cancel its task for `{"stop": true}`."""
    session: agentrt.Session = app.state.runtime.get(id)

    async def answer(prompt: str) -> None:
        async with session.prompt(prompt, check=False) as turn:
            try:
                async for event in turn:
                    await socket.send_bytes(msgspec.json.encode(event))
            except WebSocketDisconnect:
                pass  # the loop below ends, too
            finally:
                turn.cancel()  # also after a disconnect; no effect after the end

    await socket.accept()
    async with asyncio.TaskGroup() as tasks:
        turn: asyncio.Task[None] | None = None
        # Not `iter_json`: it raises an error if a send has noticed the disconnect first.
        while (received := await socket.receive())["type"] == "websocket.receive":
            message = json.loads(received["text"])
            if "prompt" in message:
                turn = tasks.create_task(answer(message["prompt"]))
            elif turn is not None:
                turn.cancel()
        if turn is not None:
            turn.cancel()
