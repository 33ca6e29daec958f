"""The browser: Debian's Chromium, driven by Playwright, which downloads none."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

import agentrt
from browser.kit import CHROMIUM, MARK, PATIENCE, Server, scripted, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Route

    NewPage = Callable[..., Page]

PAGE = Path(agentrt.__file__).parent / "_serve/page"

SHOTS = Path(os.environ.get("AGENTRT_SHOTS") or f"{tempfile.gettempdir()}/agentrt-shots")
"""Where screenshots are written."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """It ends with the module: other tests look whether this process has children."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="needs Playwright (pip install playwright)"
    )
    if CHROMIUM is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    if not (PAGE / "built/made-from").exists():
        pytest.fail("the page is not built; run `python hatch_build.py`")
    with sync_api.sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        env = {name: value for name, value in os.environ.items() if name != MARK}
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options, env=env)
        yield browser
        browser.close()


def _started() -> set[psutil.Process]:
    """What the tests have started; not the browser, which outlives most of them."""
    found = set()
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == os.environ[MARK]:
                found.add(process)
        except psutil.Error:
            continue  # gone meanwhile, or somebody else's
    return found - {psutil.Process()}


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    """Fail a test after which a server or an agent is left."""
    before = _started()
    yield
    _, alive = psutil.wait_procs(_started() - before, timeout=PATIENCE)
    for process in alive:
        process.kill()
    assert not alive, f"processes left running: {alive}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """With a session of the agent that does what it is told."""
    with serving(tmp_path, *scripted()) as server:
        yield server


@pytest.fixture
def new_page(browser: Browser) -> Iterator[NewPage]:
    """Open a page in a separate browser context. The test fails if the page sends a request to
    another origin, or reports an error.
    """
    contexts: list[BrowserContext] = []
    troubles: list[str] = []
    unanswered: list[str] = []

    def make(
        url: str,
        *,
        clock: bool = False,
        routes: Mapping[str, Callable[[Route], None]] | None = None,
        **options: object,
    ) -> Page:
        context = browser.new_context(**options)  # type: ignore[arg-type]
        contexts.append(context)
        context.set_default_timeout(PATIENCE * 1000)
        for pattern, handler in (routes or {}).items():
            context.route(pattern, handler)
        page = context.new_page()
        if clock:  # of the test's, to put forward
            page.clock.install()
        origin = url.partition("/?")[0].rstrip("/") + "/"
        here = (origin, origin.replace("http", "ws", 1), "data:", "blob:")
        page.on(
            "request",
            lambda request: request.url.startswith(here) or troubles.append(request.url),
        )
        page.on(
            "requestfailed",
            lambda request: unanswered.append(f"{request.url}: {request.failure}"),
        )
        page.on("pageerror", lambda error: troubles.append(f"{error}\n{error.stack}"))
        page.on("console", lambda message: _listen(message, troubles))
        page.goto(url)
        return page

    yield make
    for context in contexts:
        context.close()
    assert troubles == [], f"requests without an answer: {unanswered}"


def _listen(message: ConsoleMessage, troubles: list[str]) -> None:
    """Collect errors and warnings, except the browser's own about a server that is away."""
    text = message.text
    network = "net::ERR" in text or "WebSocket" in text or "Failed to load resource" in text
    if message.type in ("error", "warning") and not network:
        troubles.append(text)


@pytest.fixture
def page(server: Server, new_page: NewPage) -> Page:
    """The first window, let in by the first link."""
    return new_page(server.link())


@pytest.fixture
def shoot() -> Callable[[Page, str], None]:
    """Keep a picture of the window for whoever wants to look."""

    def shoot(page: Page, name: str) -> None:
        SHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SHOTS / f"{name}.png")

    return shoot
