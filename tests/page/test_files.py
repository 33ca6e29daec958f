"""The page's files: small, of a few kinds, complete, and nothing in them from anywhere else."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

import pytest
import trio

from in_process import free_port, until_listening
from tables import for_each
from web.sockets import TOKEN, get, header, post, site, status

from .kit import PAGE, ROOT

OWN = [
    path
    for path in sorted(PAGE.iterdir())
    if path.suffix in (".js", ".ts", ".tsx", ".css", ".html", ".svg", ".webmanifest")
]
needs_build = pytest.mark.skipif(
    not (PAGE / "built/made-from").exists(), reason="needs the built page (nox -s page)"
)


Page: TypeAlias = dict[str, bytes]
"""The files that a server serves, by path, as they are sent to a browser."""


def files_of(folder: Path) -> list[str]:
    """The names that files in the folder of a page may be served under."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    names += [name.removeprefix("built/").removesuffix(".gz") for name in names]
    return ["/", *(f"/page/{name}" for name in dict.fromkeys(names))]


async def read_page(port: int, paths: list[str]) -> Page:
    """Sign in to a server, and ask it for files."""
    answer = await post(port, f"token={TOKEN}")
    cookie = (header(answer, "set-cookie") or "").partition(";")[0]
    found: Page = {}
    for path in paths:
        answer = await get(port, path, cookie=cookie, accept_encoding="gzip")
        if status(answer) == 200:
            found[path] = answer.head.partition(b"\r\n\r\n")[2]
        else:
            assert status(answer) == 404
    return found


@pytest.fixture(scope="module")
def page() -> Page:
    async def read() -> Page:
        async with site() as running:
            return await read_page(running.port, files_of(PAGE))

    return trio.run(read)


def text(file: bytes) -> str:
    return gzip.decompress(file).decode()


def first_visit(page: Page) -> dict[str, int]:
    """The files that a browser loads before anybody types, with their sizes as they are sent."""
    named = re.findall(r'(?:href|src)="(page/[^"]+)"', text(page["/"]))
    wanted = ["/", *(f"/{path}" for path in named)]
    for path in wanted:  # it grows
        for name in re.findall(r'(?:from|import|import\()\s*"\./([^"]+)"', text(page[path])):
            if name not in LATER and f"/page/{name}" not in wanted:
                wanted.append(f"/page/{name}")
    return {path: len(page[path]) for path in wanted}


LATER = ("plain.js", "parsers.js", "screen.js")
"""Imported only if there is no built page, or are no workers."""


@needs_build
def test_a_first_visit_takes_four_requests_an_icon_and_a_manifest_of_less_than_130_kb(
    page: Page,
) -> None:
    """Half of it is Preact and the parser of Markdown, which every answer needs."""
    files = first_visit(page)
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
def test_what_is_loaded_when_it_is_needed_is_smaller_than_60_kb(name: str, page: Page) -> None:
    assert len(page[f"/page/{name}.js"]) < 60_000


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


@pytest.mark.slow
def test_the_plain_page_is_served_without_a_build(tmp_path: Path) -> None:
    """Its modules, and what they import, are sources that browsers read."""
    package = PAGE.parents[1]
    left_out = shutil.ignore_patterns("built", "__pycache__")
    shutil.copytree(package, tmp_path / package.name, ignore=left_out)
    port, paths = free_port(), files_of(tmp_path / PAGE.relative_to(package.parent))
    env = {"PYTHONPATH": str(tmp_path), "AGENTRT_SERVE_TOKEN": TOKEN, "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "agentrt", "serve", "--port", str(port), "--store", "off"]

    async def read() -> Page:
        with trio.fail_after(30):
            await until_listening(port)
            return await read_page(port, paths)

    with subprocess.Popen(command, env=os.environ | env, stdout=subprocess.DEVNULL) as process:
        try:
            served = trio.run(read)
        finally:
            process.terminate()
    wanted = ["/page/plain.js", "/page/main.js"]
    for path in wanted:  # it grows
        for name in re.findall(r'^import .* from "\./([^"]+)"', text(served[path]), re.MULTILINE):
            wanted.append(f"/page/{name}")
    assert {"/page/client.js", "/page/reveal.js", "/page/safe.js"} <= {*wanted}
    assert "/page/app.js" not in served
    named = re.findall(r'(?:href|src)="([^"]+)"', (PAGE / "index.html").read_text())
    named += re.findall(r'"\./([^"]+)"', (PAGE / "page.css").read_text())
    assert len(named) == 9
    assert {path.removeprefix("page/") for path in named} <= {path[6:] for path in served}


def test_only_what_a_browser_needs_is_served(page: Page) -> None:
    kinds = {path.rpartition(".")[2] for path in page if path != "/"}
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
