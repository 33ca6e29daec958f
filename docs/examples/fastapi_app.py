"""A FastAPI application with an agent behind it: `uvicorn fastapi_app:app`."""

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
    """The events of one turn, as server-sent events. Whoever goes away has cancelled it."""
    session: agentrt.Session = app.state.runtime.get(id)

    async def events() -> AsyncIterator[bytes]:
        async with session.prompt(prompt, check=False) as turn:
            async for event in turn:
                yield b"data: " + msgspec.json.encode(event) + b"\n\n"  # noqa: ASYNC119

    return StreamingResponse(events(), media_type="text/event-stream")


@app.websocket("/sessions/{id}/ws")
async def converse(socket: WebSocket, id: str) -> None:
    """`{"prompt": TEXT}` starts a turn, `{"stop": true}` cancels the task that is in it."""
    session: agentrt.Session = app.state.runtime.get(id)

    async def answer(prompt: str) -> None:
        async with session.prompt(prompt, check=False) as turn:
            try:
                async for event in turn:
                    await socket.send_bytes(msgspec.json.encode(event))
            except WebSocketDisconnect:
                pass  # the reader below sees it, too
            finally:
                turn.cancel()  # also where the socket is gone; after the end it does nothing

    await socket.accept()
    async with asyncio.TaskGroup() as tasks:
        turn: asyncio.Task[None] | None = None
        # Not `iter_json`: it raises where a send has seen first that the socket is gone.
        while (received := await socket.receive())["type"] == "websocket.receive":
            message = json.loads(received["text"])
            if "prompt" in message:
                turn = tasks.create_task(answer(message["prompt"]))
            elif turn is not None:
                turn.cancel()
        if turn is not None:
            turn.cancel()
