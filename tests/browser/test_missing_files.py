"""Files of the page that do not arrive, because the network changes or the server restarts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from browser.kit import Server, card, phase, scripted, serving, turn, until
from browser.pages import NewPage, Route, expect

TEXTS = {
    "code": "```python\nimport os\n```",
    "long": "some **bold** words\n\n" * 300,
    "output": {
        "kind": "execute",
        "content": [
            {"type": "content", "content": {"type": "text", "text": "\x1b[1mbold\x1b[0m words\n"}}
        ],
    },
}


class Fault:
    """Lets requests fail, at most `times` of them."""

    def __init__(self, times: float) -> None:
        self.times = times
        self.failed = 0

    def __call__(self, route: Route) -> None:
        if self.failed < self.times:
            self.failed += 1
            route.abort("connectionreset")
        else:
            route.continue_()

    def end(self) -> None:
        self.times = 0


@pytest.mark.parametrize("file", ["page.css", "app.js"])
def test_the_page_loads_although_a_file_did_not_arrive_at_first(
    server: Server, new_page: NewPage, file: str
) -> None:
    fault = Fault(2)
    page = new_page(server.link(), routes={f"**/page/{file}": fault})
    phase(page, "Idle")
    assert fault.failed == 2
    assert page.evaluate("[...document.styleSheets].length") == 1
    turn(page, "say hello")


def test_the_page_waits_until_its_server_can_be_reached(server: Server, new_page: NewPage) -> None:
    fault = Fault(float("inf"))

    def away(route: Route) -> None:
        if route.request.method == "HEAD" or route.request.url.endswith("/app.js"):
            fault(route)
        else:
            route.continue_()

    page = new_page(server.link(), routes={"**/page/**": away})
    expect(page.get_by_role("status")).to_have_text("The server cannot be reached. Trying again…")
    fault.end()
    phase(page, "Idle")


def test_the_page_reports_that_it_cannot_be_loaded(server: Server, new_page: NewPage) -> None:
    fault = Fault(float("inf"))
    page = new_page(server.link(), routes={"**/page/app.js": fault})
    status = page.get_by_role("status")
    expect(status).to_contain_text("This page could not be loaded", timeout=60_000)
    fault.end()
    page.get_by_role("button", name="Reload").click()
    phase(page, "Idle")


@pytest.mark.parametrize(
    ("file", "prompt", "parsed"),
    [
        ("worker.js", "say code", ".hljs-keyword"),
        ("parsers.js", "say code", ".hljs-keyword"),
        ("highlight.js", "say code", ".hljs-keyword"),
        ("screen.js", "show output", ".terminal .bold"),
        ("ansi-*.js", "show output", ".terminal .bold"),
        ("parse-*.js", "say long", ".markdown strong"),
    ],
)
def test_text_is_plain_until_its_parser_can_be_loaded(
    tmp_path: Path, new_page: NewPage, file: str, prompt: str, parsed: str
) -> None:
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps(TEXTS))
    with serving(tmp_path, *scripted(str(texts))) as server:
        page = new_page(server.link())
        phase(page, "Idle")
        fault = Fault(float("inf"))
        page.context.route(f"**/page/{file}", fault)
        turn(page, prompt)
        if prompt == "show output":
            card(page, "output").locator("summary").first.click()
        transcript = page.locator(".transcript")
        expect(transcript).to_contain_text("import os" if prompt == "say code" else "bold")
        turn(page, "say still here")
        assert page.locator(parsed).count() == 0
        until(lambda: page.title() and fault.failed, f"a request for {file}")
        fault.end()
        expect(page.locator(parsed).first).to_be_visible()
