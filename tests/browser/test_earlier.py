"""A long conversation: the page has its last turns, and gets those before as one goes up."""

from __future__ import annotations

import pytest

from browser.kit import ask, phase, until
from browser.pages import Page, Shoot, expect

TURNS = 120

FILL = """async turns => {
    const later = () => new Promise(resolve => setTimeout(resolve, 20));
    // As many prompts, each when there is room in the queue.
    const { connection } = await import("/page/app.js");
    const { seat, ui } = await import("/page/app.js");
    for (let number = 0; number < turns; number++) {
        const content = [{ type: "text", text: `say answer ${number}, in a few words` }];
        while (!seat() || seat().view.queue.length > 40) await later();
        await connection.send({ type: "prompt", session: ui().session, content });
    }
}"""

PROMPTS = """async () => {
    const { seat } = await import("/page/app.js");
    const asked = [...seat().view.items.values()].filter(({ type }) => type === "user");
    return asked.map(({ content }) => Number(content[0].text.match(/answer (\\d+)/)?.[1]));
}"""

UP = """async () => {
    // Goes to where more comes in above, and tells how far what was in sight has moved by that.
    const { seat } = await import("/page/app.js");
    const box = document.querySelector(".transcript");
    const frame = () => new Promise(resolve => requestAnimationFrame(resolve));
    const before = seat().view.earlier;
    box.scrollTop = 900;
    for (let count = 0; count < 20; count++) await frame();
    box.scrollTop = 5;
    const top = box.getBoundingClientRect().top;
    const items = [...box.querySelectorAll(".item")];
    const item = items.find(each => each.getBoundingClientRect().bottom > top);
    const place = item.getBoundingClientRect().top;
    while (seat().view.earlier === before) await frame();
    for (let count = 0; count < 20; count++) await frame();
    return item.isConnected ? Math.abs(item.getBoundingClientRect().top - place) : 1e9;
}"""


@pytest.fixture
def long(page: Page) -> Page:
    """A page that has just come to a long conversation."""
    phase(page, "Idle")
    page.evaluate(FILL, TURNS)
    transcript = page.locator(".transcript")
    expect(transcript).to_contain_text(f"answer {TURNS - 1},", timeout=60_000)
    phase(page, "Idle")
    page.reload()
    phase(page, "Idle")
    expect(transcript).to_contain_text(f"answer {TURNS - 1},")
    return page


def prompts(page: Page) -> list[int]:
    found: list[int] = page.evaluate(PROMPTS)
    return found


def test_going_up_shows_all_turns_and_moves_nothing(long: Page, shoot: Shoot) -> None:
    assert prompts(long) == list(range(70, 120))
    shoot(long, "earlier-turns")
    assert long.evaluate(UP) < 3
    assert prompts(long) == list(range(20, 120))
    assert long.evaluate(UP) < 3
    assert prompts(long) == list(range(120))
    expect(long.get_by_role("button", name="Earlier turns")).to_have_count(0)
    long.locator(".transcript").evaluate("box => { box.scrollTop = 0; }")
    expect(long.get_by_text("answer 0, in a few words", exact=True)).to_be_in_viewport()
    long.get_by_role("button", name="Latest").click()
    expect(long.get_by_text("answer 119, in a few words", exact=True)).to_be_in_viewport()


def test_nobody_is_told_of_turns_that_were_over_long_ago(long: Page) -> None:
    said = long.locator("[aria-live=polite]")
    long.evaluate(UP)
    long.wait_for_timeout(500)
    assert "answer 2" not in said.inner_text()


def test_the_keyboard_gets_there_as_well(long: Page) -> None:
    button = long.get_by_role("button", name="Earlier turns")
    button.focus()
    long.keyboard.press("Enter")
    until(lambda: prompts(long)[0] <= 20, "the page before")


def test_one_goes_on_reading_while_the_agent_writes(long: Page) -> None:
    ask(long, "trickle 100000")
    expect(long.locator(".transcript")).to_contain_text("tick3 ")
    assert long.evaluate(UP) < 3
    assert prompts(long)[:100] == list(range(20, 120))
    long.get_by_role("button", name="Latest").click()
    long.get_by_role("button", name="Stop", exact=True).click()
    phase(long, "Idle")


def test_what_one_has_asked_for_is_there_after_a_lost_connection(long: Page) -> None:
    assert long.evaluate(UP) < 3
    place = "document.querySelector('.transcript').scrollTop"
    before = long.evaluate(place)
    long.evaluate("import('/page/app.js').then(({ connection }) => connection.reconnect())")
    phase(long, "Idle")
    assert prompts(long) == list(range(20, 120))
    assert abs(long.evaluate(place) - before) < 3


def test_an_earlier_prompt_than_those_that_are_there_can_be_brought_back(long: Page) -> None:
    box = long.get_by_label("Message the agent")
    box.focus()
    for number in range(119, 69, -1):
        long.keyboard.press("ArrowUp")
        expect(box).to_have_value(f"say answer {number}, in a few words")
    long.keyboard.press("ArrowUp")
    until(lambda: len(prompts(long)) == 100, "the page before")
    long.keyboard.press("ArrowUp")
    expect(box).to_have_value("say answer 69, in a few words")
