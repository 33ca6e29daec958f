"""Servers that share a store in PostgreSQL, in one process and without a network."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import trio
from hub_kit import Stage, Tab, stage_of
from wire_client import WireClient

from agentrt import Limits
from agentrt.store import open_store
from agentrt.testing import open_fake_runtime
from runtime.fakes import Incarnations, Script, echo

PATIENCE = 20.0

LEASE_S = 30.0
"""The length of a lease: no pause of a busy machine is longer."""


@asynccontextmanager
async def node(
    url: str,
    name: str,
    *scripts: Script,
    role: Literal["both", "gateway", "worker"] = "both",
    home: str = "here",
    fake: dict[str, Any] | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[Stage]:
    agents = Incarnations(*(scripts or (echo,)), **(fake or {}))
    limits = limits or Limits(store_lease_s=LEASE_S)
    async with (
        open_store(url, node=name, home=home, role=role, limits=limits) as store,
        open_fake_runtime({"fake": agents.start}, store=store, limits=limits) as runtime,
        stage_of(runtime, agents) as stage,
    ):
        yield stage


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
