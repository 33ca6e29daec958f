"""The folders that ACP clients name."""

from __future__ import annotations

from typing import Any

import pytest
from test_acp_fork import client_of, echo
from trio.testing import MockClock

NAMING = ("session/new", "session/load", "session/resume", "session/fork")


def refusal(message: str) -> dict[str, Any]:
    return {"code": -32602, "message": message, "data": {"code": "bad_request", "data": None}}


@pytest.mark.parametrize("method", NAMING)
@pytest.mark.parametrize("folder", ["work", ".", "", "~/work"])
async def test_a_folder_that_is_not_said_in_full_is_refused(
    method: str, folder: str, autojump_clock: MockClock
) -> None:
    async with client_of(echo) as (client, runtime):
        new = await client.ask("session/new", cwd="/", mcpServers=[])
        session = new["result"]["sessionId"]
        refused = await client.ask(method, sessionId=session, cwd=folder, mcpServers=[])
        why = f"{method}: cwd is to be an absolute path, which {folder!r} is not"
        assert refused["error"] == refusal(why)
        assert len(runtime.list()) == 1
