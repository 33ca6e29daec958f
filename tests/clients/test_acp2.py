"""The official TypeScript client in version 2 of ACP, against `agentrt acp`."""

from __future__ import annotations

import json
import os
import sys

import pytest
import trio

from clients.install import HERE, root

pytestmark = [pytest.mark.usefixtures("npm_packages"), pytest.mark.slow]


async def test_the_official_client_goes_through_a_session_in_version_2() -> None:
    agent = [sys.executable, "-m", "agentrt", "acp", "--agent", "demo", "--store", "off"]
    script = (HERE / "acp2_client.mjs").read_text()
    with trio.fail_after(120):
        done = await trio.run_process(
            ["node", "--input-type=module", "--eval", script],
            env={**os.environ, "AGENT": json.dumps(agent)},
            stdin=b"",
            capture_stdout=True,
            cwd=root(),
        )
    seen = json.loads(done.stdout)
    assert seen["version"] == 2
    assert seen["ends"] == [*[["end_turn", "string"]] * 3, ["cancelled", "cancel"]]
    assert seen["sessions"] == 1
    kinds = {each["sessionUpdate"] for each in seen["updates"]}
    assert kinds >= {"user_message", "agent_message_chunk", "tool_call_update", "asked"}
    states = [each["state"] for each in seen["updates"] if each["sessionUpdate"] == "state_update"]
    assert states.count("running") >= 4
    assert states[-1] == "idle"
    assert {"user_message", "agent_message_chunk", "tool_call_update"} <= set(seen["replayed"])
