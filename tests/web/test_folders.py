"""Where clients may open sessions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hub_kit import Stage, stage_with
from trio.testing import MockClock

import agentrt
from runtime.fakes import echo


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """A root with a folder and a link out of it, and a neighbour that begins with its name."""
    for name in ("root/inside", "root-evil", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "root" / "link").symlink_to(tmp_path / "other")
    return tmp_path


async def opened(stage: Stage, folder: str) -> str | None:
    """The folder of a session that a client opens in `folder`."""
    answer = await stage.connect().ok("session", op="new", agent="fake", cwd=folder)
    [cwd] = [info.cwd for info in stage.runtime.list() if info.session == answer["session"]]
    return cwd


async def refusal(stage: Stage, folder: str) -> tuple[str, str]:
    """The code and the message to a client that opens a session in `folder`."""
    answer = await stage.connect().ask("session", op="new", agent="fake", cwd=folder)
    assert not answer["ok"], answer
    return answer["error"]["code"], answer["error"]["message"]


async def test_a_root_and_all_below_it_are_allowed(places: Path) -> None:
    async with stage_with(echo, roots=[places / "root"]) as stage:
        for named, meant in (
            (".", "root"),
            ("inside", "root/inside"),
            (str(places / "root"), "root"),
            (str(places / "root" / "inside" / ".."), "root"),
        ):
            assert await opened(stage, named) == str(places / meant)


async def test_nothing_else_is(places: Path) -> None:
    async with stage_with(echo, roots=[places / "root"]) as stage:
        for folder in (
            *("..", "link", "link/x", f"{places}/root-evil", f"{places}/other"),
            *("/", "inside/../../other", "//"),
        ):
            code, message = await refusal(stage, folder)
            assert code == "forbidden", folder
            assert "--root" in message, folder


async def test_without_roots_every_folder_is_allowed(places: Path) -> None:
    async with stage_with(echo) as stage:
        assert await opened(stage, ".") == str(Path.cwd())
        assert await opened(stage, str(places)) == str(places)
    async with stage_with(echo, cwd=places) as stage:
        assert await opened(stage, "root") == str(places / "root")


async def test_a_folder_that_is_not_said_in_full_is_where_sessions_usually_are(
    places: Path,
) -> None:
    roots = [places / "other", places / "root"]
    async with stage_with(echo, roots=roots) as stage:
        assert await opened(stage, ".") == str(places / "other")
    async with stage_with(echo, roots=roots, cwd=places / "root" / "inside") as stage:
        assert await opened(stage, ".") == str(places / "root" / "inside")


async def test_a_root_that_is_no_folder_is_an_error(places: Path) -> None:
    async with agentrt.open_runtime() as runtime:
        with pytest.raises(ValueError, match="is not a folder"):
            await agentrt.web.serve(runtime, roots=[places / "missing"])


async def test_a_nul_in_a_name_is_a_bad_request() -> None:
    async with stage_with(echo) as stage:
        code, message = await refusal(stage, "a\0b")
        assert (code, "null byte" in message) == ("bad_request", True)


async def test_a_session_is_opened_inside_only(places: Path, autojump_clock: MockClock) -> None:
    able = {"capabilities": {"loadSession": True}}
    async with stage_with(echo, fake=able, roots=[places / "root"]) as stage:
        tab = stage.connect()
        new = {"op": "new", "agent": "fake"}
        assert await tab.refused("session", **new, cwd=str(places / "other")) == "forbidden"
        old = {"op": "load", "agent": "fake", "agent_session": "old"}
        assert await tab.refused("session", **old, cwd=str(places / "link")) == "forbidden"
        assert stage.agents.processes == []
        id = (await tab.ok("session", **new, cwd="inside"))["session"]
        [info] = stage.runtime.list()
        assert (info.session, info.cwd) == (id, str(places / "root" / "inside"))
