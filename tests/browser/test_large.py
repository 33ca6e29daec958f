"""A very long answer: nothing of it is missing, and one can still type and stop."""

from __future__ import annotations

import json
import re

from browser.conftest import SHOTS
from browser.kit import ask, phase
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
    phase(page, "ready")
    box = page.get_by_label("Message to the agent")
    box.wait_for()
    page.evaluate(PROBE)
    ask(page, "flood 20000\nwait 0.2\ntool sleep 60")
    box.press_sequentially("typed while it comes", delay=20)
    expect(box).to_have_value("typed while it comes")
    transcript = page.locator(".transcript")
    expect(transcript).to_contain_text("word19999", timeout=60_000)
    words = re.findall(r"word(\d+)\b", transcript.inner_text())
    assert list(map(int, words)) == list(range(20_000))
    page.get_by_role("button", name="Stop", exact=True).click()
    phase(page, "ready")
    expect(box).to_have_value("typed while it comes")
    waits = sorted(page.evaluate("window.waits"))
    SHOTS.mkdir(parents=True, exist_ok=True)
    told = {"keys": len(waits), "median_ms": waits[len(waits) // 2], "worst_ms": waits[-1]}
    (SHOTS / "input-latency.json").write_text(json.dumps(told))
    print(told)
    shoot(page, "long")
