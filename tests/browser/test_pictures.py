"""The pictures of the documentation; `AGENTRT_SHOTS=docs/images` before pytest takes them anew."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from browser.kit import Server, answer, ask, phase, serving, turn
from browser.pages import NewPage, Shoot

IMAGES = Path(__file__).parents[2] / "docs" / "images"

SIZES = {
    "page-light": {"color_scheme": "light", "viewport": {"width": 1200, "height": 760}},
    "page-dark": {"color_scheme": "dark", "viewport": {"width": 1200, "height": 760}},
    "page-phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 760}},
}


@contextmanager
def project() -> Iterator[Server]:
    """A server with the demo agent, in the folder of a small project."""
    with (
        tempfile.TemporaryDirectory() as root,
        serving(Path(root), "--agent", "demo", "--model", "instant") as server,
    ):
        (server.folder / "notes.txt").unlink()
        (server.folder / "README.md").write_text("# A small project\n")
        (server.folder / "greet.py").write_text(
            'def greet(name: str) -> str:\n    """Say hello."""\n    return "hi " + name\n'
        )
        yield server


@pytest.mark.parametrize("name", SIZES)
def test_a_session_as_the_documentation_shows_it(
    new_page: NewPage, shoot: Shoot, name: str
) -> None:
    with project() as server:
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


WIDTHS = {
    "wide": {"viewport": {"width": 1200, "height": 760}},
    "narrow": {"viewport": {"width": 390, "height": 760}, "has_touch": True, "is_mobile": True},
}
VIEWS = {"new": "n", "files": "f", "commands": "Control+k", "outline": "o"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_views_as_the_documentation_shows_them(
    new_page: NewPage, shoot: Shoot, width: str, scheme: str
) -> None:
    with project() as server:
        page = new_page(server.link(), color_scheme=scheme, **WIDTHS[width])
        phase(page, "Idle")
        shoot(page, f"view-first-{width}-{scheme}")
        for prompt in ("/title A friendlier greeting", "read greet.py", "/markdown"):
            turn(page, prompt)
        for view, key in VIEWS.items():
            page.get_by_role("log").focus()
            page.keyboard.press(key)
            dialog = page.get_by_role("dialog")
            dialog.wait_for()
            if view == "files":
                dialog.get_by_role("button", name="greet.py").click()
                dialog.locator(".hljs-keyword").first.wait_for()
            shoot(page, f"view-{view}-{width}-{scheme}")
            page.keyboard.press("Escape")
            dialog.wait_for(state="hidden")
    for view in SHOWN_VIEWS:
        picture = IMAGES / f"view-{view}-{width}-{scheme}.png"
        assert picture.read_bytes().startswith(b"\x89PNG"), "take it anew, as above"


SHOWN_VIEWS = ("first", "files", "commands")
"""The views of which the documentation has pictures."""
