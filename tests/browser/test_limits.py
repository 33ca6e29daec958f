"""The limits of the user's account, and a turn that fails because of one."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from browser.kit import serving, turn
from browser.pages import NewPage, expect

AGENT = Path(__file__).with_name("limited_claude.py")


def test_the_limits_of_the_account_and_the_time_of_the_next_try_are_shown(
    tmp_path: Path, new_page: NewPage
) -> None:
    command = shlex.join([sys.executable, str(AGENT)])
    with serving(tmp_path, "--protocol", "claude", "--command", command) as server:
        page = new_page(server.link())
        turn(page, "Anything.")
        limits = page.locator(".status-bar .limits")
        expect(limits).to_contain_text("five hour limit reached resets")
        expect(limits).to_contain_text("seven day limit 41%")
        expect(page.locator(".ending.failed .retry")).to_contain_text("possible again")
