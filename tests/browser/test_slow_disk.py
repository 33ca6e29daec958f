"""What the page says while its server cannot store what happens."""

from __future__ import annotations

import json
from pathlib import Path

from browser.kit import Server, ask, phase
from browser.pages import Page, Shoot, WebSocket, expect
from journal.disks import Lock

SAY = """async frame => {
    const { take } = await import("/page/model.js");
    const { model, setModel } = await import("/page/store.js");
    setModel(take(model(), [frame], 0));
}"""


def test_a_banner_says_that_nothing_can_be_stored_until_it_can(
    page: Page, server: Server, tmp_path: Path, shoot: Shoot
) -> None:
    phase(page, "ready")
    ask(page, "trickle 10000")
    phase(page, "working")
    lock = Lock(tmp_path / ".local/state/agentrt/journal.db")
    try:
        lock.take()
        banner = page.get_by_text("The server cannot store what happens.")
        expect(banner).to_be_visible()
        expect(page.locator(".banner")).to_contain_text("database is locked")
        shoot(page, "store-failing")
        page.get_by_role("button", name="Stop", exact=True).click()
        expect(page.get_by_role("status").filter(has=banner)).to_be_visible()
    finally:
        lock.release()
    expect(banner).to_have_count(0)
    phase(page, "ready")


def test_a_prompt_that_could_not_be_stored_is_the_same_command_when_it_is_sent_again(
    page: Page, server: Server, tmp_path: Path
) -> None:
    sent: list[dict[str, str]] = []

    def listen(socket: WebSocket) -> None:
        socket.on("framesent", lambda frame: sent.append(json.loads(frame)))

    page.on("websocket", listen)
    page.reload()
    phase(page, "ready")
    lock = Lock(tmp_path / ".local/state/agentrt/journal.db")
    box = page.get_by_label("Message to the agent")
    try:
        lock.take()
        ask(page, "say one")  # waits for the disk, which is found to fail by that
        expect(page.get_by_text("The server cannot store what happens.")).to_be_visible()
        ask(page, "say two")
        expect(box).to_have_value("say two")
    finally:
        lock.release()
    expect(page.locator(".banner")).to_have_count(0)
    box.press("Enter")
    expect(page.locator(".bubble")).to_have_count(2)
    ids = [each["id"] for each in sent if each["type"] == "prompt"]
    assert len(ids) == 3
    assert ids[1] == ids[2] != ids[0]


def test_a_slow_disk_is_said_beside_how_the_session_stands(page: Page, shoot: Shoot) -> None:
    phase(page, "ready")
    page.evaluate(SAY, {"type": "store", "state": "slow", "since": 1})
    banner = page.get_by_text("The server's disk is slow.")
    expect(banner).to_be_visible()
    shoot(page, "store-slow")
    page.evaluate(SAY, {"type": "store", "state": "ok", "since": 2})
    expect(banner).to_have_count(0)
