"""A program's own session, as clients of `agentrt.v1` see it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hub_kit import stage_with

import agentrt
from runtime.fakes import asking, echo, session_with


async def test_viewers_prompt_an_adopted_session_and_may_not_close_it() -> None:
    async with stage_with(echo) as stage, session_with(asking, permissions=agentrt.ask) as (own, _):
        stage.runtime.adopt(own)
        tab = stage.connect(own.id)
        await tab.prompt(own.id, "go")
        while not own.pending_permissions:
            await tab.news()
        [request] = own.pending_permissions
        await tab.ok("permission", session=own.id, request=request, option="yes")
        while tab.view(own.id).texts() != ["yes"]:
            await tab.news()
        assert await tab.refused("session", op="close", session=own.id) == "forbidden"
        assert own.state.phase == "idle"


@pytest.mark.parametrize("kept", [True, False])
async def test_where_there_is_a_store_an_adopted_session_needs_none(
    tmp_path: Path, *, kept: bool
) -> None:
    async with (
        agentrt.store.open_store(tmp_path / "sessions.db") as store,
        stage_with(echo, store=store) as stage,
    ):
        async with session_with(echo, id="own", store=store if kept else None) as (own, _):
            stage.runtime.adopt(own)
            tab = stage.connect(own.id)
            await tab.prompt(own.id, "hello")
            while tab.view(own.id).texts() != ["hello"]:
                await tab.news()
            assert await tab.refused("session", op="delete", session=own.id) == "forbidden"
        while [info["phase"] for info in tab.client.sessions] != ["stored"] * kept:
            await tab.news()
