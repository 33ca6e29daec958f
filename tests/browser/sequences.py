"""Random days of two tabs: prompts, questions, stops, killed agents and servers, closed laptops.

    python -m browser.sequences --count 100 --seed 1

in `tests/`. Behind each one the tab shows just what the server knows, or no work at all.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from browser.kit import CHROMIUM, MARK, PATIENCE, Server, free_port, scripted, serving, until
from browser.proxy import Network
from browser.sight import agree, snapshot, view, work

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

STEPS = 8
PROMPTS = ("say hello", "begin ls\ntrickle 60", "tool sleep 60", "ask rm -rf build", "flood 400")


class Day:
    """One sequence. What it did is in `told`."""

    def __init__(
        self, context: BrowserContext, server: Server, network: Network, seed: int
    ) -> None:
        self.random = random.Random(seed)
        self.context = context
        self.server = server
        self.network = network
        self.told: list[str] = []
        self.page = self.open(network.through(server.link()))
        self.frozen = False

    def open(self, url: str) -> Page:
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.goto(url)
        page.locator("#prompt, .start").first.wait_for()
        return page

    def step(self) -> None:
        acts: list[Callable[[], None]] = [
            *(self.prompt, self.prompt, self.stop, self.answer, self.second_tab),
            *(self.reload, self.cut, self.mend, self.lid, self.kill_agent, self.restart),
        ]
        act = self.random.choice(acts)
        self.told.append(act.__name__)
        with suppress(TimeoutError):
            act()
        time.sleep(self.random.choice((0, 0, 0.05, 0.3)))

    def prompt(self) -> None:
        """By a tab that may be asleep, or without a session."""
        field = self.page.locator("#prompt")
        if not self.frozen and field.count():
            field.fill(self.random.choice(PROMPTS))
            field.press("Enter")

    def stop(self) -> None:
        if not self.frozen:
            self.page.evaluate("document.querySelector('.composer .stop')?.click()")

    def answer(self) -> None:
        if not self.frozen:
            self.page.evaluate("document.querySelector('.sheet .reject_once')?.click()")

    def second_tab(self) -> None:
        """That does something, and goes."""
        if not self.network.up:
            return
        other = self.open(self.page.url)
        if other.locator("#prompt").count():
            other.locator("#prompt").fill(self.random.choice(PROMPTS))
            other.locator("#prompt").press("Enter")
        other.close()

    def reload(self) -> None:
        if not self.frozen and self.network.up:
            self.page.reload()
            self.page.locator("#prompt, .start").first.wait_for()

    def cut(self) -> None:
        self.network.cut()

    def mend(self) -> None:
        self.network.mend()

    def lid(self) -> None:
        """Closed, or opened again."""
        self.frozen = not self.frozen
        state = "frozen" if self.frozen else "active"
        browser = self.context.new_cdp_session(self.page)
        browser.send("Page.setWebLifecycleState", {"state": state})

    def kill_agent(self) -> None:
        known = view(self.page)
        if known is not None and known.state.agent.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(known.state.agent.pid, signal.SIGKILL)

    def restart(self) -> None:
        """The browser is let in again, in another tab."""
        self.server.end(self.random.choice((signal.SIGKILL, signal.SIGTERM)))
        self.server.start()
        link = self.server.link()
        self.network.mend()
        self.open(self.network.through(link)).close()

    def evening(self) -> None:
        """All is mended, and the tab has some time. It shows what the server knows."""
        self.network.mend()
        if self.frozen:
            self.lid()
        banner = self.page.locator(".banner")
        until(lambda: "Reconnecting" not in "".join(banner.all_inner_texts()), "a connection")
        known = view(self.page)
        if known is None or snapshot(self.page, known.session) is None:
            until(lambda: not work_of_gone(self.page), "that nothing seems to go on")
        else:
            agree(self.page, known.session)
            shown = view(self.page)
            assert shown is not None
            if shown.state.turn is None and not shown.tasks:
                until(lambda: not work(self.page), "that nothing seems to go on")


def work_of_gone(page: Page) -> list[str]:
    """What says so beside the list and the tab's title, which are about other sessions, too."""
    others = [text.strip() for text in page.locator(".entry small, .stop-all").all_text_contents()]
    others += ["breathe", page.title()]
    return [sign for sign in work(page) if sign not in others]


@contextmanager
def day(browser: Browser, root: Path, seed: int) -> Iterator[Day]:
    network = Network(free_port(), free_port())
    hosts = ("--port", str(network.target), "--allow-host", f"127.0.0.1:{network.port}")
    context = browser.new_context()
    try:
        with serving(root, *scripted(), *hosts) as server:
            yield Day(context, server, network, seed)
    finally:
        context.close()
        network.close()


def live(browser: Browser, root: Path, seed: int) -> None:
    with day(browser, root, seed) as one:
        try:
            for _ in range(STEPS):
                one.step()
            one.evening()
        except BaseException as error:
            error.add_note(f"seed {seed}: {', '.join(one.told)}")
            raise


def main() -> int:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args()
    os.environ.setdefault(MARK, "sequences")
    failed = 0
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        for seed in range(said.seed, said.seed + said.count):
            with tempfile.TemporaryDirectory() as root:
                try:
                    live(browser, Path(root), seed)
                except Exception as error:
                    failed += 1
                    print(f"{seed}: {error!r} {error.__notes__}", flush=True)
                else:
                    print(f"{seed}: good", flush=True)
        browser.close()
    print(f"{said.count - failed} of {said.count} are good")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
