"""An agent that does not remember the conversation, in another process."""

from __future__ import annotations

import json
from pathlib import Path

from browser.kit import ask, phase, scripted, serving
from browser.pages import NewPage, Shoot, expect


def test_a_button_tells_the_agent_what_was_said_and_goes(
    tmp_path: Path, new_page: NewPage, shoot: Shoot
) -> None:
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps({"forgets": True}))
    with serving(tmp_path, *scripted(str(texts))) as server:
        page = new_page(server.link())
        phase(page, "Idle")
        ask(page, "say the first word")
        expect(page.get_by_label("answer")).to_have_text(["the first word"])
        phase(page, "Idle")
        ask(page, "crash")
        expect(page.get_by_text("The agent stopped.")).to_be_visible()
        ask(page, "say once more")
        banner = page.get_by_text("The agent lost its memory of this conversation.")
        expect(banner).to_be_visible()
        phase(page, "Idle")
        shoot(page, "forgotten")
        page.get_by_role("button", name="Replay it to the agent").click()
        expect(banner).to_have_count(0)
        told = page.get_by_label("you", exact=True).last
        expect(told).to_contain_text("The user: say the first word")
        phase(page, "Idle")
        expect(banner).to_have_count(0)
