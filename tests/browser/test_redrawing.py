"""A frame draws again only what has changed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from browser.kit import phase, turn

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
    page.evaluate(COUNT)
    turn(page, "trickle 40")
    drawn = page.evaluate("drawn")
    assert drawn["frames"] > 10
    # Of some hundred; a frame of a busy machine also draws the clock.
    assert drawn["components"] < 12 * drawn["frames"]
