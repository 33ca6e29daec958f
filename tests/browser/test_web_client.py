"""The example `web-client` in a browser: React and `agentrt-client`, on another origin."""

from __future__ import annotations

import functools
import http.server
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser.kit import PATIENCE, Server, free_port, serving
from browser.pages import Page, expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/web-client"
CLIENT = ROOT / "clients/js"
TOKEN = "the-token-of-this-example"

pytestmark = pytest.mark.skipif(
    not (CLIENT / "node_modules/react-dom").is_dir(), reason="needs `npm ci --prefix clients/js`"
)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """The built page."""
    folder = tmp_path / "app"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules", "app.js"))
    modules = folder / "node_modules"
    modules.mkdir()
    for name in ("react", "react-dom", "scheduler"):
        (modules / name).symlink_to(CLIENT / "node_modules" / name)
    package = modules / "agentrt-client"
    package.mkdir()
    shutil.copy(CLIENT / "package.json", package)
    esbuild = [str(CLIENT / "node_modules/.bin/esbuild"), "--bundle", "--format=esm"]
    entries = [str(CLIENT / f"src/{name}.ts") for name in ("index", "react")]
    out = f"--outdir={package / 'dist'}"
    subprocess.run([*esbuild, *entries, out, "--splitting", "--packages=external"], check=True)
    options = ["--jsx=automatic", f"--outfile={folder / 'app.js'}"]
    subprocess.run([*esbuild, str(folder / "app.jsx"), *options], check=True)
    return folder


@pytest.fixture
def origin(app: Path) -> Iterator[str]:
    """The origin that the page is served from."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(app))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as site:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{site.server_port}"
        site.shutdown()
        thread.join()


@pytest.fixture
def agents(tmp_path: Path, origin: str) -> Iterator[tuple[Server, int]]:
    port = free_port()
    options = ("--agent", "demo", "--port", str(port), "--token", TOKEN, "--allow-origin", origin)
    with serving(tmp_path, *options) as server:
        server.link()
        yield server, port


@pytest.fixture
def example(browser: Browser, origin: str, agents: tuple[Server, int]) -> Iterator[Page]:
    _, port = agents
    page = browser.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(f"{origin}/#server=ws://127.0.0.1:{port}/ws&token={TOKEN}")
    expect(page.locator("output")).to_have_text("open")
    page.get_by_role("button", name="New demo session").click()
    expect(page.get_by_placeholder("Message the agent…")).to_be_visible()
    yield page
    page.close()


def send(page: Page, text: str) -> None:
    page.get_by_placeholder("Message the agent…").fill(text)
    page.get_by_role("button", name="Send").click()


def test_a_page_of_another_origin_prompts_an_agent(example: Page) -> None:
    send(example, "list")
    expect(example.locator("article.user")).to_have_text("list")
    expect(example.locator("article.text").last).to_contain_text("notes.txt")


def test_a_page_of_another_origin_answers_a_question(example: Page) -> None:
    send(example, "/ask")
    example.get_by_role("button", name="Allow", exact=False).first.click()
    expect(example.locator("article.tool")).to_contain_text("completed")
    expect(example.locator("fieldset")).to_have_count(0)


def test_a_page_of_another_origin_comes_back_after_the_server_was_restarted(
    example: Page, agents: tuple[Server, int]
) -> None:
    server, _ = agents
    send(example, "list")
    expect(example.locator("article.text").last).to_contain_text("notes.txt")
    server.end()
    expect(example.locator("output")).to_have_text("lost")
    server.start()
    expect(example.locator("output")).to_have_text("open")
    expect(example.locator("article.user")).to_have_text("list")
    send(example, "read notes.txt")
    expect(example.locator("article.text").last).to_contain_text("second line")
