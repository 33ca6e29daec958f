"""A server that has kept more conversations than its list names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trio

from agentrt.store import open_store
from browser.kit import scripted, serving
from browser.pages import NewPage, Page, Shoot, expect
from journal.kit import kept
from runtime.fakes import Incarnations, echo

COUNT = 230


async def fill(path: Path, folders: tuple[str, str]) -> None:
    """Every tenth is of the second folder."""
    async with open_store(path) as store:
        for number in range(COUNT):
            cwd = folders[number % 10 == 0]
            async with kept(store, Incarnations(echo), id=f"s{number}", cwd=cwd) as session:
                await session.run(f"number {number}")


@pytest.fixture
def page(tmp_path: Path, new_page: NewPage) -> Page:
    folders = (str(tmp_path / "one"), str(tmp_path / "two"))
    for folder in folders:
        Path(folder).mkdir()
    trio.run(fill, tmp_path / ".local/state/agentrt/journal.db", folders)
    with serving(tmp_path, *scripted()) as server:
        yield new_page(server.link())  # type: ignore[misc]


def names(page: Page) -> list[str]:
    """Of the stored ones, as they stand in the list."""
    return page.locator(".sidebar section .entry .name").all_inner_texts()


def test_those_before_come_at_the_press_of_a_button_and_are_shown_by_a_click(
    page: Page, shoot: Shoot
) -> None:
    sidebar = page.get_by_role("navigation", name="sessions")
    expect(sidebar.locator("section .entry")).to_have_count(200)
    assert names(page) == [f"number {n}" for n in range(COUNT - 1, COUNT - 201, -1)]
    earlier = sidebar.get_by_role("button", name="Earlier conversations")
    earlier.click()
    expect(earlier).to_have_count(0)
    assert names(page) == [f"number {n}" for n in range(COUNT - 1, -1, -1)]
    sidebar.locator(".entry .name", has_text=re.compile(r"^number 7$")).click()
    expect(page.get_by_role("log")).to_contain_text("number 7")
    expect(sidebar.locator("li.here")).to_contain_text("number 7")
    assert names(page) == [f"number {n}" for n in range(COUNT - 1, -1, -1)]
    shoot(page, "many-conversations")


def test_those_of_one_folder_are_shown(page: Page, tmp_path: Path) -> None:
    sidebar = page.get_by_role("navigation", name="sessions")
    expect(sidebar.locator("section .entry")).to_have_count(200)
    choice = sidebar.get_by_label("Folder")
    choice.select_option(str(tmp_path / "two"))
    expect(sidebar.locator("section .entry")).to_have_count(20)
    assert names(page)[:2] == ["number 220", "number 210"]
    sidebar.get_by_role("button", name="Earlier conversations").click()
    expect(sidebar.locator("section .entry")).to_have_count(23)
    choice.select_option("All folders")
    expect(sidebar.locator("section .entry")).to_have_count(COUNT)
