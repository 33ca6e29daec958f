"""Further applications, for the servers to run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from functools import partial

from fastapi import FastAPI
from starlette.applications import Starlette

import agentrt
from agentrt import aio
from agentrt.asgi import Application

from .kit import METRICS, TOKEN

URL = os.environ.get("AGENTRT_URL", "http://127.0.0.1:8000/")

metrics = agentrt.telemetry.Metrics()
measured = Application(
    partial(
        agentrt.open_runtime,
        telemetry=metrics,
        permissions=agentrt.ask,
        # Long texts are sent completely, so that a few of them fill the buffers of the network.
        limits=agentrt.Limits(
            ws_write_timeout_s=0.2, viewer_outbox_bytes=65536, preview_chars=2_000_000
        ),
    ),
    security=agentrt.web.Security(token=TOKEN, metrics_token=METRICS),
    url=URL,
    agent="demo",
    metrics=metrics,
)

inner = Application(
    partial(agentrt.open_runtime, permissions=agentrt.ask),
    security=agentrt.web.Security(token=TOKEN),
    url=f"{URL}agents/",
    agent="demo",
)


@contextlib.asynccontextmanager
async def lifespan(app: object) -> AsyncIterator[None]:
    async with inner.running():
        yield


mounted = FastAPI(lifespan=lifespan)
mounted.mount("/agents", inner)

forgotten = Starlette()  # whose lifespan does not enter the block
forgotten.mount("/agents", inner)


async def decide(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
    import asyncio

    await asyncio.sleep(0)
    return agentrt.allow_all(request)


own_handlers = Application(
    partial(aio.open_runtime, permissions=decide),
    security=agentrt.web.Security(token=TOKEN),
    url=URL,
    agent="demo",
)

broken = Application(
    partial(agentrt.open_runtime, store="/dev/null/none"),
    security=agentrt.web.Security(token=TOKEN),
)
