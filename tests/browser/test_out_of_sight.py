"""Every way in which a viewer loses sight of a session: each row of the table in
`docs/guides/page.md`."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import pytest

from browser.kit import (
    AGENT,
    Host,
    Server,
    answer,
    ask,
    card,
    free_port,
    phase,
    scripted,
    serving,
    try_now,
    until,
)
from browser.pages import NewPage, Page, Shoot, expect
from browser.proxy import Network
from browser.sight import agree, view, work

DOCS = Path(__file__).parents[2] / "docs/guides/page.md"
HOUR = 3600 * 1000


@dataclass
class Sight:
    """A page in the middle of a tool call, with a question open."""

    page: Page
    server: Server
    network: Network
    new_page: NewPage

    def link(self) -> str:
        """The server's next one, by way of the network."""
        return self.network.through(self.server.link())

    def another_tab(self, url: str) -> Page:
        """Of the same browser."""
        page = self.page.context.new_page()
        page.goto(url)
        return page

    def close_elsewhere(self) -> None:
        other = self.another_tab(self.page.url)
        other.on("dialog", lambda dialog: dialog.accept())
        close_session(other)
        expect(other.get_by_role("heading", name="New session")).to_be_visible()

    def start_again(self) -> None:
        self.server.end(signal.SIGKILL)
        self.server.start()

    def come_in_again(self) -> None:
        """By the link of the server that was started again."""
        self.another_tab(self.link())

    def freeze(self, state: str = "frozen") -> None:
        browser = self.page.context.new_cdp_session(self.page)
        browser.send("Page.setWebLifecycleState", {"state": state})

    def wake_up(self) -> None:
        """An hour later."""
        self.freeze("active")
        self.page.clock.fast_forward(HOUR)


def close_session(page: Page) -> None:
    page.get_by_role("navigation", name="sessions").get_by_role("button", name="Close").click()


WAYS: dict[str, Callable[[Sight], None]] = {}


def way(name: str) -> Callable[[Callable[[Sight], None]], Callable[[Sight], None]]:
    def put(do: Callable[[Sight], None]) -> Callable[[Sight], None]:
        WAYS[name] = do
        return do

    return put


@way("you close the session")
def _(sight: Sight) -> None:
    sight.page.on("dialog", lambda dialog: dialog.accept())
    close_session(sight.page)
    expect(sight.page.get_by_role("heading", name="New session")).to_be_visible()


@way("the session is closed in another window, and the server stores nothing")
@way("the session is closed in another window")
def _(sight: Sight) -> None:
    sight.close_elsewhere()


@way("its agent is killed")
def _(sight: Sight) -> None:
    known = view(sight.page)
    assert known is not None
    assert known.state.agent.pid is not None
    os.kill(known.state.agent.pid, signal.SIGKILL)


@way("the network is lost")
def _(sight: Sight) -> None:
    sight.network.cut()


@way("the network comes back")
def _(sight: Sight) -> None:
    sight.network.cut()
    expect(sight.page.locator(".banner")).to_contain_text("Reconnecting")
    sight.network.mend()
    try_now(sight.page)


@way("the server ends")
def _(sight: Sight) -> None:
    sight.server.end()


@way("the server is killed")
def _(sight: Sight) -> None:
    sight.server.end(signal.SIGKILL)


@way("the server is killed and started again, and its new link is opened in another tab")
def _(sight: Sight) -> None:
    sight.start_again()
    sight.come_in_again()


@way(
    "a server that stores nothing is killed and started again, and its new link is opened in"
    " another tab"
)
def _(sight: Sight) -> None:
    sight.start_again()
    sight.come_in_again()


@way("the server is killed and started again, and no longer knows this browser")
def _(sight: Sight) -> None:
    sight.start_again()


@way("the server is started again, and has the session under the same name in another epoch")
def _(sight: Sight) -> None:
    sight.server.end()
    sight.server.start()
    sight.come_in_again()


@way("the browser's access is revoked")
def _(sight: Sight) -> None:
    sight.server.tell("revoke")


@way("the server closes a connection because the client sends too fast")
def _(sight: Sight) -> None:
    with sight.page.expect_websocket():  # another one
        sight.page.evaluate(
            """async () => {
                const { connection } = await import("/page/app.js");
                for (let sent = 0; sent < 5000; sent++) connection.beat();
            }"""
        )


@way("the tab is opened a second time under its name")
def _(sight: Sight) -> None:
    with sight.page.expect_websocket(), sight.page.context.expect_page() as opened:
        sight.page.evaluate("() => void open(location.href)")
    agree(opened.value, "the-only-session")


@way("the page is frozen for an hour, and nothing changes")
def _(sight: Sight) -> None:
    sight.freeze()
    sight.wake_up()


@way("the page is frozen for an hour, and the session is closed during that time")
def _(sight: Sight) -> None:
    sight.freeze()
    sight.close_elsewhere()
    sight.wake_up()


@way("the page is frozen for an hour, and the server is restarted during that time")
def _(sight: Sight) -> None:
    sight.freeze()
    sight.start_again()
    sight.come_in_again()
    sight.wake_up()


@way("the machine sleeps for an hour, and has no network when it wakes")
def _(sight: Sight) -> None:
    sight.network.hold()
    sight.page.clock.fast_forward(HOUR)


def rows() -> list[list[str]]:
    """The table's, each as its cells."""
    _, _, table = DOCS.read_text().partition("| event | banner |")
    lines = takewhile(lambda line: line.startswith("|"), table.splitlines()[2:])
    return [re.findall(r"(?<=\| )[^|]+(?= \|)", row) for row in lines]


def quoted(cell: str) -> re.Pattern[str] | None:
    """The words that are to be seen, or others; None where they are those of the session."""
    words = re.findall("“([^”]*)”", cell)
    return re.compile("|".join(map(re.escape, words))) if words else None


@pytest.fixture
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    network = Network(free_port(), free_port())
    yield network
    network.close()


def test_every_row_of_the_table_is_walked() -> None:
    assert [row[0] for row in rows()] == list(WAYS)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_what_has_left_the_sight_is_not_shown_as_work(
    tmp_path: Path, network: Network, new_page: NewPage, shoot: Shoot, row: list[str]
) -> None:
    what, banner, standing, under_way = row
    host = any(word in what for word in ("revoked", "epoch", "second time"))
    arguments = [str(network.target), f"127.0.0.1:{network.port}", sys.executable, str(AGENT)]
    if not host:
        hosts = ("--port", str(network.target), "--allow-host", f"127.0.0.1:{network.port}")
        arguments = [*scripted(), *hosts, *(("--store", "off") * ("stores nothing" in what))]
    with serving(tmp_path, *arguments, kind=Host if host else Server) as server:
        page = new_page(network.through(server.link()), clock=True)
        phase(page, "Idle")
        until(lambda: view(page), "the page knows its session")
        known = view(page)
        assert known is not None
        ask(page, "begin sleep 60\nask rm -rf build")
        phase(page, "Needs your answer")
        expect(card(page, "sleep 60").locator(".status")).to_have_text("running")
        assert len(work(page)) >= 4  # what is looked for can be found
        WAYS[what](Sight(page, server, network, new_page))
        said, stands, left = map(quoted, (banner, standing, under_way))
        expect(page.locator(".banner")).to_have_text(said or [])
        if stands:
            expect(page.locator("header .phase")).to_have_text(stands)
        if left:
            found = page.locator(".transcript .ending, .transcript .tool .status")
            expect(found.filter(has_text=left).first).to_be_visible()
        if "asked again" in under_way:
            answer(page, "Skip")
        if standing == "the current one":
            agree(page, known.session)
        else:
            until(lambda: not work(page), "that the page shows no work")  # the list comes last
        shoot(page, re.sub(r"\W+", "-", f"sight {what}"))
