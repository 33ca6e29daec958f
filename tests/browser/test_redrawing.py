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
