"""Servers that share a store in PostgreSQL, in one process and without a network."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
from hub_kit import Stage, Tab
from wire_client import WireClient

from agentrt import Limits
from agentrt.testing import open_fake_runtime
from inside.server import Hub, serve_forwarded
from inside.store import address_of, open_address, process_of
from runtime.fakes import Incarnations, Script, echo

PATIENCE = 20.0

LEASE_S = 30.0
"""The length of a lease: no pause of a busy machine is longer."""


@asynccontextmanager
async def node(
    url: str,
    name: str,
    *scripts: Script,
    role: str = "both",
    home: str = "here",
    fake: dict[str, Any] | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[Stage]:
    agents = Incarnations(*(scripts or (echo,)), **(fake or {}))
    process = process_of(name, home, role)
    limits = limits or Limits(store_lease_s=LEASE_S)
    async with (
        open_address(address_of(url), process=process, limits=limits) as store,
        open_fake_runtime({"fake": agents.start}, store=store, limits=limits) as runtime,
        trio.open_nursery() as nursery,
    ):
        hub = Hub(runtime)
        serve_forwarded(hub)
        yield Stage(runtime, hub, agents, nursery)
        hub.close()
        nursery.cancel_scope.cancel()


async def until(true: Callable[[], Any]) -> None:
    with trio.fail_after(PATIENCE):
        while not true():  # noqa: ASYNC110
            await trio.sleep(0.01)


async def looking(stage: Stage, session: str, client: WireClient | None = None) -> Tab:
    """A tab that is attached to a session."""
    tab = stage.connect(client=client or WireClient(secrets.token_hex(4)))
    await until(lambda: tab.messages("ready"))
    if session not in tab.client.views:
        answer = await tab.answer(tab.wire.attach(session))
        assert answer["ok"], answer
    await until(lambda: tab.view(session).shown)
    return tab
