"""The shield of a session in a sandbox, its questions, and the permissions that it lists."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.kit import answer, ask, phase, serving
from browser.pages import NewPage, Shoot, expect

AGENT = Path(__file__).parents[1] / "sandbox" / "shell_agent.py"


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that is not below the virtual environment, where `nox` has its temporary files: no
    permission covers what agentrt itself runs from."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.mark.sandbox
def test_the_shield_lists_what_was_allowed(
    tmp_path: Path, outside: Path, new_page: NewPage, shoot: Shoot
) -> None:
    command = shlex.join([sys.executable, "-I", "-S", str(AGENT)])
    with serving(tmp_path, "--sandbox", "--command", command) as server:
        page = new_page(server.link())
        phase(page, "Idle")
        expect(page.get_by_label("Sandbox: workspace", exact=True)).to_be_visible()
        ask(page, f"write {outside / 'new'}")
        sheet = page.get_by_role("alertdialog")
        expect(sheet).to_contain_text(f"Write to {outside}, outside the sandbox")
        answer(page, "Allow for this session allow always")
        expect(page.locator(".transcript")).to_contain_text('"result": {}')
        phase(page, "Idle")
        page.get_by_label("Sandbox: workspace, 1 allowed").click()
        expect(page.locator("header .granted")).to_contain_text(f"Write {outside}")
        shoot(page, "sandbox")
    assert (outside / "new").read_text() == "x"


@pytest.mark.sandbox
def test_permissions_of_the_sandbox_are_taken_back_with_the_keyboard(
    tmp_path: Path, outside: Path, new_page: NewPage, shoot: Shoot
) -> None:
    folders = [outside / "first", outside / "second one"]
    for folder in folders:
        folder.mkdir()
    command = shlex.join([sys.executable, "-I", "-S", str(AGENT)])
    with serving(tmp_path, "--sandbox", "--command", command) as server:
        page = new_page(server.link())
        phase(page, "Idle")
        for folder in folders:
            ask(page, f"write {folder / 'new'}")
            answer(page, "Allow for this session allow always")
            phase(page, "Idle")
        shield = page.get_by_label("Sandbox: workspace, 2 allowed")
        shield.focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        expect(page.get_by_role("button", name=f"Revoke {folders[0]}")).to_be_focused()
        shoot(page, "sandbox-permissions")
        page.keyboard.press("Enter")
        shield = page.get_by_label("Sandbox: workspace, 1 allowed")
        expect(shield).to_be_focused()
        expect(page.locator("header .granted")).not_to_contain_text(str(folders[0]))
        ask(page, f"write {folders[0] / 'again'}")
        expect(page.get_by_role("alertdialog")).to_contain_text(f"Write to {folders[0]}")
        answer(page, "Reject")
        phase(page, "Idle")
        shield.focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_label("Sandbox: workspace", exact=True)).to_be_focused()
        expect(page.locator("header .granted")).to_contain_text("Nothing outside")
        ask(page, f"write {folders[1] / 'again'}")
        expect(page.get_by_role("alertdialog")).to_contain_text(f"Write to {folders[1]}")
    assert [sorted(each.name for each in folder.iterdir()) for folder in folders] == [["new"]] * 2
