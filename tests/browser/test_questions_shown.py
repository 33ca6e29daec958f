"""On the page, everything in a permission request is to be seen before it can be allowed.

The requests are put into the page's own model, one after the other, on windows of several sizes:
the page of `agentrt serve` draws, measures and guards them as it does those of an agent. Every run
tries a sample; with `AGENTRT_FULL` set, every recorded request in each size and 2,000 generated
ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentrt.display import reveal
from browser.kit import Server, phase, scripted, serving
from browser.pages import NewPage, Page
from consent.requests import Generator, Request, recorded

FULL = bool(os.environ.get("AGENTRT_FULL"))
SIZES: dict[str, dict[str, Any]] = {
    "a window": {"viewport": {"width": 1366, "height": 630}},
    "a phone": {"viewport": {"width": 390, "height": 664}, "has_touch": True, "is_mobile": True},
    "a phone on its side": {
        "viewport": {"width": 844, "height": 390},
        "has_touch": True,
        "is_mobile": True,
    },
    "a large window": {"viewport": {"width": 1920, "height": 1080}},
}

CHECK = Path(__file__).with_name("questions_shown.js").read_text()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, *scripted()) as server:
        yield server


def unseen(page: Page, requests: list[Request]) -> list[str]:
    """What is wrong with how they are shown: each with the name of its request."""
    found: list[str] = []
    for start in range(0, len(requests), 25):
        given = [
            {
                "name": request.name,
                "ask": msgspec.to_builtins(request.opened),
                "item": request.item and msgspec.to_builtins(request.item),
                "texts": [[reveal(line), reveal(_quoted(line))] for line in request.lines],
            }
            for request in requests[start : start + 25]
        ]
        found += page.evaluate(CHECK, given)
    return found


def _quoted(text: str) -> str:
    """As JSON has it: names of arguments that are more than a word are quoted."""
    return msgspec.json.encode(text).decode()[1:-1]


@pytest.mark.parametrize("size", SIZES)
def test_everything_recorded_is_seen_before_it_is_allowed(
    server: Server, new_page: NewPage, size: str
) -> None:
    page = new_page(server.link(), **SIZES[size])
    phase(page, "Idle")
    requests = recorded()
    assert unseen(page, requests if FULL else requests[::6]) == []


@pytest.mark.parametrize("size", SIZES)
def test_everything_generated_is_seen_before_it_is_allowed(
    server: Server, new_page: NewPage, size: str
) -> None:
    page = new_page(server.link(), **SIZES[size])
    phase(page, "Idle")
    seed = list(SIZES).index(size)
    assert unseen(page, Generator(seed).requests(500 if FULL else 15)) == []
