"""A few random sequences; `python -m browser.sequences` has more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from browser.pages import Browser
from browser.sequences import live

SEEDS = range(1, 101) if os.environ.get("AGENTRT_FULL") == "1" else (1, 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_comes_between_a_tab_shows_what_the_server_knows(
    tmp_path: Path, browser: Browser, seed: int
) -> None:
    live(browser, tmp_path, seed)
