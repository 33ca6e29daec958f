"""A very long answer: nothing of it is missing, and one can still type and stop."""

from __future__ import annotations

import json
import re

import pytest

from browser.conftest import SHOTS
from browser.kit import ask, phase, until
from browser.pages import Page, Shoot, expect

PROBE = """() => {
    // How long a key takes to be seen: from the event to the frame behind it.
    window.waits = [];
    document.getElementById("prompt").addEventListener("input", () => {
        const since = performance.now();
        requestAnimationFrame(() => requestAnimationFrame(
            () => window.waits.push(performance.now() - since)));
    });
}"""


def test_twenty_thousand_pieces_are_all_there_and_one_can_type_meanwhile(
    page: Page, shoot: Shoot
) -> None:
    phase(page, "Idle")
    box = page.get_by_label("Message the agent")
    box.wait_for()
    page.evaluate(PROBE)
    ask(page, "flood 20000\nwait 0.2\ntool sleep 60")
    box.press_sequentially("typed while it comes", delay=20)
    expect(box).to_have_value("typed while it comes")
    transcript = page.locator(".transcript")
    expect(transcript).to_contain_text("word19999", timeout=60_000)
    # Not the inner text: Chromium leaves out what is scrolled out of sight in the unformatted rest.
    words = re.findall(r"word(\d+)", transcript.text_content() or "")
    assert list(map(int, words)) == list(range(20_000))
    page.get_by_role("button", name="Stop", exact=True).click()
    phase(page, "Idle")
    expect(box).to_have_value("typed while it comes")
    waits = sorted(page.evaluate("window.waits"))
    SHOTS.mkdir(parents=True, exist_ok=True)
    told = {"keys": len(waits), "median_ms": waits[len(waits) // 2], "worst_ms": waits[-1]}
    (SHOTS / "input-latency.json").write_text(json.dumps(told))
    print(told)
    shoot(page, "long")


STEP = """async step => {
    // Scrolls, and tells how far what was in the middle has moved.
    const box = document.querySelector(".transcript");
    const frame = () => new Promise(resolve => requestAnimationFrame(resolve));
    const middle = box.getBoundingClientRect().top + box.clientHeight / 2;
    const items = [...box.querySelectorAll(".item")];
    const item = items.find(each => each.getBoundingClientRect().bottom > middle);
    const before = item.getBoundingClientRect().top;
    box.scrollTop += step;
    for (let count = 0; count < 4; count++) await frame();
    return item.isConnected ? Math.abs(item.getBoundingClientRect().top - before + step) : 0;
}"""


def test_of_thousands_of_items_few_are_drawn_and_none_is_lost(page: Page, shoot: Shoot) -> None:
    phase(page, "Idle")
    ask(page, "many 1500")
    expect(page.locator(".transcript")).to_contain_text("Answer 1499", timeout=120_000)
    phase(page, "Idle")
    items = page.locator(".transcript .item")
    assert items.count() < 200
    page.locator(".transcript").evaluate("box => { box.scrollTop = box.scrollHeight / 2; }")
    page.wait_for_timeout(500)
    assert items.count() < 200
    moved = [page.evaluate(STEP, -400) for _ in range(25)]
    assert max(moved) < 30, moved  # what one reads does not jump
    for _ in range(100):  # what a snapshot has no room for is loaded at the top
        page.locator(".transcript").evaluate("box => { box.scrollTop = 0; }")
        if not page.locator("p.earlier").count():
            break
        page.wait_for_timeout(200)
    page.locator(".transcript").evaluate("box => { box.scrollTop = 0; }")
    expect(page.get_by_text("Answer 0 with", exact=False)).to_be_in_viewport()
    page.get_by_role("button", name="Latest").click()
    expect(page.get_by_text("Answer 1499 with", exact=False)).to_be_in_viewport()
    expect(page.locator(".transcript .ending, .transcript .item").last).to_be_in_viewport()
    shoot(page, "many")


def test_what_is_unfolded_stays_so_when_it_is_out_of_sight(page: Page) -> None:
    phase(page, "Idle")
    ask(page, "many 200")
    expect(page.locator(".transcript")).to_contain_text("Answer 199", timeout=120_000)
    phase(page, "Idle")
    first = page.locator(
        "details.tool", has=page.locator(".title", has_text=re.compile("^call 0$"))
    )
    page.locator(".transcript").evaluate("box => { box.scrollTop = 0; }")
    first.locator("summary").first.click()
    expect(first.locator(".verbatim")).to_be_visible()
    page.get_by_label("Message the agent").focus()
    page.get_by_role("button", name="Latest").click()
    expect(first).to_have_count(0)
    page.locator(".transcript").evaluate("box => { box.scrollTop = 0; }")
    expect(first.locator(".verbatim")).to_be_visible()


@pytest.mark.slow
def test_of_a_very_long_conversation_the_oldest_part_is_loaded_when_it_is_wanted(
    page: Page,
) -> None:
    phase(page, "Idle")
    ask(page, "many 1800")
    expect(page.locator(".transcript")).to_contain_text("Answer 1799", timeout=120_000)
    phase(page, "Idle")
    count = "async () => (await import('/page/app.js')).seat().view.items.size"
    until(lambda: page.evaluate(count) <= 3_000, "less than was said")
    assert page.evaluate(count) >= 1_400
    for _ in range(200):
        page.locator(".transcript").evaluate("box => { box.scrollTop = 0; }")
        if not page.locator("p.earlier").count():
            break
        page.wait_for_timeout(200)
    page.locator(".transcript").evaluate("box => { box.scrollTop = 0; }")
    expect(page.get_by_text("Answer 0 with", exact=False)).to_be_in_viewport()
    assert page.evaluate(count) == 3_601  # what is read is not forgotten
