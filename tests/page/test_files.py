"""The page's files: small, of a few kinds, complete, and nothing in them from anywhere else."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from agentrt._serve.http import load_page

from .kit import PAGE, ROOT

LIBRARIES = PAGE / "vendor/libraries.js"
OWN = [path for path in sorted(PAGE.iterdir()) if path.suffix in (".js", ".css", ".html", ".svg")]
needs_libraries = pytest.mark.skipif(
    not LIBRARIES.exists(), reason="needs the page's libraries (nox -s page)"
)


def packed(files: list[Path]) -> int:
    return len(gzip.compress(b"".join(path.read_bytes() for path in files), mtime=0))


@needs_libraries
def test_what_a_first_visit_loads_is_smaller_than_140_kb_compressed() -> None:
    """With every comment in it: nothing is done to the page's own code before it is served. Half of
    it is Preact and the parser of Markdown, which every answer needs."""
    assert packed([LIBRARIES, *sorted(OWN, key=lambda path: path.suffix)]) < 140_000


@needs_libraries
@pytest.mark.parametrize("name", ["highlight", "screen"])
def test_what_is_loaded_when_it_is_needed_is_smaller_than_60_kb_compressed(name: str) -> None:
    assert packed([PAGE / f"vendor/{name}.js"]) < 60_000
    for path in OWN:
        assert not re.search(
            rf'^(?:import|export).*vendor/{name}\.js"', path.read_text(), re.MULTILINE
        )


@pytest.mark.parametrize(
    "path", [path for path in OWN if path.name != "client.js"], ids=lambda path: path.name
)
def test_a_file_is_small_enough_to_be_read(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_no_file_names_another_machine(path: Path) -> None:
    """But for names of things that are no addresses."""
    text = path.read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"(?:https?:)?//[\w-]+\.\w", re.sub(r"`https?://\$\{.*", "", text))


@needs_libraries
def test_every_file_that_a_module_imports_is_served() -> None:
    served = load_page()
    for path in OWN:
        for found in re.findall(r'(?:from|import\() ?"(\./[^"]+)"', path.read_text()):
            if not found.endswith(("wire.js", "types.js")):  # these are types
                assert f"/page/{found.removeprefix('./')}" in served, f"{path.name}: {found}"
    named = re.findall(r'(?:href|src)="([^"]+)"', (PAGE / "index.html").read_text())
    assert named
    assert {f"/{path}" for path in named} <= {*served}


def test_only_what_a_browser_needs_is_served() -> None:
    kinds = {path.rpartition(".")[2] for path in load_page() if path != "/"}
    assert kinds == {"html", "css", "js", "svg"}


@pytest.mark.skipif(
    not (ROOT / "node_modules/typescript").is_dir() or shutil.which("npx") is None,
    reason="needs TypeScript (npm ci)",
)
def test_the_types_of_the_page_fit() -> None:
    told = subprocess.run(
        ["npx", "--no-install", "tsc", "-p", str(PAGE)], cwd=ROOT, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stdout
