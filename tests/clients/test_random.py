"""Random sequences of what people do at clients of other protocols: a few of them, or, with
`AGENTRT_FULL=1`, a hundred each.
"""

from __future__ import annotations

import os

import pytest

from clients import random_chats, random_prompts

pytestmark = [pytest.mark.usefixtures("npm_packages"), pytest.mark.slow]

COUNT = 100 if os.environ.get("AGENTRT_FULL") else 5


async def test_pages_with_use_chat_are_ready_whatever_their_people_do() -> None:
    did = await random_chats.play(COUNT, seed=1)
    assert did["reached"] >= 2 * COUNT


async def test_every_prompt_of_an_acp_client_is_answered_whatever_people_do() -> None:
    did = await random_prompts.play(COUNT, seed=1)
    assert did["end_turn"] >= COUNT
    assert did["cancelled"]
