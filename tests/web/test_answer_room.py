"""Remembered answers are bounded in bytes, and those that only look are not remembered."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from hub_kit import stage_with
from trio.testing import MockClock

import agentrt
from runtime.fakes import echo


def names(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"{'a' * 200}-{number}").touch()


async def test_files_that_were_found_are_not_remembered(tmp_path: Path) -> None:
    names(tmp_path, 50)
    async with stage_with(echo) as stage:
        id = await stage.session(cwd=str(tmp_path))
        tab = stage.connect(id)
        before = stage.hub.answers.used_bytes
        for _ in range(20):
            answer = await tab.ok("files", session=id, query="a")
            assert len(str(answer)) > 10_000
        assert stage.hub.answers.used_bytes == before


@pytest.mark.slow
async def test_answers_of_all_clients_take_no_more_than_the_limit(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(echo, limits=agentrt.Limits(client_answers_bytes=2_000)) as stage:
        id = await stage.session()
        tabs = [stage.connect(id) for _ in range(4)]
        for number in range(80):
            await tabs[number % 4].prompt(id, f"say {number}")
            await trio.sleep(1)
            assert stage.hub.answers.used_bytes <= 2_000
        assert stage.hub.answers.used_bytes > 1_000


async def test_a_client_that_cannot_come_back_leaves_no_answers(autojump_clock: MockClock) -> None:
    async with stage_with(echo) as stage:
        id = await stage.session()
        before = stage.hub.answers.used_bytes
        tab = stage.connect(id)
        await tab.prompt(id, "hello")
        assert stage.hub.answers.used_bytes > before
        tab.cut()
        await trio.sleep(1)
        assert stage.hub.answers.used_bytes == before
