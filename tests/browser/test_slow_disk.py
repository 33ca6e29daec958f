"""What the page says while its server cannot store what happens."""

from __future__ import annotations

from pathlib import Path

from browser.kit import Server, ask, phase
from browser.pages import Page, Shoot, expect
from journal.disks import Lock

SAY = """async frame => {
    const { client } = await import("/page/app.js");
    client.take([frame]);
}"""


def test_a_banner_says_that_nothing_can_be_stored_until_it_can(
    page: Page, server: Server, tmp_path: Path, shoot: Shoot
) -> None:
    phase(page, "Idle")
    ask(page, "trickle 10000")
    phase(page, "Working")
    lock = Lock(tmp_path / ".local/state/agentrt/journal.db")
    try:
        lock.take()
        banner = page.get_by_text("The server cannot store new events.")
        expect(banner).to_be_visible()
        expect(page.locator(".banner")).to_contain_text("database is locked")
        shoot(page, "store-failing")
        page.get_by_role("button", name="Stop", exact=True).click()
        expect(page.get_by_role("status").filter(has=banner)).to_be_visible()
    finally:
        lock.release()
    expect(banner).to_have_count(0)
    phase(page, "Idle")


def test_a_slow_disk_is_said_beside_how_the_session_stands(page: Page, shoot: Shoot) -> None:
    phase(page, "Idle")
    page.evaluate(SAY, {"type": "store", "state": "slow", "since": 1})
    banner = page.get_by_text("The server's disk is slow.")
    expect(banner).to_be_visible()
    shoot(page, "store-slow")
    page.evaluate(SAY, {"type": "store", "state": "ok", "since": 2})
    expect(banner).to_have_count(0)
