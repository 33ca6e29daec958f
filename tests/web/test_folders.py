"""Where clients may open sessions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hub_kit import Stage, Tab, stage_with
from trio.testing import MockClock

from agentrt.lowlevel import CommandRefused
from inside.server import Folders
from runtime.fakes import echo


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """A root with a folder and a link out of it, and a neighbour that begins with its name."""
    for name in ("root/inside", "root-evil", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "root" / "link").symlink_to(tmp_path / "other")
    return tmp_path


def test_a_root_and_all_below_it_are_allowed(places: Path) -> None:
    folders = Folders([places / "root"])
    for named, meant in (
        (".", "root"),
        ("inside", "root/inside"),
        (str(places / "root"), "root"),
        (str(places / "root" / "inside" / ".."), "root"),
    ):
        assert folders.resolve(named) == str(places / meant)


@pytest.mark.parametrize(
    "folder", ["..", "link", "link/x", "{}/root-evil", "{}/other", "/", "inside/../../other", "//"]
)
def test_nothing_else_is(folder: str, places: Path) -> None:
    folders = Folders([places / "root"])
    with pytest.raises(CommandRefused, match="--root") as refused:
        folders.resolve(folder.format(places))
    assert refused.value.code == "forbidden"


def test_without_roots_every_folder_is_allowed(places: Path) -> None:
    assert Folders().resolve(".") == str(Path.cwd())
    assert Folders().resolve(str(places)) == str(places)
    assert Folders(cwd=places).resolve("root") == str(places / "root")


def test_a_folder_that_is_not_said_in_full_is_where_sessions_usually_are(places: Path) -> None:
    roots = [places / "other", places / "root"]
    assert Folders(roots).resolve(".") == str(places / "other")
    assert Folders(roots, cwd=places / "root" / "inside").resolve(".") == str(
        places / "root" / "inside"
    )


def test_a_root_that_is_no_folder_is_an_error(places: Path) -> None:
    with pytest.raises(ValueError, match="is not a folder"):
        Folders([places / "missing"])


def test_a_nul_in_a_name_is_a_bad_request() -> None:
    with pytest.raises(CommandRefused, match="null byte"):
        Folders().resolve("a\0b")


async def test_a_session_is_opened_inside_only(places: Path, autojump_clock: MockClock) -> None:
    async with stage_with(echo, fake={"capabilities": {"loadSession": True}}) as stage:
        tab = confined(stage, places)
        new = {"op": "new", "agent": "fake"}
        assert await tab.refused("session", **new, cwd=str(places / "other")) == "forbidden"
        old = {"op": "load", "agent": "fake", "agent_session": "old"}
        assert await tab.refused("session", **old, cwd=str(places / "link")) == "forbidden"
        assert stage.agents.processes == []
        id = (await tab.ok("session", **new, cwd="inside"))["session"]
        [info] = stage.runtime.list()
        assert (info.session, info.cwd) == (id, str(places / "root" / "inside"))


def confined(stage: Stage, places: Path) -> Tab:
    stage.hub.folders = Folders([places / "root"])
    return stage.connect()
