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


ANNOUNCED = """() => {
    // Records all announcements, and the largest number of them in one change.
    window.announced = { most: 0, words: [] };
    const region = document.querySelector(".unseen[aria-live=polite]");
    new MutationObserver(() => {
        announced.most = Math.max(announced.most, region.children.length);
        announced.words.push(region.textContent);
    }).observe(region, { childList: true, subtree: true, characterData: true });
}"""


def test_of_much_that_ends_at_once_the_newest_is_announced(page: Page) -> None:
    phase(page, "Idle")
    page.evaluate(ANNOUNCED)
    turn(page, "many 400")
    until(lambda: page.evaluate("announced.words.join().includes('call 399: done')"), "the last")
    found = page.evaluate("announced")
    assert "earlier updates" in "".join(found["words"])
    assert found["most"] <= 7  # five items, the number of the others, and how the turn ended


BLANK = """around => {
    // Blocks in sight, or within some pixels of it, that have nothing.
    const box = document.querySelector(".transcript").getBoundingClientRect();
    return [...document.querySelectorAll(".block")].filter((block) => {
        const { top, bottom } = block.getBoundingClientRect();
        return !block.childElementCount && bottom > box.top - around && top < box.bottom + around;
    }).length;
}"""


def test_what_is_out_of_sight_is_drawn_when_the_user_stops_typing(page: Page) -> None:
    phase(page, "Idle")
    ask(page, "many 300")
    page.get_by_label("Message the agent").focus()
    last = page.locator(".transcript", has_text="Answer 299")
    keys = 0
    while not last.count() or keys < 50:
        page.keyboard.press("x")
        keys += 1
    until(lambda: page.evaluate(BLANK, 0) == 0 or page.keyboard.press("x"), "what is in sight")
    assert page.get_by_label("Message the agent").input_value().startswith("x" * keys)
    until(lambda: page.evaluate(BLANK, 900) == 0, "what is around it")
