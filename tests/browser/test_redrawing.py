"""A frame draws again only what has changed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from browser.kit import ask, phase, turn, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

COUNT = """async () => {
    const { options } = await import("/page/app.js");
    const before = options.__r;  // Preact calls it before it draws a component
    window.drawn = { components: 0, frames: 0 };
    let begun = false;
    options.__r = (vnode) => {
        before?.(vnode);
        drawn.components++;
        if (begun) return;
        begun = true;
        drawn.frames++;
        setTimeout(() => (begun = false));
    };
}"""


def test_a_piece_of_an_answer_draws_nothing_but_that_answer(page: Page) -> None:
    phase(page, "Idle")
    turn(page, "many 10")
    ask(page, "trickle 100000")
    phase(page, "Working")
    page.evaluate(COUNT)
    until(lambda: page.evaluate("drawn.frames") > 10, "a frame")
    page.evaluate("Object.assign(drawn, { components: 0, frames: 0 })")
    until(lambda: page.evaluate("drawn.frames") > 30, "a frame")
    drawn = page.evaluate("drawn")
    page.get_by_role("button", name="Stop", exact=True).click()
    assert drawn["components"] < 6 * drawn["frames"]


WHERE = """() => {
    // Counts changes of the conversation, and of them those that a frame made.
    window.changes = { all: 0, inFrames: 0 };
    let inFrame = false;
    const real = window.requestAnimationFrame.bind(window);
    window.requestAnimationFrame = (act) => real((now) => {
        inFrame = true;
        try {
            act(now);
        } finally {
            queueMicrotask(() => (inFrame = false));  // after the observer below
        }
    });
    const observer = new MutationObserver((found) => {
        changes.all += found.length;
        if (inFrame) changes.inFrames += found.length;
    });
    const what = { childList: true, characterData: true, subtree: true };
    observer.observe(document.querySelector(".transcript"), what);
}"""


def test_a_frame_of_a_key_does_not_draw_what_the_agent_writes(page: Page) -> None:
    phase(page, "Idle")
    ask(page, "trickle 100000")
    phase(page, "Working")
    page.evaluate(WHERE)
    page.get_by_label("Message the agent").focus()
    typed = ""
    while page.evaluate("changes.all") < 50:
        page.keyboard.press("x")
        typed += "x"
    until(lambda: page.get_by_label("Message the agent").input_value() == typed, "all keys")
    found = page.evaluate("changes")
    page.get_by_role("button", name="Stop", exact=True).click()
    assert found["inFrames"] == 0
