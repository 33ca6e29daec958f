"""The pictures of the documentation; `AGENTRT_SHOTS=docs/images` before pytest takes them anew."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from browser.kit import answer, ask, phase, serving, turn
from browser.pages import NewPage, Shoot

IMAGES = Path(__file__).parents[2] / "docs" / "images"

SIZES = {
    "page-light": {"color_scheme": "light", "viewport": {"width": 1200, "height": 760}},
    "page-dark": {"color_scheme": "dark", "viewport": {"width": 1200, "height": 760}},
    "page-phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 760}},
}


@pytest.mark.parametrize("name", SIZES)
def test_a_session_as_the_documentation_shows_it(
    new_page: NewPage, shoot: Shoot, name: str
) -> None:
    with (
        tempfile.TemporaryDirectory() as root,
        serving(Path(root), "--agent", "demo", "--model", "instant") as server,
    ):
        (server.folder / "notes.txt").unlink()
        (server.folder / "README.md").write_text("# A small project\n")
        (server.folder / "greet.py").write_text(
            'def greet(name: str) -> str:\n    """Say hello."""\n    return "hi " + name\n'
        )
        page = new_page(server.link(), **SIZES[name])
        phase(page, "Idle")
        turn(page, "/title A friendlier greeting")
        turn(page, "read greet.py")
        ask(page, "edit greet.py replace hi by hello")
        page.locator("[role=alertdialog] button:not([aria-disabled=true])").first.wait_for()
        shoot(page, name)
        answer(page, "Allow")
        phase(page, "Idle")
        assert "hello" in (server.folder / "greet.py").read_text()
    assert (IMAGES / f"{name}.png").read_bytes().startswith(b"\x89PNG"), "take it anew, as above"
