"""What goes over the wires, for who looks at a conversation that goes wrong."""

from __future__ import annotations

from browser.kit import turn
from browser.pages import Page, expect


def open_wire(page: Page) -> None:
    page.get_by_role("button", name="Settings").click()
    page.get_by_role("button", name="Protocol log").click()
    expect(page.get_by_role("dialog", name="Protocol log")).to_be_visible()


def test_what_the_page_and_the_server_say_is_shown(page: Page) -> None:
    open_wire(page)
    rows = page.get_by_role("dialog").get_by_role("listitem")
    expect(rows.filter(has_text='"type":"hello"')).to_have_count(1)


def test_what_the_server_and_the_agent_say_is_shown_while_one_looks(page: Page) -> None:
    open_wire(page)
    page.get_by_role("button", name="The server and the agent").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("recording from now on")).to_be_visible()
    page.get_by_role("button", name="Close", exact=True).click()
    expect(dialog).to_have_count(0)  # while it is open, nothing can be written behind it
    turn(page, "hello")
    open_wire(page)
    page.get_by_role("button", name="The server and the agent").click()
    prompt = dialog.get_by_role("listitem").filter(has_text="to the agent")
    expect(prompt.filter(has_text="session/prompt hello ⇒ end_turn after")).to_be_visible()
    expect(dialog.get_by_role("listitem").filter(has_text="from the agent").first).to_be_visible()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    dialog.get_by_role("button", name="Copy all").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "to the agent: session/prompt  hello  ⇒ end_turn after" in copied
