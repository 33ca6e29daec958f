"""The way to one session: a link, a search, the sign-in page."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser.kit import free_port, scripted, serving, turn
from browser.pages import NewPage, expect

pytestmark = pytest.mark.slow

TOKEN = "a-token-that-is-long-enough-for-a-server"


def test_a_link_to_an_unknown_session_says_so(tmp_path: Path, new_page: NewPage) -> None:
    with serving(tmp_path, *scripted()) as server:
        page = new_page(server.link())  # type: ignore[misc]
        turn(page, "hello")
        page.evaluate("location.hash = '#/s/no-such-session'")
        expect(page.get_by_text("The session in this link doesn't exist.")).to_be_visible()
        expect(page.get_by_role("log")).to_contain_text("hello")  # the open one is shown


def test_a_search_shows_an_open_session_as_open(tmp_path: Path, new_page: NewPage) -> None:
    with serving(tmp_path, *scripted()) as server:
        page = new_page(server.link())  # type: ignore[misc]
        turn(page, "a needle in the first session")
        sidebar = page.get_by_role("navigation", name="sessions")
        entry = sidebar.locator("li.here")
        entry.hover()
        entry.get_by_role("button", name="Close").click()
        expect(sidebar.locator("section .entry")).to_have_count(1)
        sidebar.get_by_role("button", name="New session").click()
        page.get_by_role("dialog").get_by_role("button", name="Start").click()
        turn(page, "a needle in the second session")
        sidebar.get_by_role("searchbox").fill("needle")
        found = sidebar.get_by_role("list", name="found")
        expect(found.locator(".entry")).to_have_count(2)
        expect(found.locator(".entry .dot.stored")).to_have_count(1)


def test_a_browser_signs_in_with_the_token(tmp_path: Path, new_page: NewPage) -> None:
    port = free_port()
    with serving(tmp_path, *scripted(), "--port", str(port), "--token", TOKEN) as server:
        server.link()  # it serves
        page = new_page(f"http://127.0.0.1:{port}/")  # type: ignore[misc]
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        button = page.get_by_role("button", name="Sign in")
        # The style is applied, although the policy allows no other.
        assert button.evaluate("each => getComputedStyle(each).borderRadius") == "8px"
        page.get_by_label("Server token").fill(TOKEN)
        button.click()
        expect(page.get_by_role("navigation", name="sessions")).to_be_visible()
