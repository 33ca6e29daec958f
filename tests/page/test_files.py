"""The page's files: small, of a few kinds, complete, and nothing in them from anywhere else."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from inside.server import load_page
from tables import for_each

from .kit import PAGE, ROOT

OWN = [
    path
    for path in sorted(PAGE.iterdir())
    if path.suffix in (".js", ".ts", ".tsx", ".css", ".html", ".svg", ".webmanifest")
]
needs_build = pytest.mark.skipif(
    not (PAGE / "built/made-from").exists(), reason="needs the built page (nox -s page)"
)


def first_visit() -> dict[str, int]:
    """The files that a browser loads before anybody types, with their sizes as they are sent."""
    served = load_page()
    wanted = ["/", *(f"/{path}" for path in re.findall(r'(?:href|src)="(page/[^"]+)"', text("/")))]
    for path in wanted:  # it grows
        for name in re.findall(r'(?:from|import|import\()\s*"\./([^"]+)"', text(path)):
            if name not in LATER and f"/page/{name}" not in wanted:
                wanted.append(f"/page/{name}")
    return {path: len(served[path].packed) for path in wanted}


LATER = ("plain.js", "parsers.js", "screen.js")
"""Imported only if there is no built page, or are no workers."""


def text(path: str) -> str:
    return load_page()[path].body.decode()


@needs_build
def test_a_first_visit_takes_four_requests_an_icon_and_a_manifest_of_less_than_130_kb() -> None:
    """Half of it is Preact and the parser of Markdown, which every answer needs."""
    files = first_visit()
    assert sorted(files) == [
        "/",
        "/page/app.js",
        "/page/icon.svg",
        "/page/main.js",
        "/page/manifest.webmanifest",
        "/page/page.css",
    ]
    assert sum(files.values()) < 130_000


@needs_build
@pytest.mark.parametrize("name", ["highlight", "screen"])
def test_what_is_loaded_when_it_is_needed_is_smaller_than_60_kb(name: str) -> None:
    assert len(load_page()[f"/page/{name}.js"].packed) < 60_000


@for_each("path", [path for path in OWN if path.name != "client.js"])
def test_a_file_is_small_enough_to_be_read(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 350


@for_each("path", OWN)
def test_no_file_names_another_machine(path: Path) -> None:
    """But for names of things that are no addresses."""
    text = path.read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"(?:https?:)?//[\w-]+\.\w", re.sub(r"`https?://\$\{.*", "", text))


def test_no_length_is_a_part_of_a_container() -> None:
    """For one in such a unit, the browser computes styles in each layout of its container."""
    for path in PAGE.glob("*.css"):
        assert not re.findall(r"\dcq(?:[wibh]|min|max)\b", path.read_text()), path.name


def test_the_plain_page_is_served_without_a_build(tmp_path: Path) -> None:
    """Its modules, and what they import, are sources that browsers read."""
    for path in PAGE.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    served = load_page(tmp_path)
    wanted = ["/page/plain.js", "/page/main.js"]
    for path in wanted:  # it grows
        for name in re.findall(
            r'^import .* from "\./([^"]+)"', served[path].body.decode(), re.MULTILINE
        ):
            wanted.append(f"/page/{name}")
    assert {"/page/client.js", "/page/reveal.js", "/page/safe.js"} <= {*wanted}
    assert "/page/app.js" not in served
    named = re.findall(r'(?:href|src)="([^"]+)"', (PAGE / "index.html").read_text())
    named += re.findall(r'"\./([^"]+)"', (PAGE / "page.css").read_text())
    assert len(named) == 9
    assert {path.removeprefix("page/") for path in named} <= {path[6:] for path in served}


def test_only_what_a_browser_needs_is_served() -> None:
    kinds = {path.rpartition(".")[2] for path in load_page() if path != "/"}
    assert kinds == {"html", "css", "js", "svg", "webmanifest"}


@pytest.mark.skipif(
    not (ROOT / "node_modules/typescript").is_dir() or shutil.which("npx") is None,
    reason="needs TypeScript (npm ci)",
)
@pytest.mark.slow
def test_the_types_of_the_page_fit() -> None:
    told = subprocess.run(
        ["npx", "--no-install", "tsc", "-p", str(PAGE)], cwd=ROOT, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stdout
